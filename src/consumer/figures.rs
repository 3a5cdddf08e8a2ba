//! What is counted for each topic: by the consume threads, each on its own account, and by `rmq-pull`. Nobody fights
//! over a counter: each has one writer, and whoever asks adds them up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::core::Core;
use super::rates::{History, Tally};

/// What one consume thread has done for one topic. Written by that thread alone.
#[derive(Debug, Default)]
pub struct Consumed {
    succeeded: AtomicU64,
    failed: AtomicU64,
    calls: AtomicU64,
    nanos: AtomicU64,
}

impl Consumed {
    /// Adds what one call brought.
    pub fn add(&self, succeeded: u64, failed: u64) {
        add_alone(&self.succeeded, succeeded);
        add_alone(&self.failed, failed);
    }

    /// Adds how long one call took, in nanoseconds.
    pub fn took(&self, nanos: u64) {
        add_alone(&self.calls, 1);
        add_alone(&self.nanos, nanos);
    }

    /// Messages accepted and not accepted.
    pub fn messages(&self) -> (u64, u64) {
        (self.succeeded.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    fn add_to(&self, tally: &mut Tally) {
        let (succeeded, failed) = self.messages();
        tally.succeeded += succeeded;
        tally.failed += failed;
        tally.calls += self.calls.load(Ordering::Relaxed);
        tally.call_time += Duration::from_nanos(self.nanos.load(Ordering::Relaxed));
    }
}

/// What pulls brought of one topic. Written by `rmq-pull` alone.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    answers: AtomicU64,
    messages: AtomicU64,
    nanos: AtomicU64,
}

impl Fetched {
    /// An answer that found something, whatever the filter left of it.
    pub(crate) fn answered(&self, took: Duration, messages: u64) {
        add_alone(&self.answers, 1);
        add_alone(&self.messages, messages);
        add_alone(&self.nanos, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    fn add_to(&self, tally: &mut Tally) {
        tally.pulls += self.answers.load(Ordering::Relaxed);
        tally.pulled += self.messages.load(Ordering::Relaxed);
        tally.pull_time += Duration::from_nanos(self.nanos.load(Ordering::Relaxed));
    }
}

/// A plain addition, for a counter with one writer.
fn add_alone(to: &AtomicU64, n: u64) {
    if n > 0 {
        to.store(to.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }
}

/// Something for each topic, made when the topic is seen first, and kept.
#[derive(Debug)]
pub struct ByTopic<T>(Mutex<BTreeMap<Arc<str>, Arc<T>>>);

impl<T: Default> ByTopic<T> {
    /// That of this topic.
    pub fn of(&self, topic: &Arc<str>) -> Arc<T> {
        let mut all = self.0.lock();
        match all.get(topic) {
            // Without another count of the topic's name, which all threads share.
            Some(known) => known.clone(),
            None => all.entry(topic.clone()).or_default().clone(),
        }
    }

    /// Those of all topics.
    pub fn all(&self) -> Vec<(Arc<str>, Arc<T>)> {
        self.0.lock().iter().map(|(topic, of_topic)| (topic.clone(), of_topic.clone())).collect()
    }
}

impl<T> Default for ByTopic<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// What has been counted up to now, and the samples of it, for each topic as the wire has it.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    histories: Mutex<BTreeMap<Arc<str>, History>>,
}

impl Figures {
    /// Takes what is due of the samples. Every ten seconds, on `rmq-timer`.
    pub(crate) fn sample(&self, core: &Core, now: Instant) {
        let tallies = tallies(core);
        let mut histories = self.histories.lock();
        for (topic, tally) in tallies {
            histories.entry(topic).or_default().sample(now, tally);
        }
    }

    /// The counts of each subscribed topic, and of those that were, with a look at their samples.
    pub(crate) fn each<T>(&self, core: &Core, look: impl Fn(&str, Tally, &History) -> T) -> Vec<T> {
        let mut tallies = tallies(core);
        for topic in core.subscriptions().keys() {
            tallies.entry(topic.clone()).or_default();
        }
        let (histories, none) = (self.histories.lock(), History::default());
        let history = |topic: &Arc<str>| histories.get(topic).unwrap_or(&none);
        tallies.iter().map(|(topic, tally)| look(topic, *tally, history(topic))).collect()
    }
}

fn tallies(core: &Core) -> BTreeMap<Arc<str>, Tally> {
    let mut tallies = BTreeMap::<Arc<str>, Tally>::new();
    for slot in core.slots() {
        for (topic, consumed) in slot.counts.by_topic.all() {
            consumed.add_to(tallies.entry(topic).or_default());
        }
    }
    for (topic, fetched) in core.totals.fetched.all() {
        fetched.add_to(tallies.entry(topic).or_default());
    }
    tallies
}
