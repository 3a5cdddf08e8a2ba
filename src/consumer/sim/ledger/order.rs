//! Consumption in order: nothing overtakes, and a queue is one member's at a time, who knows that it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::Ledger;
use crate::consumer::sim::locks::BrokerLocks;
use crate::message::MessageQueue;

/// Within a queue, no message is given to a listener while one before it is not finished.
pub(in crate::consumer::sim) const IN_ORDER: &str = "in order";
/// Only who has the lock of a queue is inside of it, and who had it when the broker forgot it and has not heard of that
/// yet: with its lost connection, or with its next renewal.
pub(in crate::consumer::sim) const ONE_AT_A_TIME: &str = "one at a time";
/// No listener call begins when the member does not believe any more that it has the lock.
pub(in crate::consumer::sim) const BELIEVED: &str = "believed";

#[derive(Default)]
pub(super) struct Book {
    /// When the lock that a member believes in was asked for; by member and queue.
    beliefs: BTreeMap<(usize, usize), Instant>,
    /// When a member noticed the last time that the connection to the broker of a queue was lost.
    doubts: BTreeMap<(usize, usize), Instant>,
    /// When a member asked for the lock of a queue the last time.
    asked: BTreeMap<(usize, usize), Instant>,
    /// The highest offset of a member and queue that its broker got.
    reached: BTreeMap<(usize, usize), i64>,
    lanes: BTreeMap<u64, Lane>,
    calls: Vec<Call>,
}

/// The order of one generation.
struct Lane {
    begun: Instant,
    closed: Option<Instant>,
    /// The last message that was taken for the first time.
    last: i64,
    /// What has to come before anything new, unless a broker takes it.
    owed: BTreeSet<i64>,
    /// What a broker has taken. The member may not know, and see it again.
    handed_over: BTreeSet<i64>,
}

/// A listener call that runs.
struct Call {
    member: usize,
    id: u64,
    queue: usize,
}

/// A listener call begins.
pub(in crate::consumer::sim) struct Start<'a> {
    pub(in crate::consumer::sim) member: usize,
    pub(in crate::consumer::sim) id: u64,
    pub(in crate::consumer::sim) queue: usize,
    pub(in crate::consumer::sim) offsets: &'a [i64],
    pub(in crate::consumer::sim) now: Instant,
}

/// A member gives a lock back.
pub(in crate::consumer::sim) struct Unlock {
    pub(in crate::consumer::sim) member: usize,
    pub(in crate::consumer::sim) queue: usize,
    /// The generation that ends, and how far it has come.
    pub(in crate::consumer::sim) given_up: Option<(u64, i64)>,
    /// What the broker has stored.
    pub(in crate::consumer::sim) stored: Option<i64>,
    /// The whole member ends.
    pub(in crate::consumer::sim) leaving: bool,
    pub(in crate::consumer::sim) now: Instant,
}

impl Book {
    pub(super) fn begin(&mut self, id: u64, start: i64, now: Instant) {
        let (owed, handed_over) = (BTreeSet::new(), BTreeSet::new());
        let lane = Lane { begun: now, closed: None, last: start - 1, owed, handed_over };
        self.lanes.insert(id, lane);
    }

    /// A broker has taken a message of this generation.
    pub(super) fn held(&mut self, id: u64, offset: i64) {
        if let Some(lane) = self.lanes.get_mut(&id)
            && lane.owed.remove(&offset)
        {
            lane.handed_over.insert(offset);
        }
    }

    /// A commit has arrived.
    pub(super) fn reached(&mut self, member: usize, queue: usize, to: i64) {
        let reached = self.reached.entry((member, queue)).or_insert(to);
        *reached = to.max(*reached);
    }

    pub(super) fn gone(&mut self, member: usize) {
        self.calls.retain(|call| call.member != member);
    }
}

impl Ledger {
    fn breaks(&mut self, rule: &str, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(format!("{rule}: {}", what()));
        }
    }

    /// A member hears that it has the locks of these. What was asked for before it noticed a lost connection says nothing.
    pub(in crate::consumer::sim) fn granted<'a>(
        &mut self,
        member: usize,
        queues: impl IntoIterator<Item = &'a MessageQueue>,
        asked: Instant,
    ) {
        for queue in queues {
            let its = (member, self.number(queue));
            if self.order.doubts.get(&its).is_none_or(|at| *at <= asked) {
                let known = self.order.beliefs.entry(its).or_insert(asked);
                *known = asked.max(*known);
            }
        }
    }

    /// A member hears that others have the queues of which it wanted to renew the locks. A generation that has begun
    /// since then is none of those.
    pub(in crate::consumer::sim) fn refused<'a>(
        &mut self,
        member: usize,
        queues: impl IntoIterator<Item = &'a MessageQueue>,
        asked: Instant,
    ) {
        for queue in queues {
            let queue = self.number(queue);
            let lane = self.latest(member, queue).and_then(|id| self.order.lanes.get(&id));
            if lane.is_some_and(|lane| lane.begun < asked) {
                self.order.beliefs.remove(&(member, queue));
            }
        }
    }

    /// A member notices that its connection to this broker was lost.
    pub(in crate::consumer::sim) fn doubts_locks(&mut self, member: usize, broker: &str, now: Instant) {
        let of_broker = |(_, pages): &(usize, &super::Pages)| pages.queue.broker_name() == broker;
        for (queue, _) in self.queues.iter().enumerate().filter(of_broker) {
            self.order.beliefs.remove(&(member, queue));
            self.order.doubts.insert((member, queue), now);
        }
    }

    pub(in crate::consumer::sim) fn asks_for_locks(
        &mut self,
        member: usize,
        queues: &[MessageQueue],
        now: Instant,
    ) {
        for queue in queues {
            self.order.asked.insert((member, self.number(queue)), now);
        }
    }

    /// Promise 4: who wants to keep a queue renews its lock. The thread that does so has just run.
    pub(in crate::consumer::sim) fn check_renewed(&mut self, member: usize, id: u64, now: Instant) {
        let (Some(queue), Some(lane)) = (self.queue_of(id), self.order.lanes.get(&id)) else { return };
        let asked = self.order.asked.get(&(member, queue)).map_or(lane.begun, |at| lane.begun.max(*at));
        if now - asked > RENEWED_WITHIN {
            let name = self.name(queue).clone();
            self.break_promise(4, || {
                format!("{member} has not renewed its lock of {name} for {:?}", now - asked)
            });
        }
    }

    /// A consume thread has taken these, in this order.
    pub(in crate::consumer::sim) fn taken(&mut self, id: u64, offsets: &[i64]) {
        for offset in offsets {
            let Some(lane) = self.order.lanes.get_mut(&id) else { return };
            let next = lane.owed.first().copied();
            let fine = match next {
                Some(next) if next < *offset => false,
                _ if lane.owed.remove(offset) || lane.handed_over.remove(offset) => true,
                _ => *offset > lane.last,
            };
            lane.last = lane.last.max(*offset);
            let last = lane.last;
            if !fine {
                let name = self.short(id);
                self.breaks(IN_ORDER, || {
                    format!(
                        "offset {offset} of {name} comes after {last}, and {next:?} was to come before all"
                    )
                });
            }
        }
    }

    /// This message was not accepted: it comes again before anything that follows it, or goes to a broker.
    pub(in crate::consumer::sim) fn owes(&mut self, id: u64, offset: i64) {
        if let Some(lane) = self.order.lanes.get_mut(&id) {
            lane.owed.insert(offset);
        }
    }

    /// A listener call begins.
    pub(in crate::consumer::sim) fn call_begins(&mut self, start: &Start<'_>, locks: &BrokerLocks) {
        let Start { member, id, queue, offsets, now } = *start;
        let name = self.name(queue).clone();
        let asked = self.order.beliefs.get(&(member, queue)).copied();
        if asked.is_none_or(|asked| now >= asked + BELIEF) {
            let since = asked.map(|asked| now - asked);
            return self.breaks(BELIEVED, || {
                format!("{member} begins with {offsets:?} of {name}, having asked for its lock {since:?} ago")
            });
        }
        let holder = locks.holder(queue, now);
        // Whoever got the lock since then, it does not know that it has lost it.
        let is_unaware = holder != Some(member) && locks.has_forgotten(queue, member);
        if holder != Some(member) && !is_unaware {
            self.breaks(ONE_AT_A_TIME, || {
                format!("{member} begins with {offsets:?} of {name}, whose lock has {holder:?}")
            });
        }
        // Of two who are inside, one has lost the lock, and may not know of it yet.
        let has_lost = |call: &Call| call.member != member && locks.has_lost(queue, call.member);
        let inside = self.order.calls.iter().find(|call| call.queue == queue && !has_lost(call));
        let inside = inside.filter(|call| !is_unaware || call.member == member);
        if let Some(other) = inside.map(|call| call.member) {
            self.breaks(ONE_AT_A_TIME, || {
                format!("{member} begins with {offsets:?} of {name} while {other} is inside")
            });
        }
        self.check_nothing_is_overtaken(start);
        self.order.calls.push(Call { member, id, queue });
    }

    fn check_nothing_is_overtaken(&mut self, start: &Start<'_>) {
        let Start { member, queue, offsets, .. } = *start;
        let low = self.low(queue);
        let is_open = |offset: &i64| {
            let finished = usize::try_from(*offset).ok().and_then(|at| self.queues[queue].finished.get(at));
            finished != Some(&true) && !offsets.contains(offset)
        };
        let last = offsets.last().copied().unwrap_or(low);
        if let Some(open) = (low..last).find(is_open) {
            let name = self.name(queue).clone();
            self.breaks(IN_ORDER, || {
                format!("{member} begins with {offsets:?} of {name}, and {open} is not finished")
            });
        }
    }

    pub(in crate::consumer::sim) fn call_ends(&mut self, id: u64) {
        self.order.calls.retain(|call| call.id != id);
    }

    /// Nothing new of this generation starts.
    pub(in crate::consumer::sim) fn closed(&mut self, id: u64, now: Instant) {
        if let Some(lane) = self.order.lanes.get_mut(&id) {
            lane.closed.get_or_insert(now);
        }
    }

    /// Promise 8: a queue is given back when its listener has ended and its offset is stored, unless the broker did not
    /// take that for so long that others should not wait any more.
    pub(in crate::consumer::sim) fn unlocks(&mut self, unlock: &Unlock) {
        let Unlock { member, queue, given_up, stored, leaving, now } = *unlock;
        self.order.beliefs.remove(&(member, queue));
        let name = self.name(queue).clone();
        if self.order.calls.iter().any(|call| (call.member, call.queue) == (member, queue)) {
            self.break_promise(8, || format!("{member} unlocks {name} while its listener runs"));
        }
        let Some((id, low)) = given_up.filter(|_| !leaving) else { return };
        let (Some(lane), Some(one)) = (self.order.lanes.get(&id), self.generations.get(&id)) else { return };
        let doubted = self.order.doubts.get(&(member, queue)).is_some_and(|at| *at >= lane.begun);
        let reached = self.order.reached.get(&(member, queue)).copied().max(stored);
        let had_time = lane.closed.is_none_or(|at| now - at >= COMMIT_TIME);
        if low > one.start && !doubted && !had_time && !one.sent_elsewhere && reached < Some(low) {
            self.break_promise(8, || {
                format!("{member} unlocks {name}, finished up to {low}, with {stored:?} stored")
            });
        }
    }
}

/// How long a member believes in a lock, from when it asked for it.
const BELIEF: Duration = Duration::from_secs(30);
/// All locks every 20 s; a request has 3 s, and the next try comes 3 s later.
const RENEWED_WITHIN: Duration = Duration::from_secs(27);
/// How long the broker has at least, after the listener has ended.
const COMMIT_TIME: Duration = Duration::from_secs(1);
