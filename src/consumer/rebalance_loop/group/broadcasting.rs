//! Rounds of a broadcasting consumer: every member owns every queue, so that nobody needs to be asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::requests::Requests;
use super::Group;
use crate::consumer::outside::Outside;
use crate::consumer::rebalance::diff;
use crate::message::{ConsumeFrom, MessageQueue};

impl<S: Outside> Group<S> {
    /// Takes all queues of a topic, and gives up those that it has no more. Whether its queues are known.
    pub(super) fn take_all(&mut self, topic: &Arc<str>, requests: &mut Requests<S>) -> bool {
        let Some(all) = self.core.queues_of(topic) else {
            self.core.want_route(topic);
            return false;
        };
        let wanted: BTreeSet<MessageQueue> = all.into_iter().collect();
        let changes = diff(&self.owned_of(topic), &wanted);
        for queue in &changes.revoke {
            self.unwant(queue, requests);
        }
        for queue in changes.assign {
            self.want(queue, false, requests);
        }
        self.topics.entry(topic.clone()).or_default().wanted = Some(wanted);
        true
    }

    /// Where a queue without stored offset begins. One that was added to its topic while this member reads it has nothing
    /// that is older than that: what came before the member noticed it must not be missed. In clustering, the broker sees
    /// to that.
    pub(super) fn start_of(&self, queue: &MessageQueue) -> ConsumeFrom {
        let settings = self.core.settings();
        let from = settings.consume_from;
        if !settings.is_broadcasting()
            || !matches!(from, ConsumeFrom::LastOffset | ConsumeFrom::LastMessages(_))
        {
            return from;
        }
        let before = self.topics.get(queue.topic()).and_then(|topic| topic.wanted.as_ref());
        let beside = before.into_iter().flatten().filter(|one| one.broker_name() == queue.broker_name());
        match beside.map(MessageQueue::queue_id).max() {
            Some(last) if queue.queue_id() > last => {
                log::info!("{queue} is new: it is consumed from its beginning");
                ConsumeFrom::FirstOffset
            }
            _ => from,
        }
    }
}
