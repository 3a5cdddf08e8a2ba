//! What this member believes of a broker's lock on one queue. Pure.
//!
//! A broker keeps a lock for 60 s after it was asked for last, whoever is connected. The member believes in it for half
//! of that, counted from when it asked, so that it has stopped long before anybody else can be given the queue. After
//! a lost connection it does not believe in it at all: the broker may have been restarted and have forgotten its locks.

use std::time::{Duration, Instant, SystemTime};

use super::losses::Losses;

/// When a lock was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// By the monotonic clock.
    pub at: Instant,
    /// By the wall clock, which goes on while the machine sleeps.
    pub by_wall: SystemTime,
    /// How often the connection to the broker had been lost by then: what was asked for before the last time proves
    /// nothing.
    pub losses: u64,
}

/// The lock of one queue, in the hands of this member.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The last time it was granted.
    asked: Asked,
    /// Of its broker, up to the present moment.
    losses: Losses,
    /// Somebody else has it.
    lost: bool,
}

/// What a granted renewal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Nothing was in doubt: it goes on.
    Extended,
    /// It was asked for before the connection was lost: it proves nothing.
    Stale,
    /// It had run out, or was in doubt; whether consumption may go on has to be decided.
    Regained {
        /// So long after the renewal before that another member may have had the queue meanwhile.
        late: bool,
        /// The broker may have forgotten its locks meanwhile.
        doubtful: bool,
    },
}

impl Lease {
    /// Granted to who asked then, by a broker whose connection is lost that often.
    pub fn new(asked: Asked, losses: Losses) -> Self {
        Self { asked, losses, lost: false }
    }

    /// Whether a listener may be called now.
    pub fn is_valid(&self, now: Instant, wall: SystemTime) -> bool {
        !self.lost && !self.is_doubtful() && now < self.asked.at + BELIEF && !self.has_slept(now, wall)
    }

    /// When it was asked for, the last time it was granted.
    pub fn asked(&self) -> Asked {
        self.asked
    }

    /// Whether it is to be renewed.
    pub fn is_wanted(&self) -> bool {
        !self.lost
    }

    /// Whether the connection was lost since it was asked for.
    pub fn is_doubtful(&self) -> bool {
        !self.is_as_of_now(&self.asked)
    }

    /// Whether the connection was not lost since that was asked for.
    pub fn is_as_of_now(&self, asked: &Asked) -> bool {
        asked.losses == self.losses.count()
    }

    /// Somebody else has the queue.
    pub fn lose(&mut self) {
        self.lost = true;
    }

    /// A renewal was granted that was asked for then.
    pub fn renewed(&mut self, asked: Asked, now: Instant) -> Renewal {
        if !self.is_as_of_now(&asked) || !self.is_wanted() {
            return Renewal::Stale;
        }
        if self.is_valid(now, asked.by_wall) {
            self.extend(asked);
            return Renewal::Extended;
        }
        let late = asked.at.saturating_duration_since(self.asked.at) >= LIFE;
        Renewal::Regained { late, doubtful: self.is_doubtful() }
    }

    /// Consumption may go on with the lock that was asked for then, unless it was lost meanwhile, or the connection once more.
    pub fn extend(&mut self, asked: Asked) {
        if !self.is_wanted() {
            return;
        }
        let losses = asked.losses.max(self.asked.losses);
        self.asked = Asked { at: asked.at.max(self.asked.at), losses, ..asked };
    }

    /// The clock of [`Instant`] stands still while the machine sleeps, the broker's does not.
    fn has_slept(&self, now: Instant, wall: SystemTime) -> bool {
        let by_wall = wall.duration_since(self.asked.by_wall).unwrap_or_default();
        by_wall > now.saturating_duration_since(self.asked.at) + SLEPT
    }
}

/// How long a member believes in a lock, as the Java client.
const BELIEF: Duration = Duration::from_secs(30);
/// How long a broker keeps it.
const LIFE: Duration = Duration::from_secs(60);
/// The two clocks may differ by so much without the machine having slept.
const SLEPT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        asked: Asked,
        losses: Losses,
        lease: Lease,
    }

    fn granted() -> Case {
        let asked = Asked { at: Instant::now(), by_wall: SystemTime::now(), losses: 0 };
        let losses = Losses::default();
        Case { asked, lease: Lease::new(asked, losses.clone()), losses }
    }

    impl Case {
        /// So much later, with what is known then.
        fn after(&self, time: u64) -> Asked {
            let time = seconds(time);
            let Asked { at, by_wall, .. } = self.asked;
            Asked { at: at + time, by_wall: by_wall + time, losses: self.losses.count() }
        }

        fn is_valid_after(&self, time: u64) -> bool {
            let Asked { at, by_wall, .. } = self.after(time);
            self.lease.is_valid(at, by_wall)
        }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_lock_is_believed_in_for_half_of_its_life() {
        let case = granted();
        assert!(case.is_valid_after(29) && !case.is_valid_after(30));
    }

    #[test]
    fn l2_a_renewal_in_time_leaves_no_gap() {
        let mut case = granted();
        for n in 1..16 {
            let asked = case.after(20 * n);
            assert!(case.is_valid_after(20 * n + 1));
            assert_eq!(case.lease.renewed(asked, asked.at + seconds(1)), Renewal::Extended);
        }
    }

    #[test]
    fn one_that_had_run_out_is_given_back_only_by_a_decision() {
        for (after, late) in [(31, false), (59, false), (60, true), (3600, true)] {
            let mut case = granted();
            let asked = case.after(after);
            assert_eq!(case.lease.renewed(asked, asked.at), Renewal::Regained { late, doubtful: false });
            assert!(!case.is_valid_after(after));
            case.lease.extend(asked);
            assert!(case.is_valid_after(after));
        }
    }

    #[test]
    fn a_lost_connection_ends_the_belief_until_a_renewal_that_was_asked_for_later() {
        let mut case = granted();
        let before = case.after(0);
        case.losses.add();
        assert!(!case.is_valid_after(0));
        assert_eq!(case.lease.renewed(before, before.at), Renewal::Stale);
        let asked = case.after(0);
        let renewed = case.lease.renewed(asked, asked.at);
        assert_eq!(renewed, Renewal::Regained { late: false, doubtful: true });
        case.lease.extend(asked);
        assert!(case.is_valid_after(0));
    }

    /// The renewal is decided upon while the connection is lost once more, of which whoever decides has not heard.
    #[test]
    fn what_is_decided_about_an_older_loss_does_not_settle_a_newer_one() {
        let mut case = granted();
        case.losses.add();
        let asked = case.after(1);
        case.losses.add();
        case.lease.extend(asked);
        assert!(!case.is_valid_after(1) && !case.lease.is_as_of_now(&asked));
    }

    #[test]
    fn what_somebody_else_has_is_not_renewed() {
        let mut case = granted();
        case.lease.lose();
        case.losses.add();
        assert!(!case.lease.is_wanted() && !case.is_valid_after(0));
        let asked = case.after(0);
        assert_eq!(case.lease.renewed(asked, asked.at), Renewal::Stale);
        case.lease.extend(asked);
        assert!(!case.is_valid_after(0), "it was decided to go on before that was known");
    }

    #[test]
    fn a_machine_that_slept_does_not_trust_its_locks() {
        let Case { asked: Asked { at, by_wall, .. }, lease, .. } = granted();
        assert!(lease.is_valid(at + seconds(1), by_wall + seconds(5)));
        assert!(!lease.is_valid(at + seconds(1), by_wall + seconds(7)));
    }
}
