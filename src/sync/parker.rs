//! Where one thread sleeps until it is woken.

use super::Arc;

/// A flag of its own for one thread to sleep on. Waking before sleeping is not lost.
///
/// Under loom it is a mutex and a condition: there a wake-up that comes before `park` can be forgotten when the thread
/// is scheduled in between.
#[derive(Debug)]
pub struct Parker(Inner);

impl Parker {
    /// For the calling thread.
    pub fn here() -> Arc<Self> {
        Arc::new(Self(Inner::here()))
    }

    /// Sleeps until woken. Only the thread it was made by may call it.
    pub fn park(&self) {
        self.0.park();
    }

    /// Sleeps until woken, at the longest until this moment. Under loom that moment never comes.
    pub fn park_until(&self, deadline: std::time::Instant) {
        self.0.park_until(deadline);
    }

    /// Wakes it.
    pub fn unpark(&self) {
        self.0.unpark();
    }
}

#[cfg(not(loom))]
#[derive(Debug)]
struct Inner {
    woken: super::AtomicBool,
    thread: std::thread::Thread,
}

#[cfg(not(loom))]
impl Inner {
    fn here() -> Self {
        Self { woken: super::AtomicBool::new(false), thread: std::thread::current() }
    }

    fn park(&self) {
        while !self.woken.swap(false, super::Ordering::AcqRel) {
            std::thread::park();
        }
    }

    fn park_until(&self, deadline: std::time::Instant) {
        while !self.woken.swap(false, super::Ordering::AcqRel) {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }

    fn unpark(&self) {
        self.woken.store(true, super::Ordering::Release);
        self.thread.unpark();
    }
}

#[cfg(loom)]
#[derive(Debug)]
struct Inner {
    woken: loom::sync::Mutex<bool>,
    changed: loom::sync::Condvar,
}

#[cfg(loom)]
impl Inner {
    fn here() -> Self {
        Self { woken: loom::sync::Mutex::new(false), changed: loom::sync::Condvar::new() }
    }

    fn park(&self) {
        let mut woken = self.woken.lock().expect("a panic in a model fails the model");
        while !*woken {
            woken = self.changed.wait(woken).expect("a panic in a model fails the model");
        }
        *woken = false;
    }

    fn park_until(&self, _deadline: std::time::Instant) {
        self.park();
    }

    fn unpark(&self) {
        *self.woken.lock().expect("a panic in a model fails the model") = true;
        self.changed.notify_one();
    }
}
