//! Rounds of a broadcasting consumer: every member owns every queue, so that nobody needs to be asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::requests::Requests;
use super::Group;
use crate::consumer::outside::Outside;
use crate::consumer::rebalance::diff;
use crate::message::MessageQueue;

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
}
