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
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    use std::time::Instant;

    /// A condition that takes the guard by value, so that it has the same face under loom.
    #[derive(Debug, Default)]
    pub struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub fn new() -> Self {
            Self::default()
        }

        /// Waits to be notified. The second value is true when the deadline came first.
        pub fn wait_until<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            deadline: Instant,
        ) -> (MutexGuard<'a, T>, bool) {
            let late = self.0.wait_until(&mut guard, deadline).timed_out();
            (guard, late)
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(loom)]
mod modelled {
    pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub use loom::sync::{Arc, MutexGuard};

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

    /// loom's condition, whose deadlines never come: no model may depend on one.
    #[derive(Debug)]
    pub struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        pub fn wait_until<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _deadline: std::time::Instant,
        ) -> (MutexGuard<'a, T>, bool) {
            (self.0.wait(guard).expect("a panic in a model fails the model"), false)
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
