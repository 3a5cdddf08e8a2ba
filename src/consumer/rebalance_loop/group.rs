//! One consumer in the hands of `rmq-rebalance`: its topics, its queues, its rounds.

mod broadcasting;
mod commits;
mod peers;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use super::locks::LockWishes;
use super::polled::ByHand;
use super::requests::{Answer, Request, Requests};
use crate::client::{Notice, ShutdownReport, panic_text};
use crate::clock::later;
use crate::consumer::assignment::{Action, Ask, Assignment, FAR, Policy, REVOKE_TIME, REVOKE_TIME_LOCKED};
use crate::consumer::events::Event;
use crate::consumer::fetch::Correction;
use crate::consumer::lease::Lease;
use crate::consumer::offset::Offset;
use crate::consumer::outside::Outside;
use crate::consumer::peers::Peers;
use crate::consumer::process_queue::{Limits, ProcessQueue};
use crate::consumer::pull_consumer::Standing;
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::rebalance::{Cadence, History, Members, diff};
use crate::consumer::stats::{StartReason, Waiting};
use crate::message::{DLQ_PREFIX, MessageQueue, RETRY_PREFIX};

/// One consumer.
pub(super) struct Group<S> {
    pub(super) core: Arc<S>,
    pub(super) cadence: Cadence,
    pub(super) topics: HashMap<Arc<str>, Topic>,
    pub(super) queues: BTreeMap<MessageQueue, Owned>,
    pub(super) lock_wishes: LockWishes,
    /// The generations of the process queues, for events that name only those.
    generations: HashMap<u64, MessageQueue>,
    next_epoch: u64,
    commit_at: Instant,
    /// To be committed then, since nothing was left to do.
    idle: BTreeSet<(Instant, u64)>,
    /// Addresses whose connection was lost: they may come back with older offsets.
    lost: HashSet<Arc<str>>,
    /// The address that has the offsets, by the name of the broker: its master, or a slave while that is away.
    keepers: HashMap<Arc<str>, Arc<str>>,
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
            generations: HashMap::new(),
            next_epoch: 0,
            commit_at: later(now, core.settings().commit_interval),
            idle: BTreeSet::new(),
            lost: HashSet::new(),
            keepers: HashMap::new(),
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

    pub(super) fn noticed(&mut self, notice: Notice, requests: &mut Requests<S>) {
        match notice {
            Notice::RouteChanged(_) => {
                self.wake();
                self.core.post_pull(PullEvent::NudgeAll);
            }
            Notice::ConsumerIdsChanged => {
                self.wake();
                if self.core.is_member() {
                    self.peers.changed(self.core.now());
                }
            }
            Notice::Heartbeaten { address } => {
                if self.core.is_member() {
                    let (from, interval) = (self.core.own_address(&address), self.core.heartbeat_interval());
                    self.peers.heartbeaten(from, interval, self.core.now());
                }
                self.want_retry_route();
                self.wake();
                self.core.post_pull(PullEvent::NudgeAll);
                self.recommit(&address, requests);
                self.core.upload_classes(&address);
            }
            Notice::RouteMissing(topic) => {
                if topic.starts_with(RETRY_PREFIX) {
                    let delay = RETRY_ROUTE_DELAYS.get(self.retry_asks).or(RETRY_ROUTE_DELAYS.last());
                    self.retry_asks += 1;
                    self.retry_ask_at = delay.map(|delay| self.core.now() + *delay);
                }
                if topic.starts_with(DLQ_PREFIX)
                    && let Some(state) = self.topics.get_mut(&topic)
                {
                    // It is made with the first dead letter: nobody waits for it.
                    state.wanted.get_or_insert_default();
                }
                if !topic.starts_with(RETRY_PREFIX) && self.core.subscription(&topic).is_some() {
                    let topic = self.core.namespace().strip(&topic);
                    self.core.emit(Event::TopicMissing { topic });
                }
            }
            Notice::Disconnected { address, error } => {
                if let Some(name) = self.core.broker_name(&address) {
                    self.doubt(&name, &address);
                    self.doubt_locks(&name);
                }
                self.lost.insert(address.clone());
                let event = Event::Disconnected { server: address.to_string(), error: error.to_string() };
                self.core.emit(event);
            }
            Notice::RouteFailed(_)
            | Notice::BrokerUp { .. }
            | Notice::HeartbeatRefused { .. }
            | Notice::Request(_) => {}
        }
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
        let process = self.queues.get(&queue).and_then(|owned| owned.process.clone());
        if let Some(position) = process.and_then(|process| process.polled_position()) {
            return self.drive(&queue, requests, |assignment, _, _| {
                assignment.go_to(position, StartReason::Rebuilt)
            });
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
        let (to, reason) = match correction {
            Correction::Moved(to) => {
                log::warn!("{queue}: offset {from} does not exist, going on at {to}");
                let event = Event::OffsetCorrected { queue: queue.clone(), from: from.wire(), to: to.wire() };
                self.core.emit(event);
                (to, StartReason::Corrected)
            }
            Correction::Reset(to) => {
                self.tell_reset(&queue, to);
                (to, StartReason::Reset)
            }
        };
        let time = self.listeners_time();
        self.drive(&queue, requests, |assignment, now, _| assignment.reset(to, reason, now + time));
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

    /// Asks for the members of each subscribed topic; what changes, changes when the answers come.
    fn round(&mut self, requests: &mut Requests<S>) {
        let now = self.core.now();
        if let Some(assigned) = self.core.assigned() {
            return self.assign(&assigned, requests);
        }
        let subscriptions = self.core.subscriptions();
        self.topics.retain(|topic, _| subscriptions.contains_key(topic));
        let gone: Vec<MessageQueue> =
            self.queues.keys().filter(|queue| !subscriptions.contains_key(queue.topic())).cloned().collect();
        for queue in gone {
            self.unwant(&queue, requests);
        }
        let (mut settled, mut any) = (true, subscriptions.is_empty());
        for (topic, subscription) in subscriptions.iter() {
            let asked = if self.core.settings().is_broadcasting() {
                self.take_all(topic, requests)
            } else {
                self.ask_members(topic, subscription.version, requests)
            };
            any |= asked;
            // A retry topic may appear later: nothing waits for it.
            settled &= asked || topic.starts_with(RETRY_PREFIX);
        }
        if any {
            self.cadence.ran(now, settled, self.core.jitter());
        } else {
            self.cadence.too_early(now, self.core.jitter());
        }
    }

    /// Whether somebody could be asked.
    fn ask_members(&mut self, topic: &Arc<str>, version: i64, requests: &mut Requests<S>) -> bool {
        let since = self.ready.is_none().then(|| self.core.now());
        let state = self.topics.entry(topic.clone()).or_insert_with(|| Topic { since, ..Topic::default() });
        if state.asking {
            return true;
        }
        let core = &self.core;
        let Some(address) = core.queues_of(topic).and_then(|_| core.any_broker_of(topic)) else {
            core.want_route(topic);
            return false;
        };
        // A broker has been told before it is asked; its acknowledgement wakes the next round.
        if !core.is_told(&address, topic, version) {
            core.heartbeat_now(Some(&address));
            return false;
        }
        state.asking = true;
        requests.members(core, topic, &address);
        true
    }

    fn members_came(
        &mut self,
        topic: &Arc<str>,
        address: &Arc<str>,
        ids: Result<Vec<String>, String>,
        requests: &mut Requests<S>,
    ) {
        match self.topics.get_mut(topic) {
            Some(state) => state.asking = false,
            None => return,
        }
        if self.ending.is_some() {
            return;
        }
        let me = self.core.client_id().to_owned();
        let members = match ids {
            Ok(ids) => Members::new(ids),
            Err(error) => {
                log::warn!(
                    "{address} could not tell the members of {} for {topic}: {error}",
                    self.core.group()
                );
                self.core.heartbeat_now(Some(address));
                self.unsettled();
                return;
            }
        };
        let listed = members.contains(&me);
        let missing = match self.topics.get_mut(topic) {
            Some(state) => {
                state.missing = if listed { 0 } else { state.missing + 1 };
                state.missing
            }
            None => return,
        };
        if !listed {
            log::warn!("{address} does not list this member of {} (time {missing})", self.core.group());
            self.core.heartbeat_now(Some(address));
            self.unsettled();
            // One lost heartbeat must not stop all consumption of the topic.
            if missing < MISSING_LIMIT {
                return;
            }
        }
        self.allocate(topic, &me, members, requests);
    }

    fn allocate(&mut self, topic: &Arc<str>, me: &str, members: Members, requests: &mut Requests<S>) {
        if self.is_too_new(topic, me, &members) {
            return;
        }
        let members = self.peers.subscribers(topic, me, members);
        let Some(mut all) = self.core.queues_of(topic) else { return };
        all.sort_unstable();
        let Some(mine) = self.share(topic, me, &members, &all) else {
            self.unsettled();
            return;
        };
        let wanted: BTreeSet<MessageQueue> =
            mine.into_iter().filter(|queue| all.binary_search(queue).is_ok()).collect();
        let changes = diff(&self.owned_of(topic), &wanted);
        for queue in &changes.revoke {
            self.unwant(queue, requests);
        }
        for queue in changes.assign {
            let owns = |id: &str, members: &Members| {
                self.share(topic, id, members, &all).is_some_and(|share| share.contains(&queue))
            };
            let settle = self
                .topics
                .get(topic)
                .is_some_and(|state| state.history.is_taken_from_live_member(me, &members, owns));
            self.want(queue, settle, requests);
        }
        if let Some(state) = self.topics.get_mut(topic) {
            state.history.add(members, self.core.now());
            state.wanted = Some(wanted);
        }
    }

    /// The share of one member. `None` if the user's strategy panicked: then queues stay as they are.
    fn share(
        &self,
        topic: &str,
        id: &str,
        members: &Members,
        all: &[MessageQueue],
    ) -> Option<Vec<MessageQueue>> {
        let strategy = &self.core.settings().allocate;
        let share = catch_unwind(AssertUnwindSafe(|| strategy(id, members.ids(), all)));
        share
            .inspect_err(|panic| {
                let text = panic_text(&**panic).to_owned();
                log::error!("the allocation strategy of {} panicked for {topic}: {text}", self.core.group());
                self.core.emit(Event::ThreadRestarted { thread: "rmq-rebalance".into(), panic: text });
            })
            .ok()
    }

    /// The queues of a topic, without those that are being given up.
    fn owned_of(&self, topic: &str) -> BTreeSet<MessageQueue> {
        let queues = self.queues.iter();
        let owned = queues.filter(|(queue, owned)| queue.topic() == topic && !owned.assignment.is_leaving());
        owned.map(|(queue, _)| queue.clone()).collect()
    }

    pub(super) fn want(&mut self, queue: MessageQueue, settle: bool, requests: &mut Requests<S>) {
        let in_order = self.core.settings().order.is_some();
        if self.queues.contains_key(&queue) || in_order && self.core.is_listening_to(&queue) {
            // Its former life has not ended yet; the round after that takes it up.
            self.unsettled();
            return;
        }
        let policy = Policy {
            from: self.start_of(&queue),
            is_retry_topic: queue.topic().starts_with(RETRY_PREFIX),
            asks_program: self.core.has_own_offsets(),
            by_hand: self.core.polled() == Some(false),
        };
        let (assignment, actions) = if self.needs_locks() {
            Assignment::new_locked(policy)
        } else {
            Assignment::new(policy, settle, self.core.now())
        };
        self.tell_waiting(&queue, &assignment);
        self.next_epoch += 1;
        let owned = Owned {
            assignment,
            process: None,
            epoch: self.next_epoch,
            by_hand: ByHand::default(),
            idle_commit: None,
        };
        self.core.note(&queue, Standing::Wanted);
        self.queues.insert(queue.clone(), owned);
        self.perform(&queue, actions, requests);
    }

    pub(super) fn unwant(&mut self, queue: &MessageQueue, requests: &mut Requests<S>) {
        if let Some(owned) = self.queues.get(queue)
            && !owned.assignment.is_leaving()
        {
            let time = if self.needs_locks() { REVOKE_TIME_LOCKED } else { REVOKE_TIME };
            self.drive(queue, requests, |assignment, now, watermark| {
                assignment.unwant(now + time, watermark)
            });
        }
    }

    /// A broker makes the retry topic of a new group with its first heartbeat: it is asked for right after that, and
    /// not only by the timer, so that the first retry is not late.
    fn want_retry_route(&self) {
        for topic in self.core.subscriptions().keys().filter(|topic| topic.starts_with(RETRY_PREFIX)) {
            if self.core.queues_of(topic).is_none() {
                self.core.want_route(topic);
            }
        }
    }

    /// Tells one assignment something, and carries out what it says.
    pub(super) fn drive(
        &mut self,
        queue: &MessageQueue,
        requests: &mut Requests<S>,
        tell: impl FnOnce(&mut Assignment, Instant, Offset) -> Vec<Action>,
    ) {
        let now = self.core.now();
        let Some(owned) = self.queues.get_mut(queue) else { return };
        let watermark = owned.process.as_ref().map_or(Offset::ZERO, |process| process.committable());
        let was_locking = owned.assignment.is_locking();
        let actions = tell(&mut owned.assignment, now, watermark);
        if was_locking != owned.assignment.is_locking()
            && let Some(owned) = self.queues.get(queue)
        {
            self.tell_waiting(queue, &owned.assignment);
        }
        self.perform(queue, actions, requests);
    }

    fn perform(&mut self, queue: &MessageQueue, actions: Vec<Action>, requests: &mut Requests<S>) {
        for action in actions {
            let Some(epoch) = self.queues.get(queue).map(|owned| owned.epoch) else { return };
            match action {
                Action::Ask(ask) => {
                    if let Err(error) = requests.ask(&self.core, queue, epoch, ask) {
                        requests.failure = None;
                        self.not_found(queue, &error, requests);
                        self.drive(queue, requests, |assignment, now, _| match ask {
                            Ask::Stored => assignment.stored(Err(error), now),
                            _ => assignment.resolved(Err(error), now),
                        });
                    }
                }
                Action::Commit(offset) => {
                    if let Err(error) = requests.commit(&self.core, queue, epoch, offset) {
                        requests.failure = None;
                        self.committed(queue, Err(error), requests);
                    }
                }
                Action::Activate { start, reason } => self.activate(queue, start, reason),
                Action::Close => self.close(queue, requests),
                Action::Lock => self.lock_wishes.lock(queue, epoch),
                Action::Unlock => {
                    self.forfeit(queue);
                    self.lock_wishes.unlock(queue, epoch);
                }
                Action::Extend(asked) => self.extend_lock(queue, asked),
                Action::Forfeit => self.forfeit(queue),
                Action::LetGo => self.let_go(queue),
                Action::Release { committed, failed } => self.release(queue, committed, failed),
            }
        }
    }

    fn activate(&mut self, queue: &MessageQueue, start: Offset, reason: StartReason) {
        // Of the generation before, it may have been renewed since it was granted.
        let lease = self.queues.get(queue).and_then(|owned| {
            let known = owned.process.as_ref().and_then(|process| process.lease());
            known.or_else(|| owned.assignment.lock_asked().map(|(asked, wall)| Lease::new(asked, wall)))
        });
        self.let_go(queue);
        let settings = self.core.settings();
        let in_order = settings.order.is_some();
        let limits = Limits {
            messages: settings.pull_threshold_messages,
            bytes: settings.pull_threshold_bytes,
            // In order, nothing is delivered behind an unfinished message.
            span: if in_order { usize::MAX } else { settings.max_span },
        };
        let process = ProcessQueue::new(queue.clone(), start, limits, self.core.budget().clone());
        let process = match self.core.polled() {
            Some(auto) => process.polled(auto),
            None if in_order => process.in_order(lease),
            None => process,
        };
        let process = Arc::new(process);
        self.core.wait_for_start(queue, None);
        self.core.note(queue, Standing::Found);
        let Some(owned) = self.queues.get_mut(queue) else { return };
        if let Some(acked) = owned.assignment.acked() {
            process.facts.set_committed(acked);
        }
        owned.process = Some(process.clone());
        owned.by_hand.leave();
        self.generations.insert(process.id(), queue.clone());
        log::info!("{} consumes {queue} from offset {start}: {reason}", self.core.plain_group());
        self.core.own(&process);
        self.core.post_pull(PullEvent::Attach(self.core.clone(), process));
        self.core.emit(Event::Assigned { queue: queue.clone(), offset: start.wire(), reason });
    }

    fn close(&mut self, queue: &MessageQueue, requests: &mut Requests<S>) {
        let Some(process) = self.queues.get(queue).and_then(|owned| owned.process.clone()) else { return };
        let (settled, not_used_up) = process.close();
        self.core.went(not_used_up);
        process.facts.set_waiting(Some(Waiting::Revoking), self.core.now());
        self.core.post_pull(PullEvent::Detach(process.id()));
        // A program that commits itself gets the time that listeners get.
        let waits = self.is_leaving(queue) && self.may_be_lost(&process);
        if settled.drained && !waits {
            self.drive(queue, requests, |assignment, now, watermark| assignment.drained(now, watermark));
        }
    }

    /// The lock is another member's from now on, or about to be.
    fn forfeit(&self, queue: &MessageQueue) {
        if let Some(process) = self.queues.get(queue).and_then(|owned| owned.process.as_ref()) {
            process.lose_lease();
        }
    }

    /// Why there is no process queue yet.
    fn tell_waiting(&self, queue: &MessageQueue, assignment: &Assignment) {
        let waiting = if assignment.is_locking() { Waiting::NoLock } else { Waiting::Resolving };
        self.core.wait_for_start(queue, Some(waiting));
    }

    fn release(&mut self, queue: &MessageQueue, committed: Option<Offset>, failed: Option<String>) {
        let process = self.queues.get(queue).and_then(|owned| owned.process.clone());
        let lost = process.as_ref().is_some_and(|process| self.may_be_lost(process));
        let left = process.map(|process| process.left()).unwrap_or_default();
        self.let_go(queue);
        self.core.wait_for_start(queue, None);
        if let Some(owned) = self.queues.remove(queue) {
            owned.by_hand.end(committed);
        }
        self.core.note(queue, Standing::Gone { lost });
        let committed = committed.map(Offset::wire);
        let abandoned = left.running.len();
        log::info!("{} gives up {queue}, committed {committed:?}", self.core.plain_group());
        if let Some(failed) = &failed {
            log::warn!("the last offset of {queue} was not confirmed: {failed}");
        }
        match &mut self.ending {
            None => self.wake(),
            Some(Ending { report, .. }) => {
                report.released += left.untouched;
                let running = left.running.iter().map(|offset| (queue.clone(), offset.wire()));
                report.abandoned.extend(running);
                report.committed.extend(committed.map(|offset| (queue.clone(), offset)));
                let repeated = (abandoned == 0 && left.repeated > 0).then(|| {
                    format!("{} finished messages follow one that waits for its retry", left.repeated)
                });
                report.uncommitted.extend(failed.or(repeated).map(|why| (queue.clone(), why)));
            }
        }
        self.core.emit(Event::Revoked { queue: queue.clone(), committed, abandoned });
    }

    /// The present process queue of this queue, if any, is history.
    fn let_go(&mut self, queue: &MessageQueue) {
        if let Some(process) = self.queues.get_mut(queue).and_then(|owned| owned.process.take()) {
            self.generations.remove(&process.id());
            self.core.post_pull(PullEvent::Detach(process.id()));
            self.core.disown(&process);
            process.clear();
        }
    }

    /// The queue of this generation.
    pub(super) fn queue_of(&self, id: u64) -> Option<MessageQueue> {
        self.generations.get(&id).cloned()
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

/// After each answer that there is no retry topic.
const RETRY_ROUTE_DELAYS: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30)];
const IDLE_COMMIT: Duration = Duration::from_millis(100);
/// A queue with a message now and then is not committed for each.
const IDLE_APART: Duration = Duration::from_secs(1);
const MISSING_LIMIT: u32 = 3;
