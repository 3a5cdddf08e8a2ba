//! The locks of queues: at a broker, in the thread that renews them, and what goes wrong with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::broker::Reply;
use super::core::{BROKERS, Sink};
use super::ledger::Unlock;
use super::member::{Doing, ForControl, ForRebalance, Outcome};
use super::mutants::Mutant;
use super::net::{Wire, Wired};
use super::world::{Happening, Loop, World};
use crate::client::Notice;
use crate::consumer::outside::Request;
use crate::consumer::rebalance_loop::RebalanceEvent;
use crate::message::MessageQueue;
use crate::protocol::ResponseCode;
use crate::protocol::body::LockBatchRequest;
use crate::protocol::headers::UpdateConsumerOffset;

/// What waits for the thread that renews locks.
pub(super) enum ForLock {
    Renew(Arc<str>),
    Answer(u64, Outcome),
}

/// What a broker says of the locks that a member asked for.
#[derive(Debug, Clone)]
pub(super) struct Granted {
    pub(super) mine: BTreeSet<MessageQueue>,
    pub(super) refused: BTreeSet<MessageQueue>,
    /// When the member asked.
    pub(super) asked: Instant,
}

/// What a broker knows of locks. Queues have their numbers of the ledger.
#[derive(Default)]
pub(super) struct BrokerLocks {
    held: BTreeMap<usize, Hold>,
    /// Who had the lock of a queue, did not give it back, and has not got it again; by queue and member.
    lost: BTreeMap<(usize, usize), Loss>,
    /// Nobody gets a lock until then.
    busy_until: Option<Instant>,
}

struct Hold {
    member: usize,
    renewed: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// The broker has forgotten it.
    Forgotten,
    /// It was not renewed, and another member got it.
    Lapsed,
}

impl BrokerLocks {
    /// Gives the queue to the member, unless another one has it.
    fn lock(&mut self, queue: usize, member: usize, now: Instant) -> bool {
        match self.held.get(&queue) {
            Some(hold) if hold.member != member => {
                if now <= hold.renewed + LIFE {
                    return false;
                }
                self.lost.insert((queue, hold.member), Loss::Lapsed);
            }
            _ => {}
        }
        self.lost.remove(&(queue, member));
        self.held.insert(queue, Hold { member, renewed: now });
        true
    }

    fn unlock(&mut self, queue: usize, member: usize) {
        self.lost.remove(&(queue, member));
        if self.held.get(&queue).is_some_and(|hold| hold.member == member) {
            self.held.remove(&queue);
        }
    }

    pub(super) fn forget(&mut self) {
        for (queue, hold) in std::mem::take(&mut self.held) {
            self.lost.insert((queue, hold.member), Loss::Forgotten);
        }
    }

    pub(super) fn holder(&self, queue: usize, now: Instant) -> Option<usize> {
        self.held.get(&queue).filter(|hold| now <= hold.renewed + LIFE).map(|hold| hold.member)
    }

    /// Whether the member had the lock when the broker forgot it, and has not got it again.
    pub(super) fn has_forgotten(&self, queue: usize, member: usize) -> bool {
        self.lost.get(&(queue, member)) == Some(&Loss::Forgotten)
    }

    /// Whether the member has lost the lock, and did not give it back.
    pub(super) fn has_lost(&self, queue: usize, member: usize) -> bool {
        self.lost.contains_key(&(queue, member))
    }
}

impl World {
    pub(super) fn is_in_order(&self) -> bool {
        self.plan.settings.order.is_some()
    }

    pub(super) fn for_lock(&mut self, number: usize, item: ForLock) {
        if let Some(member) = &mut self.members[number] {
            member.lock.items.push_back(item);
            self.rouse(number, Loop::Lock);
        }
    }

    /// As the real loop, without waiting.
    pub(super) fn run_lock(&mut self, number: usize) {
        while let Some(item) = self.members[number].as_mut().and_then(|one| one.lock.items.pop_front()) {
            if let ForLock::Answer(_, Ok(Reply::Locked(Granted { mine, refused, asked }))) = &item {
                self.ledger.granted(number, mine, *asked);
                self.ledger.refused(number, refused, *asked);
            }
            let mutant = self.mutant;
            self.visit(number, |member| match (&mut member.locks, &item) {
                (Some(locks), ForLock::Renew(broker)) => locks.wish(broker),
                (Some(locks), ForLock::Answer(tag, outcome)) => locks.answered(*tag, || match outcome {
                    Ok(Reply::Locked(granted))
                        if mutant == Some(Mutant::RefusalIgnored) && !granted.refused.is_empty() =>
                    {
                        Err("forgotten".to_owned())
                    }
                    outcome => locked(outcome),
                }),
                (None, _) => {}
            });
        }
        let deadline = self.visit(number, |member| {
            member.locks.as_mut().map(|locks| {
                locks.renew_due();
                locks.deadline()
            })
        });
        let (Some(Some(at)), now) = (deadline, self.now) else { return };
        self.check_renewed(number);
        let Some(member) = &mut self.members[number] else { return };
        if member.lock_due.is_none_or(|due| due <= now || at < due) {
            member.lock_due = Some(at);
            self.at(at.max(now), Happening::Run(number, Loop::Lock));
        }
    }

    /// The thread has just run: whatever this member has the lock of was asked for again in time.
    fn check_renewed(&mut self, number: usize) {
        let Some(member) = &self.members[number] else { return };
        for (id, queue) in &member.owned {
            if queue.lease().is_some_and(|lease| lease.is_wanted()) {
                self.ledger.check_renewed(number, *id, self.now);
            }
        }
    }

    /// 41.
    pub(super) fn lock(&mut self, call: u64, broker: usize, member: usize, body: &LockBatchRequest) -> Reply {
        let now = self.now;
        if self.quiet.is_none() && self.brokers[broker].locks.busy_until.is_some_and(|until| now < until) {
            return Reply::Refused(ResponseCode::SYSTEM_BUSY);
        }
        let locks = &mut self.brokers[broker].locks;
        let all = body.mq_set.iter().cloned();
        let (mine, refused) = all.partition(|queue| locks.lock(self.ledger.number(queue), member, now));
        self.note(|| format!("{} locks for {member}: {mine:?}, and not {refused:?}", BROKERS[broker].0));
        Reply::Locked(Granted { mine, refused, asked: self.calls.get(&call).map_or(now, |wired| wired.sent) })
    }

    /// 42.
    pub(super) fn unlock(&mut self, broker: usize, member: usize, body: &LockBatchRequest) -> Reply {
        for queue in &body.mq_set {
            let place = self.ledger.number(queue);
            self.brokers[broker].locks.unlock(place, member);
        }
        self.note(|| format!("{} unlocks for {member}: {:?}", BROKERS[broker].0, body.mq_set));
        Reply::Done
    }

    /// Looks at a request before it is sent. Whether it is not sent at all.
    pub(super) fn is_about_locks(
        &mut self,
        number: usize,
        broker: usize,
        wire: &Wire,
        sink: Sink,
        tag: u64,
    ) -> bool {
        match wire {
            Wire::Consumer(Request::Lock(_)) if sink == Sink::Locks && self.is(Mutant::LockNotRenewed) => {
                self.comes_to_nothing(number, sink, tag, "forgotten");
                true
            }
            Wire::Consumer(Request::Lock(body)) => {
                self.note(|| format!("{number} asks for the locks of {:?}", body.mq_set));
                self.ledger.asks_for_locks(number, &body.mq_set, self.now);
                false
            }
            Wire::Consumer(Request::Unlock(body)) => {
                self.note(|| format!("{number} unlocks {:?}", body.mq_set));
                body.mq_set.iter().for_each(|queue| self.check_unlock(number, broker, queue));
                false
            }
            Wire::Consumer(Request::Commit(header)) if self.is(Mutant::UnlockedBeforeCommit) => {
                self.commits_later(number, broker, header, sink, tag)
            }
            _ => false,
        }
    }

    /// What makes one about locks late.
    pub(super) fn lock_delay(&mut self, wire: &Wire) -> Duration {
        let is_lock = matches!(wire, Wire::Consumer(Request::Lock(_)));
        if is_lock && self.quiet.is_none() && self.rng.chance(self.plan.slow / 2) {
            return self.rng.millis(100, 5000);
        }
        Duration::ZERO
    }

    fn check_unlock(&mut self, number: usize, broker: usize, queue: &MessageQueue) {
        let Some(member) = &self.members[number] else { return };
        let given_up = member.owned.values().rfind(|owned| owned.queue() == queue && owned.is_closed());
        let at = self.brokers[broker].find(queue.topic(), queue.queue_id());
        let unlock = Unlock {
            member: number,
            queue: self.ledger.number(queue),
            given_up: given_up.map(|process| (process.id(), process.watermark().wire())),
            stored: at.and_then(|at| self.brokers[broker].queues[at].committed),
            leaving: member.leaving.is_some(),
            now: self.now,
        };
        self.ledger.unlocks(&unlock);
    }

    /// A process queue was closed.
    pub(super) fn note_closed(&mut self, number: usize, id: u64) {
        self.ledger.closed(id, self.now);
        let is_busy = self.members[number].as_ref().is_some_and(|member| {
            let with_it = |doing: &Doing| matches!(doing, Doing::InOrder(call) if call.queue.id() == id);
            member.leaving.is_some() && member.workers.iter().any(|worker| with_it(&worker.state))
        });
        if is_busy && self.is(Mutant::UnlockedBeforeListener) {
            self.for_rebalance(number, ForRebalance::Event(RebalanceEvent::Drained(id)));
        }
    }

    /// A mutant: the last commit of a queue that is given up counts before it has arrived.
    fn commits_later(
        &mut self,
        number: usize,
        broker: usize,
        header: &UpdateConsumerOffset,
        sink: Sink,
        tag: u64,
    ) -> bool {
        let Some(member) = self.members[number].as_ref().filter(|member| member.leaving.is_none()) else {
            return false;
        };
        let of = |queue: &MessageQueue| queue.topic() == header.topic && queue.queue_id() == header.queue_id;
        let name = BROKERS[broker].0;
        let newest = member.owned.values().rfind(|one| of(one.queue()) && one.queue().broker_name() == name);
        if !newest.is_some_and(|queue| queue.is_closed()) {
            return false;
        }
        self.next_call += 1;
        let (call, now, port) = (self.next_call, self.now, self.brokers[broker].port);
        let wire = Some(Wire::Consumer(Request::Commit(header.clone())));
        let (awaited, mute) = (false, true);
        self.calls.insert(
            call,
            Wired { member: number, broker, port, link: 0, wire, sink, tag, awaited, mute, sent: now },
        );
        self.later(Duration::from_secs(1), Happening::Arrive(call));
        let soon = Duration::from_millis(1);
        self.later(soon, Happening::Outcome(number, sink, tag, Ok(Reply::Done)));
        true
    }

    /// Locks are not granted, renewals are late, or a broker cannot be reached for so long that locks end.
    pub(super) fn trouble_with_locks(&mut self, number: usize, broker: usize) {
        if !self.is_in_order() {
            return;
        }
        let name = BROKERS[broker].0;
        let until = self.now + self.rng.millis(500, 75_000);
        match self.rng.below(if self.plan.forgets_locks { 7 } else { 4 }) {
            0 => {
                self.note(|| format!("{name} grants no locks"));
                self.brokers[broker].locks.busy_until = Some(until);
            }
            1 => {
                self.note(|| format!("{number} does not come to renew its locks"));
                if let Some(member) = &mut self.members[number] {
                    member.lock.stalled = Some(until);
                }
            }
            2 => {
                self.cut(number, broker);
                if let Some(member) = &mut self.members[number] {
                    member.links[broker].down_until = until;
                }
            }
            3 => {
                self.restart(broker, false);
                self.brokers[broker].down_until = until;
            }
            _ => self.forget_locks(number, broker),
        }
    }

    /// A broker forgets its locks, as when an operator restarts their management, or another server takes its place
    /// behind a proxy: no connection ends, and who had a lock hears of it with its next renewal.
    fn forget_locks(&mut self, number: usize, broker: usize) {
        self.note(|| format!("{} forgets its locks, and tells nobody", BROKERS[broker].0));
        self.brokers[broker].locks.forget();
        match self.rng.below(3) {
            // Somebody may want what another one believes to have.
            0 if self.live().len() < self.plan.most_members => self.join(),
            1 => self.for_control(number, ForControl::Tell(Notice::ConsumerIdsChanged)),
            _ => {}
        }
        if self.rng.chance(500) {
            // Who has it does not hear in time that others want it.
            let until = self.now + self.rng.millis(100, 8000);
            if let Some(member) = &mut self.members[number] {
                member.rebalance.stalled = Some(until);
            }
        }
    }
}

/// The queues that are the member's, as the real loops read the answer.
pub(super) fn locked(outcome: &Outcome) -> Result<BTreeSet<MessageQueue>, String> {
    match outcome {
        Ok(Reply::Locked(granted)) => Ok(granted.mine.clone()),
        other => Err(format!("{other:?}")),
    }
}

/// How long a broker keeps a lock that is not renewed.
const LIFE: Duration = Duration::from_secs(60);
