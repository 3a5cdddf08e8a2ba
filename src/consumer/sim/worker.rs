//! The consume threads: as the real ones, with a listener that takes time without anybody waiting.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::member::{Call, Doing};
use super::mutants::Mutant;
use super::world::{Happening, World};
use crate::client::ConsumeStatus;
use crate::consumer::claims::Finished;
use crate::consumer::outside::Outside;
use crate::consumer::process_queue::ProcessQueue;
use crate::consumer::run::Run;
use crate::consumer::send_back::{Back, SendBack};
use crate::consumer::slot::Work;
use crate::consumer::timer_loop::expire_if_late;

impl World {
    /// Something is on the ready list: one idle thread wakes.
    pub(super) fn wake_worker(&mut self, number: usize) {
        let Some(member) = &mut self.members[number] else { return };
        let idle: Vec<usize> = (0..member.workers.len())
            .filter(|worker| matches!(member.workers[*worker].state, Doing::Idle))
            .collect();
        if idle.is_empty() {
            return;
        }
        let worker = idle[self.rng.below(idle.len())];
        if let Some(member) = &mut self.members[number] {
            member.workers[worker].state = Doing::Woken;
        }
        let delay = self.rng.micros(5, 1500);
        self.later(delay, Happening::Worker(number, worker));
    }

    /// A thread takes a queue off the ready list.
    pub(super) fn look_for_work(&mut self, number: usize, worker: usize) {
        let in_order = self.is_in_order();
        loop {
            let Some(member) = &mut self.members[number] else { return };
            let Some(queue) = member.ready.pop_front() else {
                member.workers[worker].state = Doing::Idle;
                return;
            };
            let size = member.core.settings().consume_batch_size;
            if in_order {
                if self.work_in_order(number, worker, queue) {
                    return;
                }
                continue;
            }
            let Some(taken) = queue.take(size) else { continue };
            if taken.more.is_some() {
                member.ready.push_back(queue.clone());
                self.wake_worker(number);
            }
            let call = Call {
                queue,
                run: taken.run,
                range: taken.range,
                retried: taken.retried,
                indices: Vec::new(),
                verdicts: Vec::new(),
                endless: false,
                since: self.now,
            };
            if self.call(number, worker, call) {
                return;
            }
        }
    }

    /// Calls the listener, with this batch or with the next one of the run that has something to show to it. `false`:
    /// the run is used up.
    fn call(&mut self, number: usize, worker: usize, mut call: Call) -> bool {
        loop {
            self.fill(number, &mut call);
            if call.retried.is_none() && call.range.start > 0 && call.range.end == call.run.len() {
                let settled = call.queue.settle_if_stopped();
                self.visit(number, |member| member.core.settled(&call.queue, settled));
            }
            if !call.indices.is_empty() {
                self.begin(number, worker, call);
                return true;
            }
            match self.next_range(number, &call) {
                Some(range) => call.range = range,
                None => return false,
            }
        }
    }

    fn next_range(&self, number: usize, call: &Call) -> Option<Range<u32>> {
        if call.retried.is_some() {
            return None;
        }
        let size = self.core(number)?.settings().consume_batch_size;
        call.run.claims.claim(size)
    }

    /// Messages whose bytes cannot be read become dead letters; the listener does not see them.
    fn fill(&mut self, number: usize, call: &mut Call) {
        call.indices.clear();
        for index in call.range.clone() {
            if call.run.is_unreadable(index) {
                let times = call.run.view(index).map_or(0, |view| view.reconsume_times());
                self.send_back(number, call, index, Back::DeadLetter, times);
            } else {
                call.indices.push(index);
            }
        }
    }

    fn begin(&mut self, number: usize, worker: usize, mut call: Call) {
        let id = call.queue.id();
        call.verdicts = self.verdicts(call.indices.len());
        call.since = self.now;
        let stuck = self.members[number].iter().flat_map(|one| &one.workers);
        let stuck = stuck.filter(|worker| matches!(&worker.state, Doing::Busy(call) if call.endless)).count();
        let name = self.ledger.short(id);
        let Some(member) = &self.members[number] else { return };
        // Somebody must be left to do the work.
        let may_hang = self.quiet.is_none() && stuck + 1 < member.workers.len();
        call.endless = may_hang && self.rng.chance(self.plan.endless_calls);
        for index in &call.indices {
            let offset = call.run.offset_of(*index).wire();
            self.note(|| format!("{number}/{worker} gets offset {offset} of {name}"));
            self.ledger.delivered(id, offset);
            if self.is(Mutant::ClaimedIsFinished) {
                call.run.claims.finish(*index);
            }
        }
        if !call.endless {
            let lasts = self.lasts();
            self.later(lasts, Happening::Returns(number, worker));
        }
        let now = self.now;
        let Some(member) = &mut self.members[number] else { return };
        let (queue, run, retried) = (call.queue.clone(), call.run.clone(), call.retried);
        let slot = &member.workers[worker].slot;
        slot.take_up(Work { queue, run, retried });
        let nanos = slot.nanos(now);
        slot.begin(&call.range, nanos, nanos);
        member.workers[worker].state = Doing::Busy(call);
        self.watch(number);
    }

    /// The timer looks after the calls that run.
    pub(super) fn watch(&mut self, number: usize) {
        if let Some(member) = &mut self.members[number]
            && !std::mem::replace(&mut member.watching, true)
        {
            self.later(LOOK_EVERY, Happening::Look(number));
        }
    }

    pub(super) fn verdicts(&mut self, messages: usize) -> Vec<ConsumeStatus> {
        let bad = if self.quiet.is_some() { 30.min(self.plan.bad_calls) } else { self.plan.bad_calls };
        if self.rng.chance(bad / 4) {
            // It panics.
            return vec![ConsumeStatus::ReconsumeLater; messages];
        }
        let mut verdict = || match self.rng.chance(bad) {
            false => ConsumeStatus::Success,
            true => self.rng.weighted(&[
                (5, ConsumeStatus::ReconsumeLater),
                (2, ConsumeStatus::ReconsumeAfter(Duration::from_millis(300))),
                (1, ConsumeStatus::DeadLetter),
            ]),
        };
        (0..messages).map(|_| verdict()).collect()
    }

    pub(super) fn lasts(&mut self) -> Duration {
        if self.quiet.is_none() && self.rng.chance(self.plan.long_calls) {
            return self.rng.millis(500, 6000);
        }
        match self.rng.below(10) {
            0..6 => self.rng.micros(1, 300),
            6..9 => self.rng.millis(1, 15),
            _ => self.rng.millis(20, 200),
        }
    }

    /// A listener has returned.
    pub(super) fn listener_returns(&mut self, number: usize, worker: usize) {
        if self.is_in_order() {
            return self.returns_in_order(number, worker);
        }
        let Some(member) = &mut self.members[number] else { return };
        let slot = member.workers[worker].slot.clone();
        let Doing::Busy(call) = std::mem::replace(&mut member.workers[worker].state, Doing::Woken) else {
            return;
        };
        let counts = slot.end();
        self.settle(number, &call, counts);
        let (queue, next) = (call.queue.clone(), self.next_range(number, &call));
        let goes_on = next.is_some_and(|range| self.call(number, worker, Call { range, ..call }));
        if !goes_on {
            let settled = queue.settle_if_stopped();
            self.visit(number, |member| member.core.settled(&queue, settled));
            slot.put_down();
            self.look_for_work(number, worker);
        }
    }

    fn settle(&mut self, number: usize, call: &Call, counts: bool) {
        let id = call.queue.id();
        let name = self.ledger.short(id);
        let mut look = false;
        for (index, status) in call.indices.iter().zip(&call.verdicts) {
            let offset = call.run.offset_of(*index).wire();
            self.note(|| format!("{number} is done with offset {offset} of {name}: {status:?} ({counts})"));
            self.ledger.given_back(id, offset);
            if *status == ConsumeStatus::Success {
                self.ledger.accept(id, offset, counts);
                look |= counts && call.run.claims.finish(*index) == Finished::Look;
            } else if counts {
                let view = call.run.view(*index);
                let times = call.retried.or(view.map(|view| view.reconsume_times())).unwrap_or_default();
                let levels = self.plan.settings.delay_levels.clone();
                self.send_back(number, call, *index, Back::of(*status, &levels), times);
            }
        }
        if look {
            let settled = call.queue.settle();
            self.visit(number, |member| member.core.settled(&call.queue, settled));
        }
    }

    fn send_back(&mut self, number: usize, call: &Call, index: u32, back: Back, times: u32) {
        let (queue, run): (Arc<ProcessQueue>, Arc<Run>) = (call.queue.clone(), call.run.clone());
        if !queue.send_back(&run, index) {
            return;
        }
        if self.is(Mutant::SendBackIsFinished) {
            run.claims.finish(index);
        }
        let Some(core) = self.core(number) else { return };
        let what = SendBack { core: core.clone(), queue, run, index, back, times };
        core.post_pull(crate::consumer::pull_loop::PullEvent::SendBack(what));
        self.carry_out(number);
    }

    /// The timer looks for listeners that run too long.
    pub(super) fn look_for_late_calls(&mut self, number: usize) {
        let now = self.now;
        let busy = self.visit(number, |member| {
            for worker in &member.workers {
                expire_if_late(&member.core, &worker.slot, now);
            }
            member.is_busy()
        });
        if self.is_broadcasting() {
            self.show_late_messages_again(number);
        }
        let Some(member) = &mut self.members[number] else { return };
        member.watching = busy == Some(true);
        if member.watching {
            self.later(LOOK_EVERY, Happening::Look(number));
        }
    }
}

const LOOK_EVERY: Duration = Duration::from_secs(1);
