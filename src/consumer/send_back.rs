//! Messages on their way back to a broker, for a retry or as dead letters.
//!
//! A message whose listener did not accept it is finished only when a broker has confirmed that it holds it. Until
//! then it pins the offset of its queue: first the broker that stores it is asked (36), then it is sent as a new
//! message to the retry topic, and when nobody takes it, it stays here and is tried again, ever more slowly.

mod local;
mod message;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::core::Core;
use super::events::Event;
use super::offset::Offset;
use super::outside::Outside;
use super::process_queue::{ProcessQueue, Retry};
use super::run::Run;
use super::timer_loop::{Due, TimerEvent};
use crate::client::{ConsumeStatus, Role};
use crate::message::sys_flag;
use crate::protocol::{Frame, ResponseCode};
use crate::remoting::CallError;

/// What is to become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Back {
    /// It comes again; the broker chooses the delay by its count.
    Later,
    /// It comes again after this delay level.
    Level(i32),
    /// It does not come again.
    DeadLetter,
    /// It was consumed in order, as often as it may: a dead letter, with its count, of which the broker does not know.
    Exhausted,
}

impl Back {
    /// `levels` is the delay table of the broker; `ReconsumeAfter` takes the first level not below it.
    pub(crate) fn of(status: ConsumeStatus, levels: &[Duration]) -> Self {
        match status {
            ConsumeStatus::Success | ConsumeStatus::ReconsumeLater => Self::Later,
            ConsumeStatus::DeadLetter => Self::DeadLetter,
            ConsumeStatus::ReconsumeAfter(delay) => {
                let level = levels.iter().position(|level| *level >= delay).map_or(levels.len(), |at| at + 1);
                Self::Level(i32::try_from(level.max(1)).unwrap_or(i32::MAX))
            }
        }
    }

    fn delay_level(self) -> i32 {
        match self {
            Self::Later => 0,
            Self::Level(level) => level,
            Self::DeadLetter | Self::Exhausted => -1,
        }
    }
}

/// One message to go back.
pub(crate) struct SendBack<S = Core> {
    pub(crate) core: Arc<S>,
    pub(crate) queue: Arc<ProcessQueue>,
    pub(crate) run: Arc<Run>,
    /// Its place in the run.
    pub(crate) index: u32,
    pub(crate) back: Back,
    /// How often it was consumed before, local retries included.
    pub(crate) times: u32,
}

/// All messages of a client that are on their way back. Owned by `rmq-pull`.
pub(super) struct SendBacks<S: Outside> {
    sink: S::Sink,
    next: u64,
    under_way: HashMap<u64, UnderWay<S>>,
    brokers: HashMap<Arc<str>, Broker>,
    /// How often a message has failed to go back, by generation and offset, while its listener sees it again. Of each
    /// generation no more than lie between its first unfinished message and its last.
    failures: BTreeMap<(u64, Offset), u32>,
}

struct UnderWay<S> {
    what: SendBack<S>,
    stage: Stage,
    tries: u32,
    /// Its listener has accepted it after all.
    accepted: bool,
}

enum Stage {
    /// In the queue of its broker, or in flight to it.
    Asked { broker: Arc<str> },
    /// Sent as a new message, after this went wrong.
    Sent { first: String },
    /// Nobody took it.
    Waiting,
}

#[derive(Default)]
struct Broker {
    in_flight: usize,
    queued: VecDeque<u64>,
}

impl<S: Outside> SendBacks<S> {
    /// Answers come back through `sink`, to be given to [`answered`](Self::answered).
    pub(super) fn new(sink: S::Sink) -> Self {
        Self { sink, next: 0, under_way: HashMap::new(), brokers: HashMap::new(), failures: BTreeMap::new() }
    }

    /// Begins with one. `ProcessQueue::send_back` was called for it. The consumer that something was put on the ready
    /// list of, if so.
    pub(super) fn begin(&mut self, what: SendBack<S>) -> Option<Arc<S>> {
        if what.core.settings().is_broadcasting() {
            let (core, queue) = (what.core.clone(), what.queue.clone());
            self.keep_here(what);
            return go_on(&core, &queue);
        }
        let key = (what.queue.id(), what.run.offset_of(what.index));
        let tries = self.failures.get(&key).copied().unwrap_or(0);
        self.next += 1;
        let id = self.next;
        let broker = what.queue.queue().shared_broker_name().clone();
        // A send-back carries no count: the broker goes by the one that it has stored.
        let count_is_ours = what.back == Back::Exhausted;
        self.under_way.insert(id, UnderWay { what, stage: Stage::Asked { broker }, tries, accepted: false });
        if count_is_ours {
            self.send(id, String::new())
        } else {
            self.ask(id)
        }
        None
    }

    /// A broker has confirmed that it holds the message, or has not. The consumer that something was put on the ready
    /// list of, if so.
    pub(super) fn answered(&mut self, id: u64, answer: Result<(), String>) -> Option<Arc<S>> {
        let entry = self.under_way.get(&id)?;
        if let Stage::Asked { broker } = &entry.stage {
            let broker = broker.clone();
            self.next_of(&broker);
        }
        match answer {
            Ok(()) => self.confirmed(id),
            Err(problem) => {
                self.failed(id, problem);
                None
            }
        }
    }

    /// The waiting time of one is over. The consumer that something was put on the ready list of, if so.
    pub(super) fn due(&mut self, id: u64) -> Option<Arc<S>> {
        let entry = self.under_way.get_mut(&id)?;
        let what = &entry.what;
        let is_here = what.core.settings().is_broadcasting();
        // Only "later" means that the listener should look again; an explicit wish is only sent again.
        if matches!(what.back, Back::Later | Back::Exhausted) || is_here {
            let retry = Retry { run: what.run.clone(), index: what.index, times: what.times + 1 };
            let oldest = if what.back == Back::Exhausted {
                what.queue.retry_in_order(retry, what.core.now())
            } else {
                what.queue.retry(retry)
            };
            let ready = oldest.map(|oldest| {
                what.core.ready(&what.queue, oldest);
                what.core.clone()
            });
            self.under_way.remove(&id);
            return ready;
        }
        if what.queue.send_back_again() {
            let broker = what.queue.queue().shared_broker_name().clone();
            entry.stage = Stage::Asked { broker };
            self.ask(id);
        } else {
            self.under_way.remove(&id);
        }
        None
    }

    /// A listener has accepted this message after its time was over. If no broker holds it, it is finished: now if it
    /// waits here for its next try, else unless the answer that is still to come says that a broker has it.
    pub(super) fn accepted_late(&mut self, queue: u64, offset: Offset) {
        let is_it = |what: &SendBack<S>| (what.queue.id(), what.run.offset_of(what.index)) == (queue, offset);
        let Some((id, entry)) = self.under_way.iter_mut().find(|(_, entry)| is_it(&entry.what)) else {
            return;
        };
        entry.accepted = true;
        entry.what.queue.accepted_late(offset);
        if let (id, Stage::Waiting) = (*id, &entry.stage) {
            self.finish_accepted(id, false);
        }
    }

    /// Nobody took it, and nobody has to.
    fn finish_accepted(&mut self, id: u64, sending: bool) {
        let Some(UnderWay { what, .. }) = self.under_way.remove(&id) else { return };
        self.failures.remove(&(what.queue.id(), what.run.offset_of(what.index)));
        log::info!("a message of {} was accepted late, and does not go back", what.queue.queue());
        let settled = if sending {
            what.queue.sent_back(&what.run, what.index)
        } else {
            what.queue.kept_back(&what.run, what.index)
        };
        what.core.settled(&what.queue, settled);
    }

    /// A process queue has ended.
    pub(super) fn forget(&mut self, queue: u64) {
        self.failures.retain(|(known, _), _| *known != queue);
    }

    fn ask(&mut self, id: u64) {
        let Some(entry) = self.under_way.get(&id) else { return };
        let Stage::Asked { broker: name } = &entry.stage else { return };
        let Some(view) = entry.what.run.view(entry.what.index) else { return };
        // An element of an inner batch has the place of the whole batch: sending that back would repeat all of it.
        let whole = view.sys_flag() & (sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP) == 0;
        let address = entry.what.core.broker_address(name, Role::Master);
        let (Some((address, _)), true) = (address, whole) else {
            let why = if whole { "no master of its broker is known" } else { "it is part of a batch" };
            self.send(id, why.to_owned());
            return;
        };
        let broker = self.brokers.entry(name.clone()).or_default();
        if broker.in_flight >= MOST_IN_FLIGHT {
            broker.queued.push_back(id);
            return;
        }
        broker.in_flight += 1;
        entry.what.core.send(&address, message::back(&entry.what, &view), &self.sink, id);
    }

    /// One of this broker's is answered: the next may go. And those after it, if it goes another way than to this
    /// broker, for then no answer of this broker's will call for them.
    fn next_of(&mut self, name: &Arc<str>) {
        if let Some(broker) = self.brokers.get_mut(name) {
            broker.in_flight = broker.in_flight.saturating_sub(1);
        }
        while let Some(broker) = self.brokers.get_mut(name)
            && broker.in_flight < MOST_IN_FLIGHT
            && let Some(id) = broker.queued.pop_front()
        {
            self.ask(id);
        }
    }

    fn failed(&mut self, id: u64, problem: String) {
        let Some(entry) = self.under_way.get(&id) else { return };
        match &entry.stage {
            Stage::Asked { .. } | Stage::Sent { .. } if entry.accepted => self.finish_accepted(id, true),
            Stage::Asked { .. } => self.send(id, problem),
            Stage::Sent { first } if first.is_empty() => self.wait(id, problem),
            Stage::Sent { first } => {
                let problem = format!("{first}; as a new message: {problem}");
                self.wait(id, problem);
            }
            Stage::Waiting => {}
        }
    }

    /// Sends it as a new message to the retry topic, to whichever broker takes it.
    fn send(&mut self, id: u64, first: String) {
        let Some(entry) = self.under_way.get_mut(&id) else { return };
        let Some((address, request)) = message::as_new(&entry.what) else {
            let problem = "no broker is known that takes it";
            self.wait(id, if first.is_empty() { problem.to_owned() } else { format!("{first}; {problem}") });
            return;
        };
        entry.stage = Stage::Sent { first };
        entry.what.core.send(&address, request, &self.sink, id);
    }

    fn wait(&mut self, id: u64, problem: String) {
        let Some(entry) = self.under_way.get_mut(&id) else { return };
        entry.stage = Stage::Waiting;
        entry.tries += 1;
        let what = &entry.what;
        let delay = FIRST_WAIT.saturating_mul(1 << (entry.tries - 1).min(8)).min(LONGEST_WAIT);
        note(&mut self.failures, what, entry.tries);
        if let Some(view) = what.run.view(what.index) {
            log::warn!(
                "message {} of {} could not be sent back, next try in {delay:?}: {problem}",
                view.message_id(),
                what.queue.queue()
            );
            what.core.emit(Event::SendBackFailed {
                message: view.detached(),
                error: problem,
                next_try: delay,
            });
        }
        let settled = what.queue.wait_for_retry();
        what.core.settled(&what.queue, settled);
        what.core.post_timer(TimerEvent::At(what.core.now() + delay, Due::Retry(id)));
    }

    fn confirmed(&mut self, id: u64) -> Option<Arc<S>> {
        let UnderWay { what, .. } = self.under_way.remove(&id)?;
        self.failures.remove(&(what.queue.id(), what.run.offset_of(what.index)));
        let core = &what.core;
        let dead = what.back == Back::DeadLetter || what.times >= core.settings().max_reconsume_times;
        if dead {
            core.totals().dead_letters.fetch_add(1, Ordering::Relaxed);
            if let Some(mut view) = what.run.view(what.index) {
                view.set_reconsume_times(what.times);
                log::warn!(
                    "message {} of {} became a dead letter of {}",
                    view.message_id(),
                    what.queue.queue(),
                    core.plain_group()
                );
                core.emit(Event::DeadLetter { message: view.detached() });
            }
        } else {
            core.totals().reconsumed.fetch_add(1, Ordering::Relaxed);
        }
        let settled = what.queue.sent_back(&what.run, what.index);
        core.settled(&what.queue, settled);
        go_on(core, &what.queue)
    }
}

/// Remembers how often a message has failed, and forgets what is finished. A queue that has ended is not asked again: it
/// may have been forgotten already.
fn note<S: Outside>(failures: &mut BTreeMap<(u64, Offset), u32>, what: &SendBack<S>, tries: u32) {
    let (id, watermark) = (what.queue.id(), what.queue.watermark());
    while let Some((known, _)) = failures.range((id, Offset::ZERO)..(id, watermark)).next() {
        let known = *known;
        failures.remove(&known);
    }
    if !what.queue.is_closed() {
        failures.insert((id, what.run.offset_of(what.index)), tries);
    }
}

/// A queue that is consumed in order has waited for one message to be out of the way. The consumer, if the queue is on
/// the ready list now.
fn go_on<S: Outside>(core: &Arc<S>, queue: &Arc<ProcessQueue>) -> Option<Arc<S>> {
    core.settings().order.as_ref()?;
    let oldest = queue.handed_over(core.now())?;
    core.ready(queue, oldest);
    Some(core.clone())
}

/// Whether an answer says that the broker holds the message: it may have been stored less safely than it should.
pub(super) fn back_answer(answer: Result<Frame, CallError>) -> Result<(), String> {
    let frame = answer.map_err(|error| error.to_string())?;
    let code = ResponseCode(frame.head().map_err(|error| error.to_string())?.code);
    let stored = [
        ResponseCode::SUCCESS,
        ResponseCode::FLUSH_DISK_TIMEOUT,
        ResponseCode::FLUSH_SLAVE_TIMEOUT,
        ResponseCode::SLAVE_NOT_AVAILABLE,
    ];
    if stored.contains(&code) { Ok(()) } else { Err(code.to_string()) }
}

const MOST_IN_FLIGHT: usize = 64;
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
