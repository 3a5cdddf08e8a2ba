//! The locks of one consumer's queues: asking for them, giving them back, and what renewals bring.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Instant;

use super::group::Group;
use super::requests::{Answer, Request, Requests};
use crate::consumer::assignment::{FAR, LATE};
use crate::consumer::lease::Asked;
use crate::consumer::outside::Outside;
use crate::consumer::pull_loop::PullEvent;
use crate::message::MessageQueue;

/// Queues by broker, each with its epoch: one request for all of a broker.
type ByBroker = BTreeMap<Arc<str>, Vec<(MessageQueue, u64)>>;

/// What is to be asked of brokers at the end of this round.
#[derive(Default)]
pub(super) struct LockWishes {
    lock: ByBroker,
    unlock: ByBroker,
}

impl LockWishes {
    pub(super) fn lock(&mut self, queue: &MessageQueue, epoch: u64) {
        add(&mut self.lock, queue, epoch);
    }

    pub(super) fn unlock(&mut self, queue: &MessageQueue, epoch: u64) {
        add(&mut self.unlock, queue, epoch);
    }
}

fn add(to: &mut ByBroker, queue: &MessageQueue, epoch: u64) {
    match to.entry(queue.shared_broker_name().clone()) {
        Entry::Occupied(mut entry) => entry.get_mut().push((queue.clone(), epoch)),
        Entry::Vacant(entry) => drop(entry.insert(vec![(queue.clone(), epoch)])),
    }
}

impl<S: Outside> Group<S> {
    /// Asks all brokers for what was wished for since the last time, side by side.
    pub(super) fn send_lock_wishes(&mut self, requests: &mut Requests<S>) {
        // What could not be asked wishes again later, not now.
        let LockWishes { lock, unlock } = std::mem::take(&mut self.lock_wishes);
        for (broker, queues) in unlock {
            match requests.unlock(&self.core, &broker, queues.clone()) {
                Ok(()) => self.unlocks.sent(&queues, self.core.now()),
                Err(error) => {
                    log::debug!("{broker} was not told that its locks are free: {error}");
                    self.unlocked(queues, requests);
                }
            }
        }
        for (broker, mut queues) in lock {
            self.put_off_unlocking(&mut queues);
            if queues.is_empty() {
                continue;
            }
            if let Err(error) = requests.lock(&self.core, &broker, queues.clone()) {
                self.core.want_route(queues.first().map_or("", |(queue, _)| queue.topic()));
                let asked = self.core.asking(&broker);
                self.locked(queues, &Err(error), asked, requests);
            }
        }
    }

    /// The answer to one of those requests.
    pub(super) fn lock_answered(&mut self, request: Request, answer: Answer, requests: &mut Requests<S>) {
        match (request, answer) {
            (Request::Lock { queues, asked }, Answer::Locked(answer)) => {
                let answer = answer.inspect_err(|error| {
                    log::warn!("{} could not lock queues: {error}", self.core.plain_group());
                });
                let granted = answer.map(|mine| {
                    queues
                        .iter()
                        .map(|(queue, _)| queue)
                        .filter(|queue| mine.contains(queue))
                        .cloned()
                        .collect()
                });
                self.locked(queues, &granted, asked, requests);
            }
            (Request::Unlock { queues }, Answer::Unlocked(answer)) => {
                match answer {
                    Ok(()) => self.unlocks.handled(&queues),
                    Err(error) => {
                        log::debug!("{} may not have unlocked its queues: {error}", self.core.plain_group());
                    }
                }
                self.lock_what_waited(&queues);
                self.unlocked(queues, requests);
            }
            (request, answer) => log::error!("{answer:?} does not answer {request:?}"),
        }
    }

    /// A renewal was refused.
    pub(super) fn lock_refused(&mut self, id: u64, requests: &mut Requests<S>) {
        let Some(queue) = self.queue_of(id) else { return };
        log::warn!("{} has lost the lock of {queue} to another member", self.core.plain_group());
        self.drive(&queue, requests, |assignment, now, _| assignment.lock_refused(now + FAR));
    }

    /// Whether no connection was lost since a renewal was asked for. If one was, the renewal proves nothing, and another
    /// one is asked for.
    pub(super) fn is_as_of_now(&self, id: u64, asked: Asked) -> bool {
        let Some(queue) = self.queue_of(id) else { return false };
        let lease = self.queues.get(&queue).and_then(|owned| owned.process.as_ref()?.lease());
        let is_as_of_now = lease.is_some_and(|lease| lease.is_as_of_now(&asked));
        if !is_as_of_now {
            self.core.renew_locks(queue.shared_broker_name());
        }
        is_as_of_now
    }

    /// A renewal was granted after the lock had run out, or was in doubt.
    pub(super) fn lock_regained(
        &mut self,
        id: u64,
        asked: Asked,
        late: bool,
        doubtful: bool,
        requests: &mut Requests<S>,
    ) {
        let Some(queue) = self.queue_of(id) else { return };
        if late {
            log::warn!("the lock of {queue} was not renewed in time, others may have had it");
        }
        self.drive(&queue, requests, |assignment, now, watermark| {
            assignment.lock_regained(asked, late, doubtful, now + FAR, watermark)
        });
    }

    /// A renewal was granted after the lock had been given up. Unless the queue has a new life here, which needs it, it
    /// would keep others from the queue.
    pub(super) fn stray_lock(&mut self, queue: &MessageQueue) {
        if self.queues.get(queue).is_none_or(|owned| owned.assignment.is_unlocking()) {
            self.lock_wishes.unlock(queue, NO_LIFE);
        }
    }

    /// Whether queues are consumed only with their brokers' locks.
    pub(super) fn needs_locks(&self) -> bool {
        self.core.settings().order.as_ref().is_some_and(|order| order.locks)
    }

    /// The lock is certain again, as of then.
    pub(super) fn extend_lock(&mut self, queue: &MessageQueue, asked: Asked) {
        let Some(process) = self.queues.get(queue).and_then(|owned| owned.process.clone()) else { return };
        log::debug!("{queue} is locked for certain again");
        if let Some(oldest) = process.extend_lease(asked) {
            self.core.ready(&process, oldest);
            self.core.post_pull(PullEvent::Look(self.core.clone()));
        }
    }

    /// Leaves what can be locked at once. The others wait for the answer to an unlock: handled after the lock, it would
    /// give away what is believed to be ours.
    fn put_off_unlocking(&mut self, queues: &mut Vec<(MessageQueue, u64)>) {
        let now = self.core.now();
        queues.retain(|(queue, epoch)| {
            let Some(until) = self.unlocks.until(queue, now) else { return true };
            if let Some(owned) = self.queues.get_mut(queue).filter(|owned| owned.epoch == *epoch) {
                owned.assignment.lock_later(until);
            }
            false
        });
    }

    /// An unlock of these has an answer.
    fn lock_what_waited(&mut self, queues: &[(MessageQueue, u64)]) {
        let now = self.core.now();
        for (queue, _) in queues {
            if self.unlocks.until(queue, now).is_none()
                && let Some(owned) = self.queues.get_mut(queue)
            {
                owned.assignment.lock_now(now);
            }
        }
    }

    fn locked(
        &mut self,
        queues: Vec<(MessageQueue, u64)>,
        granted: &Result<std::collections::BTreeSet<MessageQueue>, String>,
        asked: Asked,
        requests: &mut Requests<S>,
    ) {
        for (queue, epoch) in queues {
            let answer = granted.as_ref().map(|mine| mine.contains(&queue)).map_err(Clone::clone);
            if !self.queues.contains_key(&queue) && answer == Ok(true) {
                // Given up before the answer came. Its unlock may have been handled before its lock.
                self.lock_wishes.unlock(&queue, epoch);
            } else if self.is_current(&queue, epoch) {
                let jitter = self.core.jitter();
                self.drive(&queue, requests, |assignment, now, _| {
                    assignment.locked(answer, asked, jitter, now)
                });
            }
        }
    }

    fn unlocked(&mut self, queues: Vec<(MessageQueue, u64)>, requests: &mut Requests<S>) {
        for (queue, epoch) in queues {
            if self.is_current(&queue, epoch) {
                self.drive(&queue, requests, |assignment, _, _| assignment.unlocked());
            }
        }
    }
}

/// Unlocks that a broker may still have to handle.
#[derive(Default)]
pub(super) struct Unlocks(BTreeMap<MessageQueue, (usize, Instant)>);

impl Unlocks {
    fn sent(&mut self, queues: &[(MessageQueue, u64)], now: Instant) {
        self.0.retain(|_, (_, until)| *until > now);
        for (queue, _) in queues {
            let (count, until) = self.0.entry(queue.clone()).or_insert((0, now));
            (*count, *until) = (*count + 1, now + LATE);
        }
    }

    fn handled(&mut self, queues: &[(MessageQueue, u64)]) {
        for (queue, _) in queues {
            if let Entry::Occupied(mut entry) = self.0.entry(queue.clone()) {
                entry.get_mut().0 -= 1;
                if entry.get().0 == 0 {
                    entry.remove();
                }
            }
        }
    }

    /// How long an unlock of this queue may still be handled.
    fn until(&self, queue: &MessageQueue, now: Instant) -> Option<Instant> {
        self.0.get(queue).map(|(_, until)| *until).filter(|until| *until > now)
    }
}

/// The answer to an unlock of a queue that is not there any more changes nothing.
pub(super) const NO_LIFE: u64 = 0;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_unlock_without_answer_counts_as_long_as_it_may_be_handled() {
        let queues = [(MessageQueue::new("orders", "a", 0), 7)];
        let (queue, now) = (&queues[0].0, Instant::now());
        let mut out = Unlocks::default();
        assert_eq!(out.until(queue, now), None);
        out.sent(&queues, now);
        assert_eq!(out.until(queue, now), Some(now + LATE));
        out.sent(&queues, now);
        out.handled(&queues);
        assert_eq!(out.until(queue, now), Some(now + LATE), "the second one has no answer yet");
        out.handled(&queues);
        assert_eq!(out.until(queue, now), None);
        out.handled(&queues);
        out.sent(&queues, now);
        assert_eq!(out.until(queue, now + LATE), None);
        out.sent(&[], now + LATE);
        assert!(out.0.is_empty(), "nothing is kept for ever");
    }
}
