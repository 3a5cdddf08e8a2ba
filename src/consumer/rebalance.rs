//! When to compute assignments, and what changes: the pure part of `rmq-rebalance`.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use crate::message::MessageQueue;

/// When the next round is due. Many wake-ups become one round: at once if the last one is a while ago, else spaced
/// out, the more the longer they keep coming.
#[derive(Debug)]
pub struct Cadence {
    last: Option<Instant>,
    due: Instant,
    spacing: Duration,
}

impl Cadence {
    /// The first round is due at once.
    pub fn new(now: Instant) -> Self {
        Self { last: None, due: now, spacing: SPACING }
    }

    /// When the next round is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Something may have changed.
    pub fn wake(&mut self, now: Instant) {
        let at = self.last.map_or(now, |last| (last + self.spacing).max(now));
        self.due = self.due.min(at);
    }

    /// A round was made. If it left something open (`!settled`), the next one comes after about a second; `jitter` is
    /// between 0 and 1.
    pub fn ran(&mut self, now: Instant, settled: bool, jitter: f64) {
        let quiet = self.last.is_none_or(|last| now.saturating_duration_since(last) >= SPACING_MAX);
        self.spacing = if quiet { SPACING } else { (self.spacing * 2).min(SPACING_MAX) };
        self.last = Some(now);
        let wait = if settled { REBALANCE_INTERVAL } else { UNSETTLED_INTERVAL.mul_f64(0.75 + jitter / 2.0) };
        self.due = now + wait;
    }

    /// A round came too early: nobody could be asked yet. It does not count when the next wake-up is spaced out.
    pub fn too_early(&mut self, now: Instant, jitter: f64) {
        self.due = now + UNSETTLED_INTERVAL.mul_f64(0.75 + jitter / 2.0);
    }

    /// The last round turned out to have left something open.
    pub fn unsettled(&mut self, now: Instant, jitter: f64) {
        self.due = self.due.min(now + UNSETTLED_INTERVAL.mul_f64(0.75 + jitter / 2.0));
    }
}

/// What a round changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// To be given up.
    pub revoke: Vec<MessageQueue>,
    /// To be taken.
    pub assign: Vec<MessageQueue>,
}

/// Compares what is owned with what is wanted, of one topic.
pub fn diff(owned: &BTreeSet<MessageQueue>, wanted: &BTreeSet<MessageQueue>) -> Changes {
    Changes {
        revoke: owned.difference(wanted).cloned().collect(),
        assign: wanted.difference(owned).cloned().collect(),
    }
}

/// The members of a group as one broker knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members(Vec<String>);

impl Members {
    /// Sorted as all members sort.
    pub fn new(mut ids: Vec<String>) -> Self {
        ids.sort_unstable();
        ids.dedup();
        Self(ids)
    }

    /// In order.
    pub fn ids(&self) -> &[String] {
        &self.0
    }

    /// Whether that one is there.
    pub fn contains(&self, id: &str) -> bool {
        self.0.iter().any(|known| known == id)
    }
}

/// The members of the last few rounds of one topic.
///
/// One round is not enough to tell whose queue it was: a queue goes from A to C, C leaves at once, and B takes it while
/// A, which is alive, still finishes what it had begun.
#[derive(Debug, Default)]
pub struct History(VecDeque<(Instant, Members)>);

impl History {
    /// Takes in the members of a round.
    pub fn add(&mut self, members: Members, now: Instant) {
        if self.0.back().is_none_or(|(_, last)| *last != members) {
            self.0.push_back((now, members));
        }
        // The one before the window was in force when it began.
        while self.0.get(1).is_some_and(|(since, _)| now.saturating_duration_since(*since) > WINDOW) {
            self.0.pop_front();
        }
    }

    /// Whether a member that is still alive owned a queue until a moment ago, so that its last commit may be on its way.
    /// `owns` computes whether this one of those members had it.
    pub fn is_taken_from_live_member(
        &self,
        me: &str,
        now: &Members,
        owns: impl Fn(&str, &Members) -> bool,
    ) -> bool {
        if self.0.is_empty() {
            // Just joined: whoever else is there owns everything.
            return now.ids().iter().any(|id| id != me);
        }
        self.0.iter().any(|(_, before)| {
            let mut others = before.ids().iter().filter(|id| *id != me);
            others.any(|id| now.contains(id) && owns(id, before))
        })
    }
}

/// As long as a revoked queue may take to be released, and a little more.
const WINDOW: Duration = Duration::from_secs(4);
/// Between rounds that wake-ups ask for.
const SPACING: Duration = Duration::from_millis(50);
const SPACING_MAX: Duration = Duration::from_secs(1);
const UNSETTLED_INTERVAL: Duration = Duration::from_secs(1);
/// Without any wake-up, as the Java client.
const REBALANCE_INTERVAL: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r7_a_thousand_wake_ups_in_a_second_are_a_few_rounds() {
        let start = Instant::now();
        let mut cadence = Cadence::new(start);
        let mut rounds = 0;
        for ms in 0..1000 {
            let now = start + Duration::from_millis(ms);
            cadence.wake(now);
            if now >= cadence.due() {
                cadence.ran(now, true, 0.5);
                rounds += 1;
            }
        }
        assert!((2..=6).contains(&rounds), "{rounds}");
    }

    #[test]
    fn a_wake_up_after_a_quiet_time_is_served_at_once() {
        let start = Instant::now();
        let mut cadence = Cadence::new(start);
        cadence.ran(start, true, 0.5);
        assert_eq!(cadence.due(), start + REBALANCE_INTERVAL);
        let later = start + Duration::from_secs(5);
        cadence.wake(later);
        assert_eq!(cadence.due(), later);
    }

    #[test]
    fn the_wake_up_after_a_round_that_came_too_early_is_served_at_once() {
        let start = Instant::now();
        let mut cadence = Cadence::new(start);
        cadence.too_early(start, 0.5);
        assert_eq!(cadence.due(), start + UNSETTLED_INTERVAL);
        let heartbeat = start + Duration::from_millis(1);
        cadence.wake(heartbeat);
        assert_eq!(cadence.due(), heartbeat);
    }

    #[test]
    fn an_open_round_is_repeated_soon() {
        let start = Instant::now();
        let mut cadence = Cadence::new(start);
        cadence.ran(start, false, 0.5);
        assert_eq!(cadence.due(), start + UNSETTLED_INTERVAL);
    }

    #[test]
    fn changes_are_the_two_differences() {
        let set =
            |ids: &[i32]| ids.iter().map(|id| MessageQueue::new("t", "b", *id)).collect::<BTreeSet<_>>();
        let changes = diff(&set(&[0, 1]), &set(&[1, 2]));
        assert_eq!((changes.revoke[0].queue_id(), changes.assign[0].queue_id()), (0, 2));
        assert_eq!(diff(&set(&[3]), &set(&[3])), Changes::default());
    }

    #[test]
    fn only_a_live_former_owner_is_waited_for() {
        let members = |ids: &[&str]| Members::new(ids.iter().map(|id| id.to_string()).collect());
        let owns = |owner: &'static str| move |id: &str, _: &Members| id == owner;
        let start = Instant::now();
        let mut history = History::default();
        assert!(!history.is_taken_from_live_member("me", &members(&["me"]), owns("")), "alone");
        assert!(
            history.is_taken_from_live_member("me", &members(&["me", "a"]), owns("")),
            "joined a live group"
        );
        history.add(members(&["a", "b", "me"]), start);
        let taken = |now: &[&str], owner| history.is_taken_from_live_member("me", &members(now), owns(owner));
        assert!(!taken(&["b", "me"], "a"), "its owner has left");
        assert!(taken(&["a", "me"], "a"), "b left, but a had it");
        assert!(!taken(&["a", "me"], "me"), "it was ours");
    }

    #[test]
    fn an_owner_of_a_moment_ago_is_waited_for_and_one_of_long_ago_is_not() {
        let members = |ids: &[&str]| Members::new(ids.iter().map(|id| id.to_string()).collect());
        // The queue was a's, then c's for a moment.
        let owns = |id: &str, then: &Members| id == if then.contains("c") { "c" } else { "a" };
        let start = Instant::now();
        let mut history = History::default();
        history.add(members(&["a", "me"]), start);
        history.add(members(&["a", "c", "me"]), start + Duration::from_secs(60));
        let now = members(&["a", "me"]);
        assert!(history.is_taken_from_live_member("me", &now, owns), "a may still finish what it had begun");
        history.add(members(&["a", "c", "me"]), start + Duration::from_secs(70));
        assert!(!history.is_taken_from_live_member("me", &now, owns), "it was c's alone for long enough");
    }
}
