use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One queue of a topic on one broker: the unit of ordering, of assignment and of offsets.
///
/// Cheap to clone. Ordered by topic, broker and number, as every member of a consumer group must order queues to come
/// to the same allocation. Prints as `orders@broker-a:3`.
#[derive(Clone)]
pub struct MessageQueue(Arc<Inner>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Inner {
    topic: Arc<str>,
    broker_name: Arc<str>,
    queue_id: i32,
}

impl MessageQueue {
    /// Names a queue; whether it exists, only the broker knows.
    pub fn new(topic: impl Into<Arc<str>>, broker_name: impl Into<Arc<str>>, queue_id: i32) -> Self {
        Self(Arc::new(Inner { topic: topic.into(), broker_name: broker_name.into(), queue_id }))
    }

    /// The topic that the queue belongs to.
    pub fn topic(&self) -> &str {
        &self.0.topic
    }

    /// The name of the broker that holds the queue (a name, not an address).
    pub fn broker_name(&self) -> &str {
        &self.0.broker_name
    }

    /// The number of the queue within its topic and broker, from 0.
    pub fn queue_id(&self) -> i32 {
        self.0.queue_id
    }

    pub(crate) fn shared_topic(&self) -> &Arc<str> {
        &self.0.topic
    }

    pub(crate) fn shared_broker_name(&self) -> &Arc<str> {
        &self.0.broker_name
    }
}

impl PartialEq for MessageQueue {
    fn eq(&self, other: &Self) -> bool {
        // Nearly every comparison is of a queue with itself, out of the same table.
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for MessageQueue {}

impl PartialOrd for MessageQueue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MessageQueue {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl Hash for MessageQueue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for MessageQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.topic(), self.broker_name(), self.queue_id())
    }
}

impl fmt::Debug for MessageQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageQueue({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_by_topic_broker_and_number() {
        let queue = |topic: &str, broker: &str, id| MessageQueue::new(topic, broker, id);
        let mut queues = [queue("b", "a", 0), queue("a", "b", 0), queue("a", "a", 10), queue("a", "a", 9)];
        queues.sort();
        let names: Vec<String> = queues.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a@a:9", "a@a:10", "a@b:0", "b@a:0"]);
    }

    #[test]
    fn equal_when_all_parts_are() {
        assert_eq!(MessageQueue::new("t", "b", 1), MessageQueue::new(String::from("t"), "b", 1));
        assert_ne!(MessageQueue::new("t", "b", 1), MessageQueue::new("t", "b", 2));
    }
}
