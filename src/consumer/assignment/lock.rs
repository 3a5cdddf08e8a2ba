//! The broker's lock in the life of a queue that is consumed in order.
//!
//! ```text
//! locking → resolving → active → draining → committing → unlocking → gone
//!    ↑ ↑        │          │         │
//!    │ └────────┘          │         │      (the connection was lost)
//!    └─────────────────────┴─────────┘      (another member has the lock: nothing is committed)
//! ```
//!
//! The offset is read after the lock was granted, once, so that nobody can have moved it in between. The lock goes
//! back when everything is committed, and not at all while a listener still runs.

use std::time::{Duration, Instant};

use super::{Action, Assignment, Doubt, Ending, Phase, Policy};
use crate::consumer::assignment::Ask;
use crate::consumer::lease::Asked;
use crate::consumer::offset::Offset;

/// What an assignment knows of its lock.
#[derive(Debug, Default)]
pub(super) struct Lock {
    /// When the lock that it has was asked for.
    granted: Option<Asked>,
    /// A renewal after a lost connection, and how far the queue was: the stored offset will tell whether somebody
    /// else had it meanwhile.
    regained: Option<(Asked, Offset)>,
    /// A listener still runs that has been given up: the lock stays until it expires.
    stays: bool,
}

impl Assignment {
    /// The queue is wanted, and may be consumed only with the broker's lock.
    pub fn new_locked(policy: Policy) -> (Self, Vec<Action>) {
        let lock = Some(Lock::default());
        let phase = Phase::Locking { again: None, tries: 0 };
        let new = Self {
            phase,
            policy,
            acked: None,
            in_flight: None,
            doubt: Doubt::None,
            look_again: None,
            lock,
            begun: None,
            stale: false,
        };
        (new, vec![Action::Lock])
    }

    /// When the lock that it has was asked for.
    pub fn lock_asked(&self) -> Option<Asked> {
        self.lock.as_ref().and_then(|lock| lock.granted)
    }

    /// Whether it has no lock yet.
    pub fn is_locking(&self) -> bool {
        matches!(self.phase, Phase::Locking { .. })
    }

    /// Whether the broker is being told that others may have it.
    pub fn is_unlocking(&self) -> bool {
        matches!(self.phase, Phase::Unlocking { .. })
    }

    /// The answer to [`Action::Lock`]: whether the queue is ours. `jitter` is between 0 and 1.
    pub fn locked(
        &mut self,
        answer: Result<bool, String>,
        asked: Asked,
        jitter: f64,
        now: Instant,
    ) -> Vec<Action> {
        let (Phase::Locking { again: None, tries }, Some(lock)) = (&self.phase, &mut self.lock) else {
            return Vec::new();
        };
        if answer == Ok(true) {
            lock.granted = Some(asked);
            return self.ask(Ask::Stored, 0);
        }
        let delay = LOCK_AGAIN.saturating_mul(1 << (*tries).min(8)).min(LOCK_AGAIN_MAX);
        let again = Some(now + delay.mul_f64(0.75 + jitter / 2.0));
        self.phase = Phase::Locking { again, tries: tries + 1 };
        Vec::new()
    }

    /// [`Action::Lock`] could not be carried out yet: not before then.
    pub fn lock_later(&mut self, until: Instant) {
        if let Phase::Locking { again: again @ None, .. } = &mut self.phase {
            *again = Some(until);
        }
    }

    /// What kept it from being locked is over.
    pub fn lock_now(&mut self, now: Instant) {
        if let Phase::Locking { again: Some(again), .. } = &mut self.phase {
            *again = now.min(*again);
        }
    }

    /// The answer to [`Action::Unlock`], or its absence.
    pub fn unlocked(&mut self) -> Vec<Action> {
        let Phase::Unlocking { failed, .. } = &mut self.phase else { return Vec::new() };
        let failed = failed.take();
        self.gone(failed)
    }

    /// A renewal was refused: another member has the queue.
    pub fn lock_refused(&mut self, far: Instant) -> Vec<Action> {
        match self.phase.clone() {
            Phase::Active => self.taken(far),
            Phase::Draining(ending) => {
                self.phase = Phase::Draining(Ending { taken: true, ..ending });
                vec![Action::Forfeit]
            }
            Phase::Committing { ending, .. } => self.after_taken(&ending, false),
            Phase::Verifying { by, .. } => self.after_taken(&Ending::new(by, false), false),
            _ => Vec::new(),
        }
    }

    /// A renewal was granted after the belief in the lock had ended: `late` if so long after the one before that
    /// another member may have had the queue meanwhile, `doubtful` if the broker may have forgotten its locks.
    pub fn lock_regained(
        &mut self,
        asked: Asked,
        late: bool,
        doubtful: bool,
        far: Instant,
        watermark: Offset,
    ) -> Vec<Action> {
        if late {
            return self.lock_refused(far);
        }
        let (Phase::Active, Some(lock)) = (&self.phase, &mut self.lock) else { return Vec::new() };
        if !doubtful {
            return vec![Action::Extend(asked)];
        }
        // Asked after the lock was granted: from now on nobody else can move the offset.
        if lock.regained.replace((asked, watermark)).is_some() && self.doubt == Doubt::Asking {
            return Vec::new();
        }
        self.doubt = Doubt::Asking;
        vec![Action::Ask(Ask::Stored)]
    }

    /// The connection to the broker was lost: it may come back without its locks.
    pub(super) fn doubt_lock(&mut self, now: Instant) {
        let Some(lock) = &mut self.lock else { return };
        match &mut self.phase {
            Phase::Settling { .. } | Phase::Resolving { .. } | Phase::AskAgain { .. } => {
                lock.granted = None;
                self.phase = Phase::Locking { again: Some(now + LOCK_AGAIN), tries: 1 };
            }
            Phase::Active => {
                lock.regained = None;
                self.doubt = Doubt::Lost;
            }
            Phase::Draining(ending) if ending.target.is_none() => ending.first = ending.first.or(self.acked),
            _ => {}
        }
    }

    /// It begins somewhere: what was asked about the place where it was before says nothing any more.
    pub(super) fn forget_regained(&mut self) {
        if let Some(lock) = &mut self.lock {
            lock.regained = None;
        }
    }

    /// Whether what the broker holds is to be asked only when the lock is certain again.
    pub(super) fn awaits_lock(&self) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.regained.is_none())
    }

    /// The stored offset after a regained lock. Whoever is further than we have been is another member.
    pub(super) fn compare(&mut self, held: Option<Offset>, now: Instant) -> Vec<Action> {
        let regained = self.lock.as_mut().and_then(|lock| lock.regained.take());
        self.acked = held;
        match regained {
            Some((_, watermark)) if held > Some(watermark) => self.taken(now + FAR),
            Some((asked, _)) => vec![Action::Extend(asked)],
            None => Vec::new(),
        }
    }

    /// It goes, with its lock: nobody else can be reading the offset, so it is committed once, when all is done.
    pub(super) fn drain_locked(&mut self, by: Instant, commit_time: Duration) -> Vec<Action> {
        // After a lost connection it is looked at first: somebody else may have had the queue.
        let first = if self.doubt == Doubt::None { None } else { self.acked };
        self.phase = Phase::Draining(Ending { first, commit_time, ..Ending::new(by, false) });
        vec![Action::Close]
    }

    /// A listener is given up: the queue is not unlocked.
    pub(super) fn leave_listener(&mut self) {
        if let Some(lock) = &mut self.lock {
            lock.stays = true;
        }
    }

    /// Ends it, with an unlock if it may have the lock.
    pub(super) fn release(&mut self, by: Instant, failed: Option<String>) -> Vec<Action> {
        let out = matches!(self.phase, Phase::Locking { again: None, .. });
        match &self.lock {
            // Also while the answer is still out: a late grant would keep others waiting for a minute.
            Some(lock) if !lock.stays && (lock.granted.is_some() || out) => {
                self.phase = Phase::Unlocking { by, failed };
                vec![Action::Unlock]
            }
            _ => self.gone(failed),
        }
    }

    /// Another member has the queue. Nothing of it is committed any more; what runs may end.
    fn taken(&mut self, far: Instant) -> Vec<Action> {
        self.phase = Phase::Draining(Ending { taken: true, ..Ending::new(far, true) });
        vec![Action::Forfeit, Action::Close]
    }

    /// What ran in a queue that another member has is over; `is_stored` if that member knows of it for certain.
    pub(super) fn after_taken(&mut self, ending: &Ending, is_stored: bool) -> Vec<Action> {
        if !ending.stays {
            return self.gone((!is_stored).then(|| TAKEN.to_owned()));
        }
        self.lock = Some(Lock::default());
        (self.acked, self.doubt) = (None, Doubt::None);
        self.phase = Phase::Locking { again: None, tries: 0 };
        vec![Action::LetGo, Action::Lock]
    }

    fn gone(&mut self, failed: Option<String>) -> Vec<Action> {
        self.phase = Phase::Gone;
        vec![Action::Release { committed: self.acked, failed }]
    }
}

/// How long a running listener has before its queue, which stays ours, is taken up again: until it ends, since nothing
/// may overtake it.
pub const FAR: Duration = crate::clock::FAR;
/// How long running listeners have when another member takes over: the lock is renewed meanwhile.
pub const REVOKE_TIME_LOCKED: Duration = Duration::from_secs(20);
/// Why the last offset of a queue was not committed.
const TAKEN: &str = "another member had taken the queue over, or its broker had lost what was consumed";
const LOCK_AGAIN: Duration = Duration::from_millis(100);
const LOCK_AGAIN_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
