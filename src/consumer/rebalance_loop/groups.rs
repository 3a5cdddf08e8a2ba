//! All consumers of a client in the hands of `rmq-rebalance`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::RebalanceEvent;
use super::group::Group;
use super::requests::{Answer, Requests};
use crate::consumer::events::Event;
use crate::consumer::failure::Failure;
use crate::consumer::outside::Outside;
use crate::error::ErrorKind;

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
                    group.lock_regained(id, asked, late, doubtful, requests);
                });
            }
            RebalanceEvent::StrayLock(core, queue) => self.with(&core, |group, _| group.stray_lock(&queue)),
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
