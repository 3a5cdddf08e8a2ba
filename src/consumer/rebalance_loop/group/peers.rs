//! Looking after the other members of the group: asks, and acts on what comes of it.

use std::sync::Arc;

use super::super::requests::Requests;
use super::Group;
use crate::consumer::events::Event;
use crate::consumer::outside::{Outside, Subscriptions};
use crate::consumer::peers::{Finding, Me, NOTICED};
use crate::consumer::rebalance::Members;
use crate::message::RETRY_PREFIX;
use crate::protocol::body::{ConsumerConnection, ConsumerRunningInfo};

impl<S: Outside> Group<S> {
    /// Asks a broker what it holds of the group, and members what they subscribe, when it is time to.
    pub(super) fn look_for_peers(&mut self, requests: &mut Requests<S>) {
        let now = self.core.now();
        if self.peers.deadline().is_none_or(|at| at > now) {
            return;
        }
        let subscriptions = self.core.subscriptions();
        let Some(broker) = self.told_broker(&subscriptions) else {
            return self.peers.put_off(now);
        };
        if self.peers.is_due(now) {
            requests.connections(&self.core, &broker);
        }
        let core = self.core.clone();
        let me = Me { id: core.client_id(), broker: &broker, subscriptions: &subscriptions, now };
        for id in self.peers.ask_again(&me) {
            requests.peer(&self.core, &broker, id);
        }
    }

    pub(in super::super) fn topic_dropped(&mut self, topic: &str, broker: &Arc<str>) {
        let core = self.core.clone();
        let subscriptions = core.subscriptions();
        let me = Me { id: core.client_id(), broker, subscriptions: &subscriptions, now: core.now() };
        let findings = self.peers.topic_dropped(topic, &me);
        self.tell(findings);
    }

    pub(super) fn connections_came(
        &mut self,
        broker: &Arc<str>,
        asked_with: &Arc<Subscriptions>,
        held: Result<ConsumerConnection, String>,
        requests: &mut Requests<S>,
    ) {
        let core = self.core.clone();
        let held = match held {
            Ok(held) => held,
            // Some brokers let nobody but operators ask.
            Err(error) => return log::debug!("{broker} does not tell of group {}: {error}", core.group()),
        };
        if !Arc::ptr_eq(asked_with, &core.subscriptions()) {
            return self.peers.changed(core.now());
        }
        let me = Me { id: core.client_id(), broker, subscriptions: asked_with, now: core.now() };
        let seen = self.peers.look(&held, &me);
        self.tell(seen.findings);
        for id in seen.ask {
            requests.peer(&core, broker, id);
        }
    }

    pub(super) fn peer_came(
        &mut self,
        id: &str,
        broker: &Arc<str>,
        info: Result<ConsumerRunningInfo, String>,
    ) {
        let core = self.core.clone();
        if let Err(error) = &info {
            log::debug!("{id} in group {} does not tell what it subscribes: {error}", core.group());
        }
        let subscriptions = core.subscriptions();
        let me = Me { id: core.client_id(), broker, subscriptions: &subscriptions, now: core.now() };
        let (changed, findings) = self.peers.answered(id, info, &me);
        self.tell(findings);
        if changed {
            self.wake();
        }
    }

    /// Others may still share this topic among themselves only, until they have noticed that this member subscribes it
    /// as well.
    pub(super) fn is_too_new(&mut self, topic: &str, me: &str, members: &Members) -> bool {
        if topic.starts_with(RETRY_PREFIX) || !self.peers.may_not_know(me, members) {
            return false;
        }
        let Some(state) = self.topics.get(topic) else { return false };
        let too_new = state.wanted.is_none()
            && state.since.is_some_and(|since| self.core.now().saturating_duration_since(since) < NOTICED);
        if too_new {
            self.unsettled();
        }
        too_new
    }

    /// One that has been told of all subscriptions, so that a difference is not of our making.
    fn told_broker(&self, subscriptions: &Subscriptions) -> Option<Arc<str>> {
        let topic = subscriptions.keys().find(|topic| !topic.starts_with(RETRY_PREFIX))?;
        let broker = self.core.any_broker_of(topic)?;
        let told = subscriptions.iter().all(|(topic, one)| self.core.is_told(&broker, topic, one.version));
        told.then_some(broker)
    }

    fn tell(&self, findings: Vec<Finding>) {
        for finding in findings {
            let event = match finding {
                Finding::Mismatch { topic, ours, theirs } => {
                    Event::SubscriptionMismatch { topic: self.core.namespace().strip(&topic), ours, theirs }
                }
                Finding::Twin => Event::DuplicateClientId { client_id: self.core.client_id().to_owned() },
            };
            log::warn!("group {}: {event}", self.core.plain_group());
            self.core.emit(event);
        }
    }
}
