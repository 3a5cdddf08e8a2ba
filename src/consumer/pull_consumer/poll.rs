//! Handing messages to the threads of the program.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::polling;
use super::polling::Question;
use crate::client::panic_text;
use crate::consumer::core::{Core, Item};
use crate::consumer::failure::Failure;
use crate::consumer::offset::Offset;
use crate::consumer::process_queue::{HandedOut, ProcessQueue};
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::readable::make_readable;
use crate::consumer::rebalance_loop::{RebalanceEvent, Wish};
use crate::consumer::stats::Waiting;
use crate::consumer::trace;
use crate::error::{Attempt, Error, ErrorKind, Result};
use crate::message::{MessageQueue, MessageView};
use crate::protocol::Inflater;
use crate::sync::Parker;

/// What a thread wants of the queues.
pub(super) trait Goal {
    /// Whether something of this queue is wanted, and what is beyond what is wanted. `None`: nothing of it.
    fn limit(&self, queue: &MessageQueue) -> Option<Option<Offset>>;
    /// Whether there is nothing more to come.
    fn is_reached(&mut self, core: &Core) -> bool;
}

/// Whatever comes.
struct Anything;

impl Goal for Anything {
    fn limit(&self, _: &MessageQueue) -> Option<Option<Offset>> {
        Some(None)
    }

    fn is_reached(&mut self, _: &Core) -> bool {
        false
    }
}

/// What came of waiting for messages.
pub(super) enum Next {
    Messages(Vec<MessageView>),
    Reached,
    TimeOver,
}

pub(super) fn poll(core: &Arc<Core>, timeout: Duration) -> Result<Vec<MessageView>> {
    // A time too far ahead to be expressed is as good as for ever.
    let deadline = Instant::now().checked_add(timeout);
    allow_earlier(core);
    match next(core, deadline, &mut Anything)? {
        Next::Messages(messages) => Ok(messages),
        Next::Reached | Next::TimeOver => match everything_fails(core) {
            Some(attempts) => Err(Error::failed("polling", attempts)),
            None => Ok(Vec::new()),
        },
    }
}

/// The program has come back: with automatic commits, what it was given before is done.
pub(super) fn allow_earlier(core: &Arc<Core>) {
    let polling = polling(core);
    if !polling.commits_by_itself() {
        return;
    }
    for process in polling.take_handed() {
        let (_, idle) = process.allow_all();
        if idle && process.facts.report_idle() {
            core.post_rebalance(RebalanceEvent::Idle(process.id()));
        }
    }
}

/// The next messages that are wanted, waiting until the deadline.
pub(super) fn next(core: &Arc<Core>, deadline: Option<Instant>, goal: &mut dyn Goal) -> Result<Next> {
    let mut parker = None;
    loop {
        if let Some(error) = polling(core).take_unread() {
            return Err(error);
        }
        let rouses = core.ready.rouses();
        match core.ready.try_next() {
            Some(Item::Queue(queue)) => {
                let messages = hand_out(core, &queue, goal);
                if !messages.is_empty() {
                    return Ok(Next::Messages(messages));
                }
                continue;
            }
            Some(Item::Question(question)) => {
                ask(core, question);
                continue;
            }
            // Refused before it gets here: there is no listener.
            Some(Item::Direct(_)) => continue,
            None => {}
        }
        if core.ready.is_stopped() {
            return Err(Error::closed("the consumer"));
        }
        if goal.is_reached(core) {
            return Ok(Next::Reached);
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(Next::TimeOver);
        }
        core.ready.wait(parker.get_or_insert_with(Parker::here), rouses, deadline);
    }
}

fn hand_out(core: &Arc<Core>, queue: &Arc<ProcessQueue>, goal: &dyn Goal) -> Vec<MessageView> {
    let polling = polling(core);
    let Some(limit) = goal.limit(queue.queue()) else {
        queue.step_aside();
        return Vec::new();
    };
    if polling.is_paused(queue.queue()) {
        queue.step_aside();
        // Whoever resumed it in between took it for being on the list.
        if !polling.is_paused(queue.queue())
            && let Some(oldest) = queue.step_back()
        {
            core.ready.put(Item::Queue(queue.clone()), oldest);
        }
        return Vec::new();
    }
    let Some(handed) = queue.hand_out(limit) else { return Vec::new() };
    polling.note_handed(queue);
    if handed.used_up {
        core.ready.went(handed.run.len() as usize);
    }
    if let Some(oldest) = handed.more {
        core.ready.put(Item::Queue(queue.clone()), oldest);
        core.wake_in_passing();
    }
    if handed.settled.relieved {
        core.post_pull(PullEvent::Nudge(queue.id()));
    }
    queue.facts.last_consume.store(core.instance.clock().millis(), Ordering::Relaxed);
    let messages = readable(core, queue, &handed);
    core.totals.polled.fetch_add(messages.len() as u64, Ordering::Relaxed);
    trace::handed_out(core, queue.queue().topic(), &messages);
    messages
}

/// Bodies are inflated here, on the thread that wants them. What cannot be read is told by the next call.
fn readable(core: &Core, queue: &ProcessQueue, handed: &HandedOut) -> Vec<MessageView> {
    let mut inflater = Inflater::default();
    let mut messages = Vec::with_capacity(handed.range.len());
    for index in handed.range.clone() {
        let Some(mut view) = handed.run.view(index) else { continue };
        match make_readable(&mut inflater, &handed.run, index, &mut view) {
            Ok(()) => messages.push(view),
            Err(problem) => {
                polling(core).cannot_read(queue.queue(), handed.run.offset_of(index), problem);
            }
        }
    }
    messages
}

/// The program knows where the queue begins, or that it does not know.
fn ask(core: &Arc<Core>, question: Question) {
    let Some(look_up) = polling(core).start_offset() else { return };
    let Question { queue, epoch } = question;
    let plain = core.instance.namespace().strip_queue(&queue);
    let answer = catch_unwind(AssertUnwindSafe(|| look_up(&plain)))
        .unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_text(&*panic))));
    let answer = match answer {
        Ok(Some(wire)) => Offset::new(wire).map(Some).ok_or_else(|| format!("{wire} is negative")),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    core.post_rebalance(RebalanceEvent::Polled(core.clone(), Wish::Start { queue, epoch, answer }));
}

/// What is wrong with each queue, if something is with all of them.
fn everything_fails(core: &Core) -> Option<Vec<Attempt>> {
    let held = polling(core).held();
    let attempts: Option<Vec<Attempt>> = held
        .into_iter()
        .map(|(queue, failure)| {
            let failure = failure.or_else(|| failing(core, &queue))?;
            Some(failure.attempt(&queue))
        })
        .collect();
    attempts.filter(|attempts| !attempts.is_empty())
}

/// Why nothing of this queue comes, if that is a failure.
pub(super) fn failing(core: &Core, queue: &MessageQueue) -> Option<Failure> {
    let process = core.owned_queue(queue)?;
    let (waiting, since) = process.facts.waiting()?;
    let known = process.facts.failure();
    match waiting {
        Waiting::Failing(why) => Some(known.unwrap_or_else(|| Failure::new(ErrorKind::Broker, why))),
        Waiting::NoRoute => Some(Failure::new(ErrorKind::Unreachable, "no route to its broker is known")),
        // At first that is as it should be, and for a moment.
        Waiting::NoHeartbeat => known.or_else(|| {
            let long = core.now().saturating_duration_since(since) >= LONG;
            long.then(|| Failure::new(ErrorKind::Unreachable, "its broker acknowledges no heartbeat"))
        }),
        _ => None,
    }
}

/// A heartbeat is answered within a moment, or there is something wrong.
const LONG: Duration = Duration::from_secs(1);
