//! What a producer has done.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::client::{TimeRecorder, TimeStats};

/// Figures about a producer, since its start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerStats {
    /// Messages that were stored, and one-way ones that were handed to a connection.
    pub sent: u64,
    /// Messages whose sending failed in the end.
    pub failed: u64,
    /// Attempts after a first one.
    pub retried: u64,
    /// Messages being sent at present.
    pub in_flight: usize,
    /// Their bodies, in bytes.
    pub in_flight_bytes: usize,
    /// How long sending took, from the call to the final result; a batch counts once.
    pub send_time: TimeStats,
}

#[derive(Debug, Default)]
pub(super) struct Recorder {
    sent: AtomicU64,
    failed: AtomicU64,
    retried: AtomicU64,
    in_flight: AtomicUsize,
    in_flight_bytes: AtomicUsize,
    send_time: TimeRecorder,
}

impl Recorder {
    pub(super) fn begin(&self, messages: usize, bytes: usize) {
        // Sequentially consistent with the look of a shutdown at the count: one of the two sees the other.
        self.in_flight.fetch_add(messages, Ordering::SeqCst);
        self.in_flight_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn end(&self, messages: usize, bytes: usize, took: Duration, stored: bool) {
        let count = if stored { &self.sent } else { &self.failed };
        count.fetch_add(u64::try_from(messages).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.send_time.record(took);
        self.in_flight_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.in_flight.fetch_sub(messages, Ordering::SeqCst);
    }

    pub(super) fn retried(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    pub(super) fn snapshot(&self) -> ProducerStats {
        ProducerStats {
            sent: self.sent.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            retried: self.retried.load(Ordering::Relaxed),
            in_flight: self.in_flight(),
            in_flight_bytes: self.in_flight_bytes.load(Ordering::Relaxed),
            send_time: self.send_time.snapshot(),
        }
    }
}
