//! What an assignment says is to be done, and how it is done.

use std::sync::Arc;
use std::time::Instant;

use super::super::requests::Requests;
use super::{Ending, Group};
use crate::consumer::assignment::{Action, Ask, Assignment};
use crate::consumer::events::Event;
use crate::consumer::lease::Lease;
use crate::consumer::offset::Offset;
use crate::consumer::outside::Outside;
use crate::consumer::process_queue::{Limits, ProcessQueue};
use crate::consumer::pull_consumer::Standing;
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::rebalance_loop::RebalanceEvent;
use crate::consumer::stats::{StartReason, Waiting};
use crate::message::MessageQueue;

impl<S: Outside> Group<S> {
    /// Tells one assignment something, and carries out what it says.
    pub(in super::super) fn drive(
        &mut self,
        queue: &MessageQueue,
        requests: &mut Requests<S>,
        tell: impl FnOnce(&mut Assignment, Instant, Offset) -> Vec<Action>,
    ) {
        let now = self.core.now();
        let Some(owned) = self.queues.get_mut(queue) else { return };
        let watermark = owned.process.as_ref().map_or(Offset::ZERO, |process| process.committable());
        let was_locking = owned.assignment.is_locking();
        let actions = tell(&mut owned.assignment, now, watermark);
        if was_locking != owned.assignment.is_locking()
            && let Some(owned) = self.queues.get(queue)
        {
            self.tell_waiting(queue, &owned.assignment);
        }
        self.perform(queue, actions, requests);
    }

    pub(super) fn perform(&mut self, queue: &MessageQueue, actions: Vec<Action>, requests: &mut Requests<S>) {
        for action in actions {
            let Some(epoch) = self.queues.get(queue).map(|owned| owned.epoch) else { return };
            match action {
                Action::Ask(ask) => {
                    if let Err(error) = requests.ask(&self.core, queue, epoch, ask) {
                        requests.failure = None;
                        self.not_found(queue, &error, requests);
                        self.drive(queue, requests, |assignment, now, _| match ask {
                            Ask::Stored => assignment.stored(Err(error), now),
                            _ => assignment.resolved(Err(error), now),
                        });
                    }
                }
                Action::Commit(offset) => {
                    if let Err(error) = requests.commit(&self.core, queue, epoch, offset) {
                        requests.failure = None;
                        self.committed(queue, Err(error), requests);
                    }
                }
                Action::Activate { start, reason } => self.activate(queue, start, reason),
                Action::Close => self.close(queue, requests),
                Action::Renew => self.renew(queue),
                Action::Lock => self.lock_wishes.lock(queue, epoch),
                Action::Unlock => {
                    self.forfeit(queue);
                    self.lock_wishes.unlock(queue, epoch);
                }
                Action::Extend(asked) => self.extend_lock(queue, asked),
                Action::Forfeit => self.forfeit(queue),
                Action::LetGo => self.let_go(queue),
                Action::Release { committed, failed } => self.release(queue, committed, failed),
            }
        }
    }

    /// Only now that the former process queue is closed, it is certain what the program has got of it.
    fn renew(&mut self, queue: &MessageQueue) {
        let process = self.queues.get(queue).and_then(|owned| owned.process.as_ref());
        if let Some(position) = process.and_then(|process| process.polled_position()) {
            self.activate(queue, position, StartReason::Rebuilt);
        }
    }

    fn activate(&mut self, queue: &MessageQueue, start: Offset, reason: StartReason) {
        let former = self.queues.get(queue).and_then(|owned| owned.process.clone());
        // Of the generation before, it may have been renewed since it was granted.
        let lease = former.as_ref().and_then(|process| process.lease());
        let lease = lease.or_else(|| self.granted(queue, &self.queues.get(queue)?.assignment));
        let doubtful = lease.as_ref().is_some_and(Lease::is_doubtful);
        let lost = lease.as_ref().is_some_and(|lease| !lease.is_wanted());
        self.let_go(queue);
        let settings = self.core.settings();
        let in_order = settings.order.is_some();
        let limits = Limits {
            messages: settings.pull_threshold_messages,
            bytes: settings.pull_threshold_bytes,
            // In order, nothing is delivered behind an unfinished message.
            span: if in_order { usize::MAX } else { settings.max_span },
        };
        let process = ProcessQueue::new(queue.clone(), start, limits, self.core.budget().clone());
        let process = match self.core.polled() {
            Some(auto) => match &former {
                Some(former) if !auto && reason == StartReason::Rebuilt => process.instead_of(former),
                Some(former) if !auto && reason == StartReason::Corrected => process.corrected_from(former),
                _ => process.polled(auto),
            },
            None if in_order => process.in_order(lease),
            None => process,
        };
        let process = Arc::new(process);
        self.core.wait_for_start(queue, None);
        self.core.note(queue, Standing::Found);
        let Some(owned) = self.queues.get_mut(queue) else { return };
        if let Some(acked) = owned.assignment.acked() {
            process.facts.set_committed(acked);
        }
        owned.process = Some(process.clone());
        if reason != StartReason::Rebuilt || self.core.polled() != Some(false) {
            owned.by_hand.leave();
            owned.line = process.id();
        }
        self.generations.insert(process.id(), queue.clone());
        let why = reason.explain(start.wire());
        log::info!("{} consumes {queue} from offset {start}: {why}", self.core.plain_group());
        self.core.own(&process);
        if doubtful {
            self.core.renew_locks(queue.shared_broker_name());
        }
        if lost {
            // What was posted of it is about the generation before, which nobody knows any more.
            self.core.post_rebalance(RebalanceEvent::LockRefused(process.id()));
        }
        self.core.post_pull(PullEvent::Attach(self.core.clone(), process));
        self.core.emit(Event::Assigned { queue: queue.clone(), offset: start.wire(), reason });
    }

    fn close(&mut self, queue: &MessageQueue, requests: &mut Requests<S>) {
        let Some(process) = self.queues.get(queue).and_then(|owned| owned.process.clone()) else { return };
        let (settled, not_used_up) = process.close();
        self.core.went(not_used_up);
        process.facts.set_waiting(Some(Waiting::Revoking), self.core.now());
        self.core.post_pull(PullEvent::Detach(process.id()));
        // A program that commits itself gets the time that listeners get.
        let waits = self.is_leaving(queue) && self.may_be_lost(&process);
        if settled.drained && !waits {
            self.drive(queue, requests, |assignment, now, watermark| assignment.drained(now, watermark));
        }
    }

    /// The lock is another member's from now on, or about to be.
    fn forfeit(&self, queue: &MessageQueue) {
        if let Some(process) = self.queues.get(queue).and_then(|owned| owned.process.as_ref()) {
            process.lose_lease();
        }
    }

    /// Why there is no process queue yet.
    pub(super) fn tell_waiting(&self, queue: &MessageQueue, assignment: &Assignment) {
        let waiting = if assignment.is_locking() { Waiting::NoLock } else { Waiting::Resolving };
        self.core.wait_for_start(queue, Some(waiting));
    }

    fn release(&mut self, queue: &MessageQueue, committed: Option<Offset>, failed: Option<String>) {
        let process = self.queues.get(queue).and_then(|owned| owned.process.clone());
        let lost = process.as_ref().is_some_and(|process| self.may_be_lost(process));
        let left = process.map(|process| process.left()).unwrap_or_default();
        self.let_go(queue);
        self.core.wait_for_start(queue, None);
        if let Some(owned) = self.queues.remove(queue) {
            owned.by_hand.end(committed);
        }
        self.core.note(queue, Standing::Gone { lost });
        let committed = committed.map(Offset::wire);
        let abandoned = left.running.len();
        log::info!("{} gives up {queue}, committed {committed:?}", self.core.plain_group());
        if let Some(failed) = &failed {
            log::warn!("the last offset of {queue} was not confirmed: {failed}");
        }
        match &mut self.ending {
            None => self.wake(),
            Some(Ending { report, .. }) => {
                report.released += left.untouched;
                let running = left.running.iter().map(|offset| (queue.clone(), offset.wire()));
                report.abandoned.extend(running);
                report.committed.extend(committed.map(|offset| (queue.clone(), offset)));
                let repeated = (abandoned == 0 && left.repeated > 0).then(|| {
                    format!(
                        "{} finished messages wait for their retry, or follow one that does",
                        left.repeated
                    )
                });
                report.uncommitted.extend(failed.or(repeated).map(|why| (queue.clone(), why)));
            }
        }
        self.core.emit(Event::Revoked { queue: queue.clone(), committed, abandoned });
    }

    /// The present process queue of this queue, if any, is history.
    fn let_go(&mut self, queue: &MessageQueue) {
        if let Some(process) = self.queues.get_mut(queue).and_then(|owned| owned.process.take()) {
            self.generations.remove(&process.id());
            self.core.post_pull(PullEvent::Detach(process.id()));
            self.core.disown(&process);
            process.clear();
        }
    }

    /// The lock that was granted to a queue of which nothing has been consumed yet.
    fn granted(&self, queue: &MessageQueue, assignment: &Assignment) -> Option<Lease> {
        let asked = assignment.lock_asked()?;
        Some(Lease::new(asked, self.core.losses(queue.shared_broker_name())))
    }
}
