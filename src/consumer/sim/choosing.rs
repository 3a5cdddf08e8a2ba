//! Programs that poll and choose their queues themselves, and programs that keep their offsets themselves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

use super::core::SimCore;
use super::faults::subscription;
use super::member::ForControl;
use super::mutants::Mutant;
use super::polling::Call;
use super::world::{Said, World};
use crate::consumer::assignment::Ask;
use crate::consumer::offset::Offset;
use crate::consumer::outside::{Outside, Subscriptions};
use crate::consumer::process_queue::ProcessQueue;
use crate::consumer::pull_consumer::Assigned;
use crate::consumer::rebalance_loop::{RebalanceEvent, Wish};
use crate::message::MessageQueue;

impl World {
    /// What a program that is about to begin reads first, and how it is filtered.
    pub(super) fn first_choice(&mut self) -> Option<(Assigned, Subscriptions)> {
        if !self.plan.assigns {
            return None;
        }
        let topics: Vec<String> = self.filters.keys().cloned().collect();
        let first = match self.rng.chance(500) {
            true => Assigned {
                topics: [topics[self.rng.below(topics.len())].as_str().into()].into(),
                ..Assigned::default()
            },
            false => self.some_queues(),
        };
        let mut subscriptions = Subscriptions::new();
        for topic in first.all_topics() {
            let filter = if first.topics.contains(&topic) { self.filters[&*topic] } else { "*" };
            subscriptions.insert(topic.clone(), subscription(&topic, filter, self.version));
        }
        Some((first, subscriptions))
    }

    fn all_queues(&self) -> impl Iterator<Item = &MessageQueue> {
        self.brokers.iter().flat_map(|broker| &broker.queues).map(|queue| &queue.queue)
    }

    fn some_queues(&mut self) -> Assigned {
        let all: Vec<MessageQueue> = self.all_queues().cloned().collect();
        let queues = all.into_iter().filter(|_| self.rng.chance(600)).collect();
        Assigned { topics: BTreeSet::new(), queues }
    }

    /// What this program reads in the end, so that everything is read by one.
    fn share(&self, number: usize) -> Assigned {
        let live = self.live();
        let is_its = |place: usize| live.get(place % live.len().max(1)) == Some(&number);
        let queues = self.all_queues().enumerate().filter(|(place, _)| is_its(*place));
        Assigned { topics: BTreeSet::new(), queues: queues.map(|(_, queue)| queue.clone()).collect() }
    }

    /// What the program of this member is to read from now on, if that is something else.
    pub(super) fn next_choice(&mut self, number: usize) -> Option<Assigned> {
        if !self.plan.assigns {
            return None;
        }
        let choice = match self.quiet {
            Some(_) => self.share(number),
            None if self.rng.chance(40) => self.some_queues(),
            None => return None,
        };
        let core = self.core(number)?;
        // It waits for the routes, and fails without.
        let mut unknown = choice.all_topics();
        unknown.retain(|topic| core.queues_of(topic).is_none());
        unknown.iter().for_each(|topic| self.ask_route(number, topic.to_string()));
        (unknown.is_empty() && core.assigned().as_ref() != Some(&choice)).then_some(choice)
    }

    /// As `PullConsumer::assign`.
    pub(super) fn assign(&mut self, number: usize, choice: Assigned) -> Duration {
        let Some(core) = self.core(number) else { return Duration::ZERO };
        self.note(|| format!("{number}: its program assigns {:?}", choice.queues));
        for topic in choice.all_topics() {
            if core.subscription(&topic).is_none() {
                self.version += 1;
                let new = subscription(&topic, "*", self.version);
                Arc::make_mut(&mut core.seen.borrow_mut().subscriptions).insert(topic.clone(), new);
            }
        }
        *core.assigned.borrow_mut() = Some(choice.clone());
        self.for_control(number, ForControl::Heartbeat(None));
        let (done, answer) = bounded(1);
        self.wish(number, Wish::Assign { done });
        self.calls(number, Call::Assign { choice, answer });
        self.rng.micros(100, 3000)
    }

    pub(super) fn look_for_assignment(
        &mut self,
        number: usize,
        choice: Assigned,
        answer: Receiver<()>,
    ) -> Duration {
        if answer.try_recv().is_err() {
            self.calls(number, Call::Assign { choice, answer });
            return self.rng.micros(100, 3000);
        }
        let Some(member) = &mut self.members[number] else { return Duration::ZERO };
        let topics = choice.all_topics();
        Arc::make_mut(&mut member.core.seen.borrow_mut().subscriptions)
            .retain(|topic, _| topics.contains(topic));
        if let Some(program) = &mut member.program {
            program.chosen = choice;
        }
        self.rng.micros(100, 3000)
    }

    /// Promise 3, where a program gets something: only of what it reads, as of the last time that it could choose.
    pub(super) fn check_chosen(&mut self, number: usize, queue: &MessageQueue) {
        let program = self.members[number].as_ref().and_then(|member| member.program.as_ref());
        let Some(chosen) = program.map(|program| &program.chosen).filter(|_| self.plan.assigns) else {
            return;
        };
        if !chosen.topics.contains(queue.topic()) && !chosen.queues.contains(queue) {
            self.ledger
                .break_promise(3, || format!("{number} gets messages of {queue}, which it does not read"));
        }
    }

    /// A program writes down how far it is in what it got.
    pub(super) fn keep_offsets(&mut self, number: usize, handed: &[Arc<ProcessQueue>]) {
        if !self.plan.own_offsets {
            return;
        }
        for process in handed {
            let (id, place) = (process.id(), self.ledger.place(number, process.queue()));
            let (at, low) = (self.ledger.position(id), self.ledger.low(place));
            if !self.ledger.is_latest(number, id) {
                continue;
            }
            let name = self.ledger.short(id);
            self.note(|| format!("{number}: its program is at {at} of {name}"));
            if at > low {
                self.ledger.break_promise(1, || {
                    format!("{number} was led to {at} in {name}, and {low} is not finished")
                });
            }
            self.own_offsets.insert(place, at);
        }
    }

    /// The program says where queues begin, or that it does not know.
    pub(super) fn answer_questions(&mut self, number: usize) {
        let program = self.members[number].as_mut().and_then(|member| member.program.as_mut());
        let questions = program.map(|program| std::mem::take(&mut program.questions)).unwrap_or_default();
        for (queue, epoch) in questions {
            let place = self.ledger.place(number, &queue);
            let known = self.own_offsets.get(&place).and_then(|at| Offset::new(*at));
            let fails = self.quiet.is_none() && self.rng.chance(self.plan.refuse);
            let answer = if fails { Err("the database is away".to_owned()) } else { Ok(known) };
            self.note(|| format!("{number}: its program says of {queue}: {answer:?}"));
            self.wish(number, Wish::Start { queue, epoch, answer });
        }
    }

    /// The rebalance loop hears of a wish.
    pub(super) fn grant(&mut self, number: usize, core: Arc<SimCore>, mut wish: Wish) {
        match &mut wish {
            Wish::GoTo { queue, to, .. } => {
                let queue = self.ledger.number(queue);
                self.ledger.sought(number, queue, to.wire());
            }
            Wish::Assign { done } if self.is(Mutant::AssignForgotten) => {
                let _ = done.send(());
                return;
            }
            Wish::Start { queue, epoch, answer } => {
                let said = answer.as_ref().ok().map(|at| at.map(Offset::wire));
                let place = self.ledger.place(number, queue);
                self.ledger.program_said(number, place, *epoch, said);
                self.answering = said.map(|offset| Said { ask: Ask::Program, epoch: *epoch, offset });
                if answer.is_err() && self.is(Mutant::FailedStartIsNone) {
                    *answer = Ok(None);
                }
            }
            Wish::Assign { .. } | Wish::Commit { .. } => {}
        }
        self.visit(number, |member| member.groups.handle(RebalanceEvent::Polled(core, wish)));
        self.answering = None;
    }
}
