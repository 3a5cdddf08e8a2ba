//! What stands in for the core of a consumer: it shows the deciding parts a world, and takes down what they ask of it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::rng::Rng;
use crate::client::{Namespace, Role, Told};
use crate::consumer::budget::{Budget, OnRelease};
use crate::consumer::core::Totals;
use crate::consumer::events::Event;
use crate::consumer::local::LocalStore;
use crate::consumer::losses::{AllLosses, Losses};
use crate::consumer::outside::{Outside, Request, Subscriptions};
use crate::consumer::process_queue::ProcessQueue;
use crate::consumer::pull_consumer::Assigned;
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::rebalance_loop::RebalanceEvent;
use crate::consumer::settings::Settings;
use crate::consumer::slot::Slot;
use crate::consumer::stats::Waiting;
use crate::consumer::timer_loop::TimerEvent;
use crate::message::MessageQueue;

/// The group of all members.
pub(super) const GROUP: &str = "g";
pub(super) const RETRY_TOPIC: &str = "%RETRY%g";
/// Names of the brokers, by number, and the hosts on which they are. Each time that one moves, its port changes.
pub(super) const BROKERS: [(&str, &str); 2] = [("broker-a", "a"), ("broker-b", "b")];

/// Where the outcome of a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sink {
    Pulls,
    Backs,
    Rebalance,
    Control,
    Locks,
}

/// What a deciding part asked for, to be carried out by the world.
pub(super) enum Deed {
    Send {
        broker: usize,
        request: Request,
        sink: Sink,
        tag: u64,
    },
    Heartbeat(Option<usize>),
    Route(String),
    Pull(PullEvent<SimCore>),
    Rebalance(RebalanceEvent<SimCore>),
    Timer(TimerEvent<SimCore>),
    Tell(Event),
    Ready(Arc<ProcessQueue>),
    Own(Arc<ProcessQueue>),
    Disown(u64),
    CancelListeners,
    /// The connection ended between two looks at it.
    Cut(usize),
    RenewLocks(Arc<str>),
    /// The program is to say where this queue begins.
    Question(MessageQueue, u64),
}

/// One simulated consumer, as its deciding parts see it.
pub(super) struct SimCore {
    id: String,
    group: Arc<str>,
    namespace: Namespace,
    settings: Settings,
    budget: Arc<Budget>,
    freed: Arc<AtomicBool>,
    /// Of one that keeps its offsets itself.
    pub(super) local: Option<Arc<LocalStore>>,
    /// Of one that a program polls: whether what it got is committed without its word.
    pub(super) auto: Option<bool>,
    /// The queues that the program has chosen, if it does.
    pub(super) assigned: RefCell<Option<Assigned>>,
    /// The program keeps its offsets itself.
    pub(super) own_offsets: bool,
    /// What the program has paused.
    pub(super) paused: RefCell<BTreeSet<MessageQueue>>,
    totals: Totals,
    /// What brokers have acknowledged; the real thing.
    pub(super) told: Told,
    pub(super) seen: RefCell<Seen>,
    pub(super) deeds: RefCell<Vec<Deed>>,
    owned: RefCell<BTreeMap<MessageQueue, Arc<ProcessQueue>>>,
    /// The real thing as well.
    losses: AllLosses,
    /// Of the consume threads.
    pub(super) slots: RefCell<Vec<Arc<Slot>>>,
    rng: RefCell<Rng>,
    /// Of a thousand looks at a connection, how many see it end.
    pub(super) fragile: Cell<u64>,
}

/// The world as this member sees it.
pub(super) struct Seen {
    pub(super) base: Instant,
    pub(super) now: Instant,
    pub(super) subscriptions: Arc<Subscriptions>,
    pub(super) suspended: bool,
    pub(super) routes: BTreeMap<String, Vec<MessageQueue>>,
    /// Where each broker is.
    pub(super) ports: Vec<usize>,
    /// A mutant: the open connection to each broker counts as told.
    pub(super) credulous: Option<Vec<Option<u64>>>,
}

impl SimCore {
    pub(super) fn new(number: usize, settings: Settings, cache: usize, seen: Seen, rng: Rng) -> Self {
        let freed = Arc::new(AtomicBool::new(false));
        let told_of_release = freed.clone();
        let on_release = OnRelease(Box::new(move || told_of_release.store(true, Ordering::Relaxed)));
        Self {
            id: format!("10.0.0.1@{number}"),
            group: GROUP.into(),
            namespace: Namespace::new(None),
            settings,
            budget: Arc::new(Budget::new(cache, Arc::default(), on_release)),
            freed,
            local: None,
            auto: None,
            assigned: RefCell::default(),
            own_offsets: false,
            paused: RefCell::default(),
            totals: Totals::default(),
            told: Told::default(),
            seen: RefCell::new(seen),
            deeds: RefCell::default(),
            owned: RefCell::default(),
            losses: AllLosses::default(),
            slots: RefCell::default(),
            rng: RefCell::new(rng),
            fragile: Cell::new(0),
        }
    }

    /// Whether the cache has given bytes back to somebody who waits for them.
    pub(super) fn take_freed(&self) -> bool {
        self.freed.swap(false, Ordering::Relaxed)
    }

    fn note(&self, deed: Deed) {
        self.deeds.borrow_mut().push(deed);
    }

    /// Where this broker is, as far as this member knows.
    pub(super) fn address(&self, broker: usize) -> Arc<str> {
        address(broker, self.port(broker))
    }

    pub(super) fn port(&self, broker: usize) -> usize {
        self.seen.borrow().ports[broker]
    }

    fn brokers(&self) -> Vec<usize> {
        let seen = self.seen.borrow();
        let known = |name: &str| seen.routes.values().flatten().any(|queue| queue.broker_name() == name);
        (0..BROKERS.len()).filter(|n| known(BROKERS[*n].0)).collect()
    }
}

/// The number of the broker that is there, or was.
pub(super) fn broker_at(address: &str) -> usize {
    let host = address.split(':').next();
    BROKERS.iter().position(|(_, known)| Some(*known) == host).expect("only these brokers are ever named")
}

pub(super) fn broker_named(name: &str) -> usize {
    BROKERS.iter().position(|(known, _)| *known == name).expect("only these brokers are ever named")
}

pub(super) fn address(broker: usize, port: usize) -> Arc<str> {
    format!("{}:{port}", BROKERS[broker].1).into()
}

impl Outside for SimCore {
    type Sink = Sink;

    fn send(&self, address: &str, request: Request, sink: &Sink, tag: u64) {
        self.note(Deed::Send { broker: broker_at(address), request, sink: *sink, tag });
    }

    fn heartbeat_now(&self, address: Option<&str>) {
        self.note(Deed::Heartbeat(address.map(broker_at)));
    }

    fn want_route(&self, topic: &str) {
        self.note(Deed::Route(topic.to_owned()));
    }

    fn queues_of(&self, topic: &str) -> Option<Vec<MessageQueue>> {
        self.seen.borrow().routes.get(topic).cloned()
    }

    fn any_broker_of(&self, topic: &str) -> Option<Arc<str>> {
        let seen = self.seen.borrow();
        let queues = seen.routes.get(topic)?;
        let queue = queues.get(self.rng.borrow_mut().below(queues.len()))?;
        let broker = broker_named(queue.broker_name());
        Some(address(broker, seen.ports[broker]))
    }

    fn broker_address(&self, name: &str, _: Role) -> Option<(Arc<str>, u64)> {
        let known = self.brokers().into_iter().find(|n| BROKERS[*n].0 == name)?;
        Some((self.address(known), 0))
    }

    fn broker_name(&self, address: &str) -> Option<Arc<str>> {
        self.brokers().into_iter().find(|n| *self.address(*n) == *address).map(|n| BROKERS[n].0.into())
    }

    fn masters(&self) -> Vec<(Arc<str>, Arc<str>)> {
        self.brokers().into_iter().map(|n| (BROKERS[n].0.into(), self.address(n))).collect()
    }

    fn told_on(&self, address: &str, topic: &str, version: i64) -> Option<u64> {
        let broker = broker_at(address);
        if let Some(open) = &self.seen.borrow().credulous {
            return open.get(broker).copied().flatten();
        }
        let told = match self.is_member() {
            true => self.told.told_on(address, GROUP, topic, version),
            false => self.told.heard_on(address),
        };
        if told.is_some() && self.rng.borrow_mut().chance(self.fragile.get()) {
            self.told.connection_ended(address);
            self.note(Deed::Cut(broker));
        }
        told
    }

    fn client_id(&self) -> &str {
        &self.id
    }

    fn group(&self) -> &Arc<str> {
        &self.group
    }

    fn plain_group(&self) -> &str {
        &self.group
    }

    fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn local_store(&self) -> Option<&Arc<LocalStore>> {
        self.local.as_ref()
    }

    fn polled(&self) -> Option<bool> {
        self.auto
    }

    fn assigned(&self) -> Option<Assigned> {
        self.assigned.borrow().clone()
    }

    fn is_member(&self) -> bool {
        self.assigned.borrow().is_none()
    }

    fn has_own_offsets(&self) -> bool {
        self.own_offsets
    }

    fn ask_program(&self, queue: &MessageQueue, epoch: u64) {
        self.note(Deed::Question(queue.clone(), epoch));
    }

    fn is_paused(&self, queue: &MessageQueue) -> bool {
        self.paused.borrow().contains(queue)
    }

    fn subscriptions(&self) -> Arc<Subscriptions> {
        self.seen.borrow().subscriptions.clone()
    }

    fn is_suspended(&self) -> bool {
        self.seen.borrow().suspended
    }

    fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    fn totals(&self) -> &Totals {
        &self.totals
    }

    fn now(&self) -> Instant {
        self.seen.borrow().now
    }

    fn time(&self) -> SystemTime {
        let seen = self.seen.borrow();
        SystemTime::UNIX_EPOCH + START + seen.now.saturating_duration_since(seen.base)
    }

    fn measured_now(&self) -> Instant {
        self.now()
    }

    fn is_moved_by_hand(&self) -> bool {
        false
    }

    fn jitter(&self) -> f64 {
        self.rng.borrow_mut().fraction()
    }

    fn post_pull(&self, event: PullEvent<Self>) {
        self.note(Deed::Pull(event));
    }

    fn post_rebalance(&self, event: RebalanceEvent<Self>) {
        self.note(Deed::Rebalance(event));
    }

    fn post_timer(&self, event: TimerEvent<Self>) {
        self.note(Deed::Timer(event));
    }

    fn emit(&self, event: Event) {
        self.note(Deed::Tell(event));
    }

    fn ready(&self, queue: &Arc<ProcessQueue>, _: Instant) {
        self.note(Deed::Ready(queue.clone()));
    }

    fn came(&self, _: usize) {}

    fn went(&self, _: usize) {}

    fn wake(&self) -> bool {
        false
    }

    fn cancel_listeners(&self) {
        self.note(Deed::CancelListeners);
    }

    fn own(&self, queue: &Arc<ProcessQueue>) {
        self.owned.borrow_mut().insert(queue.queue().clone(), queue.clone());
        self.note(Deed::Own(queue.clone()));
    }

    fn disown(&self, queue: &ProcessQueue) {
        let mut owned = self.owned.borrow_mut();
        if owned.get(queue.queue()).is_some_and(|known| known.id() == queue.id()) {
            owned.remove(queue.queue());
        }
        self.note(Deed::Disown(queue.id()));
    }

    fn wait_for_start(&self, _: &MessageQueue, _: Option<Waiting>) {}

    fn own_address(&self, _: &str) -> Option<SocketAddr> {
        None
    }

    fn heartbeat_interval(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn owned(&self) -> Vec<Arc<ProcessQueue>> {
        self.owned.borrow().values().cloned().collect()
    }

    fn is_listening_to(&self, queue: &MessageQueue) -> bool {
        self.slots.borrow().iter().any(|slot| slot.is_working_on(queue))
    }

    fn losses(&self, broker: &Arc<str>) -> Losses {
        self.losses.of(broker)
    }

    fn renew_locks(&self, broker: &Arc<str>) {
        self.note(Deed::RenewLocks(broker.clone()));
    }
}

/// When every run begins, since 1970.
pub(super) const START: Duration = Duration::from_secs(1_700_000_000);
