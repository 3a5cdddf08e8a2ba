//! An outside without a client: it notes what it is asked for. For the tests of single pieces.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use super::{Outside, Request, Subscriptions};
use crate::client::{Namespace, Role};
use crate::consumer::allocate;
use crate::consumer::budget::{Budget, OnRelease};
use crate::consumer::core::Totals;
use crate::consumer::events::Event;
use crate::consumer::losses::Losses;
use crate::consumer::offset::Offset;
use crate::consumer::process_queue::{Limits, ProcessQueue};
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::rebalance_loop::RebalanceEvent;
use crate::consumer::run::Run;
use crate::consumer::settings::{InOrder, MessageModel, OffsetIllegal, Settings, standard_delay_levels};
use crate::consumer::stats::Waiting;
use crate::consumer::timer_loop::TimerEvent;
use crate::message::{ConsumeFrom, Filter, MessageQueue, Record, Source, Subscription};

/// One topic, `orders`, on one broker, which has been told of everything.
pub(in crate::consumer) struct Stub {
    group: Arc<str>,
    namespace: Namespace,
    settings: Settings,
    budget: Arc<Budget>,
    totals: Totals,
    subscribed: AtomicBool,
    subscriptions: Mutex<Arc<Subscriptions>>,
    lost: AtomicBool,
    /// It has a slave as well, which may have been told of everything.
    slave: Mutex<Option<bool>>,
    now: Instant,
    sent: Mutex<Vec<u64>>,
    asked: Mutex<Option<Box<str>>>,
    timers: AtomicUsize,
    broken: AtomicBool,
    rebuilt: Mutex<Vec<u64>>,
    readied: AtomicUsize,
    unlocks: AtomicUsize,
    /// Of one that a program polls.
    auto: Option<bool>,
    owned: Mutex<Option<Arc<ProcessQueue>>>,
    losses: Losses,
}

impl Stub {
    pub(in crate::consumer) fn new() -> Arc<Self> {
        Arc::new(Self::with(settings()))
    }

    /// The same, polled by a program that commits, or for which is committed.
    pub(in crate::consumer) fn polled_by_program(auto: bool) -> Arc<Self> {
        Arc::new(Self { auto: Some(auto), ..Self::with(settings()) })
    }

    /// The same, consumed in order.
    pub(in crate::consumer) fn in_order() -> Arc<Self> {
        let order = Some(InOrder { suspend_time: Duration::from_secs(1), locks: true });
        Arc::new(Self::with(Settings { order, ..settings() }))
    }

    fn with(settings: Settings) -> Self {
        let subscription = Subscription::parse("orders", &Filter::all(), 1).expect("everything is a filter");
        Self {
            group: "billing".into(),
            namespace: Namespace::default(),
            settings,
            budget: Arc::new(Budget::new(1 << 20, Arc::default(), OnRelease(Box::new(|| {})))),
            totals: Totals::default(),
            subscribed: AtomicBool::new(true),
            subscriptions: Mutex::new(Arc::new(BTreeMap::from([("orders".into(), Arc::new(subscription))]))),
            lost: AtomicBool::new(false),
            slave: Mutex::default(),
            now: Instant::now(),
            sent: Mutex::default(),
            asked: Mutex::default(),
            timers: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            rebuilt: Mutex::default(),
            readied: AtomicUsize::new(0),
            unlocks: AtomicUsize::new(0),
            auto: None,
            owned: Mutex::default(),
            losses: Losses::default(),
        }
    }

    pub(in crate::consumer) fn budget_for_test(&self) -> Arc<Budget> {
        self.budget.clone()
    }

    /// A new generation of the one queue.
    pub(in crate::consumer) fn queue(&self) -> Arc<ProcessQueue> {
        let limits = Limits { messages: 1000, bytes: 1 << 20, span: 2000 };
        let queue = MessageQueue::new("orders", "broker-a", 0);
        Arc::new(ProcessQueue::new(queue, Offset::ZERO, limits, self.budget.clone()))
    }

    /// A run of so many messages, all taken.
    pub(in crate::consumer) fn run(queue: &ProcessQueue, messages: u32) -> Arc<Run> {
        Self::push(queue, messages);
        queue.take(messages).expect("a run was pushed").run
    }

    /// A pull has brought so many messages.
    pub(in crate::consumer) fn push(queue: &ProcessQueue, messages: u32) {
        let source = Arc::new(Source { bytes: vec![0; 200], queue: queue.queue().clone(), namespace: None });
        let record = |offset: u32| Record::empty(offset.into(), 100);
        let next = Offset::new(messages.into()).expect("not negative");
        let run = Run::new(source, (0..messages).map(record).collect(), next, Instant::now());
        drop(queue.push(run));
    }

    pub(in crate::consumer) fn subscribe(&self, subscribed: bool) {
        self.subscribed.store(subscribed, Ordering::SeqCst);
    }

    /// The topic is subscribed with another filter.
    pub(in crate::consumer) fn change_filter(&self) {
        let subscription =
            Subscription::parse("orders", &Filter::tags("paid"), 2).expect("a tag is a filter");
        *self.subscriptions.lock() = Arc::new(BTreeMap::from([("orders".into(), Arc::new(subscription))]));
    }

    /// From now on no address of a broker is known.
    pub(in crate::consumer) fn lose_brokers(&self) {
        self.lost.store(true, Ordering::SeqCst);
    }

    /// Its broker has a slave as well; whether that has been told of everything.
    pub(in crate::consumer) fn with_slave(&self, told: bool) {
        *self.slave.lock() = Some(told);
    }

    /// Whether the last request went to the slave.
    pub(in crate::consumer) fn asked_the_slave(&self) -> bool {
        self.asked.lock().as_deref() == Some(SLAVE)
    }

    /// The tags of the requests since the last look.
    pub(in crate::consumer) fn take_sent(&self) -> Vec<u64> {
        std::mem::take(&mut self.sent.lock())
    }

    /// How often the timer was asked for something.
    pub(in crate::consumer) fn timers(&self) -> usize {
        self.timers.load(Ordering::SeqCst)
    }

    /// From now on whoever has something for `rmq-pull` panics.
    pub(in crate::consumer) fn break_posts(&self) {
        self.broken.store(true, Ordering::SeqCst);
    }

    /// What was to be rebuilt.
    pub(in crate::consumer) fn rebuilt(&self) -> Vec<u64> {
        self.rebuilt.lock().clone()
    }

    /// How often a queue was put on the ready list.
    pub(in crate::consumer) fn readied(&self) -> usize {
        self.readied.load(Ordering::SeqCst)
    }

    /// How often a broker was told that others may have a queue.
    pub(in crate::consumer) fn unlocks(&self) -> usize {
        self.unlocks.load(Ordering::SeqCst)
    }

    fn address(&self) -> Option<Arc<str>> {
        (!self.lost.load(Ordering::SeqCst)).then(|| "127.0.0.1:10911".into())
    }
}

const SLAVE: &str = "127.0.0.1:10921";

fn settings() -> Settings {
    Settings {
        message_model: MessageModel::Clustering,
        consume_from: ConsumeFrom::LastOffset,
        allocate: Arc::new(allocate::averagely),
        consume_threads: 1,
        consume_batch_size: 1,
        consume_timeout: Duration::from_secs(900),
        max_reconsume_times: 16,
        order: None,
        delay_levels: standard_delay_levels(),
        pull_batch_size: 32,
        pull_batch_bytes: 1 << 18,
        pull_interval: Duration::ZERO,
        pull_threshold_messages: 1000,
        pull_threshold_bytes: 1 << 20,
        max_span: 2000,
        commit_interval: Duration::from_secs(5),
        offset_illegal: OffsetIllegal::Nearest,
    }
}

impl Outside for Stub {
    type Sink = ();

    fn send(&self, address: &str, request: Request, (): &(), tag: u64) {
        *self.asked.lock() = Some(address.into());
        if let Request::Unlock(_) = request {
            self.unlocks.fetch_add(1, Ordering::SeqCst);
        }
        self.sent.lock().push(tag);
    }

    fn heartbeat_now(&self, _: Option<&str>) {}

    fn want_route(&self, _: &str) {}

    fn queues_of(&self, topic: &str) -> Option<Vec<MessageQueue>> {
        Some(vec![MessageQueue::new(topic, "broker-a", 0)])
    }

    fn any_broker_of(&self, _: &str) -> Option<Arc<str>> {
        self.address()
    }

    fn broker_address(&self, _: &str, role: Role) -> Option<(Arc<str>, u64)> {
        if role == Role::Id(1) && self.slave.lock().is_some() {
            return Some((SLAVE.into(), 1));
        }
        self.address().map(|address| (address, 0))
    }

    fn broker_name(&self, _: &str) -> Option<Arc<str>> {
        Some("broker-a".into())
    }

    fn masters(&self) -> Vec<(Arc<str>, Arc<str>)> {
        self.address().map(|address| ("broker-a".into(), address)).into_iter().collect()
    }

    fn told_on(&self, address: &str, _: &str, _: i64) -> Option<u64> {
        (address != SLAVE || *self.slave.lock() == Some(true)).then_some(1)
    }

    fn own_address(&self, _: &str) -> Option<SocketAddr> {
        None
    }

    fn heartbeat_interval(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn client_id(&self) -> &str {
        "127.0.0.1@1"
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

    fn subscriptions(&self) -> Arc<Subscriptions> {
        if self.subscribed.load(Ordering::SeqCst) {
            self.subscriptions.lock().clone()
        } else {
            Arc::default()
        }
    }

    fn is_suspended(&self) -> bool {
        false
    }

    fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    fn totals(&self) -> &Totals {
        &self.totals
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn time(&self) -> SystemTime {
        SystemTime::now()
    }

    fn measured_now(&self) -> Instant {
        self.now
    }

    fn is_moved_by_hand(&self) -> bool {
        false
    }

    fn jitter(&self) -> f64 {
        0.5
    }

    fn post_pull(&self, _: PullEvent<Self>) {
        assert!(!self.broken.load(Ordering::SeqCst), "on purpose");
    }

    fn post_rebalance(&self, event: RebalanceEvent<Self>) {
        if let RebalanceEvent::Rebuild(id) = event {
            self.rebuilt.lock().push(id);
        }
    }

    fn post_timer(&self, _: TimerEvent<Self>) {
        self.timers.fetch_add(1, Ordering::SeqCst);
    }

    fn emit(&self, _: Event) {}

    fn ready(&self, _: &Arc<ProcessQueue>, _: Instant) {
        self.readied.fetch_add(1, Ordering::SeqCst);
    }

    fn came(&self, _: usize) {}

    fn went(&self, _: usize) {}

    fn wake(&self) -> bool {
        false
    }

    fn cancel_listeners(&self) {}

    fn polled(&self) -> Option<bool> {
        self.auto
    }

    fn own(&self, queue: &Arc<ProcessQueue>) {
        *self.owned.lock() = Some(queue.clone());
    }

    fn disown(&self, _: &ProcessQueue) {
        *self.owned.lock() = None;
    }

    fn owned(&self) -> Vec<Arc<ProcessQueue>> {
        self.owned.lock().iter().cloned().collect()
    }

    fn wait_for_start(&self, _: &MessageQueue, _: Option<Waiting>) {}

    fn is_listening_to(&self, _: &MessageQueue) -> bool {
        false
    }

    fn losses(&self, _: &Arc<str>) -> Losses {
        self.losses.clone()
    }

    fn renew_locks(&self, _: &Arc<str>) {}
}
