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
mod tests;
