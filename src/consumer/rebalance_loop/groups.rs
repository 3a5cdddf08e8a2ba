//! All consumers of a client in the hands of `rmq-rebalance`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::RebalanceEvent;
use super::group::Group;
use super::locks::NO_LIFE;
use super::requests::{Answer, Requests};
use crate::consumer::events::Event;
use crate::consumer::failure::Failure;
use crate::consumer::outside::Outside;
use crate::error::ErrorKind;
use crate::message::MessageQueue;

/// The state machines of all queues of all consumers.
pub(in crate::consumer) struct Groups<S: Outside> {
    groups: HashMap<Arc<str>, Group<S>>,
    requests: Requests<S>,
}

impl<S: Outside> Groups<S> {
    /// Answers to requests come back through `sink`.
    pub(in crate::consumer) fn new(sink: S::Sink) -> Self {
        Self { groups: HashMap::new(), requests: Requests::new(sink) }
    }

    /// When [`due`](Self::due) must be called.
    pub(in crate::consumer) fn deadline(&self) -> Option<Instant> {
        self.groups.values().map(Group::deadline).min()
    }

    /// Takes in one event.
    pub(in crate::consumer) fn handle(&mut self, event: RebalanceEvent<S>) {
        match event {
            RebalanceEvent::Start { core, ready } => {
                let group = Group::new(core.clone(), ready);
                self.groups.insert(core.group().clone(), group);
            }
            RebalanceEvent::Notice(core, notice) => {
                self.with(&core, |group, requests| group.noticed(notice, requests));
            }
            RebalanceEvent::Subscribed(core) => self.with(&core, |group, _| group.wake()),
            RebalanceEvent::Drained(id) => self.with_queue(id, Group::drained),
            RebalanceEvent::Idle(id) => self.with_queue(id, Group::idle),
            RebalanceEvent::Rebuild(id) => self.with_queue(id, Group::rebuild),
            RebalanceEvent::Corrected { id, from, correction } => {
                self.with_queue(id, |group, id, requests| group.corrected(id, from, correction, requests));
            }
            RebalanceEvent::LockRefused(id) => self.with_queue(id, Group::lock_refused),
            RebalanceEvent::LockRegained { id, asked, late, doubtful } => {
                self.with_queue(id, |group, id, requests| {
                    if group.is_as_of_now(id, asked) {
                        group.lock_regained(id, asked, late, doubtful, requests);
                    }
                });
            }
            RebalanceEvent::StrayLock(core, queue) => self.stray_lock(&core, &queue),
            RebalanceEvent::TopicDropped { core, topic, broker } => {
                self.with(&core, |group, _| group.topic_dropped(&topic, &broker));
            }
            RebalanceEvent::Reset { core, offsets } => {
                self.with(&core, |group, requests| group.reset(offsets, requests));
            }
            RebalanceEvent::Polled(core, wish) => {
                self.with(&core, |group, requests| group.polled(wish, requests));
            }
            RebalanceEvent::Answer(tag, answer) => {
                self.requests.failure = Failure::of(&answer);
                self.answered(tag, |request| Answer::read(request, answer));
            }
            RebalanceEvent::LocalOffset(tag, stored) => {
                self.answered(tag, |_| Answer::Stored(Ok(stored)));
            }
            RebalanceEvent::LocalCommit(tag, committed) => {
                let failed = committed.as_ref().err();
                self.requests.failure = failed.map(|error| Failure::new(ErrorKind::Io, error));
                self.answered(tag, |_| Answer::Committed(committed));
            }
            RebalanceEvent::Shutdown { core, listeners, end, done } => {
                self.with(&core, |group, requests| group.shutdown(listeners, end, done, requests));
            }
            RebalanceEvent::Stop => {}
        }
    }

    /// The answer to the request with this tag, to be read when it is known what was asked.
    pub(in crate::consumer) fn answered(
        &mut self,
        tag: u64,
        read: impl FnOnce(&super::requests::Request) -> Answer,
    ) {
        let Some((name, request)) = self.requests.take(tag) else { return };
        if let Some(group) = self.groups.get_mut(&name) {
            let answer = read(&request);
            group.answered(request, answer, &mut self.requests);
        }
    }

    /// Does what has become due.
    pub(in crate::consumer) fn due(&mut self) {
        for group in self.groups.values_mut() {
            group.due(&mut self.requests);
        }
        self.groups.retain(|_, group| !group.is_over());
    }

    /// Something panicked: the next round looks at everything again.
    pub(super) fn panicked(&mut self, panic: &str) {
        for group in self.groups.values_mut() {
            let event = Event::ThreadRestarted { thread: "rmq-rebalance".into(), panic: panic.to_owned() };
            group.core().emit(event);
            group.unsettled();
        }
    }

    /// If the consumer has ended, nobody else gives the lock back; a new one of the group on this client may need it.
    fn stray_lock(&mut self, core: &Arc<S>, queue: &MessageQueue) {
        if let Some(group) = self.groups.get_mut(core.group()) {
            return group.stray_lock(queue);
        }
        if let Err(error) = self.requests.unlock(core, queue.broker_name(), vec![(queue.clone(), NO_LIFE)]) {
            log::debug!("{} was not told that {queue} is free: {error}", queue.broker_name());
        }
    }

    fn with(&mut self, core: &Arc<S>, work: impl FnOnce(&mut Group<S>, &mut Requests<S>)) {
        if let Some(group) = self.groups.get_mut(core.group())
            && Arc::ptr_eq(group.core(), core)
        {
            work(group, &mut self.requests);
        }
    }

    /// An event of an older generation finds nobody.
    fn with_queue(&mut self, id: u64, work: impl FnOnce(&mut Group<S>, u64, &mut Requests<S>)) {
        if let Some(group) = self.groups.values_mut().find(|group| group.has(id)) {
            work(group, id, &mut self.requests);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::requests::Answer;
    use super::*;
    use crate::consumer::outside::stub::Stub;

    #[test]
    fn a_lock_that_a_late_renewal_has_taken_goes_back_unless_the_queue_is_wanted_again() {
        let core = Stub::in_order();
        let mut groups = Groups::<Stub>::new(());
        let queue = MessageQueue::new("orders", "broker-a", 0);
        let stray = || RebalanceEvent::StrayLock(core.clone(), queue.clone());
        groups.handle(stray());
        assert_eq!(core.unlocks(), 1, "the consumer has ended");

        let (ready, _is_ready) = crossbeam_channel::bounded(1);
        groups.handle(RebalanceEvent::Start { core: core.clone(), ready });
        groups.due();
        let asked = core.take_sent();
        asked
            .into_iter()
            .for_each(|tag| groups.answered(tag, |_| Answer::Members(Ok(vec![core.client_id().into()]))));
        groups.due();
        assert_eq!(core.take_sent().len(), 1, "its lock is asked for");
        groups.handle(stray());
        groups.due();
        assert_eq!(core.unlocks(), 1, "it is wanted again");
    }
}
