//! Programs that poll: one thread each, which takes messages, commits, seeks, pauses and resumes.
//!
//! What the methods of a pull consumer do is done here without anybody waiting; what they ask the loops for goes to the
//! real ones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, unbounded};

use super::core::BROKERS;
use super::member::ForRebalance;
use super::mutants::Mutant;
use super::plan::Plan;
use super::world::{Happening, World};
use crate::consumer::offset::Offset;
use crate::consumer::outside::Outside;
use crate::consumer::process_queue::{HandedOut, ProcessQueue};
use crate::consumer::pull_consumer::Assigned;
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::rebalance_loop::{Committed, RebalanceEvent, Wish};
use crate::consumer::settings::Settings;
use crate::message::MessageQueue;

/// The thread of a program.
#[derive(Default)]
pub(super) struct Program {
    /// Queues of which it got messages since it polled last.
    handed: Vec<Arc<ProcessQueue>>,
    call: Call,
    /// What it reads, if it chooses that itself.
    pub(super) chosen: Assigned,
    /// What it is asked for, by queue and life of that.
    pub(super) questions: Vec<(MessageQueue, u64)>,
    /// The consumer has been shut down.
    pub(super) stopped: bool,
}

/// What it waits for.
#[derive(Default)]
pub(super) enum Call {
    #[default]
    None,
    Commit {
        answers: Receiver<(MessageQueue, Committed)>,
        /// By generation, what is to be stored.
        asked: Vec<(u64, MessageQueue, i64)>,
        until: Instant,
    },
    Seek {
        queue: usize,
        answer: Receiver<bool>,
    },
    Assign {
        choice: Assigned,
        answer: Receiver<()>,
    },
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Poll,
    Commit,
    CommitOne,
    Seek,
    Pause,
    Resume,
}

const DEEDS: [(u64, Deed); 6] = [
    (60, Deed::Poll),
    (8, Deed::Commit),
    (2, Deed::CommitOne),
    (2, Deed::Seek),
    (1, Deed::Pause),
    (3, Deed::Resume),
];
const QUIET_DEEDS: [(u64, Deed); 2] = [(6, Deed::Poll), (1, Deed::Commit)];

impl Plan {
    /// The same, with programs that poll.
    pub(super) fn polled(self, auto: bool) -> Self {
        let settings = Settings { consume_threads: 0, max_span: usize::MAX, ..self.settings };
        Self { polled: Some(auto), settings, ..self }
    }
}

impl World {
    pub(super) fn begin_program(&mut self, number: usize) {
        if self.plan.polled.is_none() {
            return;
        }
        if let Some(member) = &mut self.members[number] {
            let chosen = member.core.assigned().unwrap_or_default();
            member.program = Some(Program { chosen, ..Program::default() });
            self.later(Duration::ZERO, Happening::Program(number));
        }
    }

    /// The program does the next thing, or looks whether it has its answer.
    pub(super) fn run_program(&mut self, number: usize) {
        let Some(program) = self.members[number].as_mut().and_then(|member| member.program.as_mut()) else {
            return;
        };
        if program.stopped {
            return;
        }
        let pause = match std::mem::take(&mut program.call) {
            Call::None => self.next_deed(number),
            Call::Commit { answers, asked, until } => self.look_for_commits(number, answers, asked, until),
            Call::Seek { queue, answer } => self.look_for_seek(number, queue, answer),
            Call::Assign { choice, answer } => self.look_for_assignment(number, choice, answer),
        };
        // What was handed out may have made room.
        self.visit(number, |_| ());
        self.later(pause, Happening::Program(number));
    }

    fn next_deed(&mut self, number: usize) -> Duration {
        if let Some(choice) = self.next_choice(number) {
            return self.assign(number, choice);
        }
        let deed =
            if self.quiet.is_some() { self.rng.weighted(&QUIET_DEEDS) } else { self.rng.weighted(&DEEDS) };
        match deed {
            Deed::Poll => self.poll(number),
            Deed::Commit => self.commit_everything(number),
            Deed::CommitOne => self.commit_one(number),
            Deed::Seek => self.seek(number),
            Deed::Pause => self.pause(number),
            Deed::Resume => self.resume(number),
        }
    }

    fn is_auto(&self) -> bool {
        self.plan.polled == Some(true)
    }

    fn poll(&mut self, number: usize) -> Duration {
        if self.is_auto() {
            self.allow_earlier(number);
        }
        self.answer_questions(number);
        loop {
            let Some(member) = &mut self.members[number] else { return Duration::ZERO };
            let Some(queue) = member.ready.pop_front() else { return self.rng.millis(0, 20) };
            if member.core.paused.borrow().contains(queue.queue()) {
                queue.step_aside();
                continue;
            }
            let Some(handed) = queue.hand_out(None) else { continue };
            self.hand_out(number, &queue, &handed);
            return self.program_works();
        }
    }

    fn program_works(&mut self) -> Duration {
        match self.rng.below(20) {
            0 if self.quiet.is_none() => self.rng.millis(100, 3000),
            0..5 => self.rng.millis(1, 50),
            _ => self.rng.micros(1, 500),
        }
    }

    /// The program has come back: what it was given before is done.
    fn allow_earlier(&mut self, number: usize) {
        self.ledger.allow_all(number);
        let Some(program) = self.members[number].as_mut().and_then(|member| member.program.as_mut()) else {
            return;
        };
        let handed = std::mem::take(&mut program.handed);
        self.keep_offsets(number, &handed);
        for process in handed {
            let (_, idle) = process.allow_all();
            if idle && process.facts.report_idle() {
                self.for_rebalance(number, ForRebalance::Event(RebalanceEvent::Idle(process.id())));
            }
        }
    }

    fn hand_out(&mut self, number: usize, queue: &Arc<ProcessQueue>, handed: &HandedOut) {
        let id = queue.id();
        self.check_chosen(number, queue.queue());
        if let Some(member) = &mut self.members[number] {
            if handed.more.is_some() {
                member.ready.push_back(queue.clone());
            }
            if let Some(program) = &mut member.program
                && !program.handed.iter().any(|known| Arc::ptr_eq(known, queue))
            {
                program.handed.push(queue.clone());
            }
        }
        if handed.settled.relieved {
            self.post_pull(number, PullEvent::Nudge(id));
        }
        let name = self.ledger.short(id);
        for index in handed.range.clone() {
            let offset = handed.run.offset_of(index).wire();
            self.note(|| format!("{number} polls offset {offset} of {name}"));
            self.ledger.handed(id, offset);
        }
        if self.is(Mutant::AllowedAtOnce) {
            queue.allow_all();
        }
    }

    /// The present generation of each queue.
    fn present(&self, number: usize) -> Vec<Arc<ProcessQueue>> {
        let mut seen = BTreeSet::new();
        let owned = self.members[number].iter().flat_map(|member| member.owned.values().rev());
        owned.filter(|process| seen.insert(process.queue().clone())).cloned().collect()
    }

    /// A mutant: a queue that is made anew begins as if its program had nothing of it.
    pub(super) fn forget_what_was_handed_out(&mut self, number: usize, queue: &MessageQueue) {
        if let Some(process) = self.present(number).into_iter().find(|process| process.queue() == queue) {
            process.allow(process.watermark());
        }
    }

    fn commit_everything(&mut self, number: usize) -> Duration {
        let mut wishes = Vec::new();
        let program = self.members[number].as_mut().and_then(|member| member.program.as_mut());
        let handed = program.map(|program| std::mem::take(&mut program.handed)).unwrap_or_default();
        self.ledger.allow_all(number);
        self.keep_offsets(number, &handed);
        for process in self.present(number) {
            let (allowed, _) = process.allow_all();
            if let Some(offset) = allowed
                && process.facts.committed() != Some(offset)
            {
                let fetched = self.members[number].as_ref().and_then(|one| one.expected.get(&process.id()));
                let offset = match fetched.and_then(|wire| Offset::new(*wire)) {
                    Some(fetched) if self.is(Mutant::FetchedIsCommitted) => fetched,
                    _ => offset,
                };
                wishes.push((process, offset));
            }
        }
        self.wish_for_commits(number, wishes)
    }

    /// The program says how far it is in one queue, which may be less than before.
    fn commit_one(&mut self, number: usize) -> Duration {
        let present = self.present(number);
        let Some(process) = present.get(self.rng.below(present.len())).cloned() else {
            return Duration::ZERO;
        };
        let (start, end) = (self.ledger.start_of(process.id()), process.watermark().wire());
        let to = start + self.rng.below((end - start) as usize + 1) as i64;
        let offset = Offset::new(to).expect("between two offsets");
        process.allow(offset);
        let place = self.ledger.number(process.queue());
        self.ledger.allow_below(number, place, to);
        self.ledger.program_commits(process.id(), to);
        self.wish_for_commits(number, vec![(process, offset)])
    }

    fn wish_for_commits(&mut self, number: usize, wishes: Vec<(Arc<ProcessQueue>, Offset)>) -> Duration {
        let (done, answers) = unbounded();
        let mut asked = Vec::new();
        for (process, offset) in wishes {
            let (queue, generation, done) = (process.queue().clone(), process.id(), done.clone());
            let name = self.ledger.short(generation);
            self.note(|| format!("{number}: its program commits {offset} of {name}"));
            asked.push((generation, queue.clone(), offset.wire()));
            self.wish(number, Wish::Commit { queue, generation, offset, done });
        }
        // As the real one waits: one commit may be out before this one.
        let until = self.now + Duration::from_millis(6500);
        self.calls(number, Call::Commit { answers, asked, until });
        self.rng.micros(100, 3000)
    }

    fn look_for_commits(
        &mut self,
        number: usize,
        answers: Receiver<(MessageQueue, Committed)>,
        mut asked: Vec<(u64, MessageQueue, i64)>,
        until: Instant,
    ) -> Duration {
        for (queue, committed) in answers.try_iter() {
            let Some(at) = asked.iter().position(|(_, other, _)| *other == queue) else { continue };
            let (id, _, offset) = asked.swap_remove(at);
            self.note(|| format!("{number}: its program hears of {offset} for {queue}: {committed:?}"));
            if matches!(committed, Committed::Stored) {
                self.ledger.program_knows(id, offset);
            }
        }
        if !asked.is_empty() && self.now < until {
            self.calls(number, Call::Commit { answers, asked, until });
        }
        self.rng.micros(200, 5000)
    }

    fn seek(&mut self, number: usize) -> Duration {
        let present = self.present(number);
        let Some(process) = present.get(self.rng.below(present.len())) else { return Duration::ZERO };
        let queue = process.queue().clone();
        let broker = BROKERS.iter().position(|(name, _)| *name == queue.broker_name()).unwrap_or_default();
        let Some(at) = self.brokers[broker].find(queue.topic(), queue.queue_id()) else {
            return Duration::ZERO;
        };
        let (min, max) = (self.brokers[broker].queues[at].min, self.brokers[broker].queues[at].max());
        let to = Offset::new(min + self.rng.below((max - min) as usize + 1) as i64);
        let to = to.expect("between two offsets");
        let (done, answer) = bounded(1);
        self.note(|| format!("{number}: its program seeks {to} in {queue}"));
        let place = self.ledger.number(&queue);
        self.wish(number, Wish::GoTo { queue, to, done });
        self.calls(number, Call::Seek { queue: place, answer });
        self.rng.micros(100, 3000)
    }

    fn look_for_seek(&mut self, number: usize, queue: usize, answer: Receiver<bool>) -> Duration {
        if answer.try_recv().is_err() {
            self.calls(number, Call::Seek { queue, answer });
        }
        self.rng.micros(100, 3000)
    }

    fn pause(&mut self, number: usize) -> Duration {
        let present = self.present(number);
        let process = present.get(self.rng.below(present.len()));
        if let (Some(process), Some(core)) = (process, self.core(number)) {
            self.note(|| format!("{number}: its program pauses {}", process.queue()));
            core.paused.borrow_mut().insert(process.queue().clone());
            self.post_pull(number, PullEvent::NudgeAll);
        }
        Duration::ZERO
    }

    /// The program goes on with all queues.
    pub(super) fn resume(&mut self, number: usize) -> Duration {
        let core = self.core(number).filter(|_| self.plan.polled.is_some());
        let Some(core) = core else { return Duration::ZERO };
        core.paused.borrow_mut().clear();
        for process in self.present(number) {
            if let (Some(_), Some(member)) = (process.step_back(), &mut self.members[number]) {
                member.ready.push_back(process);
            }
        }
        self.post_pull(number, PullEvent::NudgeAll);
        Duration::ZERO
    }

    pub(super) fn calls(&mut self, number: usize, call: Call) {
        if let Some(program) = self.members[number].as_mut().and_then(|member| member.program.as_mut()) {
            program.call = call;
        }
    }

    pub(super) fn wish(&mut self, number: usize, wish: Wish) {
        let Some(core) = self.core(number) else { return };
        self.for_rebalance(number, ForRebalance::Event(RebalanceEvent::Polled(core, wish)));
    }
}
