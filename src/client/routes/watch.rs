//! When to ask for which topic.
//!
//! A known topic is asked for every 30 s. After trouble it is asked for at once, and then every 4 s for five minutes,
//! so that a broker that comes back is found within five seconds. A topic that does not exist is asked for after
//! 1 s, 5 s, and then every 30 s.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::timers::Timers;

/// What came of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Found {
        lost_broker: bool,
    },
    /// A name server answered that there is no such topic.
    Missing,
    /// No name server answered.
    Failed,
}

/// The topics that are kept fresh.
#[derive(Debug)]
pub(crate) struct RouteWatch {
    interval: Duration,
    topics: HashMap<Arc<str>, Watched>,
    due: Timers<Arc<str>>,
}

#[derive(Debug)]
struct Watched {
    in_flight: bool,
    /// Asked for again while the answer to the last question was still out.
    again: bool,
    ever_found: bool,
    /// In a row: answered "missing", or not at all.
    misses: u32,
    asked: Option<Instant>,
    /// Until then the topic is asked for more often.
    alert_until: Option<Instant>,
}

impl RouteWatch {
    pub(crate) fn new(interval: Duration) -> Self {
        RouteWatch { interval, topics: HashMap::new(), due: Timers::new() }
    }

    /// Ask for this topic now, and keep it fresh from now on.
    pub(crate) fn want(&mut self, topic: &Arc<str>, now: Instant) {
        let watched = self.topics.entry(topic.clone()).or_insert_with(Watched::new);
        if watched.in_flight {
            watched.again = true;
            return;
        }
        let earliest = watched.asked.map_or(now, |asked| asked + SPACING);
        self.due.set_earlier(topic.clone(), earliest.max(now));
    }

    /// Somebody else asked for it (a thread that could not wait for its turn) and found it.
    pub(crate) fn seen(&mut self, topic: &Arc<str>, lost_broker: bool, now: Instant) {
        let watched = self.topics.entry(topic.clone()).or_insert_with(Watched::new);
        if watched.in_flight {
            return;
        }
        watched.asked = Some(now);
        self.settle(topic, Asked::Found { lost_broker }, now);
    }

    /// Something about these topics went wrong: a broker of theirs was lost or cannot be reached.
    pub(crate) fn trouble<'a>(&mut self, topics: impl IntoIterator<Item = &'a Arc<str>>, now: Instant) {
        for topic in topics {
            if let Some(watched) = self.topics.get_mut(topic) {
                watched.alert_until = Some(now + ALERT);
                let soon = watched.asked.map_or(now, |asked| (asked + TROUBLE_SPACING).max(now));
                if watched.in_flight {
                    watched.again = true;
                } else {
                    self.due.set_earlier(topic.clone(), soon);
                }
            }
        }
    }

    /// A broker has heard of new groups: the retry topics it made for them can be asked for in a moment.
    pub(crate) fn brokers_told(&mut self, now: Instant) {
        for (topic, watched) in &mut self.topics {
            if watched.misses > 0 && !watched.ever_found && !watched.in_flight {
                watched.misses = 0;
                self.due.set_earlier(topic.clone(), now + AFTER_HEARTBEAT);
            }
        }
    }

    /// The topics that are due. Each is in flight until `answered`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Arc<str>> {
        let mut topics = Vec::new();
        while let Some(topic) = self.due.pop_due(now) {
            if let Some(watched) = self.topics.get_mut(&topic) {
                watched.in_flight = true;
                watched.asked = Some(now);
                topics.push(topic);
            }
        }
        topics
    }

    /// The answer to a question that `take_due` called for.
    pub(crate) fn answered(&mut self, topic: &Arc<str>, asked: Asked, now: Instant) {
        if let Some(watched) = self.topics.get_mut(topic) {
            watched.in_flight = false;
            let again = std::mem::take(&mut watched.again);
            self.settle(topic, asked, now);
            if again {
                self.due.set_earlier(topic.clone(), now + SPACING);
            }
        }
    }

    /// Stops watching the topics that `keep` says no to.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Arc<str>) -> bool) {
        let due = &mut self.due;
        self.topics.retain(|topic, watched| {
            let kept = watched.in_flight || keep(topic);
            if !kept {
                due.cancel(topic);
            }
            kept
        });
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.next()
    }

    pub(crate) fn is_watched(&self, topic: &str) -> bool {
        self.topics.contains_key(topic)
    }

    /// Whether the last answer was that the topic does not exist, or there was none.
    pub(crate) fn is_missing(&self, topic: &str) -> bool {
        self.topics.get(topic).is_some_and(|watched| watched.misses > 0)
    }

    fn settle(&mut self, topic: &Arc<str>, asked: Asked, now: Instant) {
        let Some(watched) = self.topics.get_mut(topic) else { return };
        let pause = watched.settle(asked, now, self.interval);
        self.due.set(topic.clone(), now + pause);
    }
}

impl Watched {
    fn new() -> Self {
        Watched {
            in_flight: false,
            again: false,
            ever_found: false,
            misses: 0,
            asked: None,
            alert_until: None,
        }
    }

    fn settle(&mut self, asked: Asked, now: Instant, interval: Duration) -> Duration {
        match asked {
            Asked::Found { lost_broker } => {
                self.misses = 0;
                self.ever_found = true;
                if lost_broker {
                    self.alert_until = Some(now + ALERT);
                }
            }
            Asked::Missing | Asked::Failed => {
                self.misses = self.misses.saturating_add(1);
                // It was there: it may come back any moment, with the broker that held it.
                if self.ever_found && self.misses == 1 && self.alert_until.is_none() {
                    self.alert_until = Some(now + ALERT);
                }
            }
        }
        if self.alert_until.is_some_and(|until| now >= until) {
            self.alert_until = None;
        }
        let usual = match asked {
            Asked::Found { .. } => interval,
            Asked::Missing => [Duration::from_secs(1), Duration::from_secs(5)]
                .get((self.misses - 1) as usize)
                .map_or(interval, |pause| *pause),
            Asked::Failed => FAILED_PAUSE.saturating_mul(1 << (self.misses - 1).min(5)),
        };
        let pause = if self.alert_until.is_some() { usual.min(ALERT_PAUSE) } else { usual };
        pause.min(interval)
    }
}

/// Two questions about one topic are never closer than this.
const SPACING: Duration = Duration::from_millis(50);
/// … and those that trouble calls for never closer than this: a broker may come and go many times a second.
const TROUBLE_SPACING: Duration = Duration::from_secs(1);
const ALERT: Duration = Duration::from_secs(300);
const ALERT_PAUSE: Duration = Duration::from_secs(4);
const FAILED_PAUSE: Duration = Duration::from_secs(1);
const AFTER_HEARTBEAT: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
