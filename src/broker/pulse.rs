//! Tells those who wait for a condition that something has changed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// A counter of changes, shared by all brokers whose snapshots are looked at together. Counting costs next to nothing
/// while nobody waits.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    changes: AtomicU64,
    waiters: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Pulse {
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Something has changed.
    pub(crate) fn beat(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        // Who counts himself in before looking at `changes` either sees this change or is seen here.
        if self.waiters.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock());
            self.changed.notify_all();
        }
    }

    /// Waits until there are more changes than `seen`; false if there are none by the deadline.
    pub(crate) fn wait(&self, seen: u64, deadline: Instant) -> bool {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock();
        while self.changes() == seen {
            if self.changed.wait_until(&mut guard, deadline).timed_out() {
                break;
            }
        }
        drop(guard);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        self.changes() != seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_beat_ends_a_wait() {
        let pulse = Arc::new(Pulse::default());
        let seen = pulse.changes();
        assert!(!pulse.wait(seen, Instant::now()));
        let other = pulse.clone();
        let beating = thread::spawn(move || other.beat());
        assert!(pulse.wait(seen, Instant::now() + Duration::from_secs(20)));
        beating.join().unwrap();
    }
}
