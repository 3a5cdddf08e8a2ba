//! Who is online: the consumers and producers that have sent a heartbeat, by connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::PeerId;
use crate::protocol::Language;
use crate::protocol::body::{ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData};

/// A client without a heartbeat for this long is gone, in ms.
pub(crate) const CLIENT_LIFE: i64 = 120_000;

/// One client on one connection.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    pub(crate) client_id: String,
    pub(crate) language: Language,
    pub(crate) version: i32,
    pub(crate) remote: SocketAddr,
    /// When its last heartbeat came, in ms.
    pub(crate) seen: i64,
}

/// What a heartbeat says of a consumer group.
#[derive(Clone, Debug)]
pub(crate) struct Joining {
    pub(crate) consume_type: ConsumeType,
    pub(crate) message_model: MessageModel,
    pub(crate) consume_from: ConsumeFromWhere,
    pub(crate) subscriptions: Vec<SubscriptionData>,
}

/// A group with at least one member.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) channels: BTreeMap<PeerId, Channel>,
    pub(crate) subscriptions: BTreeMap<String, SubscriptionData>,
    pub(crate) consume_type: ConsumeType,
    pub(crate) message_model: MessageModel,
    pub(crate) consume_from: ConsumeFromWhere,
}

impl Group {
    pub(crate) fn is_broadcasting(&self) -> bool {
        self.message_model == MessageModel::Broadcasting
    }

    /// One subscription for each topic, the newest; topics that the heartbeat does not name are dropped, whoever
    /// subscribed to them. Says whether the set of topics changed.
    fn update_subscriptions(&mut self, told: Vec<SubscriptionData>) -> bool {
        let topics: BTreeSet<String> = told.iter().map(|subscription| subscription.topic.clone()).collect();
        let before = self.subscriptions.len();
        self.subscriptions.retain(|topic, _| topics.contains(topic));
        let mut changed = self.subscriptions.len() != before;
        for subscription in told {
            match self.subscriptions.get(&subscription.topic) {
                Some(known) if known.sub_version >= subscription.sub_version => continue,
                known => changed |= known.is_none(),
            }
            self.subscriptions.insert(subscription.topic.clone(), subscription);
        }
        changed
    }
}

/// Every group that is online.
#[derive(Debug, Default)]
pub(crate) struct Members {
    consumers: BTreeMap<String, Group>,
    producers: BTreeMap<String, BTreeMap<PeerId, Channel>>,
}

impl Members {
    pub(crate) fn group(&self, group: &str) -> Option<&Group> {
        self.consumers.get(group)
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = (&String, &Group)> {
        self.consumers.iter()
    }

    pub(crate) fn producers(&self) -> &BTreeMap<String, BTreeMap<PeerId, Channel>> {
        &self.producers
    }

    /// A consumer's heartbeat. Says whether the members of the group must be told of a change.
    pub(crate) fn consumer_seen(
        &mut self,
        group: &str,
        peer: PeerId,
        channel: Channel,
        joining: Joining,
    ) -> bool {
        let group = self.consumers.entry(group.to_owned()).or_default();
        group.consume_type = joining.consume_type;
        group.message_model = joining.message_model;
        group.consume_from = joining.consume_from;
        let joined = group.channels.insert(peer, channel).is_none();
        group.update_subscriptions(joining.subscriptions) | joined
    }

    pub(crate) fn producer_seen(&mut self, group: &str, peer: PeerId, channel: Channel) {
        self.producers.entry(group.to_owned()).or_default().insert(peer, channel);
    }

    /// Says whether there was such a member, so that the rest must be told.
    pub(crate) fn remove_consumer(&mut self, group: &str, peer: PeerId) -> bool {
        let Some(members) = self.consumers.get_mut(group) else { return false };
        let left = members.channels.remove(&peer).is_some();
        if members.channels.is_empty() {
            self.consumers.remove(group);
        }
        left
    }

    pub(crate) fn remove_producer(&mut self, group: &str, peer: PeerId) {
        let Some(members) = self.producers.get_mut(group) else { return };
        members.remove(&peer);
        if members.is_empty() {
            self.producers.remove(group);
        }
    }

    /// Forgets a closed connection; the groups that lost a member by that.
    pub(crate) fn remove_peer(&mut self, peer: PeerId) -> Vec<String> {
        let groups: Vec<String> = self.producers.keys().cloned().collect();
        groups.iter().for_each(|group| self.remove_producer(group, peer));
        let groups: Vec<String> = self.consumers.keys().cloned().collect();
        groups.into_iter().filter(|group| self.remove_consumer(group, peer)).collect()
    }

    /// The connections on which a client has been silent for too long.
    pub(crate) fn expired(&self, now: i64) -> BTreeSet<PeerId> {
        let old = |(_, channel): &(&PeerId, &Channel)| now.saturating_sub(channel.seen) > CLIENT_LIFE;
        self.channels().filter(old).map(|(peer, _)| *peer).collect()
    }

    /// Sets the time of the last heartbeat of everybody, as they would have sent them while time passed.
    pub(crate) fn renew(&mut self, now: i64) {
        let consumers = self.consumers.values_mut().flat_map(|group| group.channels.values_mut());
        let producers = self.producers.values_mut().flat_map(BTreeMap::values_mut);
        consumers.chain(producers).for_each(|channel| channel.seen = now);
    }

    /// The id of the client on a connection.
    pub(crate) fn client_of(&self, peer: PeerId) -> Option<&str> {
        self.channels().find(|(own, _)| **own == peer).map(|(_, channel)| channel.client_id.as_str())
    }

    pub(crate) fn has_client(&self, client_id: &str) -> bool {
        self.channels().any(|(_, channel)| channel.client_id == client_id)
    }

    /// The connection and version of a member.
    pub(crate) fn find(&self, group: &str, client_id: &str) -> Option<(PeerId, &Channel)> {
        let channels = &self.consumers.get(group)?.channels;
        channels
            .iter()
            .find(|(_, channel)| channel.client_id == client_id)
            .map(|(peer, channel)| (*peer, channel))
    }

    /// The connection of a producer.
    pub(crate) fn producer(&self, client_id: &str) -> Option<PeerId> {
        let mut channels = self.producers.values().flatten();
        channels.find(|(_, channel)| channel.client_id == client_id).map(|(peer, _)| *peer)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.consumers.is_empty() && self.producers.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn channels(&self) -> impl Iterator<Item = (&PeerId, &Channel)> {
        let consumers = self.consumers.values().flat_map(|group| &group.channels);
        consumers.chain(self.producers.values().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(id: &str, seen: i64) -> Channel {
        let remote = SocketAddr::from(([127, 0, 0, 1], 1));
        Channel { client_id: id.into(), language: Language::JAVA, version: 409, remote, seen }
    }

    fn joining(topics: &[(&str, i64)]) -> Joining {
        let subscription = |(topic, version): &(&str, i64)| SubscriptionData {
            topic: (*topic).into(),
            sub_string: "*".into(),
            sub_version: *version,
            ..Default::default()
        };
        Joining {
            consume_type: ConsumeType::Passively,
            message_model: MessageModel::Clustering,
            consume_from: ConsumeFromWhere::LastOffset,
            subscriptions: topics.iter().map(subscription).collect(),
        }
    }

    #[test]
    fn members_hear_of_joins_and_of_topics_but_not_of_versions() {
        let mut members = Members::default();
        assert!(members.consumer_seen("g", 1, channel("a", 0), joining(&[("t", 1)])));
        assert!(!members.consumer_seen("g", 1, channel("a", 0), joining(&[("t", 2)])));
        assert!(members.consumer_seen("g", 2, channel("b", 0), joining(&[("t", 1)])));
        assert!(members.consumer_seen("g", 2, channel("b", 0), joining(&[("t", 1), ("u", 1)])));
        assert!(members.consumer_seen("g", 1, channel("a", 0), joining(&[("t", 2)])), "`u` is gone again");
        assert_eq!(members.group("g").unwrap().subscriptions["t"].sub_version, 2);
    }

    #[test]
    fn a_closed_connection_takes_its_client_out_of_every_group() {
        let mut members = Members::default();
        members.consumer_seen("g", 1, channel("a", 0), joining(&[]));
        members.consumer_seen("g", 2, channel("b", 0), joining(&[]));
        members.consumer_seen("h", 1, channel("a", 0), joining(&[]));
        members.producer_seen("p", 1, channel("a", 0));
        assert_eq!(members.client_of(1), Some("a"));
        assert_eq!(members.remove_peer(1), ["g", "h"]);
        assert!(members.group("h").is_none() && members.producers().is_empty());
        assert!(members.find("g", "b").is_some() && members.find("g", "a").is_none());
        assert!(!members.has_client("a"));
    }

    #[test]
    fn silence_for_two_minutes_is_the_end() {
        let mut members = Members::default();
        members.consumer_seen("g", 1, channel("a", 0), joining(&[]));
        members.producer_seen("p", 2, channel("b", 50));
        assert!(members.expired(CLIENT_LIFE).is_empty());
        assert_eq!(members.expired(CLIENT_LIFE + 1), BTreeSet::from([1]));
        members.renew(CLIENT_LIFE + 1);
        assert!(members.expired(2 * CLIENT_LIFE).is_empty());
    }
}
