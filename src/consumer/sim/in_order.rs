//! The consume threads of a consumer in order: as the real ones, with a listener that takes time without anybody
//! waiting.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::core::BROKERS;
use super::ledger::Start;
use super::member::Doing;
use super::mutants::Mutant;
use super::plan::Plan;
use super::rng::Rng;
use super::world::{Happening, World};
use crate::client::ConsumeStatus;
use crate::consumer::outside::Outside;
use crate::consumer::process_queue::{Piece, ProcessQueue, Took};
use crate::consumer::settings::InOrder;
use crate::consumer::slot::Work;
use crate::consumer::worker::in_order::{TURN_MESSAGES, TURN_NANOS, conclude};

/// A listener call.
pub(super) struct Ordered {
    pub(super) queue: Arc<ProcessQueue>,
    pieces: Vec<Piece>,
    /// What will be answered, with the reconsume count of each message.
    answers: Vec<(ConsumeStatus, u32)>,
    turn: Turn,
}

/// Since when a thread works on a queue, and how many messages it has taken.
#[derive(Clone, Copy)]
struct Turn {
    begun: Instant,
    messages: usize,
}

impl Plan {
    /// The same run, in order.
    pub(super) fn in_order(mut self, rng: &mut Rng) -> Self {
        self.settings.order = Some(InOrder { suspend_time: rng.millis(20, 1500), locks: true });
        if rng.chance(400) {
            self.settings.max_reconsume_times = 1_000_000;
        }
        if rng.chance(500) {
            // Long enough for locks to be renewed, and to end.
            self.rough = rng.millis(20_000, 100_000);
            self.pause = self.rough / rng.between(10, 40) as u32;
        }
        self
    }
}

impl World {
    /// A thread has taken a queue off the ready list. Whether a listener is at work now.
    pub(super) fn work_in_order(&mut self, number: usize, worker: usize, queue: Arc<ProcessQueue>) -> bool {
        let turn = Turn { begun: self.now, messages: 0 };
        self.go_on_in_order(number, worker, queue, turn)
    }

    fn go_on_in_order(
        &mut self,
        number: usize,
        worker: usize,
        queue: Arc<ProcessQueue>,
        mut turn: Turn,
    ) -> bool {
        loop {
            let pieces = self.take_in_order(number, &queue);
            if pieces.is_empty() {
                return false;
            }
            turn.messages += pieces.len();
            let answers = self.answers(&pieces);
            let call = Ordered { queue: queue.clone(), pieces, answers, turn };
            if call.pieces.iter().any(|piece| !piece.run.is_unreadable(piece.index)) {
                self.begin_in_order(number, worker, call);
                return true;
            }
            match self.conclude_in_order(number, call) {
                Some(next) => turn = next,
                None => return false,
            }
        }
    }

    fn take_in_order(&mut self, number: usize, queue: &Arc<ProcessQueue>) -> Vec<Piece> {
        let mutant = self.mutant;
        let mut pieces = Vec::new();
        self.visit(number, |member| {
            let core = &member.core;
            let (mut now, mut wall) = (core.now(), core.time());
            let size = core.settings().consume_batch_size;
            if mutant == Some(Mutant::BeliefNeverEnds)
                && let Some(asked) = queue.lease().map(|lease| lease.asked())
            {
                (now, wall) = (now.min(asked.at + SHORT), wall.min(asked.by_wall + SHORT));
            }
            if queue.take_in_order(size, now, wall, &mut pieces) == Took::NoLock {
                core.renew_locks(queue.queue().shared_broker_name());
            }
        });
        let offsets: Vec<i64> = pieces.iter().map(offset).collect();
        self.ledger.taken(queue.id(), &offsets);
        pieces
    }

    /// What the listener will say. It does not see what cannot be read, which becomes a dead letter.
    fn answers(&mut self, pieces: &[Piece]) -> Vec<(ConsumeStatus, u32)> {
        let verdicts = self.verdicts(pieces.len());
        let answer = |(piece, verdict): (&Piece, ConsumeStatus)| {
            let stored = || piece.run.view(piece.index).map_or(0, |view| view.reconsume_times());
            let is_readable = !piece.run.is_unreadable(piece.index);
            let status = if is_readable { verdict } else { ConsumeStatus::DeadLetter };
            (status, piece.times.unwrap_or_else(stored))
        };
        pieces.iter().zip(verdicts).map(answer).collect()
    }

    fn begin_in_order(&mut self, number: usize, worker: usize, call: Ordered) {
        let now = self.now;
        let (id, queue) = (call.queue.id(), call.queue.queue());
        let broker = BROKERS.iter().position(|(name, _)| *name == queue.broker_name());
        let broker = broker.expect("only these brokers are ever named");
        let offsets: Vec<i64> = call.pieces.iter().map(offset).collect();
        let name = self.ledger.short(id);
        self.note(|| format!("{number}/{worker} gets offsets {offsets:?} of {name} in order"));
        let start = Start { member: number, id, queue: self.ledger.number(queue), offsets: &offsets, now };
        self.ledger.call_begins(&start, &self.brokers[broker].locks);
        for piece in call.pieces.iter().filter(|piece| !piece.run.is_unreadable(piece.index)) {
            self.ledger.delivered(id, offset(piece));
        }
        let lasts = match self.quiet.is_none() && self.rng.chance(self.plan.endless_calls) {
            // Another member may not wait for it.
            true => self.rng.millis(5_000, 100_000),
            false => self.lasts(),
        };
        self.later(lasts, Happening::Returns(number, worker));
        let Some(member) = &mut self.members[number] else { return };
        let first = &call.pieces[0];
        let (run, range) = (first.run.clone(), first.index..first.index + call.pieces.len() as u32);
        let slot = &member.workers[worker].slot;
        slot.take_up(Work { queue: call.queue.clone(), run, retried: first.times });
        let nanos = slot.nanos(now);
        slot.begin(&range, nanos, nanos);
        member.workers[worker].state = Doing::InOrder(call);
        self.watch(number);
    }

    pub(super) fn returns_in_order(&mut self, number: usize, worker: usize) {
        let Some(member) = &mut self.members[number] else { return };
        let slot = member.workers[worker].slot.clone();
        let Doing::InOrder(call) = std::mem::replace(&mut member.workers[worker].state, Doing::Woken) else {
            return;
        };
        // Late or not, the answer counts.
        slot.end();
        self.ledger.call_ends(call.queue.id());
        for piece in call.pieces.iter().filter(|piece| !piece.run.is_unreadable(piece.index)) {
            self.ledger.given_back(call.queue.id(), offset(piece));
        }
        let queue = call.queue.clone();
        let next = self.conclude_in_order(number, call);
        if !next.is_some_and(|turn| self.go_on_in_order(number, worker, queue, turn)) {
            slot.put_down();
            self.look_for_work(number, worker);
        }
    }

    /// What follows from the answers. How the turn of the thread goes on, if it does.
    fn conclude_in_order(&mut self, number: usize, call: Ordered) -> Option<Turn> {
        let Ordered { queue, mut pieces, mut answers, turn } = call;
        let (id, name) = (queue.id(), self.ledger.short(queue.id()));
        let first_again = self.take_down_answers(id, &pieces, &answers);
        self.note(|| {
            let offsets: Vec<i64> = pieces.iter().map(offset).collect();
            format!("{number} is done with offsets {offsets:?} of {name}: {answers:?}")
        });
        if self.is(Mutant::SuspendedIsPassed) && queue.load().messages > pieces.len() {
            pieces.truncate(first_again);
            answers.truncate(first_again);
        }
        let goes_on = self.visit(number, |member| conclude(&member.core, &queue, pieces, &answers).goes_on);
        if goes_on != Some(true) {
            return None;
        }
        let is_over = turn.messages >= TURN_MESSAGES as usize
            || self.now - turn.begun >= Duration::from_nanos(TURN_NANOS);
        let is_waited_for = self.members[number].as_ref().is_some_and(|member| !member.ready.is_empty());
        match is_over {
            true if is_waited_for => {
                if queue.end_turn().is_some()
                    && let Some(member) = &mut self.members[number]
                {
                    member.ready.push_back(queue);
                    self.wake_worker(number);
                }
                None
            }
            true => Some(Turn { begun: self.now, messages: 0 }),
            false => Some(turn),
        }
    }

    /// Writes down what is finished, and what is owed before anything that follows. The place of the first message that
    /// is to come again.
    fn take_down_answers(&mut self, id: u64, pieces: &[Piece], answers: &[(ConsumeStatus, u32)]) -> usize {
        let most = self.plan.settings.max_reconsume_times;
        let comes_again = |(status, times): &(ConsumeStatus, u32)| match status {
            ConsumeStatus::Success | ConsumeStatus::DeadLetter => false,
            ConsumeStatus::ReconsumeLater | ConsumeStatus::ReconsumeAfter(_) => *times < most,
        };
        let first_again = answers.iter().position(comes_again).unwrap_or(answers.len());
        for (place, (piece, (status, _))) in pieces.iter().zip(answers).enumerate() {
            if place < first_again && *status == ConsumeStatus::Success {
                self.ledger.accept(id, offset(piece), true);
            } else {
                self.ledger.owes(id, offset(piece));
            }
        }
        first_again
    }
}

fn offset(piece: &Piece) -> i64 {
    piece.run.offset_of(piece.index).wire()
}

/// A little less than a member believes in a lock.
const SHORT: Duration = Duration::from_secs(29);
