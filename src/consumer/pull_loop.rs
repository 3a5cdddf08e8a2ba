//! `rmq-pull`: one thread, blocking on one queue, that fetches for all queues of all consumers of a client.
//!
//! The state of fetching lives in a table that this thread owns; what arrives on its channel only says "look at queue
//! X". It drains what has come (up to 16), then writes all next pulls with one write per broker, and then wakes at
//! most one consume thread per consumer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::answer::Pulled;
use super::core::Core;
use super::failure::Failure;
use super::outside::Outside;
use super::process_queue::ProcessQueue;
use super::pulls::Pulls;
use super::ready::LOOK_AGAIN;
use super::send_back::{SendBack, SendBacks, back_answer};
use super::timer_loop::Due;
use crate::client::{Instance, kind_of, panic_text};
use crate::protocol::Frame;
use crate::remoting::{CallError, ReplySink};

/// What the pull thread is told.
pub(crate) enum PullEvent<S = Core> {
    /// Fetch for this one from now on.
    Attach(Arc<S>, Arc<ProcessQueue>),
    /// Not for this one any more.
    Detach(u64),
    /// Something that this one may have waited for has happened.
    Nudge(u64),
    /// Something that any queue may have waited for has happened: a route, a heartbeat, a resume.
    NudgeAll,
    /// Something is on the ready list of this one, and a thread is idle.
    Look(Arc<S>),
    /// The cache of the client has room again.
    CacheFreed,
    /// The answer to the pull of this one.
    Answer(u64, Result<Frame, CallError>),
    /// A message that its listener did not accept.
    SendBack(SendBack<S>),
    /// The answer to a send-back.
    BackAnswer(u64, Result<Frame, CallError>),
    /// From the timer.
    Due(Due),
    /// The last consumer of the client is gone.
    Stop,
}

/// The loop.
pub(super) struct PullLoop {
    instance: Arc<Instance>,
    events: Receiver<PullEvent>,
    work: Fetching<Core>,
}

impl PullLoop {
    /// `sinks` are for the answers to pulls and to send-backs.
    pub(super) fn new(
        instance: Arc<Instance>,
        events: Receiver<PullEvent>,
        pulls: ReplySink,
        backs: ReplySink,
    ) -> Self {
        let work = Fetching { pulls: Pulls::new(pulls), backs: SendBacks::new(backs) };
        Self { instance, events, work }
    }

    /// Runs until told to stop.
    pub(super) fn run(mut self) {
        let mut look_again = false;
        loop {
            let first = if look_again {
                self.events.recv_timeout(LOOK_AGAIN)
            } else {
                self.events.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match first {
                Ok(PullEvent::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(event) => {
                    self.handle(event);
                    for _ in 1..DRAIN {
                        match self.events.try_recv() {
                            Ok(PullEvent::Stop) => return,
                            Ok(event) => self.handle(event),
                            Err(_) => break,
                        }
                    }
                    self.guarded(|this| this.instance.flush());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            look_again = self.guarded(|this| this.work.pulls.wake()).unwrap_or_default();
        }
    }

    fn handle(&mut self, event: PullEvent) {
        self.guarded(|this| this.work.handle(event));
    }

    /// A panic in here is a bug; it costs the queue that was worked for, which is rebuilt, and nothing else.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.work.pulls.begin();
        let worked = catch_unwind(AssertUnwindSafe(|| work(self)));
        worked
            .map_err(|panic| {
                let text = panic_text(&*panic).to_owned();
                log::error!("rmq-pull panicked and goes on: {text}");
                self.work.pulls.give_up(text);
            })
            .ok()
    }
}

/// What the thread works on: fetching, and what goes back.
pub(super) struct Fetching<S: Outside> {
    pub(super) pulls: Pulls<S>,
    pub(super) backs: SendBacks<S>,
}

impl<S: Outside> Fetching<S> {
    /// Takes in one event.
    pub(super) fn handle(&mut self, event: PullEvent<S>) {
        match event {
            PullEvent::Answer(id, answer) => {
                let answer = answer.map_err(|error| {
                    self.pulls.failed(id, Failure::new(kind_of(&error), error.to_string()));
                    error.to_string()
                });
                let pulled = answer.and_then(|frame| Pulled::of(frame).map_err(|error| error.to_string()));
                self.pulls.answered(id, pulled);
            }
            PullEvent::Nudge(id) | PullEvent::Due(Due::Pull(id)) => self.pulls.nudge(id),
            PullEvent::NudgeAll => self.pulls.hurry_all(),
            PullEvent::Look(core) => self.pulls.look_after(core),
            PullEvent::CacheFreed => self.pulls.advance_all(),
            PullEvent::Attach(core, queue) => self.pulls.attach(core, queue),
            PullEvent::Detach(id) => {
                self.pulls.detach(id);
                self.backs.forget(id);
            }
            PullEvent::SendBack(what) => {
                if let Some(core) = self.backs.begin(what) {
                    self.pulls.look_after(core);
                }
            }
            PullEvent::BackAnswer(id, answer) => {
                if let Some(core) = self.backs.answered(id, back_answer(answer)) {
                    self.pulls.look_after(core);
                }
            }
            PullEvent::Due(Due::Resume(id)) => self.pulls.resume(id),
            PullEvent::Due(Due::Retry(id)) => {
                if let Some(core) = self.backs.due(id) {
                    self.pulls.look_after(core);
                }
            }
            PullEvent::Due(Due::AcceptedLate(id, offset)) => self.backs.accepted_late(id, offset),
            PullEvent::Due(Due::Check) => self.pulls.check(),
            PullEvent::Stop => {}
        }
    }
}

/// Events taken before pulls are written.
const DRAIN: usize = 16;
