//! What the client tells a consumer: routes, heartbeats, connections, members that came or went.

use std::time::Duration;

use super::super::requests::Requests;
use super::Group;
use crate::client::Notice;
use crate::consumer::events::Event;
use crate::consumer::outside::Outside;
use crate::consumer::pull_loop::PullEvent;
use crate::message::{DLQ_PREFIX, RETRY_PREFIX};

impl<S: Outside> Group<S> {
    pub(in super::super) fn noticed(&mut self, notice: Notice, requests: &mut Requests<S>) {
        match notice {
            Notice::RouteChanged(_) => {
                self.wake();
                self.core.post_pull(PullEvent::NudgeAll);
                self.look_for_keepers(requests);
            }
            Notice::ConsumerIdsChanged => {
                self.wake();
                if self.core.is_member() {
                    self.peers.changed(self.core.now());
                }
            }
            Notice::Heartbeaten { address } => {
                if self.core.is_member() {
                    let (from, interval) = (self.core.own_address(&address), self.core.heartbeat_interval());
                    self.peers.heartbeaten(from, interval, self.core.now());
                }
                self.want_retry_route();
                self.wake();
                self.core.post_pull(PullEvent::NudgeAll);
                self.recommit(&address, requests);
                self.core.upload_classes(&address);
            }
            Notice::RouteMissing(topic) => self.route_missing(&topic),
            Notice::Disconnected { address, error } => {
                self.disconnected(&address);
                let event = Event::Disconnected { server: address.to_string(), error: error.to_string() };
                self.core.emit(event);
            }
            Notice::TopicUnusable { topic, why } => {
                if self.core.subscription(&topic).is_some() {
                    let topic = self.core.namespace().strip(&topic);
                    self.core.emit(Event::TopicUnusable { topic, reason: why.to_owned() });
                }
            }
            Notice::BrokerMoved { name } => self.moved(name),
            Notice::RouteFailed(_)
            | Notice::BrokerUp { .. }
            | Notice::HeartbeatRefused { .. }
            | Notice::Request(_) => {}
        }
    }

    fn route_missing(&mut self, topic: &str) {
        if topic.starts_with(RETRY_PREFIX) {
            let delay = RETRY_ROUTE_DELAYS.get(self.retry_asks).or(RETRY_ROUTE_DELAYS.last());
            self.retry_asks += 1;
            self.retry_ask_at = delay.map(|delay| self.core.now() + *delay);
        }
        if topic.starts_with(DLQ_PREFIX)
            && let Some(state) = self.topics.get_mut(topic)
        {
            // It is made with the first dead letter: nobody waits for it.
            state.wanted.get_or_insert_default();
        }
        if !topic.starts_with(RETRY_PREFIX) && self.core.subscription(topic).is_some() {
            let topic = self.core.namespace().strip(topic);
            self.core.emit(Event::TopicMissing { topic });
        }
    }

    /// A broker makes the retry topic of a new group with its first heartbeat: it is asked for right after that, and
    /// not only by the timer, so that the first retry is not late.
    pub(super) fn want_retry_route(&self) {
        for topic in self.core.subscriptions().keys().filter(|topic| topic.starts_with(RETRY_PREFIX)) {
            if self.core.queues_of(topic).is_none() {
                self.core.want_route(topic);
            }
        }
    }
}

/// After each answer that there is no retry topic.
const RETRY_ROUTE_DELAYS: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30)];

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::client::{Notice, Role};
    use crate::consumer::outside::stub::Stub;

    fn disconnected(address: Arc<str>) -> Notice {
        Notice::Disconnected { address, error: "cut".into() }
    }

    #[test]
    fn of_brokers_that_move_and_move_nothing_piles_up() {
        let core = Stub::new();
        let (ready, _is_ready) = crossbeam_channel::bounded(1);
        let mut requests = Requests::new(());
        let mut group = Group::new(core.clone(), ready);
        for n in 0..100 {
            group.noticed(Notice::BrokerMoved { name: "broker-a".into() }, &mut requests);
            group.noticed(disconnected(format!("10.0.0.{n}:1").into()), &mut requests);
        }
        assert_eq!(group.lost.len(), 1);
        let (keeper, _) = core.broker_address("broker-a", Role::Any).expect("the stub knows it");
        group.noticed(Notice::Heartbeaten { address: keeper.clone() }, &mut requests);
        assert!(group.lost.is_empty(), "it is back");
        group.noticed(disconnected(keeper), &mut requests);
        assert_eq!(group.lost.len(), 1);
    }

    /// It stands in no route any more, and what it had confirmed counts as before for all that the consumer knows.
    #[test]
    fn the_keeper_of_offsets_is_known_though_its_route_is_gone() {
        let core = Stub::new();
        let (ready, _is_ready) = crossbeam_channel::bounded(1);
        let mut requests = Requests::new(());
        let mut group = Group::new(core.clone(), ready);
        let (keeper, _) = core.broker_address("broker-a", Role::Any).expect("the stub knows it");
        group.noticed(Notice::Heartbeaten { address: keeper.clone() }, &mut requests);
        core.lose_brokers();
        group.noticed(disconnected(keeper), &mut requests);
        assert_eq!(group.lost.len(), 1);
    }
}
