//! Rates over the last minute, hour and day, from samples of counters that only grow. Pure: time is an argument.
//!
//! The windows are those of the Java client, so that operators compare like with like: a sample every 10 s, 10 min and
//! 1 h, of which 7, 7 and 25 are kept, the first one preceded by a zero of one interval before.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::stats::TopicRates;

/// What has been counted of one topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Messages that listeners accepted.
    pub(crate) succeeded: u64,
    /// Messages that they did not accept.
    pub(crate) failed: u64,
    /// Listener calls.
    pub(crate) calls: u64,
    /// How long they took.
    pub(crate) call_time: Duration,
    /// Messages that pulls brought.
    pub(crate) pulled: u64,
    /// Answers to pulls that found something.
    pub(crate) pulls: u64,
    /// How long they took, the time that brokers held them included.
    pub(crate) pull_time: Duration,
}

/// The samples of one topic.
#[derive(Debug)]
pub(crate) struct History {
    minute: Window,
    hour: Window,
    day: Window,
}

impl History {
    /// Takes a sample into each window in which one is due.
    pub(crate) fn sample(&mut self, now: Instant, tally: Tally) {
        for window in [&mut self.minute, &mut self.hour, &mut self.day] {
            window.sample(now, tally);
        }
    }

    /// About the last minute.
    pub(crate) fn minute(&self, now: Instant, tally: Tally) -> TopicRates {
        self.minute.rates(now, tally)
    }

    /// About the last hour.
    pub(crate) fn hour(&self, now: Instant, tally: Tally) -> TopicRates {
        self.hour.rates(now, tally)
    }

    /// About the last day.
    pub(crate) fn day(&self, now: Instant, tally: Tally) -> TopicRates {
        self.day.rates(now, tally)
    }
}

impl Default for History {
    fn default() -> Self {
        Self {
            minute: Window::new(SAMPLE_EVERY, 7),
            hour: Window::new(Duration::from_secs(600), 7),
            day: Window::new(Duration::from_secs(3600), 25),
        }
    }
}

#[derive(Debug)]
struct Window {
    every: Duration,
    kept: usize,
    samples: VecDeque<(Instant, Tally)>,
}

impl Window {
    fn new(every: Duration, kept: usize) -> Self {
        Self { every, kept, samples: VecDeque::new() }
    }

    fn sample(&mut self, now: Instant, tally: Tally) {
        match self.samples.back() {
            None => self.samples.push_back((self.before(now), Tally::default())),
            // A timer that is a little late once must not be a whole interval late the next time.
            Some((last, _)) if now + self.every / 10 < *last + self.every => return,
            Some(_) => {}
        }
        self.samples.push_back((now, tally));
        if self.samples.len() > self.kept {
            self.samples.pop_front();
        }
    }

    /// From the oldest sample to this very moment.
    fn rates(&self, now: Instant, tally: Tally) -> TopicRates {
        let none = (self.before(now), Tally::default());
        let (since, first) = self.samples.front().unwrap_or(&none);
        let seconds = now.saturating_duration_since(*since).as_secs_f64();
        let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        // Whoever asks may have counted a moment before the sample was taken.
        let more = |of: fn(&Tally) -> u64| of(&tally).saturating_sub(of(first));
        let longer = |of: fn(&Tally) -> Duration| of(&tally).saturating_sub(of(first));
        TopicRates {
            succeeded_per_second: per_second(more(|of| of.succeeded)),
            failed: more(|of| of.failed),
            failed_per_second: per_second(more(|of| of.failed)),
            listener_time: mean(longer(|of| of.call_time), more(|of| of.calls)),
            pulled_per_second: per_second(more(|of| of.pulled)),
            pull_time: mean(longer(|of| of.pull_time), more(|of| of.pulls)),
        }
    }

    fn before(&self, now: Instant) -> Instant {
        now.checked_sub(self.every).unwrap_or(now)
    }
}

fn mean(total: Duration, n: u64) -> Duration {
    let nanos = total.as_nanos().checked_div(u128::from(n)).unwrap_or(0);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// How often samples are taken.
pub(super) const SAMPLE_EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(succeeded: u64, failed: u64) -> Tally {
        let calls = succeeded + failed;
        Tally {
            succeeded,
            failed,
            calls,
            call_time: Duration::from_millis(3) * u32::try_from(calls).unwrap(),
            pulled: 2 * calls,
            pulls: calls,
            pull_time: Duration::from_millis(5) * u32::try_from(calls).unwrap(),
        }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn without_a_sample_the_rates_are_those_of_one_interval() {
        let (history, now) = (History::default(), Instant::now() + seconds(7200));
        let rates = history.minute(now, tally(20, 10));
        assert_eq!((rates.succeeded_per_second, rates.failed_per_second), (2.0, 1.0));
        assert_eq!((rates.failed, rates.pulled_per_second), (10, 6.0));
        assert_eq!(
            (rates.listener_time, rates.pull_time),
            (Duration::from_millis(3), Duration::from_millis(5))
        );
        assert_eq!(history.hour(now, tally(0, 0)), TopicRates::default());
    }

    #[test]
    fn the_minute_forgets_what_is_older_and_the_hour_does_not() {
        let (mut history, start) = (History::default(), Instant::now() + seconds(7200));
        history.sample(start, tally(600, 0));
        for tick in 1..=12 {
            history.sample(start + seconds(10 * tick), tally(600, 0));
        }
        let now = start + seconds(120);
        assert_eq!(history.minute(now, tally(606, 6)).succeeded_per_second, 0.1);
        assert_eq!(history.minute(now, tally(606, 6)).failed, 6);
        assert_eq!(history.minute.samples.len(), 7);
        // Ten minutes before the first sample there was nothing.
        let hour = history.hour(now, tally(606, 6));
        assert_eq!((hour.succeeded_per_second * 720.0).round(), 606.0);
        assert_eq!(history.hour.samples.len(), 2, "the next one is due after ten minutes");
    }

    #[test]
    fn a_late_sample_does_not_cost_the_next_one() {
        let (mut window, start) = (Window::new(seconds(10), 7), Instant::now() + seconds(100));
        for at in [start, start + Duration::from_millis(10_050), start + seconds(20)] {
            window.sample(at, tally(1, 0));
        }
        window.sample(start + seconds(21), tally(1, 0));
        assert_eq!(window.samples.len(), 4, "the zero and three");
    }

    #[test]
    fn a_moved_clock_brings_one_sample() {
        let (mut history, start) = (History::default(), Instant::now() + seconds(7200));
        history.sample(start, tally(0, 0));
        history.sample(start + seconds(86_400), tally(864, 0));
        let rates = history.minute(start + seconds(86_400), tally(864, 0));
        assert!(rates.succeeded_per_second > 0.009 && rates.succeeded_per_second < 0.011, "{rates:?}");
    }
}
