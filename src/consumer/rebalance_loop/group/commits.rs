//! Offsets of owned queues on their way to the broker, and the doubt whether it still has them.

use std::sync::Arc;
use std::time::Instant;

use super::super::requests::Requests;
use super::{Ending, Group, IDLE_COMMIT};
use crate::client::Role;
use crate::consumer::assignment::LOST_SINCE;
use crate::consumer::outside::Outside;
use crate::message::MessageQueue;

impl<S: Outside> Group<S> {
    pub(super) fn commit(&mut self, queue: &MessageQueue, requests: &mut Requests<S>) {
        self.drive(queue, requests, |assignment, _, watermark| assignment.commit_due(watermark));
    }

    pub(super) fn commit_idle(&mut self, id: u64, now: Instant, requests: &mut Requests<S>) {
        let Some(queue) = self.generations.get(&id).cloned() else { return };
        let Some(owned) = self.queues.get_mut(&queue) else { return };
        if owned.assignment.is_committing() {
            self.idle.insert((now + IDLE_COMMIT, id));
            return;
        }
        owned.idle_commit = Some(now);
        if let Some(process) = &owned.process {
            process.facts.take_idle_report();
        }
        self.commit(&queue, requests);
    }

    pub(super) fn commit_all(&mut self, requests: &mut Requests<S>) {
        let queues: Vec<MessageQueue> = self.queues.keys().cloned().collect();
        for queue in queues {
            self.commit(&queue, requests);
        }
    }

    pub(super) fn committed(
        &mut self,
        queue: &MessageQueue,
        answer: Result<(), String>,
        requests: &mut Requests<S>,
    ) {
        if let Err(error) = &answer {
            log::warn!("the offset of {queue} was not committed: {error}");
        }
        let told = self.told_of_commit(queue, &answer, requests);
        self.drive(queue, requests, |assignment, now, watermark| {
            assignment.committed(answer, now, watermark)
        });
        if let Some(owned) = self.queues.get(queue)
            && let (Some(process), Some(acked)) = (&owned.process, owned.assignment.acked())
        {
            process.facts.set_committed(acked);
        }
        told.send();
        self.commit_by_hand(queue, requests);
    }

    /// The connection to a server is lost: none of the locks of its broker is certain, as consume threads know already.
    /// Nor are the offsets, if it is the one that keeps them.
    pub(super) fn disconnected(&mut self, address: &Arc<str>) {
        // One that is not in the route any more may be the keeper still, for all that this consumer has been told.
        let was_keeper =
            || self.keepers.iter().find(|(_, keeper)| *keeper == address).map(|(name, _)| name.clone());
        let Some(broker) = self.core.broker_name(address).or_else(was_keeper) else { return };
        let keeper = self.core.broker_address(&broker, Role::Any).map(|(keeper, _)| keeper);
        let keeps_offsets = keeper.as_ref() == Some(address) || self.keepers.get(&broker) == Some(address);
        self.doubt(&broker, keeps_offsets);
        if keeps_offsets {
            self.lost.insert(broker);
        }
    }

    /// The server that keeps the offsets of this broker is somewhere else: what was confirmed and locked there is in doubt
    /// until it has acknowledged a heartbeat there.
    pub(super) fn moved(&mut self, broker: Arc<str>) {
        self.doubt(&broker, true);
        self.lost.insert(broker);
    }

    fn doubt(&mut self, broker: &str, keeps_offsets: bool) {
        let now = self.core.now();
        let its = |queue: &MessageQueue| queue.broker_name() == broker;
        for (_, owned) in self.queues.iter_mut().filter(|(queue, _)| its(queue)) {
            owned.assignment.connection_lost(keeps_offsets, now);
        }
        if !keeps_offsets {
            return;
        }
        // Also of those that were given up in this shutdown.
        if let Some(Ending { report, .. }) = &mut self.ending {
            let gone = report.committed.iter().filter(|(queue, _)| its(queue));
            let told = |queue: &MessageQueue| report.uncommitted.iter().any(|(one, _)| one == queue);
            let gone: Vec<_> =
                gone.filter(|(queue, _)| !told(queue)).map(|(queue, _)| queue.clone()).collect();
            report.uncommitted.extend(gone.into_iter().map(|queue| (queue, LOST_SINCE.to_owned())));
        }
    }

    /// Whether another server keeps the offsets of a broker now. One that knows us is told them at once; a new one with
    /// its first heartbeat.
    pub(super) fn look_for_keepers(&mut self, requests: &mut Requests<S>) {
        let moved = |(name, before): (&Arc<str>, &Arc<str>)| {
            let (keeper, _) = self.core.broker_address(name, Role::Any)?;
            (keeper != *before && self.is_told(&keeper)).then_some(keeper)
        };
        let moved: Vec<Arc<str>> = self.keepers.iter().filter_map(moved).collect();
        for keeper in moved {
            self.recommit(&keeper, requests);
        }
    }

    fn is_told(&self, address: &str) -> bool {
        self.topics.keys().any(|topic| {
            let subscription = self.core.subscription(topic);
            subscription.is_some_and(|wanted| self.core.told_on(address, topic, wanted.version).is_some())
        })
    }

    /// A broker that was away may have come back with older offsets than it confirmed before; and a slave that stands in
    /// for its master, or a master that is back, may never have heard of them.
    pub(super) fn recommit(&mut self, address: &str, requests: &mut Requests<S>) {
        let Some(name) = self.core.broker_name(address) else { return };
        let Some((keeper, _)) = self.core.broker_address(&name, Role::Any) else { return };
        if *keeper != *address {
            return;
        }
        let was_lost = self.lost.remove(&name);
        let before = self.keepers.insert(name.clone(), keeper.clone());
        if !was_lost && before.is_none_or(|before| before == keeper) {
            return;
        }
        let queues: Vec<MessageQueue> =
            self.queues.keys().filter(|queue| queue.broker_name() == &*name).cloned().collect();
        for queue in queues {
            self.drive(&queue, requests, |assignment, _, _| assignment.doubt_commits());
        }
        if self.needs_locks() {
            self.core.renew_locks(&name);
        }
    }
}
