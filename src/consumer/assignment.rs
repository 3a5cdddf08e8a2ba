//! The life of one owned queue: from being wanted to being released.
//!
//! ```text
//! settling → resolving → active → draining → committing → gone
//!               ↑                               │
//!               └── (reset, corrected, rebuilt: active again at the new offset)
//! ```
//!
//! Pure: `rmq-rebalance` owns one [`Assignment`] for each wanted queue, tells it what happened together with the time
//! and the watermark, and carries out the actions. All commits of the queue are decided here, one at a time, so that
//! none can overtake another; and none is ever smaller than one before it, unless somebody has reset the offset.

mod lock;

use std::time::{Duration, Instant, SystemTime};

use self::lock::Lock;
pub use self::lock::{Asked, FAR, REVOKE_TIME_LOCKED};
use super::offset::Offset;
use super::stats::StartReason;
use crate::message::ConsumeFrom;

/// What a broker is asked on the way to a start offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The offset that the group has stored.
    Stored,
    /// The end of the queue.
    Max,
    /// Its beginning.
    Min,
    /// The first message stored at this time or later.
    Time(SystemTime),
    /// Not the broker but the program, which keeps its offsets itself.
    Program,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask the broker; the answer comes back through [`Assignment::stored`] or [`Assignment::resolved`].
    Ask(Ask),
    /// Make a process queue that begins here and fetch for it.
    Activate {
        /// Where.
        start: Offset,
        /// Why there.
        reason: StartReason,
    },
    /// Close the process queue: nothing new starts. [`Assignment::drained`] follows.
    Close,
    /// Commit, and report through [`Assignment::committed`].
    Commit(Offset),
    /// Ask the broker for the queue; the answer comes back through [`Assignment::locked`].
    Lock,
    /// Give the queue back; the answer comes back through [`Assignment::unlocked`].
    Unlock,
    /// Consumption goes on with the lock that was asked for then.
    Extend(Asked),
    /// The lock is somebody else's.
    Forfeit,
    /// The closed process queue is not needed any more.
    LetGo,
    /// It is over: forget the queue.
    Release {
        /// What the broker has confirmed last.
        committed: Option<Offset>,
        /// Why the last commit was not confirmed, if it was wanted and was not.
        failed: Option<String>,
    },
}

/// What decides about the start of a queue without stored offset.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The setting of the consumer.
    pub from: ConsumeFrom,
    /// A retry topic starts at its beginning, whatever the setting says.
    pub is_retry_topic: bool,
    /// The program is asked before the broker.
    pub asks_program: bool,
    /// The program commits: nothing is committed that it did not ask for, unless an operator has set the offset.
    pub by_hand: bool,
}

/// The life of one owned queue.
#[derive(Debug)]
pub struct Assignment {
    phase: Phase,
    policy: Policy,
    /// What the broker has confirmed, or had stored.
    acked: Option<Offset>,
    /// The commit that has no answer yet.
    in_flight: Option<Offset>,
    /// Whether the broker still holds what it has confirmed.
    doubt: Doubt,
    /// When the broker is asked what it holds because a commit had no answer, of ours or maybe of a former owner: such a
    /// commit may be stored late, over the one that followed it, and would stay there while nothing new is finished.
    look_again: Option<Instant>,
    /// Of a queue that is consumed only with the broker's lock.
    lock: Option<Lock>,
    /// If the program commits: where the queue began, which is no news.
    begun: Option<Offset>,
    /// The program went elsewhere while a commit was out: what that stores is not what it is compared with.
    stale: bool,
}

/// What is done about the doubt whether a broker still holds what it has confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// There is none.
    None,
    /// The connection was lost: the broker is asked when it is back. Nothing is committed until then, and what was
    /// confirmed is not relied on.
    Lost,
    /// The broker is asked what it holds.
    Asking,
    /// It did not answer: it is asked again when the next commit is due.
    Unanswered,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// The broker is asked for the queue, or will be.
    Locking {
        again: Option<Instant>,
        tries: u32,
    },
    Settling {
        until: Instant,
    },
    Resolving {
        ask: Ask,
        tries: u32,
    },
    AskAgain {
        ask: Ask,
        tries: u32,
        at: Instant,
    },
    Active,
    Draining(Ending),
    /// All listeners are done, and more was finished after the first commit: does the broker still hold that one?
    Verifying {
        first: Offset,
        end: Offset,
        by: Instant,
    },
    Committing {
        offset: Offset,
        ending: Ending,
        again: Option<Instant>,
    },
    /// The broker is told that others may have it.
    Unlocking {
        by: Instant,
        failed: Option<String>,
    },
    Gone,
}

/// How a draining queue goes on.
#[derive(Clone, Debug, PartialEq)]
struct Ending {
    /// How long listeners have; in a later phase, how long the broker has.
    by: Instant,
    /// How long the broker has once the listeners have ended.
    commit_time: Duration,
    /// What was committed when the queue was revoked, while another member may start from it.
    first: Option<Offset>,
    /// The offset to go to instead of the watermark.
    target: Option<(Offset, StartReason)>,
    /// It stays ours.
    stays: bool,
    /// Another member has its lock: nothing is committed.
    taken: bool,
}

impl Ending {
    fn new(by: Instant, stays: bool) -> Self {
        Self { by, commit_time: COMMIT_TIME, first: None, target: None, stays, taken: false }
    }
}

impl Assignment {
    /// The queue is wanted. With `settle`, a live member owned it a moment ago: its last commit gets time to arrive.
    pub fn new(policy: Policy, settle: bool, now: Instant) -> (Self, Vec<Action>) {
        let mut new = Self {
            phase: Phase::Gone,
            policy,
            acked: None,
            in_flight: None,
            doubt: Doubt::None,
            look_again: None,
            lock: None,
            begun: None,
            stale: false,
        };
        if settle {
            new.phase = Phase::Settling { until: now + SETTLE };
            return (new, Vec::new());
        }
        let actions = new.ask_first();
        (new, actions)
    }

    /// Whether it is being given up for good.
    pub fn is_leaving(&self) -> bool {
        match &self.phase {
            Phase::Draining(ending) | Phase::Committing { ending, .. } => !ending.stays,
            Phase::Verifying { .. } | Phase::Unlocking { .. } | Phase::Gone => true,
            _ => false,
        }
    }

    /// Whether its first attempt to find a start position has not come to an end. The program answers when it polls,
    /// which nobody waits for.
    pub fn is_at_first_try(&self) -> bool {
        match self.phase {
            Phase::Settling { .. } => !self.policy.asks_program,
            Phase::Locking { tries: 0, .. } => true,
            Phase::Resolving { ask, tries: 0 } => ask != Ask::Program,
            _ => false,
        }
    }

    /// Whether it is being consumed.
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// What the broker has confirmed, or had stored.
    pub fn acked(&self) -> Option<Offset> {
        self.acked
    }

    /// Whether a commit has no answer yet, so that none can follow it.
    pub fn is_committing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// When [`due`](Self::due) must be called at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Locking { again, .. } => *again,
            Phase::Settling { until } => Some(*until),
            Phase::AskAgain { at, .. } => Some(*at),
            Phase::Draining(ending) => Some(ending.by),
            Phase::Verifying { by, .. } | Phase::Unlocking { by, .. } => Some(*by),
            Phase::Committing { ending, again, .. } => Some(again.map_or(ending.by, |at| at.min(ending.by))),
            Phase::Active => self.look_again,
            Phase::Resolving { .. } | Phase::Gone => None,
        }
    }

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
            (Phase::Verifying { first, end, by }, Ok(held)) => {
                let ending = Ending::new(by, false);
                // Unless it is what we left there, somebody else has committed since: a blind update would take that
                // back. If the first commit failed, the one before it is what we left.
                let known = held.is_some() || self.policy.by_hand;
                let untouched = held == Some(first) || (known && held == self.acked);
                if untouched { self.commit(end, ending) } else { self.release(by, None) }
            }
            (Phase::Verifying { by, .. }, Err(_)) => self.release(by, None),
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

    /// A deadline has passed.
    pub fn due(&mut self, now: Instant, watermark: Offset) -> Vec<Action> {
        match self.phase.clone() {
            Phase::Locking { again: Some(at), tries } if now >= at => {
                self.phase = Phase::Locking { again: None, tries };
                vec![Action::Lock]
            }
            Phase::Unlocking { by, .. } if now >= by => self.unlocked(),
            Phase::Active if self.look_again.is_some_and(|at| now >= at) => {
                // Asked for another reason, it may have answered too early to tell.
                self.look_again = (self.doubt != Doubt::None).then_some(now + LATE);
                if self.doubt == Doubt::None { self.doubt_commits() } else { Vec::new() }
            }
            Phase::Settling { until } if now >= until => self.ask_first(),
            Phase::AskAgain { ask, tries, at } if now >= at => self.ask(ask, tries),
            Phase::Draining(ending) if now >= ending.by => {
                self.leave_listener();
                let ending = Ending { by: now + ending.commit_time, ..ending };
                self.end_of_draining(ending, now, watermark)
            }
            Phase::Verifying { by, .. } if now >= by => self.release(by, None),
            Phase::Committing { ending, .. } if now >= ending.by => {
                self.after_commit(ending, Some("the offset was not confirmed in time".into()))
            }
            Phase::Committing { offset, ending, again: Some(at) } if now >= at => {
                self.phase = Phase::Committing { offset, ending, again: None };
                self.send_commit(offset)
            }
            _ => Vec::new(),
        }
    }

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
            Phase::Draining(Ending { target: Some((to, reason)), .. }) => self.pass_on(to, reason, by),
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
        if self.policy.by_hand && reason != StartReason::Reset {
            return self.go_to(to, reason);
        }
        match self.phase.clone() {
            Phase::Active => {
                self.distrust();
                let target = Some((to, reason));
                self.phase = Phase::Draining(Ending { target, ..Ending::new(by, true) });
                let mut actions = vec![Action::Close];
                actions.extend(self.commit_target(to));
                actions
            }
            Phase::Draining(Ending { first: Some(_), stays: false, .. }) | Phase::Verifying { .. } => {
                self.pass_on(to, reason, by)
            }
            Phase::Draining(ending) => {
                self.phase = Phase::Draining(Ending { target: Some((to, reason)), ..ending });
                self.commit_target(to)
            }
            Phase::Committing { ending, .. } => {
                self.commit(to, Ending { target: Some((to, reason)), ..ending })
            }
            Phase::Settling { .. } | Phase::Resolving { .. } | Phase::AskAgain { .. } => {
                self.commit(to, Ending { target: Some((to, reason)), ..Ending::new(by, true) })
            }
            // Who does not have it, or not any more, leaves it to who has.
            Phase::Locking { .. } | Phase::Unlocking { .. } | Phase::Gone => Vec::new(),
        }
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
            _ => Vec::new(),
        }
    }

    /// The program wants this committed, whatever was committed before. Not while another commit is out.
    pub fn commit_by_hand(&mut self, offset: Offset) -> Vec<Action> {
        if self.phase != Phase::Active || self.in_flight.is_some() {
            return Vec::new();
        }
        self.send_commit(offset)
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

    /// The connection to the broker is lost. It may have stopped, and what it had confirmed may be gone with it.
    pub fn doubt_confirmed(&mut self) {
        if self.phase == Phase::Active {
            self.doubt = Doubt::Lost;
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
            (Phase::Committing { offset, ending, .. }, Err(_)) => {
                self.phase = Phase::Committing { offset, ending, again: Some(now + COMMIT_RETRY) };
                Vec::new()
            }
            (Phase::Draining(Ending { target: Some((to, _)), .. }), _) if sent != to => {
                self.commit_target(to)
            }
            // The first commit of a revoked queue waited for an older one.
            (Phase::Draining(ending), _)
                if self.lock.is_none() && ending.first.is_some_and(|first| sent < first) =>
            {
                let first = ending.first.map_or(watermark, |first| first.max(watermark));
                self.phase = Phase::Draining(Ending { first: Some(first), ..ending });
                self.send_commit(first)
            }
            _ => Vec::new(),
        }
    }

    fn without_stored(&mut self) -> Vec<Action> {
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

    fn ask_first(&mut self) -> Vec<Action> {
        self.ask(if self.policy.asks_program { Ask::Program } else { Ask::Stored }, 0)
    }

    fn ask(&mut self, ask: Ask, tries: u32) -> Vec<Action> {
        self.phase = Phase::Resolving { ask, tries };
        vec![Action::Ask(ask)]
    }

    fn ask_again(&mut self, ask: Ask, tries: u32, now: Instant) -> Vec<Action> {
        let delay = ASK_AGAIN.saturating_mul(1 << tries.min(8)).min(ASK_AGAIN_MAX);
        self.phase = Phase::AskAgain { ask, tries: tries + 1, at: now + delay };
        Vec::new()
    }

    fn activate(&mut self, start: Offset, reason: StartReason) -> Vec<Action> {
        self.phase = Phase::Active;
        self.doubt = Doubt::None;
        let mut actions = vec![Action::Activate { start, reason }];
        if self.policy.by_hand {
            self.begun = Some(start);
            return actions;
        }
        // Otherwise a restart before the first message would evaluate the setting once more.
        if self.acked != Some(start) && self.in_flight.is_none() {
            actions.extend(self.send_commit(start));
        }
        actions
    }

    /// The offset is set at once and not when the last listener is done: by then another member may own the queue and
    /// have gone on from there, which a late commit would take back.
    fn commit_target(&mut self, to: Offset) -> Vec<Action> {
        if self.in_flight.is_some() { Vec::new() } else { self.send_commit(to) }
    }

    /// It was reset, and belongs to another member: nothing else of it matters.
    fn pass_on(&mut self, to: Offset, reason: StartReason, by: Instant) -> Vec<Action> {
        self.commit(to, Ending { target: Some((to, reason)), ..Ending::new(by, false) })
    }

    /// It was not consumed when it had to go, or was going already.
    fn leave(&mut self, by: Instant) -> Vec<Action> {
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

    fn end_of_draining(&mut self, ending: Ending, now: Instant, watermark: Offset) -> Vec<Action> {
        match (&ending.target, ending.first) {
            _ if ending.taken => self.after_taken(&ending),
            (Some((to, _)), _) => {
                let to = *to;
                self.commit(to, ending)
            }
            // Whoever is further is the new owner.
            (None, _) if !ending.stays && self.in_flight.is_none() && !self.is_news(watermark) => {
                self.after_commit(ending, None)
            }
            (None, Some(first))
                if (watermark > first || self.acked != Some(first)) && self.in_flight.is_none() =>
            {
                self.phase = Phase::Verifying { first, end: watermark, by: now + COMMIT_TIME };
                vec![Action::Ask(Ask::Stored)]
            }
            (None, _) => self.commit(watermark, ending),
        }
    }

    /// Doubt that is not settled when the queue ends: its last commit is sent whatever was confirmed before.
    fn distrust(&mut self) {
        if self.doubt != Doubt::None {
            self.acked = None;
        }
    }

    /// Whether the broker has not confirmed, or had stored, that much.
    fn is_news(&self, watermark: Offset) -> bool {
        self.acked.or(self.begun).is_none_or(|known| watermark > known)
    }

    fn commit(&mut self, offset: Offset, ending: Ending) -> Vec<Action> {
        if self.in_flight.is_none() && self.acked == Some(offset) {
            return self.after_commit(ending, None);
        }
        self.phase = Phase::Committing { offset, ending, again: None };
        // One at a time, or the broker may apply them in the other order.
        if self.in_flight.is_some() { Vec::new() } else { self.send_commit(offset) }
    }

    fn send_commit(&mut self, offset: Offset) -> Vec<Action> {
        self.in_flight = Some(offset);
        vec![Action::Commit(offset)]
    }

    fn after_commit(&mut self, ending: Ending, failed: Option<String>) -> Vec<Action> {
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

    fn activate_again(&mut self, ending: Ending) -> Vec<Action> {
        let known = self.acked.unwrap_or_default();
        let (start, reason) = ending.target.unwrap_or((known, StartReason::Rebuilt));
        self.activate(start, reason)
    }
}

/// How long the commit of a live former owner may take to arrive.
pub const SETTLE: Duration = Duration::from_millis(300);
/// How long running listeners have when another member takes over.
pub const REVOKE_TIME: Duration = Duration::from_secs(3);
/// Longer than a request that nobody waits for any more lies with a broker.
const LATE: Duration = Duration::from_secs(5);
const COMMIT_TIME: Duration = Duration::from_secs(1);
const COMMIT_RETRY: Duration = Duration::from_millis(200);
const ASK_AGAIN: Duration = Duration::from_millis(200);
const ASK_AGAIN_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn at(wire: i64) -> Offset {
        Offset::new(wire).unwrap()
    }

    pub(super) fn policy(from: ConsumeFrom) -> Policy {
        Policy { from, is_retry_topic: false, asks_program: false, by_hand: false }
    }

    struct Case {
        now: Instant,
        queue: Assignment,
    }

    /// A queue that is active at offset 10, which is stored.
    fn active() -> Case {
        let now = Instant::now();
        let (mut queue, actions) = Assignment::new(policy(ConsumeFrom::LastOffset), false, now);
        assert_eq!(actions, [Action::Ask(Ask::Stored)]);
        let actions = queue.stored(Ok(Some(at(10))), now);
        assert_eq!(actions, [Action::Activate { start: at(10), reason: StartReason::Stored }]);
        Case { now, queue }
    }

    fn released(committed: i64) -> Vec<Action> {
        vec![Action::Release { committed: Some(at(committed)), failed: None }]
    }

    #[test]
    fn each_setting_finds_its_start_and_commits_it() {
        let time = SystemTime::now();
        let table = [
            (ConsumeFrom::LastOffset, Some(Ask::Max), 100, 100),
            (ConsumeFrom::FirstOffset, Some(Ask::Min), 7, 7),
            (ConsumeFrom::Timestamp(time), Some(Ask::Time(time)), 42, 42),
            (ConsumeFrom::LastMessages(30), Some(Ask::Max), 100, 70),
            (ConsumeFrom::LastMessages(300), Some(Ask::Max), 100, 0),
            (ConsumeFrom::Offset(55), None, 0, 55),
        ];
        for (from, ask, answer, start) in table {
            let now = Instant::now();
            let (mut queue, _) = Assignment::new(policy(from), false, now);
            let mut actions = queue.stored(Ok(None), now);
            if let Some(ask) = ask {
                assert_eq!(actions, [Action::Ask(ask)]);
                actions = queue.resolved(Ok(at(answer)), now);
            }
            let reason = StartReason::ConsumeFrom(from);
            assert_eq!(
                actions,
                [Action::Activate { start: at(start), reason }, Action::Commit(at(start))],
                "{from:?}"
            );
        }
    }

    /// While a queue is young, a broker answers so for a group that has nothing stored.
    #[test]
    fn a_start_at_zero_is_committed_even_if_it_seems_to_be_stored() {
        let now = Instant::now();
        let (mut queue, _) = Assignment::new(policy(ConsumeFrom::LastOffset), false, now);
        let activate = Action::Activate { start: Offset::ZERO, reason: StartReason::Stored };
        assert_eq!(queue.stored(Ok(Some(Offset::ZERO)), now), [activate, Action::Commit(Offset::ZERO)]);
        queue.committed(Ok(()), now, Offset::ZERO);
        assert_eq!(queue.acked(), Some(Offset::ZERO));
        assert_eq!(queue.commit_due(Offset::ZERO), []);
    }

    #[test]
    fn a_retry_topic_starts_at_its_beginning_whatever_the_setting_says() {
        let now = Instant::now();
        let policy = Policy { is_retry_topic: true, ..policy(ConsumeFrom::LastOffset) };
        let (mut queue, _) = Assignment::new(policy, false, now);
        let actions = queue.stored(Ok(None), now);
        assert_eq!(actions[0], Action::Activate { start: Offset::ZERO, reason: StartReason::RetryTopic });
    }

    #[test]
    fn a_failed_read_is_not_no_offset() {
        let mut now = Instant::now();
        let (mut queue, _) = Assignment::new(policy(ConsumeFrom::FirstOffset), false, now);
        for expected in [200, 400, 800, 1600, 3200, 5000, 5000] {
            assert_eq!(queue.stored(Err("timeout".into()), now), []);
            assert_eq!(queue.deadline(), Some(now + Duration::from_millis(expected)));
            now += Duration::from_millis(expected);
            assert_eq!(queue.due(now, Offset::ZERO), [Action::Ask(Ask::Stored)]);
        }
        assert!(matches!(queue.stored(Ok(Some(at(3))), now)[0], Action::Activate { .. }));
    }

    #[test]
    fn a_queue_of_a_live_member_waits_for_its_last_commit() {
        let now = Instant::now();
        let (mut queue, actions) = Assignment::new(policy(ConsumeFrom::LastOffset), true, now);
        assert_eq!(actions, []);
        assert_eq!(queue.due(now, Offset::ZERO), []);
        assert_eq!(queue.due(now + SETTLE, Offset::ZERO), [Action::Ask(Ask::Stored)]);
    }

    #[test]
    fn commits_go_forward_one_at_a_time_and_only_for_news() {
        let Case { now, mut queue } = active();
        assert_eq!(queue.commit_due(at(10)), []);
        assert_eq!(queue.commit_due(at(12)), [Action::Commit(at(12))]);
        assert_eq!(queue.commit_due(at(15)), [], "one is out");
        queue.committed(Ok(()), now, at(15));
        assert_eq!(queue.commit_due(at(11)), [], "never backwards");
        assert_eq!(queue.commit_due(at(15)), [Action::Commit(at(15))]);
        queue.committed(Err("lost".into()), now, at(15));
        assert_eq!(queue.commit_due(at(15)), [Action::Commit(at(15))], "a failed one is repeated");
    }

    #[test]
    fn a_restarted_broker_gets_the_offset_again() {
        let Case { now, mut queue } = active();
        assert_eq!(queue.commit_due(at(10)), []);
        assert_eq!(queue.doubt_commits(), [Action::Ask(Ask::Stored)]);
        assert_eq!(queue.doubt_commits(), [], "it is asked already");
        assert_eq!(queue.commit_due(at(11)), [], "not before it has answered");
        assert_eq!(queue.stored(Err("busy".into()), now), []);
        assert_eq!(queue.commit_due(at(11)), [Action::Ask(Ask::Stored)]);
        assert_eq!(queue.stored(Ok(Some(at(7))), now), []);
        assert_eq!(queue.commit_due(at(11)), [Action::Commit(at(11))]);
    }

    #[test]
    fn a_commit_without_an_answer_that_is_stored_late_is_made_good() {
        let Case { now, mut queue } = active();
        queue.commit_due(at(12));
        queue.committed(Err("lost".into()), now, at(15));
        assert_eq!(queue.commit_due(at(15)), [Action::Commit(at(15))]);
        queue.committed(Ok(()), now, at(15));
        assert_eq!(queue.deadline(), Some(now + LATE));
        assert_eq!(queue.due(now + LATE, at(15)), [Action::Ask(Ask::Stored)]);
        assert_eq!(queue.deadline(), None);
        assert_eq!(queue.stored(Ok(Some(at(12))), now + LATE), [], "the older one came after the newer");
        assert_eq!(queue.commit_due(at(15)), [Action::Commit(at(15))]);
    }

    #[test]
    fn what_a_lost_broker_has_confirmed_is_not_relied_on() {
        let Case { now, mut queue } = active();
        queue.doubt_confirmed();
        assert_eq!(queue.commit_due(at(11)), [], "when it is back");
        assert_eq!(queue.doubt_commits(), [Action::Ask(Ask::Stored)]);
        queue.doubt_confirmed();
        assert_eq!(queue.stored(Ok(Some(at(10))), now), [], "asked before it was lost again");
        assert_eq!(queue.commit_due(at(11)), []);
        queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
        assert_eq!(queue.drained(now, at(10)), [Action::Commit(at(10))], "or the end would not be clean");
    }

    #[test]
    fn whoever_was_away_does_not_take_back_what_the_next_owner_committed() {
        let Case { now, mut queue } = active();
        queue.doubt_commits();
        queue.stored(Ok(Some(at(24))), now);
        assert_eq!(queue.commit_due(at(16)), []);
        assert_eq!(queue.unwant(now + REVOKE_TIME, at(16)), [Action::Close]);
        assert_eq!(queue.drained(now, at(17)), released(24));
    }

    #[test]
    fn a_queue_that_goes_while_its_broker_is_doubted_is_committed_only_over_what_was_left_there() {
        for (held, last) in [(at(10), vec![Action::Commit(at(14))]), (at(24), released(10))] {
            let Case { now, mut queue } = active();
            queue.doubt_commits();
            assert_eq!(queue.unwant(now + REVOKE_TIME, at(12)), [Action::Close]);
            assert_eq!(queue.drained(now, at(14)), [Action::Ask(Ask::Stored)]);
            assert_eq!(queue.stored(Ok(Some(held)), now), last);
        }
    }

    #[test]
    fn a_consumer_that_stops_while_its_broker_is_doubted_commits_in_any_case() {
        let Case { now, mut queue } = active();
        queue.doubt_commits();
        queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
        assert_eq!(queue.drained(now, at(10)), [Action::Commit(at(10))]);
    }

    #[test]
    fn revoking_commits_at_once_and_again_only_if_the_broker_still_holds_that() {
        for (held, last) in [(Some(at(12)), vec![Action::Commit(at(14))]), (Some(at(20)), released(12))] {
            let Case { now, mut queue } = active();
            let actions = queue.unwant(now + REVOKE_TIME, at(12));
            assert_eq!(actions, [Action::Close, Action::Commit(at(12))]);
            queue.committed(Ok(()), now, at(12));
            assert_eq!(queue.drained(now, at(14)), [Action::Ask(Ask::Stored)]);
            assert_eq!(queue.stored(Ok(held), now), last);
            if held == Some(at(12)) {
                assert_eq!(queue.committed(Ok(()), now, at(14)), released(14));
            }
        }
    }

    #[test]
    fn a_first_commit_that_failed_is_not_taken_for_somebody_elses() {
        let Case { now, mut queue } = active();
        queue.unwant(now + REVOKE_TIME, at(12));
        queue.committed(Err("busy".into()), now, at(12));
        assert_eq!(queue.drained(now, at(14)), [Action::Ask(Ask::Stored)]);
        assert_eq!(queue.stored(Ok(Some(at(10))), now), [Action::Commit(at(14))], "10 is what we left there");
        assert_eq!(queue.committed(Ok(()), now, at(14)), released(14));
    }

    #[test]
    fn a_first_commit_that_failed_is_not_repeated_over_what_a_new_owner_committed() {
        let Case { now, mut queue } = active();
        queue.unwant(now + REVOKE_TIME, at(12));
        queue.committed(Err("busy".into()), now, at(12));
        assert_eq!(queue.drained(now, at(12)), [Action::Ask(Ask::Stored)]);
        assert_eq!(queue.stored(Ok(Some(at(20))), now), released(10));
    }

    #[test]
    fn a_first_commit_that_had_to_wait_may_be_of_more_than_at_first() {
        let Case { now, mut queue } = active();
        queue.commit_due(at(11));
        assert_eq!(queue.unwant(now + REVOKE_TIME, at(12)), [Action::Close], "11 is still out");
        assert_eq!(queue.committed(Ok(()), now, at(13)), [Action::Commit(at(13))]);
        assert_eq!(queue.committed(Ok(()), now, at(13)), []);
        assert_eq!(queue.drained(now, at(15)), [Action::Ask(Ask::Stored)]);
        assert_eq!(queue.stored(Ok(Some(at(13))), now), [Action::Commit(at(15))]);
    }

    #[test]
    fn revoking_an_idle_queue_has_nothing_to_do() {
        let Case { now, mut queue } = active();
        assert_eq!(queue.unwant(now + REVOKE_TIME, at(10)), [Action::Close]);
        assert!(queue.is_leaving());
        assert_eq!(queue.drained(now, at(10)), released(10));
    }

    #[test]
    fn a_commit_on_its_way_is_waited_for_before_the_last_one() {
        let Case { now, mut queue } = active();
        queue.commit_due(at(12));
        assert_eq!(queue.shutdown(now + REVOKE_TIME, COMMIT_TIME), [Action::Close]);
        assert_eq!(queue.drained(now, at(15)), [], "12 is still out");
        assert_eq!(queue.committed(Ok(()), now, at(15)), [Action::Commit(at(15))]);
        assert_eq!(queue.committed(Ok(()), now, at(15)), released(15));
    }

    #[test]
    fn a_listener_that_does_not_end_is_left_behind_and_its_offset_not_passed() {
        let Case { now, mut queue } = active();
        queue.unwant(now + REVOKE_TIME, at(10));
        assert_eq!(queue.due(now, at(10)), []);
        assert_eq!(queue.due(now + REVOKE_TIME, at(10)), released(10));
        assert_eq!(queue.drained(now + REVOKE_TIME * 2, at(11)), [], "too late");
    }

    #[test]
    fn a_commit_that_fails_is_repeated_while_time_lasts_and_then_reported() {
        let Case { mut now, mut queue } = active();
        queue.shutdown(now + Duration::from_secs(1), COMMIT_TIME);
        assert_eq!(queue.drained(now, at(11)), [Action::Commit(at(11))]);
        let end = queue.deadline().unwrap();
        loop {
            let actions = queue.committed(Err("busy".into()), now, at(11));
            if let [Action::Release { committed, failed }] = actions.as_slice() {
                assert_eq!((*committed, failed.as_deref()), (Some(at(10)), Some("busy")));
                break;
            }
            now = queue.deadline().unwrap();
            assert!(now < end);
            assert_eq!(queue.due(now, at(11)), [Action::Commit(at(11))]);
        }
    }

    #[test]
    fn what_is_finished_while_the_last_commit_is_out_is_committed_too() {
        let Case { now, mut queue } = active();
        queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
        assert_eq!(
            queue.due(now + REVOKE_TIME, at(11)),
            [Action::Commit(at(11))],
            "a send-back is not confirmed"
        );
        assert_eq!(queue.committed(Ok(()), now + REVOKE_TIME, at(14)), [Action::Commit(at(14))]);
        let late = queue.committed(Ok(()), now + REVOKE_TIME + COMMIT_TIME, at(15));
        let failed = Some("time was over when 15 was reached".to_owned());
        assert_eq!(late, [Action::Release { committed: Some(at(14)), failed }]);
    }

    #[test]
    fn a_reset_drops_what_was_pulled_and_goes_on_there_still_owned() {
        for confirmed_first in [true, false] {
            let Case { now, mut queue } = active();
            let actions = queue.reset(at(3), StartReason::Reset, now + REVOKE_TIME);
            assert_eq!(actions, [Action::Close, Action::Commit(at(3))], "backwards, since it was asked for");
            assert_eq!(queue.commit_due(at(12)), [], "nothing of the old is committed any more");
            assert!(!queue.is_leaving());
            let actions = if confirmed_first {
                assert_eq!(queue.committed(Ok(()), now, at(12)), [], "a listener still runs");
                queue.drained(now, at(12))
            } else {
                assert_eq!(queue.drained(now, at(12)), []);
                queue.committed(Ok(()), now, at(12))
            };
            assert_eq!(actions, [Action::Activate { start: at(3), reason: StartReason::Reset }]);
        }
    }

    #[test]
    fn a_reset_waits_for_the_commit_that_is_out() {
        let Case { now, mut queue } = active();
        queue.commit_due(at(12));
        assert_eq!(queue.reset(at(3), StartReason::Reset, now + REVOKE_TIME), [Action::Close]);
        assert_eq!(queue.committed(Ok(()), now, at(14)), [Action::Commit(at(3))]);
        assert_eq!(queue.reset(at(5), StartReason::Reset, now + REVOKE_TIME), []);
        assert_eq!(queue.committed(Ok(()), now, at(14)), [Action::Commit(at(5))]);
        assert_eq!(queue.committed(Ok(()), now, at(14)), []);
        let start = Action::Activate { start: at(5), reason: StartReason::Reset };
        assert_eq!(queue.drained(now, at(14)), [start]);
    }

    #[test]
    fn a_reset_of_a_queue_that_is_given_up_counts_at_once() {
        let commit = [Action::Commit(at(3))];
        let by = Instant::now() + REVOKE_TIME;
        let reset = |queue: &mut Assignment| queue.reset(at(3), StartReason::Reset, by);
        for (before, verifying) in [(true, false), (false, false), (false, true)] {
            let Case { now, mut queue } = active();
            if before {
                reset(&mut queue);
                assert_eq!(queue.unwant(by, at(12)), [], "it is on its way");
            } else {
                queue.unwant(by, at(12));
                queue.committed(Ok(()), now, at(12));
                if verifying {
                    assert_eq!(queue.drained(now, at(14)), [Action::Ask(Ask::Stored)]);
                }
                assert_eq!(reset(&mut queue), commit);
                assert_eq!(queue.stored(Ok(Some(at(12))), now), [], "nothing else is committed");
            }
            assert_eq!(queue.drained(now, at(14)), []);
            assert_eq!(queue.committed(Ok(()), now, at(14)), released(3));
        }
    }

    #[test]
    fn a_reset_queue_of_a_consumer_that_stops_waits_for_its_listeners() {
        let Case { now, mut queue } = active();
        queue.reset(at(3), StartReason::Reset, now + REVOKE_TIME);
        assert_eq!(queue.shutdown(now + REVOKE_TIME, COMMIT_TIME), []);
        assert_eq!(queue.committed(Ok(()), now, at(12)), []);
        assert_eq!(queue.drained(now, at(12)), released(3));
    }

    #[test]
    fn a_reset_that_the_broker_did_not_confirm_is_committed_with_the_next_progress() {
        let Case { mut now, mut queue } = active();
        queue.reset(at(3), StartReason::Reset, now + REVOKE_TIME);
        queue.drained(now, at(12));
        now = queue.deadline().unwrap();
        let actions = queue.committed(Err("busy".into()), now, at(12));
        assert_eq!(actions[0], Action::Activate { start: at(3), reason: StartReason::Reset });
        queue.committed(Err("busy".into()), now, at(3));
        assert_eq!(queue.commit_due(at(4)), [Action::Commit(at(4))], "or a restart would pass over 4 to 10");
    }

    #[test]
    fn a_rebuilt_queue_goes_on_at_its_watermark() {
        let Case { now, mut queue } = active();
        assert_eq!(queue.rebuild(now + REVOKE_TIME), [Action::Close]);
        assert_eq!(queue.drained(now, at(11)), [Action::Commit(at(11))]);
        let actions = queue.committed(Ok(()), now, at(11));
        assert_eq!(actions, [Action::Activate { start: at(11), reason: StartReason::Rebuilt }]);
    }

    #[test]
    fn what_was_never_consumed_is_released_without_a_commit() {
        let now = Instant::now();
        let (mut queue, _) = Assignment::new(policy(ConsumeFrom::LastOffset), false, now);
        let none = vec![Action::Release { committed: None, failed: None }];
        assert_eq!(queue.unwant(now, Offset::ZERO), none);
        assert_eq!(queue.stored(Ok(Some(at(1))), now), [], "an answer that comes too late changes nothing");
    }

    /// As [`active`], of a program that commits itself.
    fn by_hand(asks_program: bool) -> Case {
        let now = Instant::now();
        let policy = Policy { by_hand: true, asks_program, ..policy(ConsumeFrom::FirstOffset) };
        let (mut queue, actions) = Assignment::new(policy, false, now);
        if asks_program {
            assert_eq!(actions, [Action::Ask(Ask::Program)]);
            return Case { now, queue };
        }
        assert_eq!(queue.stored(Ok(None), now), [Action::Ask(Ask::Min)]);
        let activated = queue.resolved(Ok(at(5)), now);
        assert!(matches!(activated[..], [Action::Activate { .. }]), "and no commit: {activated:?}");
        Case { now, queue }
    }

    #[test]
    fn nothing_is_committed_that_the_program_did_not_ask_for() {
        let Case { now, mut queue } = by_hand(false);
        assert_eq!(queue.commit_due(at(5)), []);
        assert_eq!(queue.commit_by_hand(at(9)), [Action::Commit(at(9))]);
        assert_eq!(queue.commit_by_hand(at(12)), [], "one is out");
        queue.committed(Ok(()), now, at(9));
        assert_eq!(queue.commit_due(at(9)), []);
        assert_eq!(queue.commit_by_hand(at(7)), [Action::Commit(at(7))], "backwards, since it says so");
        queue.committed(Ok(()), now, at(7));
        queue.shutdown(now + REVOKE_TIME, COMMIT_TIME);
        assert_eq!(queue.drained(now, at(7)), released(7));
    }

    #[test]
    fn a_program_that_commits_nothing_leaves_nothing_behind() {
        let Case { now, mut queue } = by_hand(false);
        assert_eq!(queue.unwant(now + REVOKE_TIME, at(5)), [Action::Close]);
        let none = vec![Action::Release { committed: None, failed: None }];
        assert_eq!(queue.due(now + REVOKE_TIME, at(5)), none);
    }

    #[test]
    fn what_a_program_commits_when_its_queue_goes_counts_if_nobody_else_has_committed() {
        for (held, last) in [
            (None, vec![Action::Commit(at(9))]),
            (Some(at(30)), vec![Action::Release { committed: None, failed: None }]),
        ] {
            let Case { now, mut queue } = by_hand(false);
            queue.unwant(now + REVOKE_TIME, at(5));
            assert_eq!(queue.drained(now, at(9)), [Action::Ask(Ask::Stored)]);
            assert_eq!(queue.stored(Ok(held), now), last);
        }
    }

    #[test]
    fn a_program_that_goes_elsewhere_is_there_at_once() {
        let Case { now, mut queue } = active();
        queue.commit_due(at(12));
        let there = |to| Action::Activate { start: at(to), reason: StartReason::Seek };
        assert_eq!(queue.go_to(at(3), StartReason::Seek), [Action::Close, there(3)], "12 is still out");
        assert_eq!(queue.drained(now, at(12)), []);
        queue.committed(Ok(()), now, at(3));
        assert_eq!(
            queue.commit_due(at(3)),
            [Action::Commit(at(3))],
            "12 is no longer what it is compared with"
        );
        queue.committed(Ok(()), now, at(3));
        assert_eq!(
            queue.go_to(at(50), StartReason::Seek),
            [Action::Close, there(50), Action::Commit(at(50))]
        );
        let Case { mut queue, .. } = by_hand(false);
        assert_eq!(queue.go_to(at(3), StartReason::Seek), [Action::Close, there(3)]);
        assert_eq!(queue.commit_due(at(3)), []);
    }

    #[test]
    fn a_correction_is_not_committed_for_a_program_that_commits_and_a_reset_is() {
        let Case { now, mut queue } = by_hand(false);
        let moved = queue.reset(at(8), StartReason::Corrected, now + REVOKE_TIME);
        let start = Action::Activate { start: at(8), reason: StartReason::Corrected };
        assert_eq!(moved, [Action::Close, start]);
        let reset = queue.reset(at(1), StartReason::Reset, now + REVOKE_TIME);
        assert_eq!(reset, [Action::Close, Action::Commit(at(1))]);
    }

    #[test]
    fn the_program_is_asked_first_and_again_if_it_fails() {
        let Case { now, mut queue } = by_hand(true);
        assert!(!queue.is_at_first_try(), "nobody waits for a program that may never poll");
        assert_eq!(queue.told(Err("database".into()), now), []);
        let then = queue.deadline().unwrap();
        assert_eq!(queue.due(then, Offset::ZERO), [Action::Ask(Ask::Program)]);
        assert_eq!(queue.stored(Ok(Some(at(2))), then), [], "nobody has asked for that");
        let start = Action::Activate { start: at(77), reason: StartReason::StartOffset };
        assert_eq!(queue.told(Ok(Some(at(77))), then), [start]);
        let Case { now, mut queue } = by_hand(true);
        assert_eq!(queue.told(Ok(None), now), [Action::Ask(Ask::Stored)]);
    }
}
