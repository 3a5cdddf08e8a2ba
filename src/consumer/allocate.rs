//! Who gets which queue: pure functions of the member's own id, all members and all queues, both sorted.
//!
//! Every member of a group must use the same one, since each computes its own share alone.

use crate::message::MessageQueue;

/// The first members get one queue more when the queues do not divide evenly, each a row of neighbours. The default.
///
/// A member that is not in the list gets nothing. Java: `AllocateMessageQueueAveragely`.
pub fn averagely(client_id: &str, client_ids: &[String], queues: &[MessageQueue]) -> Vec<MessageQueue> {
    let Some(index) = client_ids.iter().position(|id| id == client_id) else { return Vec::new() };
    let (share, extra) = (queues.len() / client_ids.len(), queues.len() % client_ids.len());
    let first = index * share + index.min(extra);
    let size = share + usize::from(index < extra);
    queues.iter().skip(first).take(size).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of each member: queue ids.
    fn shares(queues: usize, members: usize) -> Vec<Vec<i32>> {
        let queues: Vec<_> = (0..queues as i32).map(|id| MessageQueue::new("t", "broker-a", id)).collect();
        let ids: Vec<_> = (0..members).map(|n| format!("c{n}")).collect();
        let share = |id: &String| averagely(id, &ids, &queues).iter().map(MessageQueue::queue_id).collect();
        ids.iter().map(share).collect()
    }

    #[test]
    fn shares_are_those_of_the_java_client() {
        let table: [(usize, usize, &[&[i32]]); 8] = [
            (8, 3, &[&[0, 1, 2], &[3, 4, 5], &[6, 7]]),
            (8, 2, &[&[0, 1, 2, 3], &[4, 5, 6, 7]]),
            (8, 4, &[&[0, 1], &[2, 3], &[4, 5], &[6, 7]]),
            (7, 3, &[&[0, 1, 2], &[3, 4], &[5, 6]]),
            (10, 4, &[&[0, 1, 2], &[3, 4, 5], &[6, 7], &[8, 9]]),
            (4, 4, &[&[0], &[1], &[2], &[3]]),
            (3, 5, &[&[0], &[1], &[2], &[], &[]]),
            (1, 2, &[&[0], &[]]),
        ];
        for (queues, members, expected) in table {
            assert_eq!(shares(queues, members), expected, "{queues} queues, {members} members");
        }
        assert_eq!(shares(16, 5)[0], [0, 1, 2, 3]);
        assert_eq!(shares(16, 5)[4], [13, 14, 15]);
    }

    #[test]
    fn who_is_not_in_the_list_gets_nothing() {
        let queues = [MessageQueue::new("t", "b", 0)];
        assert!(averagely("x", &["a".into()], &queues).is_empty());
        assert!(averagely("x", &[], &queues).is_empty());
    }
}
