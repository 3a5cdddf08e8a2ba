//! One consumer in the hands of `rmq-rebalance`: its topics, its queues, its rounds.

mod actions;
mod broadcasting;
mod commits;
mod notices;
mod peers;
mod round;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use super::locks::{LockWishes, Unlocks};
use super::polled::ByHand;
use super::requests::{Answer, Request, Requests};
use crate::client::ShutdownReport;
use crate::clock::later;
use crate::consumer::assignment::{Assignment, FAR, REVOKE_TIME};
use crate::consumer::events::Event;
use crate::consumer::fetch::Correction;
use crate::consumer::offset::Offset;
use crate::consumer::outside::Outside;
use crate::consumer::peers::Peers;
use crate::consumer::process_queue::ProcessQueue;
use crate::consumer::rebalance::{Cadence, History};
use crate::consumer::stats::StartReason;
use crate::message::{MessageQueue, RETRY_PREFIX};

/// One consumer.
pub(super) struct Group<S> {
    pub(super) core: Arc<S>,
    pub(super) cadence: Cadence,
    pub(super) topics: HashMap<Arc<str>, Topic>,
    pub(super) queues: BTreeMap<MessageQueue, Owned>,
    pub(super) lock_wishes: LockWishes,
    pub(super) unlocks: Unlocks,
    /// The generations of the process queues, for events that name only those.
    generations: HashMap<u64, MessageQueue>,
    next_epoch: u64,
    commit_at: Instant,
    /// To be committed then, since nothing was left to do.
    idle: BTreeSet<(Instant, u64)>,
    /// Names of brokers whose keeper of offsets was lost: it may come back with older ones. Names and not addresses, of
    /// which a broker that moves leaves one behind each time.
    lost: BTreeSet<Arc<str>>,
    /// The address that has the offsets, by the name of the broker: its master, or a slave while that is away.
    keepers: BTreeMap<Arc<str>, Arc<str>>,
    /// How often the route of the retry topic was asked for in vain, and when it is next.
    retry_asks: usize,
    retry_ask_at: Option<Instant>,
    peers: Peers,
    ready: Option<Sender<()>>,
    pub(super) ending: Option<Ending>,
    over: bool,
}

/// What is known of one subscribed topic.
#[derive(Default)]
pub(super) struct Topic {
    history: History,
    /// A list of members is on its way.
    asking: bool,
    /// How often in a row our own id was missing from the list.
    missing: u32,
    /// When it was subscribed, if that was after the start.
    since: Option<Instant>,
    /// What the last round gave us.
    pub(super) wanted: Option<BTreeSet<MessageQueue>>,
}

/// One queue that is wanted, or that is being given up.
pub(super) struct Owned {
    pub(super) assignment: Assignment,
    pub(super) process: Option<Arc<ProcessQueue>>,
    /// Answers to requests of a former life of the same queue change nothing.
    pub(super) epoch: u64,
    /// What the program wants committed.
    pub(super) by_hand: ByHand,
    /// The first of the generations that follow each other without a gap, if the program commits: what it says of one of
    /// them, it says of the present one.
    pub(super) line: u64,
    /// When it was last committed because nothing was left to do.
    idle_commit: Option<Instant>,
}

pub(super) struct Ending {
    listeners: Instant,
    done: Sender<ShutdownReport>,
    report: ShutdownReport,
}

impl<S: Outside> Group<S> {
    pub(super) fn new(core: Arc<S>, ready: Sender<()>) -> Self {
        let now = core.now();
        Self {
            cadence: Cadence::new(now),
            topics: HashMap::new(),
            queues: BTreeMap::new(),
            lock_wishes: LockWishes::default(),
            unlocks: Unlocks::default(),
            generations: HashMap::new(),
            next_epoch: 0,
            commit_at: later(now, core.settings().commit_interval),
            idle: BTreeSet::new(),
            lost: BTreeSet::new(),
            keepers: BTreeMap::new(),
            retry_asks: 0,
            retry_ask_at: None,
            peers: Peers::default(),
            ready: Some(ready),
            ending: None,
            over: false,
            core,
        }
    }

    pub(super) fn core(&self) -> &Arc<S> {
        &self.core
    }

    /// Whether it has ended and can be forgotten.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether this generation is one of its queues.
    pub(super) fn has(&self, id: u64) -> bool {
        self.generations.contains_key(&id)
    }

    /// When [`due`](Self::due) must be called.
    pub(super) fn deadline(&self) -> Instant {
        let queues = self.queues.values().filter_map(|owned| owned.assignment.deadline());
        let idle = self.idle.first().map(|(at, _)| *at);
        let round = self.ending.is_none().then(|| self.cadence.due());
        let peers = self.ending.is_none().then(|| self.peers.deadline()).flatten();
        let first = queues.chain(idle).chain(round).chain(peers).chain(self.retry_ask_at).min();
        first.map_or(self.commit_at, |at| at.min(self.commit_at))
    }

    /// Something may have changed.
    pub(super) fn wake(&mut self) {
        self.cadence.wake(self.core.now());
    }

    /// The last round left something open.
    pub(super) fn unsettled(&mut self) {
        self.cadence.unsettled(self.core.now(), self.core.jitter());
    }

    /// Does what has become due.
    pub(super) fn due(&mut self, requests: &mut Requests<S>) {
        let now = self.core.now();
        let due: Vec<MessageQueue> = self
            .queues
            .iter()
            .filter(|(_, owned)| owned.assignment.deadline().is_some_and(|at| at <= now))
            .map(|(queue, _)| queue.clone())
            .collect();
        for queue in due {
            self.drive(&queue, requests, |assignment, now, watermark| assignment.due(now, watermark));
        }
        while self.idle.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, id)) = self.idle.pop_first() {
                self.commit_idle(id, now, requests);
            }
        }
        if self.retry_ask_at.is_some_and(|at| at <= now) {
            self.retry_ask_at = None;
            self.want_retry_route();
        }
        if now >= self.commit_at {
            self.commit_at = later(now, self.core.settings().commit_interval);
            self.commit_all(requests);
        }
        if self.ending.is_none() {
            self.look_for_peers(requests);
            if now >= self.cadence.due() {
                self.round(requests);
            }
        }
        self.send_lock_wishes(requests);
        self.tell_ready();
        self.tell_ended();
    }

    pub(super) fn drained(&mut self, id: u64, requests: &mut Requests<S>) {
        let Some(queue) = self.generations.get(&id).cloned() else { return };
        self.drive(&queue, requests, |assignment, now, watermark| assignment.drained(now, watermark));
    }

    pub(super) fn idle(&mut self, id: u64, _: &mut Requests<S>) {
        let Some(queue) = self.generations.get(&id) else { return };
        let soon = self.core.now() + IDLE_COMMIT;
        let apart = self.queues.get(queue).and_then(|owned| owned.idle_commit).map(|last| last + IDLE_APART);
        self.idle.insert((apart.map_or(soon, |at| at.max(soon)), id));
    }

    pub(super) fn rebuild(&mut self, id: u64, requests: &mut Requests<S>) {
        let Some(queue) = self.generations.get(&id).cloned() else { return };
        log::warn!("{queue} is rebuilt");
        if self.core.polled().is_some() {
            return self.drive(&queue, requests, |assignment, _, _| assignment.renew());
        }
        let time = self.listeners_time();
        self.drive(&queue, requests, |assignment, now, _| assignment.rebuild(now + time));
    }

    /// How long running listeners have before a queue that stays ours goes on.
    fn listeners_time(&self) -> Duration {
        if self.core.settings().order.is_some() { FAR } else { REVOKE_TIME }
    }

    pub(super) fn corrected(
        &mut self,
        id: u64,
        from: Offset,
        correction: Correction,
        requests: &mut Requests<S>,
    ) {
        let Some(queue) = self.generations.get(&id).cloned() else { return };
        let time = self.listeners_time();
        match correction {
            // Where it was asked for has no meaning any more.
            Correction::Moved(_) if self.is_sent_elsewhere(&queue) => {}
            Correction::Moved(to) => {
                log::warn!("{queue}: offset {from} does not exist, going on at {to}");
                let event = Event::OffsetCorrected { queue: queue.clone(), from: from.wire(), to: to.wire() };
                self.core.emit(event);
                self.drive(&queue, requests, |assignment, now, watermark| {
                    assignment.correct(to, now + time, watermark)
                });
            }
            Correction::Reset(to) => {
                self.tell_reset(&queue, to);
                self.drive(&queue, requests, |assignment, now, _| {
                    assignment.reset(to, StartReason::Reset, now + time)
                });
            }
        }
    }

    pub(super) fn reset(&mut self, offsets: Vec<(MessageQueue, Offset)>, requests: &mut Requests<S>) {
        let time = self.listeners_time();
        for (queue, to) in offsets {
            if self.queues.contains_key(&queue) {
                self.tell_reset(&queue, to);
                self.drive(&queue, requests, |assignment, now, _| {
                    assignment.reset(to, StartReason::Reset, now + time)
                });
            }
        }
    }

    pub(super) fn shutdown(
        &mut self,
        listeners: Instant,
        end: Instant,
        done: Sender<ShutdownReport>,
        requests: &mut Requests<S>,
    ) {
        self.ending = Some(Ending { listeners, done, report: ShutdownReport::default() });
        // A part of what is left after the listeners: the goodbye needs some too.
        let commit_time = end.saturating_duration_since(listeners) * 2 / 3;
        let queues: Vec<MessageQueue> = self.queues.keys().cloned().collect();
        for queue in queues {
            self.drive(&queue, requests, |assignment, _, _| assignment.shutdown(listeners, commit_time));
        }
        self.tell_ended();
    }

    pub(super) fn answered(&mut self, request: Request, answer: Answer, requests: &mut Requests<S>) {
        match (request, answer) {
            (Request::Members { topic, address }, Answer::Members(ids)) => {
                self.members_came(&topic, &address, ids, requests);
            }
            (Request::Connections { address, subscriptions }, Answer::Connections(held)) => {
                self.connections_came(&address, &subscriptions, held, requests);
            }
            (Request::Peer { id, address }, Answer::Peer(info)) => self.peer_came(&id, &address, info),
            (Request::Ask { queue, epoch, .. }, Answer::Stored(stored)) => {
                if !self.is_current(&queue, epoch) {
                    return;
                }
                let stored = stored.inspect_err(|error| {
                    log::warn!("the stored offset of {queue} could not be read: {error}");
                    self.not_found(&queue, error, requests);
                });
                let known = stored.is_ok();
                self.drive(&queue, requests, |assignment, now, _| assignment.stored(stored, now));
                // If it was asked because it was doubted, that may have kept a commit waiting. Without an answer it is
                // asked again in time, not at once: some failures come back at once.
                if known {
                    self.commit(&queue, requests);
                }
            }
            (Request::Ask { queue, epoch, ask }, Answer::Offset(offset)) => {
                if !self.is_current(&queue, epoch) {
                    return;
                }
                let offset = offset.inspect_err(|error| {
                    log::warn!("{queue}: the broker could not tell {ask:?}: {error}");
                    self.not_found(&queue, error, requests);
                });
                self.drive(&queue, requests, |assignment, now, _| assignment.resolved(offset, now));
            }
            (Request::Commit { queue, epoch }, Answer::Committed(committed)) => {
                if self.is_current(&queue, epoch) {
                    self.committed(&queue, committed, requests);
                }
            }
            (request, answer) => self.lock_answered(request, answer, requests),
        }
    }

    /// The queue of this generation.
    pub(super) fn queue_of(&self, id: u64) -> Option<MessageQueue> {
        self.generations.get(&id).cloned()
    }

    fn is_sent_elsewhere(&self, queue: &MessageQueue) -> bool {
        self.queues.get(queue).is_some_and(|owned| owned.assignment.is_sent_elsewhere())
    }

    fn is_leaving(&self, queue: &MessageQueue) -> bool {
        self.queues.get(queue).is_some_and(|owned| owned.assignment.is_leaving())
    }

    pub(super) fn is_current(&self, queue: &MessageQueue, epoch: u64) -> bool {
        self.queues.get(queue).is_some_and(|owned| owned.epoch == epoch)
    }

    fn tell_reset(&self, queue: &MessageQueue, to: Offset) {
        log::info!("{queue} was reset to {to}");
        self.core.emit(Event::OffsetReset { queue: queue.clone(), to: to.wire() });
    }

    /// The first assignment is complete when every topic has one and every queue has a start or a reason.
    fn tell_ready(&mut self) {
        if self.ready.is_none() {
            return;
        }
        let subscriptions = self.core.subscriptions();
        let mut topics = subscriptions.keys().filter(|topic| !topic.starts_with(RETRY_PREFIX));
        let assigned = topics.all(|topic| self.topics.get(topic).is_some_and(|state| state.wanted.is_some()));
        if assigned && !self.queues.values().any(|owned| owned.assignment.is_at_first_try()) {
            self.core.emit(Event::Ready);
            if let Some(ready) = self.ready.take() {
                // Who has stopped waiting for it has gone on without.
                let _ = ready.send(());
            }
        }
    }

    fn tell_ended(&mut self) {
        let now = self.core.now();
        let Some(ending) = &mut self.ending else { return };
        if now >= ending.listeners {
            self.core.cancel_listeners();
        }
        // Said once: a second time might have to wait for somebody to take the first report.
        if self.queues.is_empty() && !std::mem::replace(&mut self.over, true) {
            drop(ending.done.send(std::mem::take(&mut ending.report)));
        }
    }
}

const IDLE_COMMIT: Duration = Duration::from_millis(100);
/// A queue with a message now and then is not committed for each.
const IDLE_APART: Duration = Duration::from_secs(1);
