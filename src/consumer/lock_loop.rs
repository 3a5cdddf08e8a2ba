//! `rmq-lock`: renews the locks of one consumer's queues, brokers side by side.
//!
//! A thread of its own, since its lateness would lose queues. New queues are locked by `rmq-rebalance`, at once; this
//! thread only keeps what there is. What it finds out and cannot decide, it passes on there.

mod plan;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use self::plan::Plan;
use super::core::Core;
use super::events::Event;
use super::lease::{Asked, Renewal};
use super::outside::{Outside, Request};
use super::process_queue::ProcessQueue;
use super::pull_loop::PullEvent;
use super::rebalance_loop::RebalanceEvent;
use super::rebalance_loop::requests::{lock_batch, locked_queues, master};
use crate::client::panic_text;
use crate::clock::Waiter;
use crate::message::MessageQueue;
use crate::protocol::Frame;
use crate::remoting::{CallError, ReplySink};

/// What the lock thread is told.
pub(crate) enum LockEvent {
    /// The locks of this broker are needed now.
    Renew(Arc<str>),
    /// The answer to a renewal.
    Answer(u64, Result<Frame, CallError>),
    /// The consumer has given all its queues back.
    Stop,
}

/// The loop.
pub(super) fn run(core: &Arc<Core>, waiter: &Waiter, events: &Receiver<LockEvent>, sink: ReplySink) {
    let mut locks = Locks::new(core.clone(), sink);
    loop {
        let event = match waiter.recv_deadline(events, Some(locks.deadline())) {
            Ok(LockEvent::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
        };
        // A panic in here is a bug; it costs this renewal, and the next one comes in time.
        let worked = catch_unwind(AssertUnwindSafe(|| {
            event.into_iter().for_each(|event| locks.handle(event));
            locks.renew_due();
        }));
        if let Err(panic) = worked {
            let text = panic_text(&*panic).to_owned();
            log::error!("rmq-lock panicked and goes on: {text}");
            core.emit(Event::ThreadRestarted { thread: "rmq-lock".into(), panic: text });
            // Its requests are forgotten, but not their numbers: answers to them may still come.
            let next = locks.next;
            locks = Locks { next, ..Locks::new(core.clone(), locks.sink) };
        }
    }
}

/// The renewals of one consumer.
pub(super) struct Locks<S: Outside> {
    core: Arc<S>,
    sink: S::Sink,
    plan: Plan,
    under_way: HashMap<u64, UnderWay>,
    next: u64,
}

/// One request.
struct UnderWay {
    broker: Arc<str>,
    asked: Asked,
    queues: Vec<Arc<ProcessQueue>>,
}

impl<S: Outside> Locks<S> {
    /// Answers to its requests come back through `sink`.
    pub(super) fn new(core: Arc<S>, sink: S::Sink) -> Self {
        let plan = Plan::new(core.now());
        Self { core, sink, plan, under_way: HashMap::new(), next: 0 }
    }

    fn handle(&mut self, event: LockEvent) {
        match event {
            LockEvent::Renew(broker) => self.wish(&broker),
            LockEvent::Answer(tag, answer) => self.answered(tag, || locked_queues(answer)),
            LockEvent::Stop => {}
        }
    }

    /// When [`renew_due`](Self::renew_due) is to be called.
    pub(super) fn deadline(&self) -> Instant {
        self.plan.deadline()
    }

    /// The locks of this broker are needed now.
    pub(super) fn wish(&mut self, broker: &Arc<str>) {
        self.plan.wish(broker, self.core.now());
    }

    /// Asks every broker whose time has come.
    pub(super) fn renew_due(&mut self) {
        let mut held = self.held();
        let now = self.core.now();
        for broker in self.plan.take_due(now, held.keys()) {
            if let Some(queues) = held.remove(&broker) {
                self.renew(broker, queues);
            }
        }
    }

    /// By broker, what this member has or may have the lock of.
    fn held(&self) -> BTreeMap<Arc<str>, Vec<Arc<ProcessQueue>>> {
        let mut held: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for process in self.core.owned() {
            if process.lease().is_some_and(|lease| lease.is_wanted()) {
                let broker = process.queue().shared_broker_name().clone();
                held.entry(broker).or_default().push(process);
            }
        }
        held
    }

    fn renew(&mut self, broker: Arc<str>, queues: Vec<Arc<ProcessQueue>>) {
        let asked = self.core.asking(&broker);
        let address = match master(&*self.core, &broker) {
            Ok(address) => address,
            Err(error) => {
                log::warn!("the locks of {} were not renewed: {error}", self.core.plain_group());
                return self.plan.failed(&broker, asked.at);
            }
        };
        let body = lock_batch(&*self.core, queues.iter().map(|one| one.queue().clone()).collect());
        self.next += 1;
        self.plan.sent(&broker);
        self.under_way.insert(self.next, UnderWay { broker, asked, queues });
        self.core.send(&address, Request::Lock(body), &self.sink, self.next);
    }

    /// The answer to the request with this tag. `read` gives the queues that are ours, if it was a renewal.
    pub(super) fn answered(
        &mut self,
        tag: u64,
        read: impl FnOnce() -> Result<BTreeSet<MessageQueue>, String>,
    ) {
        let Some(UnderWay { broker, asked, queues }) = self.under_way.remove(&tag) else { return };
        let now = self.core.now();
        match read() {
            Err(error) => {
                log::warn!("{broker} did not renew the locks of {}: {error}", self.core.plain_group());
                self.plan.failed(&broker, now);
            }
            Ok(mine) => {
                self.plan.succeeded(&broker);
                for process in queues {
                    if mine.contains(process.queue()) {
                        self.granted(&process, asked, now);
                    } else {
                        // At once: whoever decides what becomes of the queue may be late.
                        process.lose_lease();
                        self.core.post_rebalance(RebalanceEvent::LockRefused(process.id()));
                    }
                }
            }
        }
    }

    fn granted(&mut self, process: &Arc<ProcessQueue>, asked: Asked, now: Instant) {
        let Some((renewal, oldest)) = process.renew_lease(asked, now) else { return };
        if let Some(oldest) = oldest {
            self.core.ready(process, oldest);
            self.core.post_pull(PullEvent::Look(self.core.clone()));
        }
        match renewal {
            Renewal::Extended => {}
            Renewal::Regained { late, doubtful } => {
                let id = process.id();
                self.core.post_rebalance(RebalanceEvent::LockRegained { id, asked, late, doubtful });
            }
            Renewal::Stale if process.lease().is_some_and(|lease| lease.is_wanted()) => {
                self.plan.wish(process.queue().shared_broker_name(), now);
            }
            // It was given up while this was on its way, and may have been locked once more by it.
            Renewal::Stale => {
                let queue = process.queue().clone();
                self.core.post_rebalance(RebalanceEvent::StrayLock(self.core.clone(), queue));
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
