//! One simulated client: the real deciding parts, and the inboxes of the threads that run them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::broker::{FIRST_PORT, Reply};
use super::core::{SimCore, Sink};
use super::in_order::Ordered;
use super::inbox::Inbox;
use super::locks::ForLock;
use super::polling::Program;
use crate::client::{Beats, ConsumeStatus, Content, Notice, ShutdownReport};
use crate::consumer::local::played::Write;
use crate::consumer::lock_loop::Locks;
use crate::consumer::outside::Outside;
use crate::consumer::process_queue::ProcessQueue;
use crate::consumer::pull_loop::{Fetching, PullEvent};
use crate::consumer::pulls::Pulls;
use crate::consumer::rebalance_loop::{Groups, RebalanceEvent};
use crate::consumer::run::Run;
use crate::consumer::send_back::SendBacks;
use crate::consumer::slot::Slot;
use crate::consumer::timer_loop::Due;
use crate::message::MessageQueue;

/// What a request came to.
pub(super) type Outcome = Result<Reply, String>;

/// One client with one consumer.
pub(super) struct Member {
    pub(super) core: Arc<SimCore>,
    pub(super) fetching: Fetching<SimCore>,
    pub(super) groups: Groups<SimCore>,
    pub(super) beats: Beats,
    pub(super) pull: Inbox<ForPull>,
    pub(super) rebalance: Inbox<ForRebalance>,
    pub(super) control: Inbox<ForControl>,
    pub(super) lock: Inbox<ForLock>,
    /// Of a consumer in order, until it has ended.
    pub(super) locks: Option<Locks<SimCore>>,
    pub(super) timers: BTreeSet<(Instant, Due)>,
    pub(super) workers: Vec<Worker>,
    pub(super) ready: VecDeque<Arc<ProcessQueue>>,
    pub(super) links: Vec<Link>,
    /// By generation.
    pub(super) owned: BTreeMap<u64, Arc<ProcessQueue>>,
    /// Where the next pull of each generation is to begin.
    pub(super) expected: BTreeMap<u64, i64>,
    pub(super) questions: BTreeMap<u64, Question>,
    pub(super) next_question: u64,
    pub(super) asking_routes: BTreeSet<String>,
    /// What each broker has acknowledged on its present connection, as the answers had it.
    pub(super) acknowledged: Vec<Option<BTreeMap<String, i64>>>,
    pub(super) watching: bool,
    pub(super) leaving: Option<Leaving>,
    /// The one that polls it.
    pub(super) program: Option<Program>,
    /// Of its offsets, where it keeps them itself.
    pub(super) writing: Option<Write>,
    /// Wake-ups of loops that are on the agenda already.
    pub(super) rebalance_due: Option<Instant>,
    pub(super) control_due: Option<Instant>,
    pub(super) lock_due: Option<Instant>,
}

pub(super) enum ForPull {
    Event(PullEvent<SimCore>),
    Pulled(u64, Outcome),
    Back(u64, Outcome),
}

pub(super) enum ForRebalance {
    Event(RebalanceEvent<SimCore>),
    Answer(u64, Outcome),
}

pub(super) enum ForControl {
    Up(usize, Arc<str>),
    Down(Arc<str>),
    Answer(u64, Outcome),
    Heartbeat(Option<usize>),
    Tell(Notice),
    Route(String, Route),
}

/// What a name server said.
pub(super) enum Route {
    /// The queues, and where each broker is.
    Found(Vec<MessageQueue>, Vec<usize>),
    Missing,
    Failed,
}

/// What the control loop has asked.
pub(super) enum Question {
    Heartbeat { broker: usize, address: Arc<str>, link: u64, connection: u64, content: Arc<Content> },
    Goodbye,
}

/// The connection to one broker.
pub(super) struct Link {
    pub(super) number: u64,
    /// Where it leads, or led.
    pub(super) port: usize,
    pub(super) up: bool,
    pub(super) down_until: Instant,
}

/// A consume thread.
pub(super) struct Worker {
    pub(super) slot: Arc<Slot>,
    pub(super) state: Doing,
}

pub(super) enum Doing {
    Idle,
    /// On its way to the ready list.
    Woken,
    Busy(Call),
    InOrder(Ordered),
}

/// A listener call, and what is left of its run.
pub(super) struct Call {
    pub(super) queue: Arc<ProcessQueue>,
    pub(super) run: Arc<Run>,
    pub(super) range: Range<u32>,
    pub(super) retried: Option<u32>,
    pub(super) indices: Vec<u32>,
    pub(super) verdicts: Vec<ConsumeStatus>,
    pub(super) endless: bool,
    pub(super) since: Instant,
}

/// A shutdown under way.
pub(super) struct Leaving {
    pub(super) report: Receiver<ShutdownReport>,
    pub(super) owned: Vec<u64>,
    pub(super) said_goodbye: bool,
}

impl Member {
    pub(super) fn new(core: SimCore, brokers: usize, now: Instant) -> Self {
        #[allow(
            clippy::arc_with_non_send_sync,
            reason = "the deciding parts want an Arc; a run has one thread"
        )]
        let core = Arc::new(core);
        let threads = core.settings().consume_threads;
        let worker = |n: usize| Worker {
            slot: Arc::new(Slot::new(format!("rmq-consume-{n}"), now)),
            state: Doing::Idle,
        };
        let workers: Vec<Worker> = (0..threads).map(worker).collect();
        *core.slots.borrow_mut() = workers.iter().map(|worker| worker.slot.clone()).collect();
        let needs_locks = core.settings().order.as_ref().is_some_and(|order| order.locks);
        let link = |_| Link { number: 0, port: FIRST_PORT, up: false, down_until: now };
        Self {
            fetching: Fetching { pulls: Pulls::new(Sink::Pulls), backs: SendBacks::new(Sink::Backs) },
            groups: Groups::new(Sink::Rebalance),
            beats: Beats::new(HEARTBEATS),
            pull: Inbox::default(),
            rebalance: Inbox::default(),
            control: Inbox::default(),
            lock: Inbox::default(),
            locks: needs_locks.then(|| Locks::new(core.clone(), Sink::Locks)),
            timers: BTreeSet::new(),
            workers,
            ready: VecDeque::new(),
            links: (0..brokers).map(link).collect(),
            owned: BTreeMap::new(),
            expected: BTreeMap::new(),
            questions: BTreeMap::new(),
            next_question: 0,
            asking_routes: BTreeSet::new(),
            acknowledged: vec![None; brokers],
            watching: false,
            leaving: None,
            program: None,
            writing: None,
            rebalance_due: None,
            control_due: None,
            lock_due: None,
            core,
        }
    }

    /// The process queue of this generation, while it accepts something.
    pub(super) fn open(&self, id: u64) -> Option<&Arc<ProcessQueue>> {
        self.owned.get(&id).filter(|queue| !queue.is_closed())
    }

    pub(super) fn is_busy(&self) -> bool {
        self.workers.iter().any(|worker| worker.slot.is_busy())
    }
}

const HEARTBEATS: Duration = Duration::from_secs(30);
