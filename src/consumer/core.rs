//! What the parts of one consumer share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use parking_lot::Mutex;

use super::budget::Budget;
use super::direct::Direct;
use super::events::{Event, Hub};
use super::figures::{ByTopic, Fetched, Figures};
use super::listener::{Code, CodeStore, Hook, Listener};
use super::local::LocalStore;
use super::lock_loop::LockEvent;
use super::losses::AllLosses;
use super::process_queue::ProcessQueue;
use super::pull_consumer::{Polling, Question};
use super::pull_loop::PullEvent;
use super::ready::Ready;
use super::rebalance_loop::RebalanceEvent;
use super::settings::Settings;
use super::slot::Slot;
use super::stats::Waiting;
use super::timer_loop::TimerEvent;
use super::watch::Watched;
use crate::client::Instance;
use crate::client::metrics::Timing;
use crate::client::trace::Tracer;
use crate::message::{MessageQueue, Subscription};

/// The shared state of one consumer. Every thread that works for it holds an `Arc`.
pub(crate) struct Core {
    /// The group as the wire has it.
    pub(crate) group: Arc<str>,
    /// The group as the program named it.
    pub(crate) plain_group: Arc<str>,
    pub(crate) settings: Settings,
    pub(crate) instance: Arc<Instance>,
    pub(crate) code: CodeStore,
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// The offsets of a broadcasting consumer.
    pub(crate) local: Option<Arc<LocalStore>>,
    pub(crate) ready: Ready<Item>,
    pub(crate) events: Hub,
    pub(crate) totals: Totals,
    pub(crate) figures: Figures,
    pub(crate) timing: Timing,
    pub(crate) started_millis: i64,
    /// Messages that operators want consumed and that no thread has taken yet.
    pub(crate) directs: AtomicUsize,
    pub(crate) suspended: AtomicBool,
    /// The timer looks after running calls.
    pub(super) watched: Watched,
    pub(super) losses: AllLosses,
    /// Of the client, for all its consumers.
    pub(crate) budget: Arc<Budget>,
    /// Only if threads of the program poll the messages.
    pub(crate) polling: Option<Polling>,
    subscriptions: Mutex<Arc<BTreeMap<Arc<str>, Arc<Subscription>>>>,
    /// The greatest version of a subscription so far, given up ones included.
    newest_version: AtomicI64,
    slots: Mutex<Vec<Arc<Slot>>>,
    owned: Mutex<BTreeMap<MessageQueue, Arc<ProcessQueue>>>,
    /// Queues that have no process queue yet, and why.
    starting: Mutex<BTreeMap<MessageQueue, Waiting>>,
    /// Nanoseconds that the listener takes for a message, a moving average.
    listener_time: AtomicU64,
    pub(crate) pull: Sender<PullEvent>,
    pub(crate) timer: Sender<TimerEvent>,
    pub(crate) rebalance: Sender<RebalanceEvent>,
    /// Of a consumer whose queues are locked.
    pub(crate) lock: Option<Sender<LockEvent>>,
}

/// What a consume thread takes from the ready list.
#[derive(Debug)]
pub(crate) enum Item {
    /// A queue that has messages.
    Queue(Arc<ProcessQueue>),
    /// One message that an operator wants consumed now.
    Direct(Box<Direct>),
    /// Where to begin in a queue, for a program that keeps its offsets.
    Question(Question),
}

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) pulled: AtomicU64,
    pub(crate) reconsumed: AtomicU64,
    pub(crate) dead_letters: AtomicU64,
    pub(crate) given_up: AtomicU64,
    /// Messages that were handed to threads that poll.
    pub(crate) polled: AtomicU64,
    /// Pulls that were sent, for benchmarks.
    pub(crate) pulls: AtomicU64,
    /// What they brought, by topic.
    pub(crate) fetched: ByTopic<Fetched>,
}

/// What a consumer is made of.
pub(crate) struct Parts {
    pub(crate) plain_group: Arc<str>,
    pub(crate) settings: Settings,
    pub(crate) instance: Arc<Instance>,
    pub(crate) listener: Listener,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) tracer: Option<Arc<Tracer>>,
    pub(crate) local: Option<Arc<LocalStore>>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) polling: Option<Polling>,
    pub(crate) subscriptions: BTreeMap<Arc<str>, Arc<Subscription>>,
    pub(crate) pull: Sender<PullEvent>,
    pub(crate) timer: Sender<TimerEvent>,
    pub(crate) rebalance: Sender<RebalanceEvent>,
    pub(crate) lock: Option<Sender<LockEvent>>,
}

impl Core {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            plain_group,
            settings,
            instance,
            listener,
            hooks,
            tracer,
            local,
            budget,
            polling,
            subscriptions,
            pull,
            timer,
            rebalance,
            lock,
        } = parts;
        let started_millis = instance.clock().millis();
        let timing = Timing::new(&instance, &plain_group, "rocketmq_consumer_listener_seconds");
        Self {
            group: instance.namespace().group(&plain_group).into(),
            plain_group,
            ready: Ready::new(if polling.is_some() { 0 } else { settings.consume_threads }),
            settings,
            instance,
            code: CodeStore::new(Code { listener, hooks }),
            tracer,
            local,
            budget,
            polling,
            events: Hub::default(),
            totals: Totals::default(),
            figures: Figures::default(),
            timing,
            started_millis,
            directs: AtomicUsize::new(0),
            suspended: AtomicBool::new(false),
            watched: Watched::new(),
            losses: AllLosses::default(),
            newest_version: AtomicI64::new(
                subscriptions.values().map(|known| known.version).max().unwrap_or(0),
            ),
            subscriptions: Mutex::new(Arc::new(subscriptions)),
            slots: Mutex::default(),
            owned: Mutex::default(),
            starting: Mutex::default(),
            listener_time: AtomicU64::new(0),
            pull,
            timer,
            rebalance,
            lock,
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.instance.clock().instant()
    }

    /// Whether it shares the queues of its topics with others of its group.
    pub(crate) fn is_member(&self) -> bool {
        self.polling.as_ref().is_none_or(|polling| !polling.is_assigning())
    }

    pub(crate) fn emit(&self, event: Event) {
        self.events.emit(event.without(self.instance.namespace()));
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::Acquire)
    }

    /// All subscriptions, by topic as the wire has it.
    pub(crate) fn subscriptions(&self) -> Arc<BTreeMap<Arc<str>, Arc<Subscription>>> {
        self.subscriptions.lock().clone()
    }

    pub(crate) fn subscription(&self, topic: &str) -> Option<Arc<Subscription>> {
        self.subscriptions().get(topic).cloned()
    }

    /// The version of the next subscription. Brokers keep the one with the greatest, also of a topic that was given up
    /// in between: a clock that was set back, or stands still, must not hide the change.
    pub(crate) fn next_version(&self) -> i64 {
        let millis = self.instance.clock().millis();
        let next = |newest: i64| Some(millis.max(newest.saturating_add(1)));
        let before = self.newest_version.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        before.map_or(millis, |newest| millis.max(newest.saturating_add(1)))
    }

    /// Replaces or adds one. Whoever has the old set keeps it.
    pub(crate) fn set_subscription(&self, topic: Arc<str>, subscription: Subscription) {
        let mut subscriptions = self.subscriptions.lock();
        Arc::make_mut(&mut subscriptions).insert(topic, Arc::new(subscription));
    }

    /// Whether there was one.
    pub(crate) fn remove_subscription(&self, topic: &str) -> bool {
        let mut subscriptions = self.subscriptions.lock();
        subscriptions.contains_key(topic) && Arc::make_mut(&mut subscriptions).remove(topic).is_some()
    }

    /// The slot of a consume thread that is about to start, and its number: that of a thread that has ended, if there is
    /// one, so that there are never more than there were threads at one time.
    pub(crate) fn slot_for_thread(&self) -> (usize, Arc<Slot>) {
        let mut slots = self.slots.lock();
        if let Some(free) = slots.iter().position(|slot| slot.take_over()) {
            return (free, slots[free].clone());
        }
        let number = slots.len();
        let slot = Arc::new(Slot::new(format!("rmq-consume-{number}"), self.now()));
        slots.push(slot.clone());
        (number, slot)
    }

    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().clone()
    }

    pub(crate) fn own(&self, queue: Arc<ProcessQueue>) {
        self.owned.lock().insert(queue.queue().clone(), queue);
    }

    /// Unless a newer generation has taken its place.
    pub(crate) fn disown(&self, queue: &ProcessQueue) {
        let mut owned = self.owned.lock();
        if owned.get(queue.queue()).is_some_and(|known| known.id() == queue.id()) {
            owned.remove(queue.queue());
        }
    }

    /// The process queues of all owned queues, in order.
    pub(crate) fn owned(&self) -> Vec<Arc<ProcessQueue>> {
        self.owned.lock().values().cloned().collect()
    }

    /// Why a queue has no process queue yet.
    pub(crate) fn wait_for_start(&self, queue: &MessageQueue, waiting: Option<Waiting>) {
        let mut starting = self.starting.lock();
        match waiting {
            Some(waiting) => drop(starting.insert(queue.clone(), waiting)),
            None => drop(starting.remove(queue)),
        }
    }

    /// Queues that have no process queue yet, and why.
    pub(crate) fn starting(&self) -> Vec<(MessageQueue, Waiting)> {
        self.starting.lock().iter().map(|(queue, waiting)| (queue.clone(), waiting.clone())).collect()
    }

    /// The locks of this broker are renewed now.
    pub(crate) fn renew_locks(&self, broker: &Arc<str>) {
        if let Some(lock) = &self.lock {
            // The thread ends after the last queue was given back.
            drop(lock.send(LockEvent::Renew(broker.clone())));
        }
    }

    /// The present generation of this queue.
    pub(crate) fn owned_queue(&self, queue: &MessageQueue) -> Option<Arc<ProcessQueue>> {
        self.owned.lock().get(queue).cloned()
    }

    /// What the listener takes for a message.
    pub(crate) fn listener_time(&self) -> Duration {
        Duration::from_nanos(self.listener_time.load(Ordering::Relaxed))
    }

    /// Takes in how long it took for some.
    pub(crate) fn note_listener_time(&self, took: Duration, messages: u32) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / u64::from(messages.max(1));
        let old = self.listener_time.load(Ordering::Relaxed);
        // Two threads may overwrite each other: it is an average.
        self.listener_time.store(old - old / 8 + nanos / 8, Ordering::Relaxed);
    }

    /// After something was put on the ready list by a thread that does not look again.
    pub(crate) fn wake_in_passing(self: &Arc<Self>) {
        if self.ready.wake_in_passing(Instant::now(), self.listener_time()).again {
            self.post_pull(PullEvent::Look(self.clone()));
        }
    }

    /// The loops end after the last consumer: who posts later has nothing to say any more.
    pub(crate) fn post_pull(&self, event: PullEvent) {
        drop(self.pull.send(event));
    }

    pub(crate) fn post_rebalance(&self, event: RebalanceEvent) {
        drop(self.rebalance.send(event));
    }

    pub(crate) fn post_timer(&self, event: TimerEvent) {
        drop(self.timer.send(event));
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Core({})", self.plain_group)
    }
}
