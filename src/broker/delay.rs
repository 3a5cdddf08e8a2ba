//! Messages that are not to be seen yet: the delay levels, and arbitrary delivery times.
//!
//! Both wait as ordinary messages in a topic of their own. A level has a queue to itself, which is in order of due
//! times, since all in it wait equally long; so a level is a cursor. Delivery times come in any order and are sorted.

use std::collections::BTreeSet;
use std::time::Duration;

use super::store::{Entry, Store};

/// Where the messages of the delay levels wait; level n in queue n - 1.
pub(crate) const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// Where messages with a delivery time wait.
pub(crate) const TIMER_TOPIC: &str = "rmq_sys_wheel_timer";

/// The levels of an untouched broker, in seconds (`MessageStoreConfig.messageDelayLevel`).
const STANDARD: [u64; 18] =
    [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];

/// The standard table of delay levels.
pub(crate) fn standard_levels() -> Vec<Duration> {
    STANDARD.into_iter().map(Duration::from_secs).collect()
}

/// What waits, and until when.
#[derive(Debug)]
pub(crate) struct Delays {
    levels: Vec<Level>,
    /// Due time in ms and queue offset in the timer topic.
    timers: BTreeSet<(i64, i64)>,
}

#[derive(Debug)]
struct Level {
    delay: i64,
    /// The offset of the next message to deliver, and of the next one to come.
    next: i64,
    end: i64,
    /// When the next message is due, in ms. Kept here since the loop asks after every turn.
    head: i64,
}

impl Delays {
    pub(crate) fn new(levels: &[Duration]) -> Self {
        let millis = |delay: &Duration| i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        let levels = levels.iter().map(|delay| Level { delay: millis(delay), next: 0, end: 0, head: 0 });
        Self { levels: levels.collect(), timers: BTreeSet::new() }
    }

    /// The queue a message of this level waits in and when it is due, in ms. Levels beyond the last are the last.
    /// `None` where there is no level at all.
    pub(crate) fn level(&self, level: i32, now: i64) -> Option<(i32, i64)> {
        let index = usize::try_from(level).ok()?.checked_sub(1)?.min(self.levels.len().checked_sub(1)?);
        let due = now.saturating_add(self.levels.get(index)?.delay);
        Some((i32::try_from(index).ok()?, due))
    }

    /// A message was put into the queue of a level.
    pub(crate) fn add_delayed(&mut self, queue_id: i32, due: i64) {
        let Some(level) = usize::try_from(queue_id).ok().and_then(|index| self.levels.get_mut(index)) else {
            return;
        };
        if level.next == level.end {
            level.head = due;
        }
        level.end += 1;
    }

    /// A message was put into the timer topic.
    pub(crate) fn add_timer(&mut self, due: i64, queue_offset: i64) {
        self.timers.insert((due, queue_offset));
    }

    /// The messages in the timer topic that are due at that very time.
    pub(crate) fn timers_at(&self, due: i64) -> impl Iterator<Item = i64> {
        self.timers.range((due, i64::MIN)..=(due, i64::MAX)).map(|timer| timer.1)
    }

    pub(crate) fn remove_timer(&mut self, due: i64, queue_offset: i64) {
        self.timers.remove(&(due, queue_offset));
    }

    /// The offset of the next message of each level, from level 1 on.
    pub(crate) fn positions(&self) -> impl Iterator<Item = i64> {
        self.levels.iter().map(|level| level.next)
    }

    /// How many messages wait.
    pub(crate) fn waiting(&self) -> u64 {
        let of_levels: u64 = self.levels.iter().map(|level| level.end.abs_diff(level.next)).sum();
        of_levels + self.timers.len() as u64
    }

    /// When the next one is due, in ms.
    pub(crate) fn next_due(&self) -> Option<i64> {
        let heads = self.levels.iter().filter(|level| level.next < level.end).map(|level| level.head);
        heads.chain(self.timers.first().map(|timer| timer.0)).min()
    }

    /// The message that has been due longest, if one is. It no longer waits then.
    pub(crate) fn take_due(&mut self, store: &Store, now: i64) -> Option<Entry> {
        let due = self.next_due().filter(|due| *due <= now)?;
        if self.timers.first().is_some_and(|timer| timer.0 == due) {
            let (_, offset) = self.timers.pop_first()?;
            return store.entry(TIMER_TOPIC, 0, offset);
        }
        let mut levels = (0..).zip(&mut self.levels);
        let (queue_id, level) = levels.find(|(_, level)| level.next < level.end && level.head == due)?;
        let entry = store.entry(SCHEDULE_TOPIC, queue_id, level.next);
        level.next += 1;
        level.head = store.entry(SCHEDULE_TOPIC, queue_id, level.next).map_or(0, |entry| entry.tag);
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::Memory;
    use super::*;
    use std::io;
    use std::sync::Arc;

    fn put(store: &mut Store, topic: &str, queue: i32, tag: i64) -> i64 {
        let encode = |_, _, out: &mut Vec<u8>| {
            out.push(0);
            io::Result::Ok(())
        };
        store.append(topic, queue, tag, encode).unwrap().queue_offset
    }

    #[test]
    fn levels_beyond_the_last_are_the_last() {
        let delays = Delays::new(&standard_levels());
        assert_eq!(delays.level(1, 0), Some((0, 1000)));
        assert_eq!(delays.level(18, 5), Some((17, 7_200_005)));
        assert_eq!(delays.level(99, 5), Some((17, 7_200_005)));
        assert_eq!(delays.level(0, 0), None);
        assert_eq!(delays.level(-1, 0), None);
        assert_eq!(Delays::new(&[]).level(1, 0), None);
    }

    #[test]
    fn the_earliest_due_comes_first_whichever_way_it_waits() {
        let mut store = Store::new(Arc::new(Memory));
        let mut delays = Delays::new(&standard_levels());
        for (queue, due) in [(2, 10_000), (0, 1_000), (0, 1_500)] {
            put(&mut store, SCHEDULE_TOPIC, queue, due);
            delays.add_delayed(queue, due);
        }
        for due in [5_000, 1_200] {
            let offset = put(&mut store, TIMER_TOPIC, 0, due);
            delays.add_timer(due, offset);
        }
        assert_eq!(delays.waiting(), 5);
        assert_eq!(delays.take_due(&store, 999), None);
        let mut order = Vec::new();
        while let Some(due) = delays.next_due() {
            order.push(due);
            assert!(delays.take_due(&store, due).is_some());
        }
        assert_eq!(order, [1_000, 1_200, 1_500, 5_000, 10_000]);
        assert_eq!(delays.waiting(), 0);
    }
}
