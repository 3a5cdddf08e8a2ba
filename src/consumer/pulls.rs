//! The table of `rmq-pull`: one entry for each process queue that is fetched for.
//!
//! It knows no thread and no socket: events go in by its methods, and what follows goes out by [`Outside`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::answer::{Pulled, Question, Taken, take_in};
use super::events::Event;
use super::failure::Failure;
use super::fetch::{self, ERROR_DELAY, Fetch, Outcome, Pause, Step, View};
use super::figures::Fetched;
use super::offset::Offset;
use super::outside::{Outside, Request};
use super::process_queue::ProcessQueue;
use super::pull_loop::PullEvent;
use super::rebalance_loop::RebalanceEvent;
use super::stats::Waiting;
use super::timer_loop::{Due, TimerEvent};
use crate::client::Role;
use crate::message::{Subscription, SubscriptionKind};
use crate::protocol::ResponseCode;
use crate::protocol::headers::{PullMessage, pull_flag};

/// All queues of a client that are fetched for.
pub(super) struct Pulls<S: Outside> {
    sink: S::Sink,
    /// In the order of generations, so that a simulated run can be repeated.
    table: BTreeMap<u64, Entry<S>>,
    /// Those whose topic was not subscribed when they came.
    homeless: BTreeMap<u64, (Arc<S>, Arc<ProcessQueue>)>,
    /// The consumers that something was put on the ready list of.
    touched: Vec<Arc<S>>,
    /// Who is worked for: after a panic, that queue is rebuilt.
    at: Option<u64>,
    checking: bool,
}

struct Entry<S> {
    core: Arc<S>,
    queue: Arc<ProcessQueue>,
    fetch: Fetch,
    subscription: Arc<Subscription>,
    fetched: Arc<Fetched>,
    suggested: u64,
    /// The address of the pull in flight.
    asked: Option<Arc<str>>,
    /// Counts the pulls that were given up with their answer still to come.
    turn: u16,
    /// What the timer was asked for last: once for each moment, however often it is nudged until then.
    alarm: Option<Instant>,
}

impl<S: Outside> Pulls<S> {
    /// Answers come back through `sink`.
    pub(super) fn new(sink: S::Sink) -> Self {
        Self {
            sink,
            table: BTreeMap::new(),
            homeless: BTreeMap::new(),
            touched: Vec::new(),
            at: None,
            checking: false,
        }
    }

    /// Fetches for this one from now on.
    pub(super) fn attach(&mut self, core: Arc<S>, queue: Arc<ProcessQueue>) {
        let id = queue.id();
        let Some(subscription) = core.subscription(queue.queue().topic()) else {
            // Unsubscribed a moment ago: the revocation is on its way, unless it is subscribed again before that.
            queue.facts.set_waiting(Some(Waiting::NoHeartbeat), core.now());
            self.homeless.insert(id, (core, queue));
            return;
        };
        let fetch = Fetch::new(queue.watermark(), core.settings().pull_interval);
        self.at = Some(id);
        let fetched = core.totals().fetched.of(queue.queue().shared_topic());
        let entry = Entry {
            core,
            queue,
            fetch,
            subscription,
            fetched,
            suggested: 0,
            asked: None,
            turn: 0,
            alarm: None,
        };
        if !self.checking {
            self.checking = true;
            entry.core.post_timer(TimerEvent::At(entry.core.now() + CHECK_EVERY, Due::Check));
        }
        self.table.insert(id, entry);
        self.resume(id);
        self.advance(id);
    }

    /// Not for this one any more.
    pub(super) fn detach(&mut self, id: u64) {
        self.table.remove(&id);
        self.homeless.remove(&id);
    }

    /// Something that this one may have waited for has happened.
    pub(super) fn nudge(&mut self, id: u64) {
        self.at = Some(id);
        self.advance(id);
    }

    /// A route, a heartbeat or a resume: any queue may have waited for it.
    pub(super) fn hurry_all(&mut self) {
        for (core, queue) in std::mem::take(&mut self.homeless).into_values() {
            self.attach(core, queue);
        }
        self.table.values_mut().for_each(|entry| entry.fetch.hurry());
        self.advance_all();
    }

    /// The next step of every queue.
    pub(super) fn advance_all(&mut self) {
        let ids: Vec<u64> = self.table.keys().copied().collect();
        for id in ids {
            self.nudge(id);
        }
    }

    /// The pull with this tag has failed: what a user can act on. The answer follows.
    pub(super) fn failed(&self, tag: u64, failure: Failure) {
        if let Some(entry) = self.table.get(&generation(tag)) {
            entry.queue.facts.set_failure(Some(failure));
        }
    }

    /// The answer to the pull with this tag. An answer of an older generation finds nobody, and neither does the answer
    /// to a pull that was given up.
    pub(super) fn answered(&mut self, tag: u64, answer: Result<Pulled, String>) {
        let id = generation(tag);
        if self.table.get(&id).is_none_or(|entry| entry.tag() != tag) {
            return;
        }
        self.at = Some(id);
        self.take_answer(id, answer);
        self.advance(id);
    }

    /// The pause of this one may be over.
    pub(super) fn resume(&mut self, id: u64) {
        let Some(entry) = self.table.get(&id) else { return };
        if let Some(oldest) = entry.queue.resume(entry.core.now()) {
            let core = entry.core.clone();
            core.ready(&entry.queue, oldest);
            self.look_after(core);
        }
    }

    /// Every ten seconds: repairs a queue that stands still without its reason. Nothing should be found here.
    pub(super) fn check(&mut self) {
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
            if entry.fetch.is_lost(now) && !entry.core.is_moved_by_hand() {
                log::error!("the answer to a pull of {} was lost", entry.queue.queue());
                let since = LOST_PULL;
                let reason = Waiting::Failing("the answer to a pull was lost".into());
                entry.core.emit(Event::QueueStalled { queue: entry.queue.queue().clone(), reason, since });
                entry.turn = entry.turn.wrapping_add(1);
                entry.ended(Outcome::Failed("the answer to a pull was lost".into()), now);
            }
            self.resume(id);
            self.advance(id);
        }
        if let Some(entry) = self.table.values().next() {
            entry.core.post_timer(TimerEvent::At(entry.core.now() + CHECK_EVERY, Due::Check));
        }
    }

    /// Applies the wake rule of each consumer that has something to take. Whether to look again soon.
    pub(super) fn wake(&mut self) -> bool {
        self.touched.retain(|core| core.wake());
        !self.touched.is_empty()
    }

    /// Something was put on the ready list of this one.
    pub(super) fn look_after(&mut self, core: Arc<S>) {
        if !self.touched.iter().any(|known| Arc::ptr_eq(known, &core)) {
            self.touched.push(core);
        }
    }

    /// What the answer to the present pull of this one is tagged with.
    #[cfg(all(test, not(loom)))]
    pub(super) fn tag(&self, id: u64) -> Option<u64> {
        self.table.get(&id).map(Entry::tag)
    }

    /// How the fetching for this one stands.
    #[cfg(all(test, not(loom)))]
    pub(super) fn state(&self, id: u64) -> Option<&fetch::State> {
        self.table.get(&id).map(|entry| entry.fetch.state())
    }

    /// By what the answer to the pull of this one is filtered.
    #[cfg(all(test, not(loom)))]
    pub(super) fn filter(&self, id: u64) -> Option<&Arc<Subscription>> {
        self.table.get(&id).map(|entry| &entry.subscription)
    }

    /// Nobody is worked for.
    pub(super) fn begin(&mut self) {
        self.at = None;
    }

    /// The work since `begin` has panicked: gives up the queue that it was for, so that it is rebuilt.
    pub(super) fn give_up(&mut self, panic: String) {
        if let Some(entry) = self.at.and_then(|id| self.table.remove(&id)) {
            entry.core.emit(Event::ThreadRestarted { thread: "rmq-pull".into(), panic });
            entry.core.post_rebalance(RebalanceEvent::Rebuild(entry.queue.id()));
        }
    }

    /// Carries out the next step of one queue.
    fn advance(&mut self, id: u64) {
        let Some(entry) = self.table.get_mut(&id) else { return };
        while let Some(step) = entry.step() {
            match step {
                Step::Nothing => {}
                Step::WakeAt(at) => {
                    if entry.alarm.replace(at) != Some(at) {
                        entry.core.post_timer(TimerEvent::At(at, Due::Pull(id)));
                    }
                }
                Step::Park(why) => entry.park(&why),
                Step::Pull { from, single } => {
                    if !entry.pull(from, single, &self.sink) {
                        // Now it waits, as after a pull that failed.
                        continue;
                    }
                }
            }
            return;
        }
    }

    fn take_answer(&mut self, id: u64, answer: Result<Pulled, String>) {
        let Some(entry) = self.table.get_mut(&id) else { return };
        let (now, mut touched) = (entry.core.now(), None);
        let taken = match answer {
            Ok(pulled) => entry.take_in(pulled, now),
            Err(error) => Taken::Outcome(Outcome::Failed(error)),
        };
        let outcome = match taken {
            Taken::Outcome(outcome) => outcome,
            // The broker may have held it since before the filter was changed: what it left out by the old one would
            // count as finished. It is asked for again, by the new one.
            Taken::Found(..) if entry.is_asked_by_an_old_filter() => Outcome::Nothing(entry.fetch.next()),
            Taken::Found(run, outcome) => {
                let came = run.len() as usize;
                match entry.queue.push(*run) {
                    Err(_closed) => return,
                    Ok(None) if came == 0 => entry.core.passed(),
                    Ok(None) => {}
                    Ok(Some(oldest)) => entry.core.ready(&entry.queue, oldest),
                }
                if came > 0 {
                    entry.core.came(came);
                    entry.core.totals().pulled.fetch_add(came as u64, Ordering::Relaxed);
                    touched = Some(entry.core.clone());
                }
                outcome
            }
            Taken::Elsewhere(correction) => {
                let from = entry.fetch.next();
                let event = RebalanceEvent::Corrected { id, from, correction };
                entry.core.post_rebalance(event);
                self.table.remove(&id);
                return;
            }
        };
        entry.ended(outcome, now);
        if let Some(core) = touched {
            self.look_after(core);
        }
    }
}

impl<S: Outside> Entry<S> {
    fn is_asked_by_an_old_filter(&self) -> bool {
        let now = self.core.subscription(self.queue.queue().topic());
        now.is_some_and(|now| !Arc::ptr_eq(&now, &self.subscription))
    }

    /// The next step, in the present surroundings. `None` once the queue is closed.
    fn step(&mut self) -> Option<Step> {
        if self.queue.is_closed() {
            return None;
        }
        if let fetch::State::InFlight { .. } = self.fetch.state() {
            if !self.is_held_for_an_old_filter() {
                return None;
            }
            self.turn = self.turn.wrapping_add(1);
            self.fetch.abandon();
        }
        // A topic that was given up meanwhile is not asked for any more: its broker may have heard of it already.
        let subscription = self.core.subscription(self.queue.queue().topic());
        let subscribed = subscription.is_some();
        if let Some(subscription) = subscription {
            self.subscription = subscription;
        }
        let address = self.address();
        let told = subscribed && address.as_ref().is_some_and(|(address, _)| self.is_told(address));
        let view = View {
            load: self.queue.load(),
            limits: self.queue.limits(),
            cache_full: self.core.budget().is_exhausted(),
            suspended: self.core.is_suspended() || self.core.is_paused(self.queue.queue()),
            routed: address.is_some(),
            told,
        };
        let now = self.core.now();
        let step = self.fetch.step(&view, now);
        let waiting = self.fetch.pause().map(|pause| self.waiting(pause));
        self.queue.facts.set_waiting(waiting, now);
        Some(step)
    }

    /// Whether the broker may hold the pull for another quarter of a minute, by a filter that is not wanted any more,
    /// while it knows the new one. What it answers to the old one would not be used.
    fn is_held_for_an_old_filter(&self) -> bool {
        let topic = self.queue.queue().topic();
        let Some(now) = self.core.subscription(topic) else { return false };
        let told = |(address, _): (Arc<str>, u64)| self.core.is_told(&address, topic, now.version);
        !Arc::ptr_eq(&now, &self.subscription) && self.address().is_some_and(told)
    }

    fn tag(&self) -> u64 {
        self.queue.id() | u64::from(self.turn) << TURN_AT
    }

    fn address(&self) -> Option<(Arc<str>, u64)> {
        self.core.broker_address(self.queue.queue().broker_name(), Role::Id(self.suggested))
    }

    fn is_told(&self, address: &str) -> bool {
        self.core.is_told(address, self.queue.queue().topic(), self.subscription.version)
    }

    /// Whatever could have ended the reason meanwhile is looked at once more, after saying that it is waited for.
    fn park(&mut self, why: &Pause) {
        let again = match why {
            Pause::FlowControl => !self.queue.park(),
            Pause::CacheLimit => !(self.core.budget().want() && self.queue.park_for_budget()),
            Pause::NoRoute => {
                self.core.want_route(self.queue.queue().topic());
                false
            }
            Pause::NoHeartbeat => {
                // No heartbeat tells of a topic that was given up.
                if self.core.subscription(self.queue.queue().topic()).is_some() {
                    let address = self.address();
                    self.core.heartbeat_now(address.as_ref().map(|(address, _)| &**address));
                }
                false
            }
            _ => false,
        };
        if again {
            self.core.post_pull(PullEvent::Nudge(self.queue.id()));
        }
    }

    /// Whether the pull could be sent.
    fn pull(&mut self, from: Offset, single: bool, sink: &S::Sink) -> bool {
        let Some((address, _)) = self.address() else {
            let why = "no address of its broker is known".to_owned();
            self.fetch.not_sent(why, self.core.now(), self.core.jitter());
            return false;
        };
        let queue = self.queue.queue();
        // The connection may have ended since the step was decided. On another one the broker knows nothing yet.
        let Some(link) = self.core.told_on(&address, queue.topic(), self.subscription.version) else {
            let why = "the connection to its broker ended".to_owned();
            self.fetch.not_sent(why, self.core.now(), self.core.jitter());
            return false;
        };
        let by_class = self.subscription.kind == SubscriptionKind::Class;
        let server = if by_class { self.core.filter_server(queue.topic(), &address) } else { None };
        if by_class && server.is_none() {
            let why = format!("no filter server of {address} is known");
            self.fetch.not_sent(why, self.core.now(), self.core.jitter());
            return false;
        }
        let settings = self.core.settings();
        let is_member = self.core.is_member();
        let in_request = !is_member && !by_class;
        let header = PullMessage {
            consumer_group: self.core.group().to_string(),
            topic: queue.topic().to_owned(),
            queue_id: queue.queue_id(),
            queue_offset: from.wire(),
            max_msg_nums: if single { 1 } else { settings.pull_batch_size },
            // Never with an offset to commit: brokers handle pulls and commits on different threads, so that the offset
            // of a pull could be stored after that of the last commit, and the next owner would repeat what lies between.
            sys_flag: SUSPEND
                | if in_request { SUBSCRIPTION } else { 0 }
                | if by_class { pull_flag::CLASS_FILTER } else { 0 },
            commit_offset: 0,
            suspend_timeout_millis: HOLD_MILLIS,
            sub_version: if is_member { self.subscription.version } else { 0 },
            // Of a group without members the broker knows no subscription.
            subscription: in_request.then(|| self.subscription.expression.clone()),
            expression_type: Some(self.subscription.kind.name().to_owned()),
            max_msg_bytes: Some(settings.pull_batch_bytes),
            request_source: None,
            proxy_forward_client_id: None,
            bname: Some(queue.broker_name().to_owned()),
        };
        self.queue.facts.last_pull.store(self.core.millis(), Ordering::Relaxed);
        self.core.totals().pulls.fetch_add(1, Ordering::Relaxed);
        let tag = self.tag();
        let to = server.as_ref().unwrap_or(&address);
        self.core.send(to, Request::Pull(link, Box::new(header)), sink, tag);
        self.asked = Some(address);
        true
    }

    fn take_in(&mut self, pulled: Pulled, now: Instant) -> Taken {
        let code = pulled.code;
        let remark = pulled.remark.as_deref().unwrap_or_default();
        let dropped = code == ResponseCode::SUBSCRIPTION_NOT_EXIST && remark.contains(DROPPED);
        if pulled.offsets.is_some() {
            self.queue.facts.forget_failure();
        } else {
            self.queue.facts.set_failure(Failure::of_answer(code, pulled.remark.as_deref()));
        }
        if let Some(offsets) = &pulled.offsets {
            self.queue.facts.set_max(offsets.max_offset);
            self.suggested = u64::try_from(offsets.suggest_which_broker_id).unwrap_or(0);
        }
        let question = Question {
            from: self.fetch.next(),
            queue: self.queue.queue(),
            subscription: &self.subscription,
            namespace: self.core.namespace().shared_name(),
            offset_illegal: self.core.settings().offset_illegal,
        };
        let taken = take_in(pulled, &question, self.core.measured_now());
        if let Taken::Outcome(Outcome::NotTold) = taken {
            log::debug!("{}: {code}, sending a heartbeat", self.queue.queue());
            self.core.heartbeat_now(self.asked.as_deref());
            if let (true, Some(broker)) = (dropped, self.asked.clone()) {
                let (core, topic) = (self.core.clone(), self.queue.queue().shared_topic().clone());
                self.core.post_rebalance(RebalanceEvent::TopicDropped { core, topic, broker });
            }
        }
        if code == ResponseCode::TOPIC_NOT_EXIST {
            self.core.want_route(self.queue.queue().topic());
        }
        if code == ResponseCode::SUCCESS
            && let fetch::State::InFlight { since } = self.fetch.state()
        {
            let came = if let Taken::Found(run, _) = &taken { run.len() } else { 0 };
            self.fetched.answered(now.saturating_duration_since(*since), came.into());
        }
        taken
    }

    fn ended(&mut self, outcome: Outcome, now: Instant) {
        let outcome = match outcome {
            Outcome::Failed(why) => {
                Outcome::Failed(format!("{}: {why}", self.asked.as_deref().unwrap_or("its broker")))
            }
            outcome => outcome,
        };
        if let Outcome::Failed(why) | Outcome::Unreadable(_, why) = &outcome {
            log::debug!("a pull of {} failed: {why}", self.queue.queue());
            self.queue.facts.set_last_error(why.clone());
        }
        let failures = self.fetch.failures();
        self.fetch.ended(outcome, now, self.core.jitter());
        self.queue.facts.set_next(self.fetch.next());
        if self.fetch.failures() == fetch::FAILURES_UNTIL_SLOW && failures < fetch::FAILURES_UNTIL_SLOW {
            let reason = self.fetch.pause().map_or(Waiting::NoRoute, |pause| self.waiting(pause));
            let since = ERROR_DELAY * fetch::FAILURES_UNTIL_SLOW;
            log::warn!("{} has not moved for about {since:?}: {reason}", self.queue.queue());
            self.core.emit(Event::QueueStalled { queue: self.queue.queue().clone(), reason, since });
        }
    }

    fn waiting(&self, pause: &Pause) -> Waiting {
        match pause {
            Pause::FlowControl => Waiting::FlowControl,
            Pause::CacheLimit => Waiting::CacheLimit,
            Pause::Suspended if self.core.is_paused(self.queue.queue()) => Waiting::Paused,
            Pause::Suspended => Waiting::Suspended,
            Pause::NoRoute => Waiting::NoRoute,
            Pause::NoHeartbeat => Waiting::NoHeartbeat,
            Pause::Failing(why) => Waiting::Failing(why.clone()),
            Pause::Interval | Pause::Busy => {
                let left = match self.fetch.state() {
                    fetch::State::Waiting { until, .. } => until.saturating_duration_since(self.core.now()),
                    _ => Duration::ZERO,
                };
                Waiting::Until(self.core.time() + left)
            }
        }
    }
}

const CHECK_EVERY: Duration = Duration::from_secs(10);
/// How long the broker may hold a pull, as the Java client.
const HOLD_MILLIS: i64 = 15_000;
const LOST_PULL: Duration = Duration::from_secs(31);
const SUSPEND: i32 = 2;
/// With the same code, a broker says that it does not know the group at all: that has other causes.
const DROPPED: &str = "subscription not exist";
/// The generation that a tag belongs to.
pub(super) fn generation(tag: u64) -> u64 {
    tag & ID
}

/// A tag is the generation, and above it the turn: no process has so many generations.
const TURN_AT: u32 = 48;
const ID: u64 = (1 << TURN_AT) - 1;
/// The filter is in the request.
const SUBSCRIPTION: i32 = 4;

#[cfg(test)]
mod tests;
