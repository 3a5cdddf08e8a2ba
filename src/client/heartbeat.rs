//! Who has been told what, and who is told next. Pure: no socket, no clock.
//!
//! A broker answers a pull with the subscription that it has been told of, so every broker is told before it is asked
//! (promise 12): [`Told`] holds what each broker has acknowledged on its present connection. [`Beats`] decides when a
//! broker gets its next heartbeat. A heartbeat that is wanted while one is out is sent after it, never dropped.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::MemberKind;
use super::timers::Timers;

/// What one heartbeat says.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    /// The version of each subscription, by group and topic.
    pub(crate) consumers: BTreeMap<String, BTreeMap<String, i64>>,
    pub(crate) producers: BTreeSet<String>,
}

impl Content {
    pub(crate) fn is_empty(&self) -> bool {
        self.consumers.is_empty() && self.producers.is_empty()
    }

    fn version(&self, group: &str, topic: &str) -> Option<i64> {
        self.consumers.get(group)?.get(topic).copied()
    }
}

/// What each broker has acknowledged. Looked up for every pull, and a tree of a few names is quicker than hashing them. Shared: written by `rmq-control`, and by `rmq-io` when a connection begins or ends.
#[derive(Debug, Default)]
pub(crate) struct Told {
    brokers: Mutex<BTreeMap<Arc<str>, Broker>>,
}

#[derive(Debug, Default)]
struct Broker {
    /// The number of the open connection.
    link: Option<u64>,
    /// Counts the connections that ended. A broker forgets a client with its connection, so an acknowledgement
    /// counts only if the connection it came on is still the present one: it is read, the connection ends, the end
    /// is noted here, and only then the acknowledgement is processed — without the number it would count.
    ended: u64,
    content: Option<Arc<Content>>,
}

impl Told {
    /// The connection on which the broker there has acknowledged this group's subscription of the topic, at this
    /// version or newer. A request that relies on it goes out on that very connection: the present one may be
    /// another by the time it is sent, and on that one the broker knows nothing yet.
    pub(crate) fn told_on(&self, address: &str, group: &str, topic: &str, version: i64) -> Option<u64> {
        let brokers = self.brokers.lock();
        let broker = brokers.get(address)?;
        let told = broker.content.as_ref()?.version(group, topic)?;
        broker.link.filter(|_| told >= version)
    }

    /// The connection on which the broker there has acknowledged any heartbeat, for those whom it need not know.
    pub(crate) fn heard_on(&self, address: &str) -> Option<u64> {
        let brokers = self.brokers.lock();
        let broker = brokers.get(address)?;
        broker.content.as_ref()?;
        broker.link
    }

    /// A connection to this address is open.
    pub(crate) fn connection_began(&self, address: &Arc<str>, link: u64) {
        self.brokers.lock().entry(address.clone()).or_default().link = Some(link);
    }

    /// The connection that a heartbeat is about to go out on.
    pub(crate) fn connection(&self, address: &Arc<str>) -> u64 {
        self.brokers.lock().entry(address.clone()).or_default().ended
    }

    /// The broker acknowledged this content, sent when `connection` was the present one. Whether that counts, and
    /// whether it was news to the broker.
    pub(crate) fn acknowledged(
        &self,
        address: &Arc<str>,
        connection: u64,
        content: &Arc<Content>,
    ) -> Option<bool> {
        let mut brokers = self.brokers.lock();
        let broker = brokers.entry(address.clone()).or_default();
        if broker.ended != connection {
            return None;
        }
        let news = broker.content.as_ref().is_none_or(|old| **old != **content);
        broker.content = Some(content.clone());
        Some(news)
    }

    /// The connection to this address ended, and with it what the broker knew.
    pub(crate) fn connection_ended(&self, address: &str) {
        if let Some(broker) = self.brokers.lock().get_mut(address) {
            broker.ended += 1;
            broker.link = None;
            broker.content = None;
        }
    }

    /// This address is no broker's any more. Called when the end of its connection has been processed: by then no
    /// acknowledgement can be under way that would count for a later connection.
    pub(crate) fn forget(&self, address: &str) {
        let mut brokers = self.brokers.lock();
        if brokers.get(address).is_some_and(|broker| broker.link.is_none()) {
            brokers.remove(address);
        }
    }

    /// Whether this broker knows the client: only to those one has to say goodbye.
    pub(crate) fn knows(&self, address: &str) -> bool {
        self.brokers.lock().get(address).is_some_and(|broker| broker.content.is_some())
    }

    /// This broker is being told that the group leaves: what was acknowledged for it does not count any more.
    pub(crate) fn forget_group(&self, address: &str, kind: MemberKind, group: &str) {
        let mut brokers = self.brokers.lock();
        let Some(content) = brokers.get_mut(address).and_then(|broker| broker.content.as_mut()) else {
            return;
        };
        // Shared by all brokers that were told the same; each forgets for itself.
        let own = Arc::make_mut(content);
        match kind {
            MemberKind::Consumer => drop(own.consumers.remove(group)),
            MemberKind::Producer => drop(own.producers.remove(group)),
        }
    }
}

/// When each broker gets its next heartbeat.
#[derive(Debug)]
pub(crate) struct Beats {
    interval: Duration,
    brokers: BTreeMap<Arc<str>, Beat>,
    due: Timers<Arc<str>>,
}

#[derive(Debug, Default)]
struct Beat {
    in_flight: bool,
    /// Goodbyes of groups that are out. A broker handles requests on many threads: a heartbeat that says "the group
    /// is back" must not overtake the goodbye.
    held: u32,
    /// Wanted while something was out: what that one says may be old by now.
    again: bool,
    failures: u32,
    /// Gets no more heartbeats; kept while something is out, since a goodbye must not overtake that.
    leaving: bool,
}

impl Beat {
    fn is_busy(&self) -> bool {
        self.in_flight || self.held > 0
    }
}

/// What came of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beaten {
    Acknowledged,
    /// The broker answered, with something other than success.
    Refused,
    /// No answer.
    Failed,
}

impl Beats {
    pub(crate) fn new(interval: Duration) -> Self {
        Beats { interval, brokers: BTreeMap::new(), due: Timers::new() }
    }

    /// The brokers that get heartbeats: new ones at once, and those that left no more.
    pub(crate) fn set_brokers(&mut self, addresses: impl IntoIterator<Item = Arc<str>>, now: Instant) {
        let wanted: HashSet<Arc<str>> = addresses.into_iter().collect();
        let due = &mut self.due;
        self.brokers.retain(|address, beat| {
            let stays = wanted.contains(address);
            let returns = stays && beat.leaving;
            beat.leaving = !stays;
            if returns && beat.is_busy() {
                beat.again = true;
            } else if returns {
                due.set_earlier(address.clone(), now);
            } else if !stays {
                due.cancel(address);
            }
            stays || beat.is_busy()
        });
        for address in wanted {
            if !self.brokers.contains_key(&address) {
                self.brokers.insert(address.clone(), Beat::default());
                self.due.set(address, now);
            }
        }
    }

    /// One heartbeat to this broker as soon as possible, with what is true by then.
    pub(crate) fn want(&mut self, address: &Arc<str>, now: Instant) {
        match self.brokers.get_mut(address) {
            Some(beat) if beat.leaving => {}
            Some(beat) if beat.is_busy() => beat.again = true,
            Some(_) => self.due.set_earlier(address.clone(), now),
            None => {}
        }
    }

    pub(crate) fn want_all(&mut self, now: Instant) {
        let all: Vec<Arc<str>> = self.brokers.keys().cloned().collect();
        for address in all {
            self.want(&address, now);
        }
    }

    /// A connection is up. If a heartbeat is out, it is on its way over this very connection; else the broker, new or
    /// returned, gets one at once.
    pub(crate) fn linked(&mut self, address: &Arc<str>, now: Instant) {
        if let Some(beat) = self.brokers.get_mut(address)
            && !beat.is_busy()
            && !beat.leaving
        {
            beat.failures = 0;
            self.due.set_earlier(address.clone(), now);
        }
    }

    /// A connection ended: the next heartbeat is the attempt to come back.
    pub(crate) fn lost(&mut self, address: &Arc<str>, now: Instant) {
        if let Some(beat) = self.brokers.get_mut(address)
            && !beat.is_busy()
            && !beat.leaving
        {
            self.due.set_earlier(address.clone(), now + FIRST_PAUSE);
        }
    }

    /// The brokers that are due. Each heartbeat is out until `answered`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Arc<str>> {
        let mut addresses = Vec::new();
        while let Some(address) = self.due.pop_due(now) {
            let Some(beat) = self.brokers.get_mut(&address) else { continue };
            if beat.is_busy() {
                beat.again = true;
                continue;
            }
            beat.in_flight = true;
            beat.again = false;
            addresses.push(address);
        }
        addresses
    }

    pub(crate) fn answered(&mut self, address: &Arc<str>, beaten: Beaten, now: Instant) {
        let interval = self.interval;
        let Some(beat) = self.brokers.get_mut(address) else { return };
        beat.in_flight = false;
        beat.failures = if beaten == Beaten::Acknowledged { 0 } else { beat.failures.saturating_add(1) };
        let pause = match beaten {
            Beaten::Acknowledged => interval,
            // A refusal lasts (permissions), an unreachable broker may be back any moment.
            Beaten::Refused => pause(beat.failures, REFUSED_PAUSE, interval),
            Beaten::Failed => pause(beat.failures, FIRST_PAUSE, interval.min(LONGEST_PAUSE)),
        };
        if beat.leaving {
            return;
        }
        let at = if beat.again && beaten == Beaten::Acknowledged { now } else { now + pause };
        self.due.set(address.clone(), at);
    }

    /// A goodbye goes to this broker: no heartbeat until `released`. False if a heartbeat is out, which it must not
    /// overtake either: to be tried again when that one is answered.
    pub(crate) fn hold(&mut self, address: &str) -> bool {
        match self.brokers.get_mut(address) {
            Some(beat) if beat.in_flight => false,
            Some(beat) => {
                beat.held += 1;
                true
            }
            None => true,
        }
    }

    /// A goodbye was answered, or never will be.
    pub(crate) fn released(&mut self, address: &Arc<str>, now: Instant) {
        if let Some(beat) = self.brokers.get_mut(address) {
            beat.held = beat.held.saturating_sub(1);
            // The next one may have become due meanwhile, and have been put off.
            if !beat.is_busy() && !beat.leaving && std::mem::take(&mut beat.again) {
                self.due.set_earlier(address.clone(), now);
            }
        }
    }

    pub(crate) fn is_out(&self, address: &str) -> bool {
        self.brokers.get(address).is_some_and(|beat| beat.in_flight)
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.next()
    }
}

fn pause(failures: u32, first: Duration, longest: Duration) -> Duration {
    first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(longest)
}

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
