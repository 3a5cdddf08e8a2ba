//! When which broker is asked to renew. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// All brokers every 20 s; one that failed after 3 s, so that there is another try or two before the belief in the
/// lock ends. One request for each broker is out at a time.
#[derive(Debug)]
pub(super) struct Plan {
    all_at: Instant,
    /// Brokers with a moment of their own.
    alone_at: BTreeMap<Arc<str>, Instant>,
    out: BTreeSet<Arc<str>>,
}

impl Plan {
    pub(super) fn new(now: Instant) -> Self {
        Self { all_at: now + RENEW_EVERY, alone_at: BTreeMap::new(), out: BTreeSet::new() }
    }

    /// When [`take_due`](Self::take_due) is to be called.
    pub(super) fn deadline(&self) -> Instant {
        let alone = self.alone_at.iter().filter(|(broker, _)| !self.out.contains(*broker)).map(|(_, at)| *at);
        alone.min().map_or(self.all_at, |at| at.min(self.all_at))
    }

    /// The brokers to be asked now, of those that there is something to be asked of.
    pub(super) fn take_due<'a>(
        &mut self,
        now: Instant,
        known: impl Iterator<Item = &'a Arc<str>>,
    ) -> Vec<Arc<str>> {
        let all = now >= self.all_at;
        if all {
            self.all_at = now + RENEW_EVERY;
        }
        let known: BTreeSet<&Arc<str>> = known.collect();
        let due = |broker: &Arc<str>| {
            !self.out.contains(broker) && (all || self.alone_at.get(broker).is_some_and(|at| *at <= now))
        };
        let due: Vec<Arc<str>> = known.into_iter().filter(|broker| due(broker)).cloned().collect();
        // A wish about a broker that nothing is held of any more is over.
        self.alone_at.retain(|broker, at| *at > now || self.out.contains(broker));
        due
    }

    /// This broker is to be asked now; if it is being asked, once more after that.
    pub(super) fn wish(&mut self, broker: &Arc<str>, now: Instant) {
        self.alone_at.insert(broker.clone(), now);
    }

    /// It is being asked.
    pub(super) fn sent(&mut self, broker: &Arc<str>) {
        self.alone_at.remove(broker);
        self.out.insert(broker.clone());
    }

    /// It has answered.
    pub(super) fn succeeded(&mut self, broker: &Arc<str>) {
        self.out.remove(broker);
    }

    /// It has not, or could not be asked.
    pub(super) fn failed(&mut self, broker: &Arc<str>, now: Instant) {
        self.out.remove(broker);
        self.alone_at.entry(broker.clone()).or_insert(now + RETRY_AFTER);
    }
}

/// As the Java client: a third of the life of a lock.
const RENEW_EVERY: Duration = Duration::from_secs(20);
const RETRY_AFTER: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        start: Instant,
        plan: Plan,
        brokers: Vec<Arc<str>>,
    }

    fn case() -> Case {
        let start = Instant::now();
        Case { start, plan: Plan::new(start), brokers: vec!["a".into(), "b".into()] }
    }

    impl Case {
        fn due(&mut self, seconds: u64) -> Vec<Arc<str>> {
            let now = self.start + Duration::from_secs(seconds);
            let due = self.plan.take_due(now, self.brokers.iter());
            due.iter().for_each(|broker| self.plan.sent(broker));
            due
        }

        fn next(&self) -> u64 {
            self.plan.deadline().duration_since(self.start).as_secs()
        }
    }

    #[test]
    fn all_brokers_are_asked_every_twenty_seconds() {
        let mut case = case();
        assert!(case.due(19).is_empty());
        for seconds in [20, 40, 60] {
            assert_eq!(case.next(), seconds);
            assert_eq!(case.due(seconds).len(), 2);
            case.brokers.iter().for_each(|broker| case.plan.succeeded(broker));
        }
    }

    #[test]
    fn one_that_failed_is_asked_again_after_three_seconds_alone() {
        let mut case = case();
        let (a, b) = (case.brokers[0].clone(), case.brokers[1].clone());
        case.due(20);
        case.plan.succeeded(&b);
        case.plan.failed(&a, case.start + Duration::from_secs(21));
        assert_eq!((case.next(), case.due(23), case.due(24)), (24, vec![], vec![a.clone()]));
        case.plan.succeeded(&a);
        assert_eq!((case.next(), case.due(40).len()), (40, 2));
    }

    #[test]
    fn a_wish_counts_at_once_but_not_beside_a_request_that_is_out() {
        let mut case = case();
        let a = case.brokers[0].clone();
        case.plan.wish(&a, case.start);
        assert_eq!((case.next(), case.due(0)), (0, vec![a.clone()]));
        case.plan.wish(&a, case.start + Duration::from_secs(1));
        assert_eq!((case.next(), case.due(1)), (20, vec![]));
        case.plan.succeeded(&a);
        assert_eq!(case.due(2), [a]);
    }

    #[test]
    fn a_wish_about_a_broker_that_nothing_is_held_of_does_not_spin() {
        let mut case = case();
        case.plan.wish(&"gone".into(), case.start);
        assert_eq!((case.due(0), case.next()), (vec![], 20));
    }
}
