//! One queue that is fetched for: its next step, in the present surroundings, and what came of the last one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::client::{MASTER, Role};
use crate::consumer::answer::{Pulled, Question, Taken, take_in};
use crate::consumer::events::Event;
use crate::consumer::failure::Failure;
use crate::consumer::fetch::{self, ERROR_DELAY, Fetch, Outcome, Pause, Step, View};
use crate::consumer::figures::Fetched;
use crate::consumer::offset::Offset;
use crate::consumer::outside::{Outside, Request};
use crate::consumer::process_queue::ProcessQueue;
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::rebalance_loop::RebalanceEvent;
use crate::consumer::stats::Waiting;
use crate::message::{Subscription, SubscriptionKind};
use crate::protocol::ResponseCode;
use crate::protocol::headers::{PullMessage, pull_flag};

pub(super) struct Entry<S> {
    pub(super) core: Arc<S>,
    pub(super) queue: Arc<ProcessQueue>,
    pub(super) fetch: Fetch,
    pub(super) subscription: Arc<Subscription>,
    pub(super) fetched: Arc<Fetched>,
    /// Where its messages are best read, as the last answer says.
    pub(super) suggested: u64,
    /// Until then the master is read whatever is suggested: the one that was suggested did not serve.
    pub(super) shunned_until: Option<Instant>,
    /// The address of the pull in flight.
    pub(super) asked: Option<Arc<str>>,
    /// Counts the pulls that were given up with their answer still to come.
    pub(super) turn: u16,
    /// What the timer was asked for last: once for each moment, however often it is nudged until then.
    pub(super) alarm: Option<Instant>,
}

impl<S: Outside> Entry<S> {
    pub(super) fn is_asked_by_an_old_filter(&self) -> bool {
        let now = self.core.subscription(self.queue.queue().topic());
        now.is_some_and(|now| !Arc::ptr_eq(&now, &self.subscription))
    }

    /// The next step, in the present surroundings. `None` once the queue is closed.
    pub(super) fn step(&mut self) -> Option<Step> {
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

    pub(super) fn tag(&self) -> u64 {
        self.queue.id() | u64::from(self.turn) << TURN_AT
    }

    /// Who is asked: the suggested one, unless it is gone, does not know us, or did not serve lately; then the master, or
    /// whoever stands in for it.
    fn address(&self) -> Option<(Arc<str>, u64)> {
        let at = |id| self.core.broker_address(self.queue.queue().broker_name(), Role::Id(id));
        let follows =
            self.suggested != MASTER && self.shunned_until.is_none_or(|until| until <= self.core.now());
        let suggested = if follows { at(self.suggested) } else { None };
        suggested.filter(|(address, _)| self.is_told(address)).or_else(|| at(MASTER))
    }

    fn is_told(&self, address: &str) -> bool {
        self.core.is_told(address, self.queue.queue().topic(), self.subscription.version)
    }

    /// Whatever could have ended the reason meanwhile is looked at once more, after saying that it is waited for.
    pub(super) fn park(&mut self, why: &Pause) {
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
    pub(super) fn pull(&mut self, from: Offset, single: bool, sink: &S::Sink) -> bool {
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
            sys_flag: pull_flag::SUSPEND
                | if in_request { pull_flag::SUBSCRIPTION } else { 0 }
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

    pub(super) fn take_in(&mut self, pulled: Pulled, now: Instant) -> Taken {
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
            self.suggested = u64::try_from(offsets.suggest_which_broker_id).unwrap_or(MASTER);
        }
        let queue = self.core.namespace().strip_queue(self.queue.queue());
        let question = Question {
            from: self.fetch.next(),
            queue: &queue,
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

    pub(super) fn ended(&mut self, outcome: Outcome, now: Instant) {
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
        let outcome = self.or_at_the_master(outcome, now);
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

    /// What a slave could not serve, the master is asked for at once, as far as there is one. A slave may be away, not
    /// serve readers at all, be behind, or not know yet what its master knows.
    fn or_at_the_master(&mut self, outcome: Outcome, now: Instant) -> Outcome {
        if !matches!(outcome, Outcome::Failed(_) | Outcome::NotTold | Outcome::NotHeld) {
            return outcome;
        }
        let master = self.core.broker_address(self.queue.queue().broker_name(), Role::Id(MASTER));
        if master.is_none_or(|(address, _)| self.asked.as_ref().is_none_or(|asked| *asked == address)) {
            return outcome;
        }
        self.suggested = MASTER;
        if outcome != Outcome::NotHeld {
            self.shunned_until = Some(now + SHUNNED);
        }
        Outcome::Nothing(self.fetch.next())
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

/// The generation that a tag belongs to.
pub(in super::super) fn generation(tag: u64) -> u64 {
    tag & ID
}

/// A tag is the generation, and above it the turn: no process has so many generations.
const TURN_AT: u32 = 48;
const ID: u64 = (1 << TURN_AT) - 1;
/// How long the broker may hold a pull, as the Java client.
const HOLD_MILLIS: i64 = 15_000;
/// How long a suggestion is not followed after it has led nowhere. A slave copies topics and groups from its master every
/// 10 s (4.x) or every 60 s (5.x).
const SHUNNED: Duration = Duration::from_secs(20);
/// With the same code, a broker says that it does not know the group at all: that has other causes.
const DROPPED: &str = "subscription not exist";
