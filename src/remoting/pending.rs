//! The requests of one connection that wait for their answer. Pure: no socket, thread, lock or clock.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

/// Opaque → who waits, and until when.
///
/// Whoever takes an entry out is the one who completes it; so every request has exactly one outcome, however answer,
/// deadline and loss of the connection race.
#[derive(Debug)]
pub(crate) struct Pending<W> {
    entries: HashMap<i32, Entry<W>>,
    /// Exact, entries leave with their request: a lazy heap would hold 30 s of answered pulls.
    deadlines: BTreeSet<(Instant, i32)>,
    next: i32,
    /// When the table was last empty and got a request.
    since: Option<Instant>,
}

#[derive(Debug)]
struct Entry<W> {
    waiter: W,
    deadline: Option<Instant>,
}

impl<W> Pending<W> {
    pub(crate) fn new() -> Self {
        Self::starting_at(0)
    }

    pub(crate) fn starting_at(next: i32) -> Self {
        Self { entries: HashMap::new(), deadlines: BTreeSet::new(), next, since: None }
    }

    /// Files a request and gives it its number. Without a `deadline` the waiter looks at the time itself and takes
    /// its entry out when it gives up.
    pub(crate) fn insert(&mut self, waiter: W, deadline: Option<Instant>, now: Instant) -> i32 {
        let opaque = self.number();
        if self.entries.is_empty() {
            self.since = Some(now);
        }
        self.entries.insert(opaque, Entry { waiter, deadline });
        self.deadlines.extend(deadline.map(|at| (at, opaque)));
        opaque
    }

    /// The waiter for `opaque`, if nobody has completed it yet.
    pub(crate) fn take(&mut self, opaque: i32) -> Option<W> {
        let entry = self.entries.remove(&opaque)?;
        if let Some(at) = entry.deadline {
            self.deadlines.remove(&(at, opaque));
        }
        Some(entry.waiter)
    }

    /// Takes out everything whose deadline has come, earliest first.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<(i32, W)> {
        let mut expired = Vec::new();
        while let Some(&(at, opaque)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            expired.extend(self.entries.remove(&opaque).map(|entry| (opaque, entry.waiter)));
        }
        expired
    }

    /// When [`expire`](Self::expire) has something to do next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// Takes out everything: the connection is gone.
    pub(crate) fn drain(&mut self) -> Vec<(i32, W)> {
        self.deadlines.clear();
        self.entries.drain().map(|(opaque, entry)| (opaque, entry.waiter)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Since when something has been waiting without a break.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.since.filter(|_| !self.entries.is_empty())
    }

    /// The number of a request that nobody waits for. Skips those in use: after 2³² requests an old one may still
    /// wait.
    pub(crate) fn number(&mut self) -> i32 {
        while self.entries.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let opaque = self.next;
        self.next = self.next.wrapping_add(1);
        opaque
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn every_entry_is_taken_once() {
        let now = Instant::now();
        let mut pending = Pending::new();
        let a = pending.insert("a", Some(now + ms(5)), now);
        let b = pending.insert("b", None, now);
        assert_eq!(pending.take(a), Some("a"));
        assert_eq!(pending.take(a), None);
        assert_eq!(pending.next_deadline(), None, "the deadline leaves with its request");
        assert_eq!(pending.expire(now + ms(10)), vec![]);
        assert_eq!(pending.drain(), vec![(b, "b")]);
        assert_eq!(pending.take(b), None);
    }

    #[test]
    fn deadlines_come_in_order_and_exactly() {
        let now = Instant::now();
        let mut pending = Pending::new();
        let late = pending.insert("late", Some(now + ms(30)), now);
        let early = pending.insert("early", Some(now + ms(10)), now);
        let twin = pending.insert("twin", Some(now + ms(10)), now);
        assert_eq!(pending.next_deadline(), Some(now + ms(10)));
        assert_eq!(pending.expire(now + ms(9)), vec![]);
        assert_eq!(pending.expire(now + ms(10)), vec![(early, "early"), (twin, "twin")]);
        assert_eq!(pending.next_deadline(), Some(now + ms(30)));
        assert_eq!(pending.expire(now + ms(31)), vec![(late, "late")]);
        assert_eq!(pending.len(), 0);
    }

    #[test]
    fn opaques_wrap_and_skip_those_in_use() {
        let now = Instant::now();
        let mut pending = Pending::starting_at(i32::MAX);
        assert_eq!(pending.insert(1, None, now), i32::MAX);
        assert_eq!(pending.insert(2, None, now), i32::MIN);
        pending.next = i32::MAX;
        assert_eq!(pending.insert(3, None, now), i32::MIN + 1, "both numbers are still in use");
    }

    #[test]
    fn waiting_since_counts_from_the_last_time_the_table_was_empty() {
        let now = Instant::now();
        let mut pending = Pending::new();
        assert_eq!(pending.waiting_since(), None);
        let a = pending.insert("a", None, now);
        let b = pending.insert("b", None, now + ms(3));
        pending.take(a);
        assert_eq!(pending.waiting_since(), Some(now));
        pending.take(b);
        assert_eq!(pending.waiting_since(), None);
        pending.insert("c", None, now + ms(7));
        assert_eq!(pending.waiting_since(), Some(now + ms(7)));
    }
}
