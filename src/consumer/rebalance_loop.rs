//! `rmq-rebalance`: the only thread that changes assignments.
//!
//! An event loop over one `Assignment` for each queue. It never waits for a broker, a listener or a lock: requests
//! are answered by events, and so does everything else that takes time. It also sends all commits, since an
//! assignment must know of each of its own.

mod group;
mod requests;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::core::Core;
use super::events::Event;
use super::fetch::Correction;
use super::offset::Offset;
use crate::client::{Instance, Notice, ShutdownReport, panic_text};
use crate::clock::Waiter;
use crate::message::MessageQueue;
use crate::protocol::Frame;
use crate::remoting::{CallError, ReplySink};

use group::Group;
use requests::Requests;

/// What the rebalance thread is told.
pub(crate) enum RebalanceEvent {
    /// A consumer begins. `ready` hears when its first assignment has its start positions.
    Start { core: Arc<Core>, ready: Sender<()> },
    /// From the client, for one consumer.
    Notice(Arc<Core>, Notice),
    /// Topics were subscribed or unsubscribed.
    Subscribed(Arc<Core>),
    /// A closed process queue has nothing running any more.
    Drained(u64),
    /// Everything that was fetched of it is finished.
    Idle(u64),
    /// A bug was met while working for it.
    Rebuild(u64),
    /// The broker has answered that the offset asked for is not the one to go on with.
    Corrected { id: u64, from: Offset, correction: Correction },
    /// An operator has set the offsets of a topic.
    Reset { core: Arc<Core>, offsets: Vec<(MessageQueue, Offset)> },
    /// The answer to a request of this loop.
    Answer(u64, Result<Frame, CallError>),
    /// A consumer ends: listeners have until `listeners`, everything else until `end`. `done` gets the report.
    Shutdown { core: Arc<Core>, listeners: Instant, end: Instant, done: Sender<ShutdownReport> },
    /// The last consumer of the client is gone.
    Stop,
}

/// The loop.
pub(super) struct RebalanceLoop {
    events: Receiver<RebalanceEvent>,
    waiter: Waiter,
    groups: HashMap<Arc<str>, Group>,
    requests: Requests,
}

impl RebalanceLoop {
    /// Answers to its requests come back through `sink`.
    pub(super) fn new(instance: Arc<Instance>, events: Receiver<RebalanceEvent>, sink: ReplySink) -> Self {
        let waiter = instance.clock().waiter();
        Self { events, waiter, groups: HashMap::new(), requests: Requests::new(instance, sink) }
    }

    /// Runs until told to stop.
    pub(super) fn run(mut self) {
        loop {
            let deadline = self.groups.values().map(Group::deadline).min();
            match self.waiter.recv_deadline(&self.events, deadline) {
                Ok(RebalanceEvent::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(event) => {
                    self.guarded(|this| this.handle(event));
                    // Many wake-ups become one round: all of them are taken in before anything is due.
                    for event in self.events.clone().try_iter().take(DRAIN) {
                        if matches!(event, RebalanceEvent::Stop) {
                            return;
                        }
                        self.guarded(|this| this.handle(event));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.guarded(Self::due);
        }
    }

    /// A panic in here is a bug; what the event was about is left as it was, and the next round looks at it again.
    fn guarded(&mut self, work: impl FnOnce(&mut Self)) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(self))) {
            let text = panic_text(&*panic).to_owned();
            log::error!("rmq-rebalance panicked and goes on: {text}");
            for group in self.groups.values_mut() {
                group
                    .core()
                    .emit(Event::ThreadRestarted { thread: "rmq-rebalance".into(), panic: text.clone() });
                group.unsettled();
            }
        }
    }

    fn handle(&mut self, event: RebalanceEvent) {
        match event {
            RebalanceEvent::Start { core, ready } => {
                let group = Group::new(core.clone(), ready);
                self.groups.insert(core.group.clone(), group);
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
            RebalanceEvent::Reset { core, offsets } => {
                self.with(&core, |group, requests| group.reset(offsets, requests));
            }
            RebalanceEvent::Answer(tag, answer) => {
                let Some((name, request)) = self.requests.take(tag) else { return };
                if let Some(group) = self.groups.get_mut(&name) {
                    group.answered(request, answer, &mut self.requests);
                }
            }
            RebalanceEvent::Shutdown { core, listeners, end, done } => {
                self.with(&core, |group, requests| group.shutdown(listeners, end, done, requests));
            }
            RebalanceEvent::Stop => {}
        }
    }

    fn due(&mut self) {
        for group in self.groups.values_mut() {
            group.due(&mut self.requests);
        }
        self.groups.retain(|_, group| !group.is_over());
    }

    fn with(&mut self, core: &Arc<Core>, work: impl FnOnce(&mut Group, &mut Requests)) {
        if let Some(group) = self.groups.get_mut(&core.group)
            && Arc::ptr_eq(group.core(), core)
        {
            work(group, &mut self.requests);
        }
    }

    /// An event of an older generation finds nobody.
    fn with_queue(&mut self, id: u64, work: impl FnOnce(&mut Group, u64, &mut Requests)) {
        if let Some(group) = self.groups.values_mut().find(|group| group.has(id)) {
            work(group, id, &mut self.requests);
        }
    }
}

const DRAIN: usize = 64;
