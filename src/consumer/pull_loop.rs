//! `rmq-pull`: one thread, blocking on one queue, that fetches for all queues of all consumers of a client.
//!
//! The state of fetching lives in a table that this thread owns; what arrives on its channel only says "look at queue
//! X". It drains what has come (up to 16), then writes all next pulls with one write per broker, and then wakes at
//! most one consume thread per consumer.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::core::{Core, Item};
use super::events::Event;
use super::fetch::{self, Correction, ERROR_DELAY, Fetch, Outcome, Pause, Step, View};
use super::offset::Offset;
use super::process_queue::ProcessQueue;
use super::ready::LOOK_AGAIN;
use super::rebalance_loop::RebalanceEvent;
use super::run::Run;
use super::send_back::{SendBack, SendBacks};
use super::settings::OffsetIllegal;
use super::sift::{Asked, Sifted, sift};
use super::stats::Waiting;
use super::timer_loop::{Due, TimerEvent};
use crate::client::{Instance, Role, panic_text};
use crate::message::{Source, Subscription};
use crate::protocol::headers::PullMessage;
use crate::protocol::{Frame, PullOffsets, RemotingCommand, RequestCode, ResponseCode};
use crate::remoting::{CallError, ReplySink};

/// What the pull thread is told.
pub(crate) enum PullEvent {
    /// Fetch for this one from now on.
    Attach(Arc<Core>, Arc<ProcessQueue>),
    /// Not for this one any more.
    Detach(u64),
    /// Something that this one may have waited for has happened.
    Nudge(u64),
    /// Something that any queue may have waited for has happened: a route, a heartbeat, a resume.
    NudgeAll,
    /// The cache of the client has room again.
    CacheFreed,
    /// The answer to the pull of this one.
    Answer(u64, Result<Frame, CallError>),
    /// A message that its listener did not accept.
    SendBack(SendBack),
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
    sink: ReplySink,
    table: HashMap<u64, Entry>,
    backs: SendBacks,
    /// The consumers that something was put on the ready list of.
    touched: Vec<Arc<Core>>,
    /// Who is worked for: after a panic, that queue is rebuilt.
    at: Option<u64>,
    checking: bool,
}

struct Entry {
    core: Arc<Core>,
    queue: Arc<ProcessQueue>,
    fetch: Fetch,
    subscription: Arc<Subscription>,
    suggested: u64,
    /// The address of the pull in flight.
    asked: Option<Arc<str>>,
}

impl PullLoop {
    /// `sinks` are for the answers to pulls and to send-backs.
    pub(super) fn new(
        instance: Arc<Instance>,
        events: Receiver<PullEvent>,
        pulls: ReplySink,
        backs: ReplySink,
    ) -> Self {
        Self {
            instance,
            events,
            sink: pulls,
            table: HashMap::new(),
            backs: SendBacks::new(backs),
            touched: Vec::new(),
            at: None,
            checking: false,
        }
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
                    for event in self.events.clone().try_iter().take(DRAIN - 1) {
                        if matches!(event, PullEvent::Stop) {
                            return;
                        }
                        self.handle(event);
                    }
                    self.instance.flush();
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            look_again = self.wake();
        }
    }

    /// Applies the wake rule of each consumer that has something to take. Whether to look again soon.
    fn wake(&mut self) -> bool {
        if self.touched.is_empty() {
            return false;
        }
        let now = Instant::now();
        self.touched.retain(|core| core.ready.wake(now, core.listener_time()).again);
        !self.touched.is_empty()
    }

    /// A panic in here is a bug; it costs the queue that was worked for, which is rebuilt, and nothing else.
    fn handle(&mut self, event: PullEvent) {
        self.at = None;
        let handled = catch_unwind(AssertUnwindSafe(|| self.handle_event(event)));
        if let Err(panic) = handled {
            let text = panic_text(&*panic).to_owned();
            log::error!("rmq-pull panicked and goes on: {text}");
            if let Some(entry) = self.at.and_then(|id| self.table.remove(&id)) {
                entry.core.emit(Event::ThreadRestarted { thread: "rmq-pull".into(), panic: text });
                entry.core.post_rebalance(RebalanceEvent::Rebuild(entry.queue.id()));
            }
        }
    }

    fn handle_event(&mut self, event: PullEvent) {
        match event {
            PullEvent::Answer(id, answer) => {
                self.at = Some(id);
                self.answered(id, answer);
                self.advance(id);
            }
            PullEvent::Nudge(id) | PullEvent::Due(Due::Pull(id)) => {
                self.at = Some(id);
                self.advance(id);
            }
            PullEvent::NudgeAll => {
                self.table.values_mut().for_each(|entry| entry.fetch.hurry());
                self.advance_all();
            }
            PullEvent::CacheFreed => self.advance_all(),
            PullEvent::Attach(core, queue) => self.attach(core, queue),
            PullEvent::Detach(id) => {
                self.table.remove(&id);
                self.backs.forget(id);
            }
            PullEvent::SendBack(what) => self.backs.begin(what),
            PullEvent::BackAnswer(id, answer) => self.backs.answered(id, answer),
            PullEvent::Due(Due::Retry(id)) => self.backs.due(id),
            PullEvent::Due(Due::Check) => self.check(),
            PullEvent::Stop => {}
        }
    }

    fn attach(&mut self, core: Arc<Core>, queue: Arc<ProcessQueue>) {
        let id = queue.id();
        let Some(subscription) = core.subscription(queue.queue().topic()) else {
            // Unsubscribed a moment ago: the revocation is on its way.
            return;
        };
        let fetch = Fetch::new(queue.watermark(), core.settings.pull_interval);
        self.at = Some(id);
        let entry = Entry { core, queue, fetch, subscription, suggested: 0, asked: None };
        if !self.checking {
            self.checking = true;
            entry.core.post_timer(TimerEvent::At(entry.core.now() + CHECK_EVERY, Due::Check));
        }
        self.table.insert(id, entry);
        self.advance(id);
    }

    fn advance_all(&mut self) {
        let ids: Vec<u64> = self.table.keys().copied().collect();
        for id in ids {
            self.at = Some(id);
            self.advance(id);
        }
    }

    /// Carries out the next step of one queue.
    fn advance(&mut self, id: u64) {
        let Some(entry) = self.table.get_mut(&id) else { return };
        if let Some(step) = entry.step() {
            match step {
                Step::Nothing => {}
                Step::WakeAt(at) => entry.core.post_timer(TimerEvent::At(at, Due::Pull(id))),
                Step::Park(why) => entry.park(&why),
                Step::Pull { from, single } => entry.pull(from, single, &self.sink),
            }
        }
    }

    fn answered(&mut self, id: u64, answer: Result<Frame, CallError>) {
        // An answer of an older generation finds nobody.
        let Some(entry) = self.table.get_mut(&id) else { return };
        let now = entry.core.now();
        let outcome = match answer {
            Err(error) => Outcome::Failed(format!("{}: {error}", entry.asked_address())),
            Ok(frame) => match entry.take_in(frame) {
                Taken::Outcome(outcome) => outcome,
                Taken::Found(run, outcome) => {
                    let came = run.len() as usize;
                    match entry.queue.push(*run) {
                        Err(_closed) => return,
                        Ok(None) => {}
                        Ok(Some(oldest)) => {
                            entry.core.ready.put(Item::Queue(entry.queue.clone()), oldest);
                        }
                    }
                    if came > 0 {
                        entry.core.ready.came(came);
                        entry.core.totals.pulled.fetch_add(came as u64, Ordering::Relaxed);
                        if !self.touched.iter().any(|core| Arc::ptr_eq(core, &entry.core)) {
                            self.touched.push(entry.core.clone());
                        }
                    }
                    outcome
                }
                Taken::Elsewhere(correction, from) => {
                    let entry = self.table.remove(&id);
                    if let Some(entry) = entry {
                        entry.core.post_rebalance(RebalanceEvent::Corrected { id, from, correction });
                    }
                    return;
                }
            },
        };
        entry.ended(outcome, now);
    }

    /// Every ten seconds: repairs a queue that stands still without its reason. Nothing should be found here.
    fn check(&mut self) {
        let ids: Vec<u64> = self.table.keys().copied().collect();
        self.checking = !ids.is_empty();
        for id in ids {
            self.at = Some(id);
            let Some(entry) = self.table.get_mut(&id) else { continue };
            let now = entry.core.now();
            if entry.queue.is_closed() {
                continue;
            }
            // A test may move the clock past a pull that the broker holds in real time.
            if entry.fetch.is_lost(now) && !entry.core.instance.clock().is_manual() {
                log::error!("the answer to a pull of {} was lost", entry.queue.queue());
                let since = LOST_PULL;
                let reason = Waiting::Failing("the answer to a pull was lost".into());
                entry.core.emit(Event::QueueStalled { queue: entry.queue.queue().clone(), reason, since });
                entry.ended(Outcome::Failed("the answer to a pull was lost".into()), now);
            }
            self.advance(id);
        }
        if let Some(entry) = self.table.values().next() {
            entry.core.post_timer(TimerEvent::At(entry.core.now() + CHECK_EVERY, Due::Check));
        }
    }
}

/// What an answer meant.
enum Taken {
    Found(Box<Run>, Outcome),
    Outcome(Outcome),
    /// The offset that was asked for is not the one to go on with.
    Elsewhere(Correction, Offset),
}

impl Entry {
    /// The next step, in the present surroundings. `None` once the queue is closed.
    fn step(&mut self) -> Option<Step> {
        if let fetch::State::InFlight { .. } = self.fetch.state() {
            return None;
        }
        if self.queue.is_closed() {
            return None;
        }
        if let Some(subscription) = self.core.subscription(self.queue.queue().topic())
            && !Arc::ptr_eq(&subscription, &self.subscription)
        {
            self.subscription = subscription;
        }
        let address = self.address();
        let told = address.as_ref().is_some_and(|(address, _)| self.is_told(address));
        let view = View {
            load: self.queue.load(),
            limits: self.queue.limits(),
            cache_full: self.core.budget.is_exhausted(),
            suspended: self.core.is_suspended(),
            routed: address.is_some(),
            told,
        };
        let now = self.core.now();
        let step = self.fetch.step(&view, now);
        let waiting = self.fetch.pause().map(|pause| self.waiting(pause));
        self.queue.facts.set_waiting(waiting, now);
        Some(step)
    }

    fn address(&self) -> Option<(Arc<str>, u64)> {
        self.core.instance.broker_address(self.queue.queue().broker_name(), Role::Id(self.suggested))
    }

    fn is_told(&self, address: &str) -> bool {
        let (topic, version) = (self.queue.queue().topic(), self.subscription.version);
        self.core.instance.is_told(address, &self.core.group, topic, version)
    }

    /// Whatever could have ended the reason meanwhile is looked at once more, after saying that it is waited for.
    fn park(&mut self, why: &Pause) {
        let again = match why {
            Pause::FlowControl => !self.queue.park(),
            Pause::CacheLimit => !self.core.budget.want(),
            Pause::NoRoute => {
                self.core.instance.want_route(self.queue.queue().topic());
                false
            }
            Pause::NoHeartbeat => {
                let address = self.address();
                self.core.instance.heartbeat_now(address.as_ref().map(|(address, _)| &**address));
                false
            }
            _ => false,
        };
        if again {
            self.core.post_pull(PullEvent::Nudge(self.queue.id()));
        }
    }

    fn pull(&mut self, from: Offset, single: bool, sink: &ReplySink) {
        let Some((address, broker_id)) = self.address() else {
            self.fetch.not_sent("no address of its broker is known".into(), self.core.now(), random());
            return;
        };
        let queue = self.queue.queue();
        // The connection may have ended since the step was decided. On another one the broker knows nothing yet.
        let (group, version) = (&self.core.group, self.subscription.version);
        let Some(link) = self.core.instance.told_on(&address, group, queue.topic(), version) else {
            self.fetch.not_sent("the connection to its broker ended".into(), self.core.now(), random());
            return;
        };
        let settings = &self.core.settings;
        let watermark = self.queue.watermark();
        // Offsets of exactly 0 are not committed this way, and slaves take none; both as in Java.
        let commits = watermark > Offset::ZERO && broker_id == 0 && self.queue.facts.committed().is_some();
        let header = PullMessage {
            consumer_group: self.core.group.to_string(),
            topic: queue.topic().to_owned(),
            queue_id: queue.queue_id(),
            queue_offset: from.wire(),
            max_msg_nums: if single { 1 } else { settings.pull_batch_size },
            sys_flag: if commits { SUSPEND | COMMIT } else { SUSPEND },
            commit_offset: if commits { watermark.wire() } else { 0 },
            suspend_timeout_millis: HOLD_MILLIS,
            sub_version: self.subscription.version,
            subscription: None,
            expression_type: Some(self.subscription.kind.name().to_owned()),
            max_msg_bytes: Some(settings.pull_batch_bytes),
            request_source: None,
            proxy_forward_client_id: None,
            bname: Some(queue.broker_name().to_owned()),
        };
        let command = RemotingCommand::with_header(RequestCode::PULL_MESSAGE, &header);
        self.queue.facts.last_pull.store(self.core.instance.clock().millis(), Ordering::Relaxed);
        self.core.totals.pulls.fetch_add(1, Ordering::Relaxed);
        self.core.instance.queue_on(&address, link, command, PULL_TIMEOUT, sink.reply(self.queue.id()));
        self.asked = Some(address);
    }

    fn take_in(&mut self, frame: Frame) -> Taken {
        let answer = match frame.pull_answer() {
            Ok(answer) => answer,
            Err(error) => return Taken::Outcome(Outcome::Failed(error.to_string())),
        };
        let Some(offsets) = answer.offsets else {
            return Taken::Outcome(self.refused(answer.code, answer.remark));
        };
        self.queue.facts.set_max(offsets.max_offset);
        self.suggested = u64::try_from(offsets.suggest_which_broker_id).unwrap_or(0);
        match answer.code {
            ResponseCode::SUCCESS => self.found(frame, offsets),
            ResponseCode::PULL_NOT_FOUND | ResponseCode::PULL_RETRY_IMMEDIATELY => self.nothing(offsets),
            ResponseCode::PULL_OFFSET_MOVED => self.moved(offsets),
            code => Taken::Outcome(self.refused(code, answer.remark)),
        }
    }

    fn found(&mut self, frame: Frame, offsets: PullOffsets) -> Taken {
        let asked = self.fetch.next();
        let Some(next) = Offset::new(offsets.next_begin_offset) else {
            return Taken::Outcome(Outcome::Failed("the broker says to go on at a negative offset".into()));
        };
        let body = frame.body_range();
        let namespace = self.core.instance.namespace().shared_name();
        let sifted = sift(
            frame.into_bytes(),
            body,
            self.queue.queue(),
            namespace,
            &self.subscription,
            Asked { from: asked, next, offset_delta: offsets.offset_delta },
            Instant::now(),
        );
        match sifted {
            Err(problem) => Taken::Outcome(Outcome::Failed(problem)),
            Ok(Sifted { run, broken: None }) => Taken::Found(Box::new(run), Outcome::Advanced(next)),
            Ok(Sifted { run, broken: Some(problem) }) => {
                let at = run.next();
                let problem = format!("the message at offset {at} cannot be read: {problem}");
                log::error!("{}: {problem}", self.queue.queue());
                Taken::Found(Box::new(run), Outcome::Unreadable(at, problem))
            }
        }
    }

    /// Nothing, or nothing that matches: what was passed over counts as finished.
    fn nothing(&mut self, offsets: PullOffsets) -> Taken {
        let asked = self.fetch.next();
        let next = Offset::new(offsets.next_begin_offset).unwrap_or(asked).max(asked);
        let source = Source { bytes: Vec::new(), queue: self.queue.queue().clone(), namespace: None };
        let run = Run::new(Arc::new(source), Box::new([]), next, Instant::now());
        Taken::Found(Box::new(run), Outcome::Nothing(next))
    }

    fn moved(&mut self, offsets: PullOffsets) -> Taken {
        let asked = self.fetch.next();
        let wire = |offset| Offset::new(offset).unwrap_or(Offset::ZERO);
        let (min, max) = (wire(offsets.min_offset), wire(offsets.max_offset));
        let correction = fetch::corrected(asked, wire(offsets.next_begin_offset), min, max);
        let correction = match (correction, self.core.settings.offset_illegal) {
            (Correction::Moved(_), OffsetIllegal::FirstOffset) => Correction::Moved(min),
            (Correction::Moved(_), OffsetIllegal::LastOffset) => Correction::Moved(max),
            (Correction::Moved(_), OffsetIllegal::Suspend) => {
                let problem = format!("offset {asked} does not exist (the queue has {min} to {max})");
                return Taken::Outcome(Outcome::Unreadable(asked, problem));
            }
            (correction, _) => correction,
        };
        Taken::Elsewhere(correction, asked)
    }

    fn refused(&self, code: ResponseCode, remark: Option<String>) -> Outcome {
        match code {
            ResponseCode::SUBSCRIPTION_NOT_EXIST
            | ResponseCode::SUBSCRIPTION_NOT_LATEST
            | ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST
            | ResponseCode::FILTER_DATA_NOT_EXIST
            | ResponseCode::FILTER_DATA_NOT_LATEST => {
                log::debug!("{}: {code}, sending a heartbeat", self.queue.queue());
                self.core.instance.heartbeat_now(self.asked.as_deref());
                Outcome::NotTold
            }
            ResponseCode::FLOW_CONTROL => Outcome::FlowControl,
            code => {
                if code == ResponseCode::TOPIC_NOT_EXIST {
                    self.core.instance.want_route(self.queue.queue().topic());
                }
                let remark = remark.unwrap_or_default();
                Outcome::Failed(format!("{} answered {code} {remark}", self.asked_address()))
            }
        }
    }

    fn ended(&mut self, outcome: Outcome, now: Instant) {
        if let Outcome::Failed(why) | Outcome::Unreadable(_, why) = &outcome {
            log::debug!("a pull of {} failed: {why}", self.queue.queue());
            self.queue.facts.set_last_error(why.clone());
        }
        let failures = self.fetch.failures();
        self.fetch.ended(outcome, now, random());
        self.queue.facts.set_next(self.fetch.next());
        if self.fetch.failures() == fetch::FAILURES_UNTIL_SLOW && failures < fetch::FAILURES_UNTIL_SLOW {
            let reason = self.fetch.pause().map_or(Waiting::NoRoute, |pause| self.waiting(pause));
            let since = ERROR_DELAY * fetch::FAILURES_UNTIL_SLOW;
            log::warn!("{} has not moved for about {since:?}: {reason}", self.queue.queue());
            self.core.emit(Event::QueueStalled { queue: self.queue.queue().clone(), reason, since });
        }
    }

    fn asked_address(&self) -> &str {
        self.asked.as_deref().unwrap_or("its broker")
    }

    fn waiting(&self, pause: &Pause) -> Waiting {
        match pause {
            Pause::FlowControl => Waiting::FlowControl,
            Pause::CacheLimit => Waiting::CacheLimit,
            Pause::Suspended => Waiting::Suspended,
            Pause::NoRoute => Waiting::NoRoute,
            Pause::NoHeartbeat => Waiting::NoHeartbeat,
            Pause::Failing(why) => Waiting::Failing(why.clone()),
            Pause::Interval | Pause::Busy => {
                let clock = self.core.instance.clock();
                let left = match self.fetch.state() {
                    fetch::State::Waiting { until, .. } => until.saturating_duration_since(clock.instant()),
                    _ => Duration::ZERO,
                };
                Waiting::Until(clock.now() + left)
            }
        }
    }
}

/// Between 0 and 1.
fn random() -> f64 {
    crate::client::random::fraction()
}

/// Events taken before pulls are written.
const DRAIN: usize = 16;
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// How long the broker may hold a pull, as the Java client.
const HOLD_MILLIS: i64 = 15_000;
const PULL_TIMEOUT: Duration = Duration::from_secs(30);
const LOST_PULL: Duration = Duration::from_secs(31);
const COMMIT: i32 = 1;
const SUSPEND: i32 = 2;
