//! How a sender makes sure that the io thread does not sleep past the deadline of its request, without waking it
//! for every request.

use crate::sync::{AtomicU64, Ordering};

/// The time at which the io thread wakes up by itself.
#[derive(Debug)]
pub(crate) struct Alarm {
    at: AtomicU64,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Self { at: AtomicU64::new(u64::MAX) }
    }

    /// Sets the alarm to what `scan` finds to be the earliest deadline.
    ///
    /// While it scans, the alarm stands at the end of time. A sender may file its request just after the scan has
    /// passed its table, but then it reads either the end of time or the result: in both cases it sees that its
    /// own deadline is earlier, and wakes us. If it filed before, the scan finds it. The lock of the table, which
    /// both take in between, orders the two.
    pub(crate) fn set(&self, scan: impl FnOnce() -> Option<u64>) -> u64 {
        self.at.store(u64::MAX, Ordering::SeqCst);
        let earliest = scan().unwrap_or(u64::MAX);
        self.at.store(earliest, Ordering::SeqCst);
        earliest
    }

    /// Whether the io thread has to be woken for this deadline. Ask after filing the request.
    pub(crate) fn is_later_than(&self, deadline: u64) -> bool {
        deadline < self.at.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn only_an_earlier_deadline_wakes() {
        let alarm = Alarm::new();
        assert!(alarm.is_later_than(5), "nothing has been scanned yet");
        assert_eq!(alarm.set(|| Some(100)), 100);
        assert!(alarm.is_later_than(99));
        assert!(!alarm.is_later_than(100));
        assert_eq!(alarm.set(|| None), u64::MAX);
        assert!(alarm.is_later_than(100));
    }
}

#[cfg(test)]
#[cfg(loom)]
mod model {
    use super::*;
    use crate::sync::{Arc, Mutex};

    /// One sender files a deadline while the io thread goes to sleep: either the io thread's alarm is early enough,
    /// or it has been woken.
    #[test]
    fn loom_no_deadline_is_slept_past() {
        loom::model(|| {
            let alarm = Arc::new(Alarm::new());
            let table = Arc::new(Mutex::new(vec![50]));
            let sender = {
                let (alarm, table) = (alarm.clone(), table.clone());
                loom::thread::spawn(move || {
                    table.lock().push(10);
                    alarm.is_later_than(10)
                })
            };
            let slept_until = alarm.set(|| table.lock().iter().min().copied());
            let woken = sender.join().expect("the sender does not panic");
            assert!(woken || slept_until <= 10, "slept until {slept_until} and nobody woke");
        });
    }
}
