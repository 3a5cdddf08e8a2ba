//! What is true, and what must never be: the promises, checked against it at every step.

mod commits;
mod leaves;
mod order;
mod polled;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Instant;

use self::order::Book;
pub(super) use self::order::{BELIEVED, IN_ORDER, Start, Unlock};
use self::polled::Handed;
use crate::consumer::pulls::generation;
use crate::message::MessageQueue;

/// The books of one run.
#[derive(Default)]
pub(super) struct Ledger {
    /// Each queue once for each machine whose members keep their offsets themselves, one after the other.
    pub(super) queues: Vec<Pages>,
    machines: usize,
    /// Where each member runs.
    homes: Vec<usize>,
    generations: BTreeMap<u64, Generation>,
    /// Where a queue of a member was told to go on, until it does.
    targets: BTreeMap<(usize, usize), i64>,
    /// Of programs that commit: which generation goes on for a former one.
    followed: BTreeMap<u64, u64>,
    /// Where the program of a member wants to go on in a queue.
    sought: BTreeMap<(usize, usize), i64>,
    /// What the program of a member has said of the start of a queue.
    program_said: BTreeMap<(usize, usize), ProgramSaid>,
    /// Members and queues, with the life of the queue there, for which a broker had no stored offset.
    unstored: BTreeSet<(usize, usize, u64)>,
    /// Pulls without an answer, by tag.
    pulling: BTreeSet<u64>,
    in_hand: BTreeSet<(u64, i64)>,
    /// When a member asked last for the stored offset of a queue.
    asked: BTreeMap<(usize, usize), Instant>,
    /// The last word of each member about each queue that its broker got: of the commits that have arrived the one that
    /// was sent last, by the number of its request. What it overtook on the way says nothing. `None`: the broker may
    /// have lost it since.
    arrived: BTreeMap<(usize, usize), (u64, Option<i64>)>,
    fences: BTreeMap<usize, Fence>,
    /// Queues whose stored offset was taken back by the late commit of a member, how many more messages may mend that,
    /// and when the next is sent.
    taken_back: BTreeMap<usize, (u32, Instant)>,
    /// Of consumption in order.
    order: Book,
    /// The first promise that was broken.
    pub(super) broken: Option<String>,
}

/// In which life of the queue, and what: `None` if the program did not know.
type ProgramSaid = (u64, Option<Option<i64>>);

/// What became of the messages of one queue, whoever did it.
pub(super) struct Pages {
    pub(super) queue: MessageQueue,
    finished: Vec<bool>,
    low: i64,
}

/// A generation as the log of a run calls it.
#[derive(Clone, Copy)]
pub(super) struct Short(Option<usize>);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => write!(f, "#{number}"),
            None => f.write_str("#?"),
        }
    }
}

/// What one generation of a queue, of one member, has done.
struct Generation {
    /// Of how many.
    number: usize,
    member: usize,
    queue: usize,
    start: i64,
    /// Since when it could know of what others had committed: from its question for the stored offset on.
    since: Instant,
    open: bool,
    finished: Vec<bool>,
    low: i64,
    accepted: Vec<i64>,
    /// It was told to go on elsewhere, so that what it had finished may come again.
    sent_elsewhere: bool,
    /// To a program that polls.
    handed: Handed,
}

/// What a member that has left cleanly had finished.
struct Fence {
    since: Instant,
    accepted: BTreeSet<i64>,
    member: usize,
}

impl Pages {
    fn finish(&mut self, offset: i64) {
        mark(&mut self.finished, offset);
    }

    /// Everything below it is finished.
    fn low(&mut self) -> i64 {
        advance(&self.finished, &mut self.low, 0)
    }
}

fn mark(marks: &mut Vec<bool>, at: i64) {
    let Ok(at) = usize::try_from(at) else { return };
    if marks.len() <= at {
        marks.resize(at + 1, false);
    }
    marks[at] = true;
}

fn advance(marks: &[bool], low: &mut i64, start: i64) -> i64 {
    while marks.get((*low - start) as usize).copied().unwrap_or_default() {
        *low += 1;
    }
    *low
}

impl Ledger {
    /// Of members that run on so many machines, each of which has to get everything.
    pub(super) fn new(machines: usize) -> Self {
        Self { machines, ..Self::default() }
    }

    pub(super) fn add_queue(&mut self, queue: &MessageQueue) {
        for _ in 0..self.machines {
            self.queues.push(Pages { queue: queue.clone(), finished: Vec::new(), low: 0 });
        }
    }

    /// The next member runs there.
    pub(super) fn settles(&mut self, machine: usize) {
        self.homes.push(machine);
    }

    pub(super) fn home(&self, member: usize) -> usize {
        self.homes.get(member).copied().unwrap_or_default()
    }

    /// Whether a member has ever run there.
    pub(super) fn is_home(&self, machine: usize) -> bool {
        self.homes.contains(&machine)
    }

    /// The number of a queue as this member has it.
    pub(super) fn place(&self, member: usize, queue: &MessageQueue) -> usize {
        self.number(queue) + self.home(member)
    }

    /// The number of a queue, on the first machine.
    pub(super) fn number(&self, queue: &MessageQueue) -> usize {
        self.queues
            .iter()
            .position(|pages| pages.queue == *queue)
            .expect("every queue of the model is in the books")
    }

    pub(super) fn name(&self, queue: usize) -> &MessageQueue {
        &self.queues[queue].queue
    }

    pub(super) fn break_promise(&mut self, promise: u32, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(format!("promise {promise}: {}", what()));
        }
    }

    /// A name for a generation that is the same whenever the run is repeated.
    pub(super) fn short(&self, id: u64) -> Short {
        Short(self.generations.get(&id).map(|generation| generation.number))
    }

    /// Everything below it is finished.
    pub(super) fn low(&mut self, queue: usize) -> i64 {
        self.queues[queue].low()
    }

    /// Nobody has to consume these: the policy starts behind them, an operator skipped them, the broker lost them.
    pub(super) fn excuse(&mut self, queue: usize, offsets: std::ops::Range<i64>) {
        offsets.for_each(|offset| self.queues[queue].finish(offset));
    }

    /// The same on all machines.
    pub(super) fn excuse_everywhere(&mut self, queue: usize, offsets: std::ops::Range<i64>) {
        (queue..queue + self.machines).for_each(|queue| self.excuse(queue, offsets.clone()));
    }

    /// A generation begins.
    pub(super) fn begin(&mut self, id: u64, member: usize, queue: usize, start: i64, now: Instant) {
        let low = start;
        let new = Generation {
            number: self.generations.len() + 1,
            member,
            queue,
            start,
            since: self.asked.get(&(member, queue)).copied().unwrap_or(now),
            open: true,
            finished: Vec::new(),
            low,
            accepted: Vec::new(),
            sent_elsewhere: false,
            handed: Handed::default(),
        };
        self.generations.insert(id, new);
        self.order.begin(id, start, now);
    }

    /// It accepts nothing any more.
    pub(super) fn close(&mut self, id: u64) {
        if let Some(generation) = self.generations.get_mut(&id) {
            generation.open = false;
        }
    }

    pub(super) fn queue_of(&self, id: u64) -> Option<usize> {
        self.generations.get(&id).map(|generation| generation.queue)
    }

    /// The newest generation of this queue at this member.
    fn latest(&self, member: usize, queue: usize) -> Option<u64> {
        let mut all = self.generations.iter().rev();
        all.find(|(_, one)| one.member == member && one.queue == queue).map(|(id, _)| *id)
    }

    /// A generation has finished a message: a filter dropped it, or its listener accepted it.
    pub(super) fn finish(&mut self, id: u64, offset: i64) {
        let Some(generation) = self.generations.get_mut(&id) else { return };
        mark(&mut generation.finished, offset - generation.start);
        let queue = generation.queue;
        self.queues[queue].finish(offset);
    }

    /// A listener accepted it. `counts` if its generation may know.
    pub(super) fn accept(&mut self, id: u64, offset: i64, counts: bool) {
        if counts {
            self.finish(id, offset);
        }
        if let Some(generation) = self.generations.get_mut(&id) {
            // Late, it is on its way to come again.
            generation.accepted.extend(counts.then_some(offset));
            let queue = generation.queue;
            self.queues[queue].finish(offset);
        }
    }

    /// A broker holds it, for a retry or as a dead letter, since this member sent it back.
    pub(super) fn hold(&mut self, member: usize, queue: usize, offset: i64) {
        self.queues[queue].finish(offset);
        for (id, generation) in &mut self.generations {
            if generation.member == member && generation.queue == queue && offset >= generation.start {
                mark(&mut generation.finished, offset - generation.start);
                self.order.held(*id, offset);
            }
        }
    }

    /// Promise 3, and the first half of 2.
    pub(super) fn pull_sent(&mut self, tag: u64, from: i64) {
        let name = self.short(generation(tag));
        if !self.pulling.insert(tag) {
            self.break_promise(3, || format!("{name} has two pulls in flight"));
        }
        if from < 0 {
            self.break_promise(2, || format!("{name} pulls from {from}"));
        }
    }

    /// It cannot be sent, which is told later.
    pub(super) fn pull_refused(&mut self, tag: u64) {
        self.pulling.insert(tag);
    }

    pub(super) fn pull_ended(&mut self, tag: u64) {
        self.pulling.remove(&tag);
    }

    pub(super) fn is_pulling(&self, tag: u64) -> bool {
        self.pulling.contains(&tag)
    }

    /// Up to where the generation before the newest has finished everything.
    pub(super) fn low_of_former(&mut self, member: usize, queue: usize) -> i64 {
        let mut all = self.generations.values_mut().rev();
        let former = all.by_ref().filter(|one| one.member == member && one.queue == queue).nth(1);
        former.map_or(0, |one| advance(&one.finished, &mut one.low, one.start))
    }

    /// A listener gets a message.
    pub(super) fn delivered(&mut self, id: u64, offset: i64) {
        if !self.in_hand.insert((id, offset)) {
            let name = self.short(id);
            self.break_promise(6, || format!("offset {offset} of {name} is in two hands"));
        }
        let Some(generation) = self.generations.get(&id) else { return };
        let (queue, since) = (generation.queue, generation.since);
        if let Some(fence) = self.fences.get(&queue)
            && since > fence.since
            && fence.accepted.contains(&offset)
        {
            let (member, name) = (fence.member, self.name(queue).clone());
            self.break_promise(7, || {
                format!("offset {offset} of {name} comes again, though {member} finished it and left cleanly")
            });
        }
    }

    pub(super) fn given_back(&mut self, id: u64, offset: i64) {
        self.in_hand.remove(&(id, offset));
    }

    /// The open generations of a member.
    pub(super) fn open_ones(&self, member: usize) -> Vec<u64> {
        let mine = |one: &Generation| one.member == member && one.open;
        self.generations.iter().filter(|(_, one)| mine(one)).map(|(id, _)| *id).collect()
    }

    /// A member is gone, with everything it had.
    pub(super) fn gone(&mut self, member: usize) {
        let ids: Vec<u64> =
            self.generations.iter().filter(|(_, one)| one.member == member).map(|(id, _)| *id).collect();
        for id in ids {
            self.close(id);
            self.pulling.retain(|tag| generation(*tag) != id);
        }
        self.targets.retain(|(of, _), _| *of != member);
        self.order.gone(member);
    }
}
