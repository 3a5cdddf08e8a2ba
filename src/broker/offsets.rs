//! How far each group has come, and resets that its next pull will hear of.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// How many changes can be taken back; see [`Offsets::rewind`].
const JOURNAL: usize = 100_000;

/// Committed offsets by group, topic and queue.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    table: BTreeMap<Key, BTreeMap<i32, i64>>,
    /// Where the next pull would begin, as its last one was told; for the statistics only.
    pulled: BTreeMap<Key, BTreeMap<i32, i64>>,
    /// Resets that no pull has heard of yet. Until then commits are dropped, since they come from before the reset.
    resets: HashMap<(Key, i32), i64>,
    /// Each change with its time and what was there before.
    journal: VecDeque<(i64, Key, i32, Option<i64>)>,
}

/// Group and topic.
pub(crate) type Key = (String, String);

impl Offsets {
    pub(crate) fn committed(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.table.get(&key(group, topic))?.get(&queue_id).copied()
    }

    /// Stores an offset as it is, smaller ones too. Says false when it was dropped because of a pending reset.
    pub(crate) fn commit(&mut self, group: &str, topic: &str, queue_id: i32, offset: i64, now: i64) -> bool {
        if self.resets.contains_key(&(key(group, topic), queue_id)) {
            return false;
        }
        self.store(key(group, topic), queue_id, offset, now);
        true
    }

    /// Sets an offset that the group's next pull of the queue is told.
    pub(crate) fn reset(&mut self, group: &str, topic: &str, queue_id: i32, offset: i64, now: i64) {
        self.store(key(group, topic), queue_id, offset, now);
        self.resets.insert((key(group, topic), queue_id), offset);
    }

    /// The reset that a pull has to be told, which is over with that.
    pub(crate) fn take_reset(&mut self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        if self.resets.is_empty() {
            return None;
        }
        self.resets.remove(&(key(group, topic), queue_id))
    }

    pub(crate) fn pulled(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.pulled.get(&key(group, topic))?.get(&queue_id).copied()
    }

    pub(crate) fn set_pulled(&mut self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        self.pulled.entry(key(group, topic)).or_default().insert(queue_id, offset);
    }

    /// The topics of a group that have a committed offset.
    pub(crate) fn topics_of<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a str> {
        self.table.keys().filter(move |key| key.0 == group).map(|key| key.1.as_str())
    }

    /// The groups that have a committed offset in a topic.
    pub(crate) fn groups_of<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a str> {
        self.table.keys().filter(move |key| key.1 == topic).map(|key| key.0.as_str())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &BTreeMap<i32, i64>)> {
        self.table.iter()
    }

    /// What is committed.
    pub(crate) fn table(&self) -> &BTreeMap<Key, BTreeMap<i32, i64>> {
        &self.table
    }

    /// Takes over what another broker has.
    pub(crate) fn replace(&mut self, table: BTreeMap<Key, BTreeMap<i32, i64>>) {
        self.table = table;
        self.journal.clear();
    }

    pub(crate) fn delete_group(&mut self, group: &str) {
        self.retain(|key| key.0 != group);
    }

    pub(crate) fn delete_topic(&mut self, topic: &str) {
        self.retain(|key| key.1 != topic);
    }

    pub(crate) fn clear(&mut self) {
        self.retain(|_| false);
    }

    /// Takes every change since `millis` back, as a restart with an old offset file does.
    pub(crate) fn rewind(&mut self, millis: i64) {
        while self.journal.back().is_some_and(|change| change.0 >= millis) {
            let Some((_, key, queue_id, before)) = self.journal.pop_back() else { break };
            let queues = self.table.entry(key).or_default();
            match before {
                Some(before) => drop(queues.insert(queue_id, before)),
                None => drop(queues.remove(&queue_id)),
            }
        }
        self.table.retain(|_, queues| !queues.is_empty());
        self.resets.clear();
    }

    fn store(&mut self, key: Key, queue_id: i32, offset: i64, now: i64) {
        let before = self.table.entry(key.clone()).or_default().insert(queue_id, offset);
        if before != Some(offset) {
            self.journal.push_back((now, key, queue_id, before));
            if self.journal.len() > JOURNAL {
                self.journal.pop_front();
            }
        }
    }

    fn retain(&mut self, keep: impl Fn(&Key) -> bool) {
        self.table.retain(|key, _| keep(key));
        self.pulled.retain(|key, _| keep(key));
        self.resets.retain(|(key, _), _| keep(key));
        self.journal.retain(|(_, key, _, _)| keep(key));
    }
}

fn key(group: &str, topic: &str) -> Key {
    (group.to_owned(), topic.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_offset_is_not_an_offset() {
        let mut offsets = Offsets::default();
        assert_eq!(offsets.committed("g", "t", 0), None);
        assert!(offsets.commit("g", "t", 0, 7, 1));
        assert!(offsets.commit("g", "t", 0, 5, 2), "commits may go backwards");
        assert_eq!(offsets.committed("g", "t", 0), Some(5));
        assert_eq!(offsets.committed("g", "t", 1), None);
    }

    #[test]
    fn commits_are_dropped_until_the_reset_was_told() {
        let mut offsets = Offsets::default();
        offsets.commit("g", "t", 0, 50, 1);
        offsets.reset("g", "t", 0, 3, 2);
        assert!(!offsets.commit("g", "t", 0, 51, 3));
        assert_eq!(offsets.committed("g", "t", 0), Some(3));
        assert_eq!(offsets.take_reset("g", "t", 0), Some(3));
        assert_eq!(offsets.take_reset("g", "t", 0), None);
        assert!(offsets.commit("g", "t", 0, 4, 4));
    }

    #[test]
    fn a_restart_with_an_old_table_forgets_what_came_later() {
        let mut offsets = Offsets::default();
        for (now, offset) in [(10, 1), (20, 2), (30, 3)] {
            offsets.commit("g", "t", 0, offset, now);
        }
        offsets.commit("g", "t", 1, 9, 30);
        offsets.rewind(20);
        assert_eq!((offsets.committed("g", "t", 0), offsets.committed("g", "t", 1)), (Some(1), None));
        offsets.rewind(0);
        assert_eq!(offsets.iter().count(), 0);
    }

    #[test]
    fn a_deleted_group_leaves_nothing() {
        let mut offsets = Offsets::default();
        offsets.commit("g", "t", 0, 1, 1);
        offsets.commit("h", "t", 0, 1, 1);
        offsets.delete_group("g");
        assert_eq!(offsets.groups_of("t").collect::<Vec<_>>(), ["h"]);
        assert_eq!(offsets.topics_of("g").count(), 0);
    }
}
