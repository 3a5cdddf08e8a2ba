//! What tests look at: the state of a broker, or of all brokers of a cluster, at one moment.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::offsets::Key;
use super::requests::forms_of;
use crate::message::{MessageQueue, MessageView, RETRY_PREFIX, is_system_topic};
use crate::protocol::RequestCode;

/// One consistent moment of a broker, or of each broker of a cluster. Made by `inspect`, `wait` and `fast_forward`.
///
/// Display says in a line what is there: topics with their depth, groups with members and lag, connections.
#[derive(Clone)]
pub struct Snapshot {
    parts: Vec<Part>,
    members: BTreeMap<String, Vec<String>>,
}

/// What one broker held at that moment.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) broker: String,
    /// Range by topic and queue: all topics there are, and the queues that were ever written to.
    pub(crate) queues: BTreeMap<String, BTreeMap<i32, (i64, i64)>>,
    /// How many queues each topic has.
    pub(crate) queue_counts: BTreeMap<String, i32>,
    pub(crate) delayed: u64,
    pub(crate) members: BTreeMap<String, Vec<String>>,
    pub(crate) waiting: BTreeMap<String, usize>,
    pub(crate) connections: usize,
    pub(crate) committed: BTreeMap<Key, BTreeMap<i32, i64>>,
    pub(crate) locks: BTreeMap<(String, MessageQueue), String>,
    pub(crate) requests: BTreeMap<RequestCode, u64>,
    /// Reads stored messages. The log only grows, so they are still there as the ranges say.
    pub(crate) reader: Arc<dyn Reader>,
}

pub(crate) trait Reader: Send + Sync {
    fn read(&self, topic: &str, queue_id: i32, range: (i64, i64)) -> Vec<MessageView>;
}

impl Snapshot {
    pub(crate) fn new(parts: Vec<Part>) -> Self {
        let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (group, ids) in parts.iter().flat_map(|part| &part.members) {
            let all = members.entry(group.clone()).or_default();
            // On one broker an id occurs twice if two connections claim it, and that is worth seeing.
            let missing = ids.iter().filter(|id| parts.len() == 1 || !all.contains(id));
            let missing: Vec<_> = missing.cloned().collect();
            all.extend(missing);
        }
        Self { parts, members }
    }

    /// The stored messages of a topic, in the order in which each broker stored them; delayed ones are elsewhere.
    pub fn messages(&self, topic: &str) -> Vec<MessageView> {
        let of_part = |part: &Part| {
            let queues = part.queues.get(topic).into_iter().flatten();
            let mut found: Vec<_> =
                queues.flat_map(|(id, range)| part.reader.read(topic, *id, *range)).collect();
            found.sort_by_key(MessageView::commit_log_offset);
            found
        };
        self.parts.iter().flat_map(of_part).collect()
    }

    /// How many messages of a topic are stored; delayed ones count where they are delivered, once they are.
    pub fn depth(&self, topic: &str) -> u64 {
        let ranges = self.parts.iter().filter_map(|part| part.queues.get(topic)).flat_map(BTreeMap::values);
        ranges.map(|(min, max)| max.abs_diff(*min)).sum()
    }

    /// How many messages wait for their time.
    pub fn delayed(&self) -> u64 {
        self.parts.iter().map(|part| part.delayed).sum()
    }

    /// The topics, without those that belong to the broker itself; retry and dead-letter topics are among them.
    pub fn topics(&self) -> impl Iterator<Item = &str> {
        let mut all: Vec<&str> =
            self.parts.iter().flat_map(|part| part.queues.keys()).map(String::as_str).collect();
        all.retain(|topic| !is_system_topic(topic));
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }

    /// The first offset of a queue and the one after its last; `None` if there is no such queue.
    pub fn range(&self, queue: &MessageQueue) -> Option<(i64, i64)> {
        let part = self.part(queue)?;
        let known = (0..*part.queue_counts.get(queue.topic())?).contains(&queue.queue_id());
        let written = part.queues.get(queue.topic())?.get(&queue.queue_id()).copied();
        written.or(known.then_some((0, 0)))
    }

    /// The client ids of a group's members, in the order in which they joined.
    pub fn members(&self, group: &str) -> &[String] {
        self.members.get(group).map_or(&[], Vec::as_slice)
    }

    /// How many pulls of a group are held until a message arrives.
    pub fn waiting_pulls(&self, group: &str) -> usize {
        self.parts.iter().filter_map(|part| part.waiting.get(group)).sum()
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.parts.iter().map(|part| part.connections).sum()
    }

    /// The stored offset of a group; `None` if it has none, which is not 0.
    pub fn committed(&self, group: &str, queue: &MessageQueue) -> Option<i64> {
        let key = (group.to_owned(), queue.topic().to_owned());
        self.part(queue)?.committed.get(&key)?.get(&queue.queue_id()).copied()
    }

    /// How many messages of a topic the group has not finished, its retry topic left aside. In a queue without a
    /// stored offset these are all there are.
    pub fn lag(&self, group: &str, topic: &str) -> u64 {
        let key = (group.to_owned(), topic.to_owned());
        let of_part = |part: &Part| -> u64 {
            let committed = part.committed.get(&key);
            let of_queue = |(id, (min, max)): (&i32, &(i64, i64))| {
                let from = committed.and_then(|offsets| offsets.get(id)).copied().unwrap_or(*min);
                max.saturating_sub(from).max(0).unsigned_abs()
            };
            part.queues.get(topic).into_iter().flatten().map(of_queue).sum()
        };
        self.parts.iter().map(of_part).sum()
    }

    /// The client that holds the lock of a queue.
    pub fn lock_holder(&self, group: &str, queue: &MessageQueue) -> Option<&str> {
        self.part(queue)?.locks.get(&(group.to_owned(), queue.clone())).map(String::as_str)
    }

    /// How many requests of a code have come, restarts or not. `SEND_MESSAGE` also means its V2 and batch form,
    /// `PULL_MESSAGE` the lite form.
    pub fn requests(&self, code: RequestCode) -> u64 {
        let of_code = |code| self.parts.iter().filter_map(|part| part.requests.get(code)).sum::<u64>();
        of_code(&code) + forms_of(code).iter().map(of_code).sum::<u64>()
    }

    fn part(&self, queue: &MessageQueue) -> Option<&Part> {
        self.parts.iter().find(|part| part.broker == queue.broker_name())
    }

    fn groups(&self) -> Vec<&str> {
        let committed = self.parts.iter().flat_map(|part| part.committed.keys()).map(|key| key.0.as_str());
        let mut all: Vec<&str> = self.members.keys().map(String::as_str).chain(committed).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topics: Vec<&str> = self.topics().filter(|topic| self.depth(topic) > 0).collect();
        f.write_str("topics:")?;
        for topic in &topics {
            write!(f, " {topic} {}", self.depth(topic))?;
        }
        write!(f, "; delayed: {}; groups:", self.delayed())?;
        for group in self.groups() {
            write!(
                f,
                " {group} ({} members, {} held pulls",
                self.members(group).len(),
                self.waiting_pulls(group)
            )?;
            for topic in topics.iter().filter(|topic| !topic.starts_with(RETRY_PREFIX)) {
                if self.parts.iter().any(|part| part.committed.contains_key(&(group.into(), (*topic).into())))
                {
                    write!(f, ", lag of {topic} {}", self.lag(group, topic))?;
                }
            }
            f.write_str(")")?;
        }
        write!(f, "; connections: {}", self.connections())
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Reader for Nothing {
        fn read(&self, _: &str, _: i32, _: (i64, i64)) -> Vec<MessageView> {
            Vec::new()
        }
    }

    fn part(broker: &str) -> Part {
        let committed = BTreeMap::from([(("g".to_owned(), "t".to_owned()), BTreeMap::from([(0, 7)]))]);
        Part {
            broker: broker.into(),
            queues: BTreeMap::from([
                ("t".into(), BTreeMap::from([(0, (2, 10)), (1, (0, 5))])),
                ("TBW102".into(), BTreeMap::new()),
            ]),
            queue_counts: BTreeMap::from([("t".into(), 4)]),
            delayed: 1,
            members: BTreeMap::from([("g".into(), vec!["c2".into(), "c1".into()])]),
            waiting: BTreeMap::from([("g".into(), 3)]),
            connections: 2,
            committed,
            locks: BTreeMap::new(),
            requests: BTreeMap::from([
                (RequestCode::SEND_MESSAGE_V2, 2),
                (RequestCode::SEND_BATCH_MESSAGE, 1),
            ]),
            reader: Arc::new(Nothing),
        }
    }

    #[test]
    fn brokers_are_added_up() {
        let both = Snapshot::new(vec![part("a"), part("b")]);
        assert_eq!((both.depth("t"), both.depth("u"), both.delayed()), (26, 0, 2));
        assert_eq!(both.lag("g", "t"), 2 * (3 + 5));
        assert_eq!(both.lag("new", "t"), 26);
        assert_eq!(both.members("g"), ["c2", "c1"]);
        assert_eq!((both.waiting_pulls("g"), both.connections()), (6, 4));
        assert_eq!(both.requests(RequestCode::SEND_MESSAGE), 6);
        assert_eq!(both.topics().collect::<Vec<_>>(), ["t"]);
    }

    #[test]
    fn a_queue_is_looked_up_on_its_own_broker() {
        let snapshot = Snapshot::new(vec![part("a")]);
        let queue = |broker: &str, id| MessageQueue::new("t", broker, id);
        assert_eq!(snapshot.range(&queue("a", 0)), Some((2, 10)));
        assert_eq!(snapshot.range(&queue("a", 3)), Some((0, 0)));
        assert_eq!((snapshot.range(&queue("a", 4)), snapshot.range(&queue("b", 0))), (None, None));
        assert_eq!(snapshot.committed("g", &queue("a", 0)), Some(7));
        assert_eq!(snapshot.committed("g", &queue("a", 1)), None);
    }

    #[test]
    fn prints_what_a_failed_wait_needs() {
        let text = Snapshot::new(vec![part("a")]).to_string();
        assert_eq!(
            text,
            "topics: t 13; delayed: 1; groups: g (2 members, 3 held pulls, lag of t 8); connections: 2"
        );
    }
}
