//! What this member believes of a broker's lock on one queue. Pure.
//!
//! A broker keeps a lock for 60 s after it was asked for last, whoever is connected. The member believes in it for half
//! of that, counted from when it asked, so that it has stopped long before anybody else can be given the queue. After
//! a lost connection it does not believe in it at all: the broker may have been restarted and have forgotten its locks.

use std::time::{Duration, Instant, SystemTime};

/// The lock of one queue, in the hands of this member.
#[derive(Clone, Debug)]
pub struct Lease {
    /// When it was asked for, the last time it was granted.
    asked: Instant,
    /// The same by the wall clock, which goes on while the machine sleeps.
    asked_by_wall: SystemTime,
    state: State,
    /// How often the connection was lost: a renewal asked for before the last time proves nothing.
    losses: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Held,
    /// The connection was lost since.
    Doubtful,
    /// Somebody else has it.
    Lost,
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
    /// Granted to who asked at this moment, by both clocks.
    pub fn new(asked: Instant, asked_by_wall: SystemTime) -> Self {
        Self { asked, asked_by_wall, state: State::Held, losses: 0 }
    }

    /// Whether a listener may be called now.
    pub fn is_valid(&self, now: Instant, wall: SystemTime) -> bool {
        self.state == State::Held && now < self.asked + BELIEF && !self.has_slept(now, wall)
    }

    /// When it was asked for, the last time it was granted.
    pub fn asked_by_wall(&self) -> SystemTime {
        self.asked_by_wall
    }

    /// Whether it is to be renewed.
    pub fn is_wanted(&self) -> bool {
        self.state != State::Lost
    }

    /// Whether the connection was lost since it was granted.
    pub fn is_doubtful(&self) -> bool {
        self.state == State::Doubtful
    }

    /// How often the connection was lost, to be remembered with a renewal.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// The connection to the broker was lost.
    pub fn doubt(&mut self) {
        self.losses += 1;
        if self.state == State::Held {
            self.state = State::Doubtful;
        }
    }

    /// Somebody else has the queue.
    pub fn lose(&mut self) {
        self.state = State::Lost;
    }

    /// A renewal was granted that was asked for at this moment, when the connection had been lost so often.
    pub fn renewed(&mut self, asked: Instant, wall: SystemTime, losses: u64, now: Instant) -> Renewal {
        if losses != self.losses || !self.is_wanted() {
            return Renewal::Stale;
        }
        if self.is_valid(now, wall) {
            self.extend(asked, wall);
            return Renewal::Extended;
        }
        let late = asked.saturating_duration_since(self.asked) >= LIFE;
        Renewal::Regained { late, doubtful: self.state == State::Doubtful }
    }

    /// Consumption may go on with the lock that was asked for at this moment.
    pub fn extend(&mut self, asked: Instant, wall: SystemTime) {
        self.state = State::Held;
        self.asked = asked.max(self.asked);
        self.asked_by_wall = wall;
    }

    /// The clock of [`Instant`] stands still while the machine sleeps, the broker's does not.
    fn has_slept(&self, now: Instant, wall: SystemTime) -> bool {
        let by_wall = wall.duration_since(self.asked_by_wall).unwrap_or_default();
        by_wall > now.saturating_duration_since(self.asked) + SLEPT
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
        asked: Instant,
        wall: SystemTime,
        lease: Lease,
    }

    fn granted() -> Case {
        let (asked, wall) = (Instant::now(), SystemTime::now());
        Case { asked, wall, lease: Lease::new(asked, wall) }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_lock_is_believed_in_for_half_of_its_life() {
        let Case { asked, wall, lease } = granted();
        assert!(lease.is_valid(asked + seconds(29), wall + seconds(29)));
        assert!(!lease.is_valid(asked + BELIEF, wall + BELIEF));
    }

    #[test]
    fn l2_a_renewal_in_time_leaves_no_gap() {
        let Case { asked, wall, mut lease } = granted();
        for n in 1..16 {
            let (at, by_wall) = (asked + seconds(20 * n), wall + seconds(20 * n));
            assert!(lease.is_valid(at + seconds(1), by_wall + seconds(1)));
            assert_eq!(lease.renewed(at, by_wall, 0, at + seconds(1)), Renewal::Extended);
        }
    }

    #[test]
    fn one_that_had_run_out_is_given_back_only_by_a_decision() {
        for (after, late) in [(31, false), (59, false), (60, true), (3600, true)] {
            let Case { asked, wall, mut lease } = granted();
            let (at, by_wall) = (asked + seconds(after), wall + seconds(after));
            assert_eq!(lease.renewed(at, by_wall, 0, at), Renewal::Regained { late, doubtful: false });
            assert!(!lease.is_valid(at, by_wall));
            lease.extend(at, by_wall);
            assert!(lease.is_valid(at, by_wall));
        }
    }

    #[test]
    fn a_lost_connection_ends_the_belief_until_a_renewal_that_was_asked_for_later() {
        let Case { asked, wall, mut lease } = granted();
        let before = lease.losses();
        lease.doubt();
        assert!(!lease.is_valid(asked, wall));
        assert_eq!(lease.renewed(asked, wall, before, asked), Renewal::Stale);
        let renewed = lease.renewed(asked, wall, lease.losses(), asked);
        assert_eq!(renewed, Renewal::Regained { late: false, doubtful: true });
    }

    #[test]
    fn what_somebody_else_has_is_not_renewed() {
        let Case { asked, wall, mut lease } = granted();
        lease.lose();
        lease.doubt();
        assert!(!lease.is_wanted() && !lease.is_valid(asked, wall));
        assert_eq!(lease.renewed(asked, wall, lease.losses(), asked), Renewal::Stale);
    }

    #[test]
    fn a_machine_that_slept_does_not_trust_its_locks() {
        let Case { asked, wall, lease } = granted();
        assert!(lease.is_valid(asked + seconds(1), wall + seconds(5)));
        assert!(!lease.is_valid(asked + seconds(1), wall + seconds(7)));
    }
}
