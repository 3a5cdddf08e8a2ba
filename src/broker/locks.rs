//! Who may consume a queue in order.

use std::collections::BTreeMap;

use crate::message::MessageQueue;

/// How long a lock lives without a renewal, in ms (Java: `rocketmq.broker.rebalance.lockMaxLiveTime`).
pub(crate) const LOCK_LIFE: i64 = 60_000;

/// One holder for each queue of a group. A lock outlives its holder's connection; it is released or expires.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    groups: BTreeMap<String, BTreeMap<MessageQueue, Lock>>,
}

#[derive(Debug)]
struct Lock {
    client_id: String,
    renewed: i64,
}

impl Lock {
    fn is_expired(&self, now: i64) -> bool {
        now.saturating_sub(self.renewed) > LOCK_LIFE
    }
}

impl Locks {
    /// Gives the queue to the client if it is free, expired or its own already, which renews it.
    pub(crate) fn lock(&mut self, group: &str, queue: &MessageQueue, client_id: &str, now: i64) -> bool {
        let queues = self.groups.entry(group.to_owned()).or_default();
        match queues.get_mut(queue) {
            Some(lock) if lock.client_id != client_id && !lock.is_expired(now) => false,
            _ => {
                queues.insert(queue.clone(), Lock { client_id: client_id.to_owned(), renewed: now });
                true
            }
        }
    }

    /// Frees the queue, if it is the client's own.
    pub(crate) fn unlock(&mut self, group: &str, queue: &MessageQueue, client_id: &str) {
        let Some(queues) = self.groups.get_mut(group) else { return };
        if queues.get(queue).is_some_and(|lock| lock.client_id == client_id) {
            queues.remove(queue);
        }
    }

    /// Whether the group holds any lock that is not expired.
    pub(crate) fn any_held(&self, group: &str, now: i64) -> bool {
        self.groups.get(group).is_some_and(|queues| queues.values().any(|lock| !lock.is_expired(now)))
    }

    /// Every lock that is not expired: group, queue, client id.
    pub(crate) fn held(&self, now: i64) -> impl Iterator<Item = (&str, &MessageQueue, &str)> {
        self.groups.iter().flat_map(move |(group, queues)| {
            let held = queues.iter().filter(move |(_, lock)| !lock.is_expired(now));
            held.map(move |(queue, lock)| (group.as_str(), queue, lock.client_id.as_str()))
        })
    }

    /// Renews what is held by clients that `is_connected`, as they would do themselves while time passes.
    pub(crate) fn renew(&mut self, from: i64, to: i64, is_connected: impl Fn(&str) -> bool) {
        for lock in self.groups.values_mut().flat_map(BTreeMap::values_mut) {
            if !lock.is_expired(from) && is_connected(&lock.client_id) {
                lock.renewed = to;
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.groups.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(id: i32) -> MessageQueue {
        MessageQueue::new("t", "broker-a", id)
    }

    #[test]
    fn one_holder_until_it_lets_go_or_expires() {
        let mut locks = Locks::default();
        assert!(locks.lock("g", &queue(0), "a", 0));
        assert!(!locks.lock("g", &queue(0), "b", LOCK_LIFE));
        assert!(locks.lock("h", &queue(0), "b", 0), "another group has locks of its own");
        assert!(locks.lock("g", &queue(0), "b", LOCK_LIFE + 1));
        locks.unlock("g", &queue(0), "a");
        assert!(!locks.lock("g", &queue(0), "a", LOCK_LIFE + 1));
        locks.unlock("g", &queue(0), "b");
        assert!(locks.lock("g", &queue(0), "a", LOCK_LIFE + 1));
    }

    #[test]
    fn connected_clients_keep_their_locks_when_time_is_moved() {
        let mut locks = Locks::default();
        locks.lock("g", &queue(0), "here", 0);
        locks.lock("g", &queue(1), "gone", 0);
        locks.renew(1, 10_000_000, |client| client == "here");
        let held: Vec<_> =
            locks.held(10_000_000).map(|(_, queue, client)| (queue.queue_id(), client)).collect();
        assert_eq!(held, [(0, "here")]);
        assert!(locks.any_held("g", 10_000_000) && !locks.any_held("h", 0));
    }
}
