//! How long things took, as a histogram that costs a few atomic additions per entry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long something took, over all times it was done: a cumulative histogram, as metrics systems want it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeStats {
    /// How often it was done.
    pub count: u64,
    /// The time of all of them together.
    pub total: Duration,
    /// The longest one.
    pub max: Duration,
    /// Upper bound, and how many took at most that long. Those over the last bound are in `count` only.
    pub buckets: Vec<(Duration, u64)>,
}

impl TimeStats {
    /// The mean, or zero if there was none yet.
    pub fn mean(&self) -> Duration {
        let nanos = self.total.as_nanos().checked_div(u128::from(self.count)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Those of several recorders, whose buckets are the same.
    pub(crate) fn sum(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut sum = TimeRecorder::default().snapshot();
        for part in parts {
            sum.count += part.count;
            sum.total += part.total;
            sum.max = sum.max.max(part.max);
            for ((_, count), (_, more)) in sum.buckets.iter_mut().zip(part.buckets) {
                *count += more;
            }
        }
        sum
    }
}

/// Takes the times down, from any number of threads, without a lock.
#[derive(Debug, Default)]
pub(crate) struct TimeRecorder {
    nanos: AtomicU64,
    max: AtomicU64,
    /// Not cumulative; the last one holds what is over every bound.
    counts: [AtomicU64; BOUNDS.len() + 1],
}

impl TimeRecorder {
    pub(crate) fn record(&self, took: Duration) {
        self.record_many(took, 1);
    }

    /// `n` times the same duration: several messages of one call, say.
    pub(crate) fn record_many(&self, took: Duration, n: u64) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let slot = BOUNDS.partition_point(|bound| *bound < took);
        if let Some(count) = self.counts.get(slot) {
            count.fetch_add(n, Ordering::Relaxed);
        }
        self.nanos.fetch_add(nanos.saturating_mul(n), Ordering::Relaxed);
        // Rarely a new maximum: a plain read keeps the cache line shared.
        if nanos > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    /// As [`record`](Self::record), for a recorder that one thread alone writes to: plain stores cost a tenth of what
    /// additions do that others might make at the same moment.
    pub(crate) fn record_alone(&self, nanos: u64) {
        let add =
            |to: &AtomicU64, n: u64| to.store(to.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
        let slot = BOUND_NANOS.iter().position(|bound| *bound >= nanos).unwrap_or(BOUNDS.len());
        if let Some(count) = self.counts.get(slot) {
            add(count, 1);
        }
        add(&self.nanos, nanos);
        if nanos > self.max.load(Ordering::Relaxed) {
            self.max.store(nanos, Ordering::Relaxed);
        }
    }

    /// Entries made meanwhile may be in one part of the result and not yet in another.
    pub(crate) fn snapshot(&self) -> TimeStats {
        let mut count = 0;
        let mut buckets = Vec::with_capacity(BOUNDS.len());
        for (bound, entries) in BOUNDS.iter().zip(&self.counts) {
            count += entries.load(Ordering::Relaxed);
            buckets.push((*bound, count));
        }
        count += self.counts[BOUNDS.len()].load(Ordering::Relaxed);
        TimeStats {
            count,
            total: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
            max: Duration::from_nanos(self.max.load(Ordering::Relaxed)),
            buckets,
        }
    }
}

/// From an empty listener to one that waits for somebody else's database.
const BOUNDS: [Duration; 16] = [
    Duration::from_micros(10),
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(900),
];

/// In one word each: they are compared once per message.
const BOUND_NANOS: [u64; BOUNDS.len()] = {
    let mut nanos = [0; BOUNDS.len()];
    let mut at = 0;
    while at < nanos.len() {
        // The longest bound is far from the limit of 64 bits.
        nanos[at] = BOUNDS[at].as_nanos() as u64;
        at += 1;
    }
    nanos
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_a_bound_belongs_to_its_bucket() {
        let recorder = TimeRecorder::default();
        recorder.record(Duration::from_micros(10));
        recorder.record_many(Duration::from_millis(2), 3);
        recorder.record(Duration::from_secs(5000));
        let stats = recorder.snapshot();
        assert_eq!(stats.count, 5);
        assert_eq!(stats.max, Duration::from_secs(5000));
        assert_eq!(stats.total, Duration::from_secs(5000) + Duration::from_micros(6010));
        assert_eq!(stats.buckets[0], (Duration::from_micros(10), 1));
        assert_eq!(stats.buckets[4], (Duration::from_millis(1), 1));
        assert_eq!(stats.buckets[5], (Duration::from_millis(5), 4));
        assert_eq!(stats.buckets.last().unwrap().1, 4);
    }

    #[test]
    fn the_mean_of_nothing_is_zero() {
        assert_eq!(TimeRecorder::default().snapshot().mean(), Duration::ZERO);
    }

    #[test]
    fn alone_or_not_the_entries_are_the_same() {
        let (alone, shared) = (TimeRecorder::default(), TimeRecorder::default());
        for micros in [0, 9, 10, 11, 49, 5_000, 1_000_000_000] {
            alone.record_alone(micros * 1000);
            shared.record(Duration::from_micros(micros));
        }
        assert_eq!(alone.snapshot(), shared.snapshot());
    }

    #[test]
    fn a_sum_is_that_of_one_recorder_for_all() {
        let (a, b, both) = (TimeRecorder::default(), TimeRecorder::default(), TimeRecorder::default());
        for (recorder, millis) in [(&a, 3), (&b, 700), (&a, 1)] {
            recorder.record(Duration::from_millis(millis));
            both.record(Duration::from_millis(millis));
        }
        assert_eq!(TimeStats::sum([a.snapshot(), b.snapshot()]), both.snapshot());
    }

    #[test]
    fn bounds_ascend() {
        assert!(BOUNDS.is_sorted());
    }
}
