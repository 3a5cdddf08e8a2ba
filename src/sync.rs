//! The primitives that the modelled pieces of the hand-over use.
//!
//! Under `cfg(loom)` the same names stand for loom's doubles, so that claim and finish of a run, the ready list and
//! the outbox are explored over all interleavings. Everything else uses std and parking_lot directly.

mod parker;

pub use parker::Parker;

#[cfg(not(loom))]
pub use normal::*;

#[cfg(loom)]
pub use modelled::*;

#[cfg(not(loom))]
mod normal {
    pub use parking_lot::{Mutex, MutexGuard};
    pub use std::sync::Arc;
    pub use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub use std::thread::{Thread, current, park};
}

#[cfg(loom)]
mod modelled {
    pub use loom::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub use loom::sync::{Arc, MutexGuard};
    pub use loom::thread::{Thread, current, park};

    /// loom's mutex with the face of parking_lot's: no poisoning, `lock` returns the guard.
    #[derive(Debug)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a panic in a model fails the model")
        }
    }
}
