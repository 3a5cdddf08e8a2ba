//! How what is consumed comes to an end: for another member, for good, or to go on elsewhere.

use std::time::{Duration, Instant};

use super::{Action, Ask, Assignment, COMMIT_TIME, Doubt, Phase, REVOKE_TIME};
use crate::consumer::offset::Offset;
use crate::consumer::stats::StartReason;

/// How a draining queue goes on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ending {
    /// How long listeners have; in a later phase, how long the broker has.
    pub(super) by: Instant,
    /// How long the broker has once the listeners have ended.
    pub(super) commit_time: Duration,
    /// What was committed when the queue was revoked, while another member may start from it.
    pub(super) first: Option<Offset>,
    /// The offset to go to instead of the watermark.
    pub(super) target: Option<(Offset, StartReason)>,
    /// It stays ours.
    pub(super) stays: bool,
    /// Another member has its lock, or its broker has lost what was consumed, or the program has gone elsewhere: nothing
    /// more is committed.
    pub(super) taken: bool,
    /// Why its last commit was refused the last time.
    pub(super) refused: Option<String>,
}

impl Ending {
    pub(super) fn new(by: Instant, stays: bool) -> Self {
        Self { by, commit_time: COMMIT_TIME, first: None, target: None, stays, taken: false, refused: None }
    }
}

impl Assignment {
    /// The queue belongs to another member from now on. What is finished is committed at once, since that member may
    /// already be reading the offset; running listeners have until `by`.
    pub fn unwant(&mut self, by: Instant, watermark: Offset) -> Vec<Action> {
        match self.phase.clone() {
            Phase::Active if self.lock.is_some() => self.drain_locked(by, COMMIT_TIME),
            Phase::Active => {
                let sure = self.doubt == Doubt::None;
                // What was left with the broker: the commit that goes out now, or an earlier one.
                let first = if sure { watermark } else { self.acked.unwrap_or(watermark) };
                self.phase = Phase::Draining(Ending { first: Some(first), ..Ending::new(by, false) });
                let mut actions = vec![Action::Close];
                if sure && self.in_flight.is_none() && self.is_news(watermark) {
                    actions.extend(self.send_commit(watermark));
                }
                actions
            }
            Phase::Draining(Ending { target: Some((to, reason)), .. }) if self.lock.is_none() => {
                self.pass_on(to, reason, by)
            }
            _ => self.leave(by),
        }
    }

    /// The consumer stops: as [`unwant`](Self::unwant), but nobody else owns the queue until it is released.
    /// After that the broker has `commit_time` to confirm the offset.
    pub fn shutdown(&mut self, by: Instant, commit_time: Duration) -> Vec<Action> {
        match self.phase.clone() {
            Phase::Active if self.lock.is_some() => self.drain_locked(by, commit_time),
            Phase::Active => {
                self.distrust();
                self.phase = Phase::Draining(Ending { commit_time, ..Ending::new(by, false) });
                vec![Action::Close]
            }
            _ => self.leave(by),
        }
    }

    /// The offset was set from outside. What was pulled is dropped, and nothing of it is committed any more.
    pub fn reset(&mut self, to: Offset, reason: StartReason, by: Instant) -> Vec<Action> {
        match self.phase.clone() {
            Phase::Active => {
                self.distrust();
                let target = Some((to, reason));
                self.phase = Phase::Draining(Ending { target, ..Ending::new(by, true) });
                let mut actions = vec![Action::Close];
                actions.extend(self.commit_target(to));
                actions
            }
            // With a lock, what runs has to end before others may have the queue.
            Phase::Draining(Ending { first: Some(_), stays: false, .. }) if self.lock.is_none() => {
                self.pass_on(to, reason, by)
            }
            Phase::Verifying { .. } => self.pass_on(to, reason, by),
            Phase::Draining(ending) => {
                self.phase = Phase::Draining(Ending { target: Some((to, reason)), ..ending });
                self.commit_target(to)
            }
            Phase::Committing { ending, .. } => {
                self.commit(to, Ending { target: Some((to, reason)), taken: false, ..ending })
            }
            Phase::Settling { .. } | Phase::Resolving { .. } | Phase::AskAgain { .. } => {
                self.commit(to, Ending { target: Some((to, reason)), ..Ending::new(by, true) })
            }
            // Who does not have it, or not any more, leaves it to who has.
            Phase::Locking { .. } | Phase::Unlocking { .. } | Phase::Gone => Vec::new(),
        }
    }

    /// The broker does not have what was asked for. As [`reset`](Self::reset), but if the program commits, that is not
    /// committed: what it has of the queue, it still has. `watermark` is what it has said last.
    pub fn correct(&mut self, to: Offset, by: Instant, watermark: Offset) -> Vec<Action> {
        if !self.policy.by_hand {
            return self.reset(to, StartReason::Corrected, by);
        }
        let actions = self.go_to(to, StartReason::Corrected);
        if self.phase == Phase::Active {
            self.begun = Some(watermark.min(to));
        }
        actions
    }

    /// The program goes elsewhere in a queue that it polls: nothing of what was fetched is running, so that it goes on
    /// there at once. If it commits itself, the broker hears of it with the next commit.
    pub fn go_to(&mut self, to: Offset, reason: StartReason) -> Vec<Action> {
        match &mut self.phase {
            Phase::Active | Phase::Settling { .. } | Phase::Resolving { .. } | Phase::AskAgain { .. } => {
                self.stale = self.in_flight.is_some();
                self.acked = None;
                let mut actions = vec![Action::Close];
                actions.extend(self.activate(to, reason));
                actions
            }
            Phase::Draining(ending) | Phase::Committing { ending, .. } if ending.stays => {
                ending.target = Some((to, reason));
                Vec::new()
            }
            // What the program has committed does not exist any more.
            Phase::Draining(ending) if reason == StartReason::Corrected => {
                ending.taken = true;
                Vec::new()
            }
            Phase::Committing { ending, .. } if reason == StartReason::Corrected => {
                let ending = ending.clone();
                self.after_taken(&ending, false)
            }
            Phase::Verifying { by, .. } if reason == StartReason::Corrected => {
                let ending = Ending::new(*by, false);
                self.after_taken(&ending, false)
            }
            _ => Vec::new(),
        }
    }

    /// The process queue of a program that polls must be made anew: as [`rebuild`](Self::rebuild), but nothing of it is
    /// running, and what the program has of it, it still has. How far that is done, and what is stored, holds for the new
    /// one as well.
    pub fn renew(&mut self) -> Vec<Action> {
        if self.phase == Phase::Active { vec![Action::Close, Action::Renew] } else { Vec::new() }
    }

    /// The process queue must be made anew, at its watermark.
    pub fn rebuild(&mut self, by: Instant) -> Vec<Action> {
        if self.phase != Phase::Active {
            return Vec::new();
        }
        self.distrust();
        self.phase = Phase::Draining(Ending::new(by, true));
        vec![Action::Close]
    }

    /// The closed process queue has nothing running and nothing unconfirmed.
    pub fn drained(&mut self, now: Instant, watermark: Offset) -> Vec<Action> {
        match self.phase.clone() {
            Phase::Draining(ending) => {
                let mut by = ending.by.max(now);
                if ending.stays {
                    // What is only to go on has no need for all the time that its listeners had.
                    by = by.min(now + REVOKE_TIME);
                }
                let ending = Ending { by: by + ending.commit_time, ..ending };
                self.end_of_draining(ending, now, watermark)
            }
            _ => Vec::new(),
        }
    }

    /// The offset is set at once and not when the last listener is done: by then another member may own the queue and
    /// have gone on from there, which a late commit would take back.
    pub(super) fn commit_target(&mut self, to: Offset) -> Vec<Action> {
        if self.in_flight.is_some() { Vec::new() } else { self.send_commit(to) }
    }

    /// It was reset, and belongs to another member: nothing else of it matters.
    pub(super) fn pass_on(&mut self, to: Offset, reason: StartReason, by: Instant) -> Vec<Action> {
        self.commit(to, Ending { target: Some((to, reason)), ..Ending::new(by, false) })
    }

    /// It was not consumed when it had to go, or was going already.
    pub(super) fn leave(&mut self, by: Instant) -> Vec<Action> {
        match self.phase.clone() {
            Phase::Locking { .. }
            | Phase::Settling { .. }
            | Phase::Resolving { .. }
            | Phase::AskAgain { .. } => self.release(by, None),
            Phase::Draining(ending) => {
                self.phase = Phase::Draining(Ending { by: by.min(ending.by), stays: false, ..ending });
                Vec::new()
            }
            Phase::Committing { offset, ending, again } => {
                let ending = Ending { by: by.min(ending.by), stays: false, ..ending };
                self.phase = Phase::Committing { offset, ending, again };
                Vec::new()
            }
            Phase::Unlocking { by: until, failed } => {
                self.phase = Phase::Unlocking { by: by.min(until), failed };
                Vec::new()
            }
            Phase::Active | Phase::Verifying { .. } | Phase::Gone => Vec::new(),
        }
    }

    pub(super) fn end_of_draining(&mut self, ending: Ending, now: Instant, watermark: Offset) -> Vec<Action> {
        match (&ending.target, ending.first) {
            _ if ending.taken => {
                let is_stored =
                    ending.first.is_none() && self.doubt == Doubt::None && !self.is_news(watermark);
                self.after_taken(&ending, is_stored)
            }
            (Some((to, _)), _) => {
                let to = *to;
                self.commit(to, ending)
            }
            // Whoever is further is the new owner.
            (None, first)
                if !ending.stays
                    && self.in_flight.is_none()
                    && !self.is_news(watermark)
                    && (first.is_none() || !self.may_be_lost()) =>
            {
                self.after_commit(ending, None)
            }
            (None, Some(first))
                if self.in_flight.is_none()
                    && (watermark > first || self.acked != Some(first) || self.may_be_lost()) =>
            {
                let by = ending.by.min(now + COMMIT_TIME);
                self.phase = Phase::Verifying { first, end: watermark, by, again: None };
                vec![Action::Ask(Ask::Stored)]
            }
            // The program has gone elsewhere since, and has not said anything there: the commit that is out is awaited,
            // and none follows it.
            (None, _) if self.stale && !self.is_news(watermark) => {
                let offset = self.in_flight.unwrap_or(watermark);
                let ending = Ending { taken: true, ..ending };
                self.phase = Phase::Committing { offset, ending, again: None };
                Vec::new()
            }
            (None, _) => self.commit(watermark, ending),
        }
    }

    pub(super) fn after_commit(&mut self, ending: Ending, failed: Option<String>) -> Vec<Action> {
        if !ending.stays {
            return self.release(ending.by, failed);
        }
        if failed.is_some() {
            // What the broker holds may be beyond where it goes on: whatever is finished next is news.
            self.acked = None;
        }
        let Phase::Committing { offset, .. } = self.phase else { return self.activate_again(ending) };
        let (start, reason) = ending.target.unwrap_or((offset, StartReason::Rebuilt));
        self.activate(start, reason)
    }

    pub(super) fn activate_again(&mut self, ending: Ending) -> Vec<Action> {
        let known = self.acked.unwrap_or_default();
        let (start, reason) = ending.target.unwrap_or((known, StartReason::Rebuilt));
        self.activate(start, reason)
    }
}
