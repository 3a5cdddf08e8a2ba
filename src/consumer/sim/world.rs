//! The world of one run: its clock, its agenda, and who is in it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::broker::{Broker, Message, Reply};
use super::core::Sink;
use super::disk::Disk;
use super::ledger::Ledger;
use super::member::{ForControl, Member, Outcome};
use super::mutants::Mutant;
use super::net::Wired;
use super::plan::Plan;
use super::rng::Rng;
use crate::consumer::assignment::Ask;
use crate::consumer::timer_loop::Due;

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
    /// What programs have written down of how far they are, by queue.
    pub(super) own_offsets: BTreeMap<usize, i64>,
    /// Of members that keep their offsets themselves, by machine.
    pub(super) disks: Vec<Disk>,
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
        let plan = Plan::new(&mut rng, mutant.map(Mutant::mode)).widen(&mut Rng::new(!seed));
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
            ledger: Ledger::new(plan.machines),
            filters: BTreeMap::new(),
            version: 1,
            next_message: 0,
            delayed: 0,
            disks: vec![Disk::new(); plan.machines],
            own_offsets: BTreeMap::new(),
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
        self.ledger.add_queue(&queue);
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
}

const IDS_CHANGED: crate::client::Notice = crate::client::Notice::ConsumerIdsChanged;
const MOST_STEPS: u64 = 40_000;
