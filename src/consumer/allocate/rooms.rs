use std::collections::{BTreeMap, BTreeSet};

use crate::message::MessageQueue;

/// Only queues in these machine rooms: those whose broker is named `room@broker`. They are shared out evenly.
///
/// A member that is not in the list gets nothing. Java: `AllocateMessageQueueByMachineRoom`.
pub fn by_machine_room(
    rooms: impl IntoIterator<Item = impl Into<String>>,
) -> impl Fn(&str, &[String], &[MessageQueue]) -> Vec<MessageQueue> + Send + Sync + Clone + 'static {
    let rooms: BTreeSet<String> = rooms.into_iter().map(Into::into).collect();
    move |client_id, client_ids, queues| {
        let Some(index) = client_ids.iter().position(|id| id == client_id) else { return Vec::new() };
        let is_ours = |queue: &&MessageQueue| {
            let mut parts = queue.broker_name().split('@');
            matches!((parts.next(), parts.next(), parts.next()), (Some(room), Some(_), None) if rooms.contains(room))
        };
        let ours: Vec<&MessageQueue> = queues.iter().filter(is_ours).collect();
        let (share, extra) = (ours.len() / client_ids.len(), ours.len() % client_ids.len());
        let row = ours.iter().skip(share * index).take(share);
        // What is left over lies at the end, one for each of the first members.
        let rest = (index < extra).then(|| ours.get(share * client_ids.len() + index)).flatten();
        row.chain(rest).map(|queue| (*queue).clone()).collect()
    }
}

/// Queues go to members in the same machine room, by the `inner` strategy; queues of a room without members go to all.
/// The closures tell the room of a queue and of a client id; for Java members to agree, theirs must do the same. A room
/// without a name is one like any other, where Java's client refuses to share at all.
///
/// Java: `AllocateMachineRoomNearby`.
pub fn machine_room_nearby(
    inner: impl Fn(&str, &[String], &[MessageQueue]) -> Vec<MessageQueue> + Send + Sync + Clone + 'static,
    room_of_queue: impl Fn(&MessageQueue) -> String + Send + Sync + Clone + 'static,
    room_of_client: impl Fn(&str) -> String + Send + Sync + Clone + 'static,
) -> impl Fn(&str, &[String], &[MessageQueue]) -> Vec<MessageQueue> + Send + Sync + Clone + 'static {
    move |client_id, client_ids, queues| {
        if !client_ids.iter().any(|id| id == client_id) {
            return Vec::new();
        }
        let mut queues_in: BTreeMap<String, Vec<MessageQueue>> = BTreeMap::new();
        for queue in queues {
            queues_in.entry(room_of_queue(queue)).or_default().push(queue.clone());
        }
        let mut clients_in: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for id in client_ids {
            clients_in.entry(room_of_client(id)).or_default().push(id.clone());
        }
        let own_room = room_of_client(client_id);
        let mut share = Vec::new();
        if let (Some(queues), Some(clients)) = (queues_in.remove(&own_room), clients_in.get(&own_room)) {
            share.extend(inner(client_id, clients, &queues));
        }
        for (room, queues) in queues_in {
            if !clients_in.contains_key(&room) {
                share.extend(inner(client_id, client_ids, &queues));
            }
        }
        share
    }
}
