//! What a consumer tells its user, as far as it says what it has decided.

use super::mutants::Mutant;
use super::world::{Said, World};
use crate::consumer::assignment::Ask;
use crate::consumer::events::Event;
use crate::consumer::outside::Outside;
use crate::consumer::stats::{StartReason, Waiting};

impl World {
    /// What a consumer tells its user, as far as it says what it has decided.
    pub(super) fn told(&mut self, number: usize, event: Event) {
        self.note(|| format!("{number}: {event}"));
        match event {
            Event::Assigned { queue, offset, reason } => {
                let place = self.ledger.place(number, &queue);
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
                let place = self.ledger.place(number, &queue);
                self.ledger.target(number, place, to);
                self.ledger.went_back(place);
                if self.is(Mutant::CommitAfterReset) {
                    self.commit_the_watermark(number, &queue, to);
                }
            }
            Event::GivenUp { message } => {
                let place = self.ledger.place(number, message.queue());
                self.ledger.hold(number, place, message.queue_offset());
            }
            Event::Disconnected { server, .. } => {
                // Nobody is any more where a broker was before it moved.
                let name = self.core(number).and_then(|core| core.broker_name(&server));
                if let Some(name) = name {
                    self.confirmations_are_doubtful(number, &name);
                }
            }
            Event::Revoked { queue, .. } => {
                let place = self.ledger.place(number, &queue);
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
            (StartReason::StartOffset, Some(Said { ask: Ask::Program, offset: at, .. })) => {
                at == Some(offset)
            }
            (StartReason::Seek, _) => self.ledger.found(number, queue, offset),
            (StartReason::Rebuilt, _) if self.plan.polled.is_some() => {
                offset <= self.ledger.position_of_former(number, queue)
            }
            (StartReason::Rebuilt, _) => offset <= self.ledger.low_of_former(number, queue),
            _ => false,
        };
        let asks_broker =
            matches!(reason, StartReason::Stored | StartReason::RetryTopic | StartReason::ConsumeFrom(_));
        let knows = |said: Said| !self.ledger.has_no_own_offset(number, queue, said.epoch);
        if !fine || asks_broker && self.plan.own_offsets && self.answering.is_none_or(knows) {
            let (name, answering) = (self.ledger.name(queue).clone(), self.answering);
            self.ledger.break_promise(2, || {
                format!(
                    "{number} starts {name} at {offset} ({reason}), but the last answer was {answering:?}"
                )
            });
        }
    }
}
