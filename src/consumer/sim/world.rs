//! The world of one run: its clock, its agenda, and who is in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::broker::{Broker, Message, Reply};
use super::core::{BROKERS, Deed, SimCore, Sink, broker_at};
use super::disk::Disk;
use super::ledger::Ledger;
use super::locks::ForLock;
use super::member::{ForControl, ForPull, ForRebalance, Member, Outcome};
use super::mutants::Mutant;
use super::net::Wired;
use super::plan::Plan;
use super::rng::Rng;
use crate::client::Notice;
use crate::consumer::assignment::Ask;
use crate::consumer::events::Event;
use crate::consumer::losses;
use crate::consumer::outside::Outside;
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::rebalance_loop::RebalanceEvent;
use crate::consumer::stats::{StartReason, Waiting};
use crate::consumer::timer_loop::{Due, TimerEvent};

/// Everything there is in a run.
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) plan: Plan,
    pub(super) mutant: Option<Mutant>,
    pub(super) base: Instant,
    pub(super) now: Instant,
    agenda: BTreeMap<(Instant, u64), Happening>,
    scheduled: u64,
    pub(super) brokers: Vec<Broker>,
    pub(super) members: Vec<Option<Member>>,
    pub(super) calls: BTreeMap<u64, Wired>,
    pub(super) next_call: u64,
    pub(super) next_link: u64,
    pub(super) ledger: Ledger,
    /// The filter of each topic.
    pub(super) filters: BTreeMap<String, &'static str>,
    /// The last version of any subscription.
    pub(super) version: i64,
    pub(super) next_message: u64,
    /// Messages that wait for their delay.
    pub(super) delayed: usize,
    /// Of a member that keeps its offsets itself.
    pub(super) disk: Disk,
    /// Since when nothing goes wrong any more.
    pub(super) quiet: Option<Instant>,
    /// The messages that are sent when everything has been consumed are on their way.
    pub(super) last_words: bool,
    pub(super) over: bool,
    /// What the answer that is being processed has said.
    pub(super) answering: Option<Said>,
    log: Option<Vec<String>>,
    pub(super) steps: u64,
}

/// What the answer to a question about an offset has said, really.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) ask: Ask,
    pub(super) epoch: u64,
    /// `None`: nothing is stored.
    pub(super) offset: Option<i64>,
}

/// Something on the agenda.
pub(super) enum Happening {
    /// A loop of a member takes in what has come, and does what is due.
    Run(usize, Loop),
    Timer(usize, Instant, Due),
    /// A consume thread looks for work.
    Worker(usize, usize),
    /// A listener returns.
    Returns(usize, usize),
    /// A look for listeners that run too long.
    Look(usize),
    Arrive(u64),
    Answer(u64, Reply),
    Expire(u64),
    Outcome(usize, Sink, u64, Outcome),
    /// Held pulls of a queue are looked at.
    Recheck(usize, usize),
    HoldEnd(usize, u64),
    Deliver(usize, usize, Message),
    /// A broker notices that a connection is gone.
    Closed(usize, usize, u64),
    IdsChanged(usize),
    Route(usize, String),
    RoutePoll(usize),
    Subscribe(usize, String),
    /// A program that polls does the next thing.
    Program(usize),
    /// A write of offsets comes to its end.
    Written(usize),
    LeaveEnd(usize),
    Gone(usize),
    Produce,
    Trouble,
    Calm,
    Settled,
}

/// A loop of a member that runs on a thread of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loop {
    Pull,
    Rebalance,
    Control,
    Lock,
}

impl World {
    pub(super) fn new(seed: u64, mutant: Option<Mutant>, base: Instant, log: bool) -> Self {
        let mut rng = Rng::new(seed);
        let plan = Plan::new(&mut rng, mutant.map(Mutant::mode));
        let mut world = Self {
            rng,
            mutant,
            base,
            now: base,
            agenda: BTreeMap::new(),
            scheduled: 0,
            brokers: (0..plan.brokers).map(|number| Broker::new(number, base)).collect(),
            members: Vec::new(),
            calls: BTreeMap::new(),
            next_call: 0,
            next_link: 0,
            ledger: Ledger::default(),
            filters: BTreeMap::new(),
            version: 1,
            next_message: 0,
            delayed: 0,
            disk: Disk::new(),
            quiet: None,
            last_words: false,
            over: false,
            answering: None,
            log: log.then(Vec::new),
            steps: 0,
            plan,
        };
        world.set_up();
        world
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The promise that was broken.
    pub(super) fn run(&mut self) -> Result<(), String> {
        while !self.over {
            let Some(((at, _), happening)) = self.agenda.pop_first() else {
                return Err("nothing will ever happen again".into());
            };
            self.now = at;
            self.steps += 1;
            self.happen(happening);
            if let Some(broken) = self.ledger.broken.take() {
                return Err(broken);
            }
            if self.steps > MOST_STEPS {
                return Err(format!("there is no end to it: {}", self.standing()));
            }
        }
        Ok(())
    }

    /// What happened last, of a run that keeps a log.
    pub(super) fn last_lines(&self, most: usize) -> Vec<String> {
        let log = self.log.as_deref().unwrap_or_default();
        log[log.len().saturating_sub(most)..].to_vec()
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        let at = self.now.duration_since(self.base);
        if let Some(log) = &mut self.log {
            log.push(format!("{:>10.4} {}", at.as_secs_f64(), line()));
        }
    }

    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    pub(super) fn at(&mut self, at: Instant, happening: Happening) {
        self.scheduled += 1;
        // What falls on the same moment happens in any order.
        let tie = self.rng.next() << 32 | self.scheduled;
        self.agenda.insert((at, tie), happening);
    }

    pub(super) fn later(&mut self, delay: Duration, happening: Happening) {
        self.at(self.now + delay, happening);
    }

    fn set_up(&mut self) {
        for (topic, queues) in self.plan.topics.clone() {
            self.filters.insert(topic.to_owned(), "*");
            for broker in 0..self.brokers.len() {
                for id in 0..queues {
                    self.add_queue(broker, topic, id);
                }
            }
        }
        for _ in 0..self.plan.members {
            self.join();
        }
        for _ in 0..self.plan.messages {
            let when = self.rng.fraction();
            let delay = self.plan.rough.mul_f64(when * when);
            self.later(delay, Happening::Produce);
        }
        let first = self.rng.millis(20, 500);
        self.later(first, Happening::Trouble);
        self.later(self.plan.rough, Happening::Calm);
    }

    pub(super) fn add_queue(&mut self, broker: usize, topic: &str, id: usize) {
        let number = self.ledger.queues.len();
        self.brokers[broker].add_queue(topic, id, number);
        let queue = self.brokers[broker].queues.last().expect("just added").queue.clone();
        self.ledger.add_queue(queue);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Run(member, which) => self.run_loop(member, which),
            Happening::Timer(member, at, due) => self.timer(member, at, due),
            Happening::Worker(member, worker) => self.look_for_work(member, worker),
            Happening::Returns(member, worker) => self.listener_returns(member, worker),
            Happening::Look(member) => self.look_for_late_calls(member),
            Happening::Arrive(call) => self.arrive(call),
            Happening::Answer(call, reply) => self.answer(call, reply),
            Happening::Expire(call) => self.expire(call),
            Happening::Outcome(member, sink, tag, outcome) => self.outcome(member, sink, tag, outcome),
            Happening::Recheck(broker, queue) => self.recheck(broker, queue),
            Happening::HoldEnd(broker, call) => self.hold_ends(broker, call),
            Happening::Deliver(broker, queue, message) => {
                self.delayed -= 1;
                self.append(broker, queue, message);
            }
            Happening::Closed(broker, member, link) => self.broker_notices(broker, member, link),
            Happening::IdsChanged(member) => self.for_control(member, ForControl::Tell(IDS_CHANGED)),
            Happening::Route(member, topic) => self.name_server_answers(member, topic),
            Happening::RoutePoll(member) => self.poll_routes(member),
            Happening::Subscribe(member, topic) => self.subscribe(member, &topic),
            Happening::Program(member) => self.run_program(member),
            Happening::Written(member) => self.written(member),
            Happening::LeaveEnd(member) => self.say_goodbye(member, None),
            Happening::Gone(member) => self.remove(member),
            Happening::Produce => self.produce(),
            Happening::Trouble => self.trouble(),
            Happening::Calm => self.calm_down(),
            Happening::Settled => self.look_whether_settled(),
        }
    }

    /// Lets a deciding part of a member do something, and carries out what it asks for.
    pub(super) fn visit<R>(&mut self, number: usize, work: impl FnOnce(&mut Member) -> R) -> Option<R> {
        let now = self.now;
        let member = self.members[number].as_mut()?;
        member.core.seen.borrow_mut().now = now;
        let result = work(member);
        self.carry_out(number);
        Some(result)
    }

    pub(super) fn core(&self, number: usize) -> Option<Arc<SimCore>> {
        self.members[number].as_ref().map(|member| member.core.clone())
    }

    pub(super) fn carry_out(&mut self, number: usize) {
        let Some(core) = self.core(number) else { return };
        let deeds = core.deeds.take();
        for deed in deeds {
            self.carry(number, deed);
        }
        if core.take_freed() {
            self.for_pull(number, ForPull::Event(PullEvent::CacheFreed));
        }
        if core.local.is_some() {
            self.look_at_disk(number);
        }
    }

    fn carry(&mut self, number: usize, deed: Deed) {
        match deed {
            Deed::Send { broker, request, sink, tag } => {
                self.send(number, broker, super::net::Wire::Consumer(request), sink, tag);
            }
            Deed::Heartbeat(broker) => self.for_control(number, ForControl::Heartbeat(broker)),
            Deed::Route(topic) => self.ask_route(number, topic),
            Deed::Pull(event) => self.post_pull(number, event),
            Deed::Rebalance(event) => self.for_rebalance(number, ForRebalance::Event(event)),
            Deed::Timer(event) => {
                if let TimerEvent::At(at, due) = event {
                    self.set_timer(number, at, due);
                }
            }
            Deed::Tell(event) => self.told(number, event),
            Deed::Ready(queue) => {
                if let Some(member) = &mut self.members[number] {
                    member.ready.push_back(queue);
                    self.wake_worker(number);
                }
            }
            Deed::Own(queue) => {
                let (id, start) = (queue.id(), queue.watermark().wire());
                let place = self.ledger.number(queue.queue());
                self.ledger.begin(id, number, place, start, self.now);
                if self.plan.polled == Some(false) {
                    self.ledger.is_by_hand(id);
                }
                let name = self.ledger.short(id);
                self.note(|| format!("{number} owns {} from {start} as {name}", queue.queue()));
                if let Some(member) = &mut self.members[number] {
                    member.expected.insert(id, start);
                    member.owned.insert(id, queue);
                }
            }
            Deed::Disown(id) => {
                if let Some(member) = &mut self.members[number] {
                    member.owned.remove(&id);
                }
            }
            Deed::CancelListeners => {
                if let Some(member) = &self.members[number] {
                    member.workers.iter().for_each(|worker| worker.slot.cancel());
                }
            }
            Deed::Cut(broker) => self.cut(number, broker),
            Deed::RenewLocks(broker) => self.for_lock(number, ForLock::Renew(broker)),
        }
    }

    pub(super) fn post_pull(&mut self, number: usize, event: PullEvent<SimCore>) {
        if let PullEvent::Detach(id) = &event {
            let id = *id;
            self.ledger.close(id);
            self.note_closed(number, id);
            if self.plan.polled == Some(true) {
                // What its program still has counts as done.
                self.ledger.allow(id);
            }
        }
        if self.is(Mutant::NudgeLost) && matches!(event, PullEvent::Nudge(_)) {
            return;
        }
        self.for_pull(number, ForPull::Event(event));
    }

    fn set_timer(&mut self, number: usize, at: Instant, due: Due) {
        if self.is(Mutant::TimerLost) && matches!(due, Due::Pull(_)) && self.rng.chance(50) {
            return;
        }
        if self.is(Mutant::RetryForgotten) && matches!(due, Due::Retry(_)) {
            return;
        }
        if let Some(member) = &mut self.members[number]
            && member.timers.insert((at, due))
        {
            let late = self.rng.micros(0, 500);
            self.at(at.max(self.now) + late, Happening::Timer(number, at, due));
        }
    }

    fn timer(&mut self, number: usize, at: Instant, due: Due) {
        if let Some(member) = &mut self.members[number] {
            member.timers.remove(&(at, due));
            self.for_pull(number, ForPull::Event(PullEvent::Due(due)));
        }
    }

    /// What a consumer tells its user, as far as it says what it has decided.
    fn told(&mut self, number: usize, event: Event) {
        self.note(|| format!("{number}: {event}"));
        match event {
            Event::Assigned { queue, offset, reason } => {
                let place = self.ledger.number(&queue);
                self.check_start(number, place, offset, &reason);
                if reason == StartReason::Rebuilt && self.plan.polled == Some(false) {
                    self.ledger.goes_on(number, place);
                    if self.is(Mutant::HandedOutIsForgotten) {
                        self.forget_what_was_handed_out(number, &queue);
                    }
                }
                self.ledger.clear_target(number, place);
            }
            Event::OffsetReset { queue, to } | Event::OffsetCorrected { queue, to, .. } => {
                let place = self.ledger.number(&queue);
                self.ledger.target(number, place, to);
                self.ledger.went_back(place);
                if self.is(Mutant::CommitAfterReset) {
                    self.commit_the_watermark(number, &queue, to);
                }
            }
            Event::GivenUp { message } => {
                let place = self.ledger.number(message.queue());
                self.ledger.hold(number, place, message.queue_offset());
            }
            Event::Disconnected { server, .. } => {
                self.confirmations_are_doubtful(number, &server);
            }
            Event::Revoked { queue, .. } => {
                let place = self.ledger.number(&queue);
                self.ledger.clear_target(number, place);
            }
            Event::QueueStalled { queue, reason: Waiting::Failing(why), .. } if why.ends_with("was lost") => {
                self.ledger.break_promise(4, || format!("{number}, {queue}: {why}"));
            }
            Event::ThreadRestarted { thread, panic } => {
                self.ledger.break_promise(6, || format!("{thread} of {number} panicked: {panic}"));
            }
            _ => {}
        }
    }

    /// Promise 2: where a queue starts, and why.
    fn check_start(&mut self, number: usize, queue: usize, offset: i64, reason: &StartReason) {
        let fine = match (reason, self.answering) {
            (StartReason::Stored, Some(Said { ask: Ask::Stored, offset: Some(stored), .. })) => {
                stored == offset
            }
            (StartReason::RetryTopic, Some(Said { ask: Ask::Stored, offset: None, .. })) => offset == 0,
            (StartReason::ConsumeFrom(_), Some(Said { ask: Ask::Max | Ask::Min, epoch, offset: at })) => {
                self.ledger.excuse(queue, 0..offset);
                at == Some(offset) && self.ledger.is_unstored(number, queue, epoch)
            }
            (StartReason::Reset | StartReason::Corrected, _) => {
                self.ledger.target_of(number, queue) == Some(offset)
            }
            (StartReason::Seek, _) => self.ledger.found(number, queue, offset),
            (StartReason::Rebuilt, _) if self.plan.polled.is_some() => {
                offset <= self.ledger.position_of_former(number, queue)
            }
            (StartReason::Rebuilt, _) => offset <= self.ledger.low_of_former(number, queue),
            _ => false,
        };
        if !fine {
            let (name, answering) = (self.ledger.name(queue).clone(), self.answering);
            self.ledger.break_promise(2, || {
                format!(
                    "{number} starts {name} at {offset} ({reason}), but the last answer was {answering:?}"
                )
            });
        }
    }

    pub(super) fn for_pull(&mut self, number: usize, item: ForPull) {
        if let Some(member) = &mut self.members[number] {
            member.pull.items.push_back(item);
            self.rouse(number, Loop::Pull);
        }
    }

    pub(super) fn for_rebalance(&mut self, number: usize, item: ForRebalance) {
        if let Some(member) = &mut self.members[number] {
            member.rebalance.items.push_back(item);
            self.rouse(number, Loop::Rebalance);
        }
    }

    pub(super) fn for_control(&mut self, number: usize, item: ForControl) {
        if let Some(member) = &mut self.members[number] {
            member.control.items.push_back(item);
            self.rouse(number, Loop::Control);
        }
    }

    pub(super) fn notice(&mut self, number: usize, notice: Notice) {
        if let Some(core) = self.core(number) {
            if let Notice::Disconnected { address, .. } = &notice {
                self.ledger.doubts_locks(number, BROKERS[broker_at(address)].0, self.now);
            }
            if !self.is(Mutant::LockLossNotNoticed) {
                losses::look(&*core, &notice);
            }
            self.for_rebalance(number, ForRebalance::Event(RebalanceEvent::Notice(core, notice)));
        }
    }

    /// Something has come for a loop: its thread wakes, some time.
    pub(super) fn rouse(&mut self, number: usize, which: Loop) {
        let Some(member) = &mut self.members[number] else { return };
        let (awake, stalled) = match which {
            Loop::Pull => (&mut member.pull.awake, member.pull.stalled),
            Loop::Rebalance => (&mut member.rebalance.awake, member.rebalance.stalled),
            Loop::Control => (&mut member.control.awake, member.control.stalled),
            Loop::Lock => (&mut member.lock.awake, member.lock.stalled),
        };
        if std::mem::replace(awake, true) {
            return;
        }
        let delay = match self.rng.below(100) {
            0..70 => self.rng.micros(5, 200),
            70..98 => self.rng.micros(200, 4000),
            _ => self.rng.millis(4, 60),
        };
        let at = (self.now + delay).max(stalled.unwrap_or(self.now));
        self.at(at, Happening::Run(number, which));
    }

    /// Where everybody stands, for a run that does not come to an end.
    pub(super) fn standing(&mut self) -> String {
        let mut lines = Vec::new();
        for broker in &self.brokers {
            for queue in &broker.queues {
                let low = self.ledger.low(queue.ledger);
                lines.push(format!(
                    "{}: {}..{}, committed {:?}, finished up to {low}",
                    queue.queue,
                    queue.min,
                    queue.max(),
                    queue.committed
                ));
            }
        }
        for member in self.members.iter().flatten() {
            for (id, queue) in &member.owned {
                let state = self.state(member, *id);
                let name = self.ledger.short(*id);
                lines.push(format!("{} has {} as {name}: {state}", member.core.client_id(), queue.queue()));
            }
        }
        lines.push(format!("{} messages wait for their delay", self.delayed));
        lines.join("\n    ")
    }
}

const IDS_CHANGED: crate::client::Notice = crate::client::Notice::ConsumerIdsChanged;
const MOST_STEPS: u64 = 40_000;
