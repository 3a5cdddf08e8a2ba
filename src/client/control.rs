//! `rmq-control`: one loop over one channel. Every request it makes is asynchronous, so a server that hangs holds
//! nothing up.
//!
//! It keeps routes fresh, sends heartbeats and goodbyes, passes on what brokers ask and what happens to connections,
//! and probes connections that are silent. What to do when is decided by the pure pieces `RouteWatch` and `Beats`.

mod beats;
mod goodbye;
mod questions;
mod requests;
mod routes;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::clock::{Clock, Ticks};
use crate::protocol::{Frame, RemotingCommand};
use crate::remoting::{CallError, Incoming, LinkEvent, ReplySink};

use super::heartbeat::Beats;
use super::instance::Instance;
use super::member::Notice;
use super::routes::RouteWatch;
use super::threads::panic_text;

pub(super) use beats::PROBE_TOPIC;
pub(crate) use goodbye::Goodbye;
use questions::Question;
pub(super) use routes::{RouteAnswer, STATIC, route_answer, route_request};

/// What comes in on the channel of the control loop.
#[derive(Debug)]
pub(crate) enum Input {
    /// Look at the wishes.
    Wake,
    Link(LinkEvent),
    Request(Incoming),
    Answer(u64, Result<Frame, CallError>),
    Leave(Goodbye),
    /// A look-up of the name servers is over.
    NameServers(Result<String, String>),
    /// A manual clock was moved.
    Tick,
    Stop,
}

pub(super) struct Control {
    instance: Arc<Instance>,
    inbox: Receiver<Input>,
    sink: ReplySink,
    time: Time,
    watch: RouteWatch,
    beats: Beats,
    questions: HashMap<u64, Question>,
    next_tag: u64,
    farewells: goodbye::Farewells,
    /// Requests of brokers that are on the channel; counted by `rmq-io`.
    queued_requests: Arc<AtomicUsize>,
    /// When connections are to be looked at for silence.
    suspects_at: Instant,
    look_up_at: Option<Instant>,
    /// With the feature `metrics`.
    metrics_at: Option<Instant>,
    _ticks: Ticks,
}

impl Control {
    pub(super) fn new(
        instance: Arc<Instance>,
        inbox: Receiver<Input>,
        queued_requests: Arc<AtomicUsize>,
    ) -> Self {
        let sender = instance.inbox.clone();
        let sink = ReplySink::new(move |tag, outcome| drop(sender.send(Input::Answer(tag, outcome))));
        let sender = instance.inbox.clone();
        let ticks = instance.clock().on_advance(move || drop(sender.send(Input::Tick)));
        let time = Time::new(instance.clock().clone());
        let now = time.now();
        Control {
            watch: RouteWatch::new(instance.config.route_interval),
            beats: Beats::new(instance.config.heartbeat_interval),
            look_up_at: routes::first_look_up(&instance.config, now),
            metrics_at: cfg!(feature = "metrics").then(|| now + METRICS_INTERVAL),
            suspects_at: now + SUSPECTS_INTERVAL,
            questions: HashMap::new(),
            next_tag: 0,
            farewells: goodbye::Farewells::default(),
            queued_requests,
            instance,
            inbox,
            sink,
            time,
            _ticks: ticks,
        }
    }

    /// Runs until it is told to stop. A panic in one step costs that step.
    pub(super) fn run(mut self) {
        loop {
            let input = match self.next_input() {
                Ok(Input::Stop) => break,
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.step(input))) {
                log::error!("a step of rmq-control panicked: {}", panic_text(&*panic));
            }
        }
        self.farewells.give_up("the client has been shut down");
    }

    fn next_input(&self) -> Result<Input, RecvTimeoutError> {
        // One of its own channel's senders lives in the instance: it cannot be disconnected before the end.
        self.inbox.recv_deadline(self.time.real(self.next_due()))
    }

    fn next_due(&self) -> Instant {
        let dues = [self.watch.next_due(), self.beats.next_due(), self.look_up_at, self.metrics_at];
        dues.into_iter().flatten().fold(self.suspects_at, Instant::min)
    }

    fn step(&mut self, input: Option<Input>) {
        if let Some(input) = input {
            self.take(input);
        }
        let now = self.time.now();
        self.ask_for_due_routes(now);
        self.send_due_heartbeats(now);
        if now >= self.suspects_at {
            self.look_for_silence(now);
        }
        if self.look_up_at.is_some_and(|at| now >= at) {
            self.look_up_name_servers(now);
        }
        if self.metrics_at.is_some_and(|at| now >= at) {
            self.metrics_at = Some(now + METRICS_INTERVAL);
            self.instance.publish_all();
        }
        self.instance.flush();
    }

    fn take(&mut self, input: Input) {
        let now = self.time.now();
        match input {
            Input::Wake => self.take_wishes(now),
            Input::Link(LinkEvent::Up { address, .. }) => self.connected(&address, now),
            Input::Link(LinkEvent::Down { address, error }) => self.disconnected(&address, &error, now),
            Input::Request(incoming) => {
                self.queued_requests.fetch_sub(1, Ordering::Relaxed);
                self.serve(incoming);
            }
            Input::Answer(tag, outcome) => self.answered(tag, outcome, now),
            Input::Leave(goodbye) => self.say_goodbye(goodbye, now),
            Input::NameServers(found) => self.found_name_servers(found, now),
            Input::Tick | Input::Stop => {}
        }
    }

    fn take_wishes(&mut self, now: Instant) {
        let wishes = self.instance.wakes.take();
        if wishes.ids_changed {
            self.tell_all(&Notice::ConsumerIdsChanged);
        }
        for change in wishes.fetched {
            self.watch.seen(&change.topic, change.lost_broker, now);
            self.route_changed(change);
        }
        if wishes.members {
            self.watch_topics_of_members(now);
        }
        for topic in &wishes.topics {
            self.watch.want(topic, now);
        }
        self.choose_brokers_to_tell(now);
        if wishes.heartbeat_to_all {
            self.beats.want_all(now);
        }
        for address in &wishes.heartbeat_to {
            self.beats.want(address, now);
        }
    }

    fn connected(&mut self, address: &Arc<str>, now: Instant) {
        let Some(name) = self.instance.broker_name(address) else { return };
        log::debug!("connected to broker {name} at {address}");
        self.beats.linked(address, now);
        self.tell_all(&Notice::BrokerUp { name, address: address.clone() });
    }

    fn disconnected(&mut self, address: &Arc<str>, error: &Arc<str>, now: Instant) {
        log::debug!("no connection to {address}: {error}");
        if self.instance.name_servers.contains(address) {
            self.instance.name_servers.failed(address);
        }
        if self.instance.broker_name(address).is_none() {
            // Addresses come and go in some clusters; what was noted of them must not pile up.
            self.instance.told.forget(address);
            self.instance.versions.lock().remove(address);
            return;
        }
        self.beats.lost(address, now);
        self.trouble_at(address, now);
        self.tell_all(&Notice::Disconnected { address: address.clone(), error: error.clone() });
    }

    /// The routes that name this broker may be out of date.
    fn trouble_at(&mut self, address: &str, now: Instant) {
        let topics = self.instance.routes.lock().topics_at(address);
        self.watch.trouble(&topics, now);
    }

    fn tell_all(&self, notice: &Notice) {
        for member in self.instance.members() {
            member.notice(notice.clone());
        }
    }

    /// Sends a request whose answer comes back as `question`; written at the end of this step.
    fn ask(&mut self, address: &str, command: RemotingCommand, timeout: Duration, question: Question) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.questions.insert(tag, question);
        self.instance.queue(address, command, timeout, self.sink.reply(tag));
    }
}

/// Real time plus what a manual clock was moved by: back-off and intervals pass either way, and a test that moves
/// the clock by a day makes everything due that would be due in a day.
struct Time {
    clock: Clock,
    started: Instant,
}

impl Time {
    fn new(clock: Clock) -> Self {
        Time { started: clock.instant(), clock }
    }

    fn now(&self) -> Instant {
        Instant::now() + self.moved()
    }

    /// The real moment at which `now` will reach `at`, unless the clock is moved before.
    fn real(&self, at: Instant) -> Instant {
        at.checked_sub(self.moved()).unwrap_or(at)
    }

    fn moved(&self) -> Duration {
        if self.clock.is_manual() {
            self.clock.instant().saturating_duration_since(self.started)
        } else {
            Duration::ZERO
        }
    }
}

const SUSPECTS_INTERVAL: Duration = Duration::from_secs(10);
const METRICS_INTERVAL: Duration = Duration::from_secs(10);
