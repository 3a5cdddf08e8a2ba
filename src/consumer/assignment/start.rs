//! Where a queue begins: what the program, the broker and the setting say.

use std::time::{Duration, Instant};

use super::commits::COMMIT_RETRY;
use super::{Action, Ask, Assignment, Doubt, Ending, LATE, Phase};
use crate::consumer::offset::Offset;
use crate::consumer::stats::StartReason;
use crate::message::ConsumeFrom;

impl Assignment {
    /// The answer to [`Ask::Stored`].
    pub fn stored(&mut self, answer: Result<Option<Offset>, String>, now: Instant) -> Vec<Action> {
        match (self.phase.clone(), answer) {
            (Phase::Resolving { ask: Ask::Stored, .. }, Ok(Some(at))) => {
                // Brokers say 0 as well while the queue is young and nothing is stored: until it is, a start after that
                // would evaluate the setting, and operators cannot reset the group.
                self.acked = (at > Offset::ZERO).then_some(at);
                // The last commit of a former owner may have no answer either.
                self.look_again = (!self.policy.by_hand).then_some(now + LATE);
                self.activate(at, StartReason::Stored)
            }
            (Phase::Resolving { ask: Ask::Stored, .. }, Ok(None)) => self.without_stored(),
            (Phase::Resolving { ask, tries }, Err(_)) => self.ask_again(ask, tries, now),
            (Phase::Verifying { first, end, by, .. }, Ok(held)) if self.may_be_lost() => {
                self.verified(held, first, end, by)
            }
            (Phase::Verifying { first, end, by, .. }, Ok(held)) => {
                let ending = Ending::new(by, false);
                // Unless it is what we left there, somebody else has committed since: a blind update would take that
                // back. If the first commit failed, the one before it is what we left.
                let known = held.is_some() || self.policy.by_hand;
                let untouched = held == Some(first) || (known && held == self.acked);
                if untouched { self.commit(end, ending) } else { self.release(by, None) }
            }
            (Phase::Verifying { first, end, by, .. }, Err(_)) if now + COMMIT_RETRY < by => {
                let again = Some(now + COMMIT_RETRY);
                self.phase = Phase::Verifying { first, end, by, again };
                Vec::new()
            }
            (Phase::Verifying { by, .. }, Err(_)) => self.release(by, self.unverified()),
            // One that was asked before the connection was lost says nothing about the time after it.
            (Phase::Active, Ok(held)) if self.doubt == Doubt::Asking => {
                self.doubt = Doubt::None;
                self.compare(held, now)
            }
            (Phase::Active, Err(_)) if self.doubt == Doubt::Asking => {
                self.doubt = Doubt::Unanswered;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// The answer to [`Ask::Program`].
    pub fn told(&mut self, answer: Result<Option<Offset>, String>, now: Instant) -> Vec<Action> {
        match (self.phase.clone(), answer) {
            (Phase::Resolving { ask: Ask::Program, .. }, Ok(Some(at))) => {
                self.activate(at, StartReason::StartOffset)
            }
            (Phase::Resolving { ask: Ask::Program, .. }, Ok(None)) => self.ask(Ask::Stored, 0),
            (Phase::Resolving { ask: Ask::Program, tries }, Err(_)) => {
                self.ask_again(Ask::Program, tries, now)
            }
            _ => Vec::new(),
        }
    }

    /// The answer to any other [`Ask`].
    pub fn resolved(&mut self, answer: Result<Offset, String>, now: Instant) -> Vec<Action> {
        match (self.phase.clone(), answer) {
            (Phase::Resolving { ask: Ask::Stored, .. }, _) => Vec::new(),
            (Phase::Resolving { .. }, Ok(at)) => {
                let back = if let ConsumeFrom::LastMessages(n) = self.policy.from { n } else { 0 };
                self.activate(at.back(back), StartReason::ConsumeFrom(self.policy.from))
            }
            (Phase::Resolving { ask, tries }, Err(_)) => self.ask_again(ask, tries, now),
            _ => Vec::new(),
        }
    }

    pub(super) fn without_stored(&mut self) -> Vec<Action> {
        if self.policy.is_retry_topic {
            return self.activate(Offset::ZERO, StartReason::RetryTopic);
        }
        match &self.policy.from {
            ConsumeFrom::LastOffset | ConsumeFrom::LastMessages(_) => self.ask(Ask::Max, 0),
            ConsumeFrom::FirstOffset => self.ask(Ask::Min, 0),
            ConsumeFrom::Timestamp(time) => {
                let time = *time;
                self.ask(Ask::Time(time), 0)
            }
            ConsumeFrom::Offset(at) => {
                let at = Offset::new(*at).unwrap_or(Offset::ZERO);
                self.activate(at, StartReason::ConsumeFrom(self.policy.from))
            }
        }
    }

    pub(super) fn ask_first(&mut self) -> Vec<Action> {
        self.ask(if self.policy.asks_program { Ask::Program } else { Ask::Stored }, 0)
    }

    pub(super) fn ask(&mut self, ask: Ask, tries: u32) -> Vec<Action> {
        self.phase = Phase::Resolving { ask, tries };
        vec![Action::Ask(ask)]
    }

    pub(super) fn ask_again(&mut self, ask: Ask, tries: u32, now: Instant) -> Vec<Action> {
        let delay = ASK_AGAIN.saturating_mul(1 << tries.min(8)).min(ASK_AGAIN_MAX);
        self.phase = Phase::AskAgain { ask, tries: tries + 1, at: now + delay };
        Vec::new()
    }

    pub(super) fn activate(&mut self, start: Offset, reason: StartReason) -> Vec<Action> {
        self.phase = Phase::Active;
        self.doubt = Doubt::None;
        self.forget_regained();
        let mut actions = vec![Action::Activate { start, reason }];
        if self.policy.by_hand {
            self.begun = (self.acked != Some(start)).then_some(start);
            return actions;
        }
        // Otherwise a restart before the first message would evaluate the setting once more.
        if self.acked != Some(start) && self.in_flight.is_none() {
            actions.extend(self.send_commit(start));
        }
        actions
    }
}

const ASK_AGAIN: Duration = Duration::from_millis(200);
const ASK_AGAIN_MAX: Duration = Duration::from_secs(5);
