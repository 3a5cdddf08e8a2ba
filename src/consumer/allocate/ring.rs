use std::collections::BTreeMap;

use super::md5::md5;
use crate::message::MessageQueue;

/// A member keeps most of its queues when others come and go: members and queues stand on a ring, each member at
/// `virtual_nodes` places (Java: 10), and a queue belongs to the next member on the ring. With 0 nobody gets anything.
///
/// A member that is not in the list gets nothing. Java: `AllocateMessageQueueConsistentHash`.
pub fn consistent_hash(
    virtual_nodes: usize,
) -> impl Fn(&str, &[String], &[MessageQueue]) -> Vec<MessageQueue> + Send + Sync + Clone + 'static {
    move |client_id, client_ids, queues| {
        if !client_ids.iter().any(|id| id == client_id) {
            return Vec::new();
        }
        let mut ring: BTreeMap<u32, &str> = BTreeMap::new();
        for id in client_ids {
            for replica in 0..virtual_nodes {
                ring.insert(place(&format!("{id}-{replica}")), id);
            }
        }
        let owner = |queue: &MessageQueue| {
            let next = ring.range(place(&java_text(queue))..).next();
            next.or_else(|| ring.first_key_value()).map(|(_, owner)| *owner)
        };
        queues.iter().filter(|queue| owner(queue) == Some(client_id)).cloned().collect()
    }
}

/// The first four bytes of the digest.
fn place(key: &str) -> u32 {
    let [a, b, c, d, ..] = md5(key.as_bytes());
    u32::from_be_bytes([a, b, c, d])
}

/// A queue as Java writes it, which is what Java members hash.
fn java_text(queue: &MessageQueue) -> String {
    let (topic, broker, id) = (queue.topic(), queue.broker_name(), queue.queue_id());
    format!("MessageQueue [topic={topic}, brokerName={broker}, queueId={id}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_java_client() {
        let queue = |id| java_text(&MessageQueue::new("TopicTest", "broker-a", id));
        assert_eq!([0, 1, 2].map(|id| place(&queue(id))), [1_987_926_524, 4_291_349_817, 853_506_239]);
        let replicas = ["10.0.0.1@1-0", "10.0.0.2@1-0", "10.0.0.3@1-0"].map(place);
        assert_eq!(replicas, [2_998_294_157, 4_170_606_886, 1_081_300_591]);
    }
}
