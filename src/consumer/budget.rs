//! The bytes that all queues of a client may cache together.

use std::sync::Arc;

use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// Counts the frames that are cached. Every queue may hold one, whatever the budget says: otherwise one stuck queue
/// that holds it all would stop the others for ever.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: Arc<AtomicUsize>,
    wanted: AtomicBool,
    on_release: OnRelease,
}

/// Called, at most once per [`Budget::want`], when bytes came back.
pub struct OnRelease(pub Box<dyn Fn() + Send + Sync>);

impl Budget {
    /// `used` is the counter that others may read; `on_release` must only post a message.
    pub fn new(limit: usize, used: Arc<AtomicUsize>, on_release: OnRelease) -> Self {
        Self { limit, used, wanted: AtomicBool::new(false), on_release }
    }

    /// Bytes cached now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Whether nothing more should be fetched for a queue that has something already.
    pub fn is_exhausted(&self) -> bool {
        self.used() >= self.limit
    }

    /// Adds a frame.
    pub fn charge(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Takes a frame off.
    pub fn release(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::SeqCst);
        if bytes > 0 && before.saturating_sub(bytes) < self.limit && self.wanted.swap(false, Ordering::SeqCst)
        {
            (self.on_release.0)();
        }
    }

    /// A queue waits for bytes. `false` when there are some already: told as a story, the last frame may be released
    /// between the queue's look and this call, and nobody would wake it, so it looks again after saying so.
    pub fn want(&self) -> bool {
        // Reads what the last release has written, and with it what that had released before.
        self.wanted.swap(true, Ordering::SeqCst);
        self.used.load(Ordering::SeqCst) >= self.limit
    }
}

impl std::fmt::Debug for OnRelease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnRelease")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_told_once_when_bytes_come_back() {
        let told = Arc::new(AtomicUsize::new(0));
        let count = told.clone();
        let budget = Budget::new(
            100,
            Arc::default(),
            OnRelease(Box::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
            })),
        );
        budget.charge(150);
        budget.charge(20);
        assert!(budget.is_exhausted() && budget.want());
        budget.release(20);
        assert_eq!(told.load(Ordering::SeqCst), 0, "still over the limit");
        budget.release(100);
        budget.release(50);
        assert_eq!((told.load(Ordering::SeqCst), budget.used()), (1, 0));
        assert!(!budget.want(), "there is room: do not wait");
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;

    /// A queue that waits for bytes is told when they have come back, or has seen that they have.
    #[test]
    fn loom_nobody_waits_for_bytes_that_have_come_back() {
        loom::model(|| {
            let told = loom::sync::Arc::new(AtomicUsize::new(0));
            let count = told.clone();
            let on_release = OnRelease(Box::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
            }));
            let budget = loom::sync::Arc::new(Budget::new(100, Arc::default(), on_release));
            budget.charge(150);
            let releasing = {
                let budget = budget.clone();
                loom::thread::spawn(move || {
                    budget.release(20);
                    budget.release(100);
                })
            };
            let waits = budget.want();
            releasing.join().expect("it does not panic");
            assert!(!waits || told.load(Ordering::SeqCst) == 1, "it waits and nobody tells it");
        });
    }
}
