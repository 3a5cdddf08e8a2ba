//! The commits of a queue, one at a time, and the doubt whether the broker still holds them.

use std::time::{Duration, Instant};

use super::{Action, Ask, Assignment, Doubt, Ending, LATE, Phase};
use crate::consumer::offset::Offset;

impl Assignment {
    /// The program wants this committed, whatever was committed before. Not while another commit is out.
    pub fn commit_by_hand(&mut self, offset: Offset) -> Vec<Action> {
        if self.phase != Phase::Active || self.in_flight.is_some() {
            return Vec::new();
        }
        self.begun = None;
        self.send_commit(offset)
    }

    /// Time to commit, if there is something new.
    pub fn commit_due(&mut self, watermark: Offset) -> Vec<Action> {
        if self.phase != Phase::Active {
            return Vec::new();
        }
        match self.doubt {
            Doubt::Unanswered => self.doubt_commits(),
            Doubt::None if self.in_flight.is_none() && self.is_news(watermark) => self.send_commit(watermark),
            _ => Vec::new(),
        }
    }

    /// The connection to a server of the broker is lost. It may have stopped, and its locks may be gone; what was confirmed,
    /// if that is what `keeps_offsets`.
    pub fn connection_lost(&mut self, keeps_offsets: bool, now: Instant) {
        if keeps_offsets {
            self.doubt_confirmed();
        }
        self.doubt_lock(now);
    }

    fn doubt_confirmed(&mut self) {
        let locked = self.lock.is_some();
        match &mut self.phase {
            Phase::Active => self.doubt = Doubt::Lost,
            // Its last commit is sent whatever was confirmed before. With a lock, or if others may have the queue already,
            // it is looked at first.
            Phase::Draining(Ending { first: None, .. }) if !locked => self.acked = None,
            Phase::Draining(_) if !locked => self.doubt = Doubt::Lost,
            Phase::Unlocking { failed, .. } if self.acked.is_some() => {
                failed.get_or_insert_with(|| LOST_SINCE.to_owned());
            }
            _ => {}
        }
    }

    /// The connection to the broker is new: it may have come back with older offsets than it confirmed. It is asked
    /// what it holds before anything is committed again, since meanwhile another member may have taken the queue over
    /// and be further.
    pub fn doubt_commits(&mut self) -> Vec<Action> {
        if self.phase != Phase::Active || self.doubt == Doubt::Asking || self.awaits_lock() {
            return Vec::new();
        }
        self.doubt = Doubt::Asking;
        vec![Action::Ask(Ask::Stored)]
    }

    /// The answer to a commit.
    pub fn committed(&mut self, answer: Result<(), String>, now: Instant, watermark: Offset) -> Vec<Action> {
        let Some(sent) = self.in_flight.take() else { return Vec::new() };
        if !std::mem::take(&mut self.stale) && answer.is_ok() {
            self.acked = Some(sent);
        }
        if answer.is_err() {
            self.look_again = Some(now + LATE);
        }
        match (self.phase.clone(), answer) {
            (Phase::Committing { ending, .. }, answer) if ending.taken => {
                self.after_commit(ending, answer.err())
            }
            // A send-back may have been confirmed meanwhile, and with it all that had waited behind its message. Of a
            // revoked queue that is too late: there is a new owner.
            (Phase::Committing { offset, ending, .. }, Ok(()))
                if sent == offset
                    && watermark > offset
                    && ending.target.is_none()
                    && ending.first.is_none() =>
            {
                if now < ending.by {
                    self.commit(watermark, ending)
                } else {
                    self.after_commit(ending, Some(format!("time was over when {watermark} was reached")))
                }
            }
            (Phase::Committing { offset, ending, .. }, Ok(())) if sent == offset => {
                self.after_commit(ending, None)
            }
            // An earlier one was still out: now it is the turn of this one.
            (Phase::Committing { offset, .. }, Ok(())) => self.send_commit(offset),
            (Phase::Committing { ending, .. }, Err(why)) if now + COMMIT_RETRY >= ending.by => {
                self.after_commit(ending, Some(why))
            }
            (Phase::Committing { offset, ending, .. }, Err(why)) => {
                let ending = Ending { refused: Some(why), ..ending };
                self.phase = Phase::Committing { offset, ending, again: Some(now + COMMIT_RETRY) };
                Vec::new()
            }
            (Phase::Draining(Ending { target: Some((to, _)), .. }), _) if sent != to => {
                self.commit_target(to)
            }
            // The first commit of a revoked queue waited for an older one.
            (Phase::Draining(ending), _)
                if self.lock.is_none()
                    && ending.first.is_some_and(|first| sent < first && self.is_news(first)) =>
            {
                let first = ending.first.map_or(watermark, |first| first.max(watermark));
                self.phase = Phase::Draining(Ending { first: Some(first), ..ending });
                self.send_commit(first)
            }
            _ => Vec::new(),
        }
    }

    /// Doubt that is not settled when the queue ends: its last commit is sent whatever was confirmed before.
    pub(super) fn distrust(&mut self) {
        if self.doubt != Doubt::None {
            self.acked = None;
        }
    }

    /// Whether a broker may not hold any more what it has confirmed.
    pub(super) fn may_be_lost(&self) -> bool {
        self.lock.is_some() || (self.doubt != Doubt::None && self.acked.is_some())
    }

    /// What the broker holds of a queue that goes after a lost connection. `first` was confirmed before that, and
    /// everything up to `end` is finished.
    pub(super) fn verified(
        &mut self,
        held: Option<Offset>,
        first: Offset,
        end: Offset,
        by: Instant,
    ) -> Vec<Action> {
        if held >= Some(end) {
            return self.release(by, None);
        }
        if held > Some(first) {
            // A blind update would take back what another member has committed.
            let why = held.map(|held| format!("it is at {held}, of another member, and {end} was reached"));
            return self.release(by, why);
        }
        // It may have come back with less than it had confirmed.
        self.acked = held;
        self.commit(end, Ending::new(by, false))
    }

    /// Why it is not certain that what was finished is stored.
    pub(super) fn unverified(&self) -> Option<String> {
        self.may_be_lost().then(|| "the broker did not tell what it holds after a lost connection".to_owned())
    }

    /// Whether the broker has not confirmed, or had stored, that much.
    pub(super) fn is_news(&self, watermark: Offset) -> bool {
        self.begun != Some(watermark) && self.acked.is_none_or(|known| watermark > known)
    }

    pub(super) fn commit(&mut self, offset: Offset, ending: Ending) -> Vec<Action> {
        if self.in_flight.is_none() && self.acked == Some(offset) {
            return self.after_commit(ending, None);
        }
        self.phase = Phase::Committing { offset, ending, again: None };
        // One at a time, or the broker may apply them in the other order.
        if self.in_flight.is_some() { Vec::new() } else { self.send_commit(offset) }
    }

    pub(super) fn send_commit(&mut self, offset: Offset) -> Vec<Action> {
        self.in_flight = Some(offset);
        vec![Action::Commit(offset)]
    }
}

pub(super) const COMMIT_RETRY: Duration = Duration::from_millis(200);
/// Why what a broker had confirmed may be gone.
pub const LOST_SINCE: &str = "the connection was lost after the broker had confirmed it";
