//! What is due when. Pure: the present time is an argument.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Instant;

/// One moment per key; setting a key again moves it, and nothing of the old moment stays behind.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    order: BTreeSet<(Instant, K)>,
    by_key: HashMap<K, Instant>,
}

impl<K: Clone + Eq + Hash + Ord> Timers<K> {
    pub(crate) fn new() -> Self {
        Timers { order: BTreeSet::new(), by_key: HashMap::new() }
    }

    pub(crate) fn set(&mut self, key: K, at: Instant) {
        self.cancel(&key);
        self.order.insert((at, key.clone()));
        self.by_key.insert(key, at);
    }

    /// As `set`, unless the key is due earlier already.
    pub(crate) fn set_earlier(&mut self, key: K, at: Instant) {
        if self.by_key.get(&key).is_none_or(|due| at < *due) {
            self.set(key, at);
        }
    }

    pub(crate) fn cancel(&mut self, key: &K) -> bool {
        let Some(at) = self.by_key.remove(key) else { return false };
        self.order.remove(&(at, key.clone()))
    }

    /// When the next key is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes out one key that is due, the longest due first.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn keys_come_out_when_they_are_due_in_order() {
        let now = Instant::now();
        let at = |ms| now + Duration::from_millis(ms);
        let mut timers = Timers::new();
        timers.set("b", at(20));
        timers.set("a", at(30));
        timers.set("c", at(10));
        timers.set("a", at(15));
        timers.set_earlier("b", at(25));
        assert!(timers.cancel(&"c") && !timers.cancel(&"c"));
        assert_eq!(timers.next(), Some(at(15)));
        assert_eq!(timers.pop_due(at(14)), None);
        assert_eq!(timers.pop_due(at(20)), Some("a"));
        assert_eq!(timers.pop_due(at(20)), Some("b"));
        assert_eq!((timers.pop_due(at(99)), timers.len(), timers.next()), (None, 0, None));
    }

    #[test]
    fn set_earlier_only_moves_forward() {
        let now = Instant::now();
        let mut timers = Timers::new();
        timers.set_earlier(1, now + Duration::from_secs(2));
        timers.set_earlier(1, now + Duration::from_secs(1));
        assert_eq!(timers.next(), Some(now + Duration::from_secs(1)));
    }
}
