//! `rmq-rebalance`: the only thread that changes assignments.
//!
//! An event loop over one `Assignment` for each queue. It never waits for a broker, a listener or a lock: requests
//! are answered by events, and so does everything else that takes time. It also sends all commits, since an
//! assignment must know of each of its own.

mod group;
mod groups;
mod locks;
mod polled;
pub(super) mod requests;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::core::Core;
use super::fetch::Correction;
use super::lease::Asked;
use super::offset::Offset;
use crate::client::{Notice, ShutdownReport, panic_text};
use crate::clock::Waiter;
use crate::message::MessageQueue;
use crate::protocol::Frame;
use crate::remoting::{CallError, ReplySink};

pub(super) use groups::Groups;
pub(super) use polled::{Committed, Wish};
#[cfg(all(test, not(loom)))]
pub(super) use requests::{Answer, Request};
pub(super) use requests::{offset_in, question};

/// What the rebalance thread is told.
pub(crate) enum RebalanceEvent<S = Core> {
    /// A consumer begins. `ready` hears when its first assignment has its start positions.
    Start { core: Arc<S>, ready: Sender<()> },
    /// From the client, for one consumer.
    Notice(Arc<S>, Notice),
    /// Topics were subscribed or unsubscribed.
    Subscribed(Arc<S>),
    /// A closed process queue has nothing running any more.
    Drained(u64),
    /// Everything that was fetched of it is finished.
    Idle(u64),
    /// A bug was met while working for it.
    Rebuild(u64),
    /// The broker has answered that the offset asked for is not the one to go on with.
    Corrected { id: u64, from: Offset, correction: Correction },
    /// The broker has not renewed the lock: another member has it.
    LockRefused(u64),
    /// The broker has renewed the lock that was asked for then, after this member had stopped believing in it.
    LockRegained { id: u64, asked: Asked, late: bool, doubtful: bool },
    /// The broker has renewed a lock that this member had given up meanwhile.
    StrayLock(Arc<S>, MessageQueue),
    /// A broker that had been told of the subscription of this topic has it no more.
    TopicDropped { core: Arc<S>, topic: Arc<str>, broker: Arc<str> },
    /// An operator has set the offsets of a topic.
    Reset { core: Arc<S>, offsets: Vec<(MessageQueue, Offset)> },
    /// From the program, for a consumer whose messages are polled.
    Polled(Arc<S>, Wish),
    /// The answer to a request of this loop.
    Answer(u64, Result<Frame, CallError>),
    /// What the local store has for the queue that was asked for with this tag.
    LocalOffset(u64, Option<Offset>),
    /// The commit with this tag is in the local store, or could not be put there.
    LocalCommit(u64, Result<(), String>),
    /// A consumer ends: listeners have until `listeners`, everything else until `end`. `done` gets the report.
    Shutdown { core: Arc<S>, listeners: Instant, end: Instant, done: Sender<ShutdownReport> },
    /// The last consumer of the client is gone.
    Stop,
}

/// The loop.
pub(super) struct RebalanceLoop {
    events: Receiver<RebalanceEvent>,
    waiter: Waiter,
    groups: Groups<Core>,
}

impl RebalanceLoop {
    /// Answers to its requests come back through `sink`.
    pub(super) fn new(waiter: Waiter, events: Receiver<RebalanceEvent>, sink: ReplySink) -> Self {
        Self { events, waiter, groups: Groups::new(sink) }
    }

    /// Runs until told to stop.
    pub(super) fn run(mut self) {
        HERE.set(true);
        loop {
            match self.waiter.recv_deadline(&self.events, self.groups.deadline()) {
                Ok(RebalanceEvent::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(event) => {
                    self.guarded(|groups| groups.handle(event));
                    // Many wake-ups become one round: all of them are taken in before anything is due.
                    for event in self.events.clone().try_iter().take(DRAIN) {
                        if matches!(event, RebalanceEvent::Stop) {
                            return;
                        }
                        self.guarded(|groups| groups.handle(event));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.guarded(Groups::due);
        }
    }

    /// A panic in here is a bug; what the event was about is left as it was, and the next round looks at it again.
    fn guarded(&mut self, work: impl FnOnce(&mut Groups<Core>)) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&mut self.groups))) {
            let text = panic_text(&*panic).to_owned();
            log::error!("rmq-rebalance panicked and goes on: {text}");
            self.groups.panicked(&text);
        }
    }
}

/// Whether the calling thread is an `rmq-rebalance`, be it of another client. The user's allocation strategy runs there,
/// and nothing that it calls may wait for such a thread: neither for this one, nor for another that may wait for it.
pub(super) fn is_here() -> bool {
    HERE.get()
}

thread_local! {
    static HERE: Cell<bool> = const { Cell::new(false) };
}

const DRAIN: usize = 64;
