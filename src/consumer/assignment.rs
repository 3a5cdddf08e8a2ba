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

mod commits;
mod end;
mod lock;
mod start;

use std::time::{Duration, Instant, SystemTime};

pub use self::commits::LOST_SINCE;
use self::end::Ending;
use self::lock::Lock;
pub use self::lock::{FAR, REVOKE_TIME_LOCKED};
use super::lease::Asked;
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
    /// Make another process queue that goes on where the closed one is, with all that is known of that one.
    Renew,
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
    /// If the program commits: where the queue began, unless that is what is stored, until the program says something.
    /// Whatever the broker holds, it is not committed before.
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
        again: Option<Instant>,
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

    /// Whether it was told where to go on, and does not yet.
    pub fn is_sent_elsewhere(&self) -> bool {
        match &self.phase {
            Phase::Draining(ending) | Phase::Committing { ending, .. } => ending.target.is_some(),
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
            Phase::Unlocking { by, .. } => Some(*by),
            Phase::Verifying { by, again, .. } => Some(again.map_or(*by, |at| at.min(*by))),
            Phase::Committing { ending, again, .. } => Some(again.map_or(ending.by, |at| at.min(ending.by))),
            Phase::Active => self.look_again,
            Phase::Resolving { .. } | Phase::Gone => None,
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
            Phase::Verifying { by, .. } if now >= by => self.release(by, self.unverified()),
            Phase::Verifying { first, end, by, again: Some(at) } if now >= at => {
                self.phase = Phase::Verifying { first, end, by, again: None };
                vec![Action::Ask(Ask::Stored)]
            }
            Phase::Committing { ending, .. } if now >= ending.by => {
                let why = ending.refused.clone();
                self.after_commit(ending, Some(why.unwrap_or_else(|| "it was not confirmed in time".into())))
            }
            Phase::Committing { offset, ending, again: Some(at) } if now >= at => {
                self.phase = Phase::Committing { offset, ending, again: None };
                self.send_commit(offset)
            }
            _ => Vec::new(),
        }
    }
}

/// How long the commit of a live former owner may take to arrive.
pub const SETTLE: Duration = Duration::from_millis(300);
/// How long running listeners have when another member takes over.
pub const REVOKE_TIME: Duration = Duration::from_secs(3);
/// Longer than a request that nobody waits for any more lies with a broker.
pub const LATE: Duration = Duration::from_secs(5);
const COMMIT_TIME: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
