//! Which queue a message goes to. Pure.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::message::MessageQueue;
use crate::message::tags::java_hash;

/// One counter per topic: messages of a topic go around its queues, however many threads send.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    topics: Mutex<HashMap<String, Arc<AtomicUsize>>>,
}

impl RoundRobin {
    /// The next number of this topic; the first one is `start`, so that many producers do not begin with one queue.
    pub(super) fn next(&self, topic: &str, start: impl FnOnce() -> usize) -> usize {
        let known = self.topics.lock().get(topic).cloned();
        let counter = known.unwrap_or_else(|| {
            let counter = Arc::new(AtomicUsize::new(start()));
            self.topics.lock().entry(topic.to_owned()).or_insert(counter).clone()
        });
        counter.fetch_add(1, Ordering::Relaxed)
    }
}

/// The queue whose turn it is; one on a broker that has not been tried before one that has, and then one on another
/// broker than the last.
pub(super) fn by_turn<'a>(
    queues: &'a [MessageQueue],
    turn: usize,
    tried: &[Arc<str>],
) -> Option<&'a MessageQueue> {
    let first = turn.checked_rem(queues.len())?;
    let turned = || queues.iter().cycle().skip(first).take(queues.len());
    let untried = |queue: &&MessageQueue| !tried.iter().any(|broker| **broker == *queue.broker_name());
    let not_last = |queue: &&MessageQueue| tried.last().is_none_or(|broker| **broker != *queue.broker_name());
    turned().find(untried).or_else(|| turned().find(not_last)).or_else(|| turned().next())
}

/// The queue of a sharding key: the same one as long as the topic has the same queues. As Java's
/// `SelectMessageQueueByHash`, so that producers of both kinds agree.
pub(super) fn by_key<'a>(queues: &'a [MessageQueue], key: &str) -> Option<&'a MessageQueue> {
    let count = i64::try_from(queues.len()).ok()?;
    let at = i64::from(java_hash(key)).checked_rem(count)?.unsigned_abs();
    queues.get(usize::try_from(at).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(text: &[(&str, i32)]) -> Vec<MessageQueue> {
        text.iter().map(|(broker, id)| MessageQueue::new("orders", *broker, *id)).collect()
    }

    fn show(queue: Option<&MessageQueue>) -> String {
        queue.map(|queue| format!("{}:{}", queue.broker_name(), queue.queue_id())).unwrap_or_default()
    }

    #[test]
    fn queues_take_turns() {
        let queues = queues(&[("a", 0), ("a", 1), ("b", 0)]);
        let picks: Vec<String> = (0..4).map(|turn| show(by_turn(&queues, turn, &[]))).collect();
        assert_eq!(picks, ["a:0", "a:1", "b:0", "a:0"]);
        assert_eq!(by_turn(&[], 5, &[]), None);
        assert_eq!(show(by_turn(&queues, usize::MAX, &[])), show(by_turn(&queues, usize::MAX % 3, &[])));
    }

    #[test]
    fn a_retry_goes_to_another_broker() {
        let queues = queues(&[("a", 0), ("a", 1), ("b", 0), ("c", 0)]);
        let tried = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<Vec<Arc<str>>>();
        assert_eq!(show(by_turn(&queues, 1, &tried(&["a"]))), "b:0");
        assert_eq!(show(by_turn(&queues, 2, &tried(&["a", "b"]))), "c:0");
        assert_eq!(show(by_turn(&queues, 3, &tried(&["a", "b", "c"]))), "a:0", "all tried: not the last one");
        let one = super::tests::queues(&[("a", 0), ("a", 1)]);
        assert_eq!(show(by_turn(&one, 1, &tried(&["a"]))), "a:1", "the only broker is tried again");
    }

    #[test]
    fn a_key_stays_with_its_queue_and_agrees_with_java() {
        let queues = queues(&[("a", 0), ("a", 1), ("b", 0), ("b", 1)]);
        // In Java, "order-7".hashCode() is -1207111304 and "TAG_Alpha_longer_name".hashCode() is -1004440101; of the
        // second the remainder by 4 is -1, whose absolute value counts.
        assert_eq!(show(by_key(&queues, "order-7")), "a:0");
        assert_eq!(show(by_key(&queues, "TAG_Alpha_longer_name")), "a:1");
        assert_eq!(show(by_key(&queues, "tag-1")), "b:0");
        assert_eq!(by_key(&[], "order-7"), None);
    }

    #[test]
    fn a_counter_belongs_to_a_topic() {
        let turns = RoundRobin::default();
        assert_eq!(turns.next("a", || 10), 10);
        assert_eq!(turns.next("b", || 3), 3);
        assert_eq!((turns.next("a", || 0), turns.next("b", || 0)), (11, 4));
    }
}
