//! Who gets which queue: pure functions of the member's own id, all members and all queues, both sorted.
//!
//! Every member of a group must use the same one, since each computes its own share alone; the results are those of the
//! Java client, so that members of both may be mixed. A strategy of your own is a closure of the same form.

mod md5;
mod ring;
mod rooms;

pub use ring::consistent_hash;
pub use rooms::{by_machine_room, machine_room_nearby};

use crate::message::MessageQueue;

/// The first members get one queue more when the queues do not divide evenly, each a row of neighbours. The default.
///
/// A member that is not in the list gets nothing. Java: `AllocateMessageQueueAveragely`.
pub fn averagely(client_id: &str, client_ids: &[String], queues: &[MessageQueue]) -> Vec<MessageQueue> {
    let Some(index) = index_of(client_id, client_ids) else { return Vec::new() };
    let (share, extra) = (queues.len() / client_ids.len(), queues.len() % client_ids.len());
    let first = index * share + index.min(extra);
    let size = share + usize::from(index < extra);
    queues.iter().skip(first).take(size).cloned().collect()
}

/// Queues are dealt like cards: the first to the first member, the second to the second, and so on around.
///
/// A member that is not in the list gets nothing. Java: `AllocateMessageQueueAveragelyByCircle`.
pub fn averagely_by_circle(
    client_id: &str,
    client_ids: &[String],
    queues: &[MessageQueue],
) -> Vec<MessageQueue> {
    let Some(index) = index_of(client_id, client_ids) else { return Vec::new() };
    queues.iter().skip(index).step_by(client_ids.len()).cloned().collect()
}

/// Exactly these queues, for this member alone; which member has which is the program's business. Queues of the retry
/// topic of the group are shared out [`averagely`], since nobody can list them beforehand. Topics may be named with or
/// without the namespace of the client.
///
/// Java: `AllocateMessageQueueByConfig`, which leaves the retry topic unconsumed.
pub fn by_config(
    queues: impl IntoIterator<Item = MessageQueue>,
) -> impl Fn(&str, &[String], &[MessageQueue]) -> Vec<MessageQueue> + Send + Sync + Clone + 'static {
    let configured: Vec<MessageQueue> = queues.into_iter().collect();
    move |client_id, client_ids, queues| {
        if queues.iter().any(|queue| queue.topic().starts_with(crate::message::RETRY_PREFIX)) {
            return averagely(client_id, client_ids, queues);
        }
        // Also those of other topics: the consumer takes what belongs to the one at hand.
        configured.clone()
    }
}

fn index_of(client_id: &str, client_ids: &[String]) -> Option<usize> {
    client_ids.iter().position(|id| id == client_id)
}

#[cfg(test)]
mod tests;
