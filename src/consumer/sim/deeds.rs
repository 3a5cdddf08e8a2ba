//! What the deciding parts of a member ask for is carried out.

use std::sync::Arc;
use std::time::Instant;

use super::core::{Deed, SimCore};
use super::locks::ForLock;
use super::member::{ForControl, ForPull, ForRebalance, Member};
use super::mutants::Mutant;
use super::world::{Happening, World};
use crate::consumer::process_queue::ProcessQueue;
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::timer_loop::{Due, TimerEvent};

impl World {
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
            Deed::Own(queue) => self.owns(number, queue),
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
            Deed::Question(queue, epoch) => {
                if let Some(program) = self.members[number].as_mut().and_then(|one| one.program.as_mut()) {
                    program.questions.push((queue, epoch));
                }
            }
        }
    }

    /// A generation of a queue begins.
    fn owns(&mut self, number: usize, queue: Arc<ProcessQueue>) {
        let (id, start) = (queue.id(), queue.watermark().wire());
        let place = self.ledger.place(number, queue.queue());
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

    pub(super) fn timer(&mut self, number: usize, at: Instant, due: Due) {
        if let Some(member) = &mut self.members[number] {
            member.timers.remove(&(at, due));
            self.for_pull(number, ForPull::Event(PullEvent::Due(due)));
        }
    }
}
