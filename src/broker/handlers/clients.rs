//! Who is there: heartbeats, leaving, member lists.

use super::super::PeerId;
use super::super::members::{Channel, Joining};
use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::state::State;
use super::pull;
use crate::message::retry_topic;
use crate::protocol::body::{CheckClientConfig, ConsumerData, ConsumerIdList, HeartbeatData};
use crate::protocol::headers::{ConsumerGroup, RegisterFilterClass, UnregisterClient};
use crate::protocol::{RemotingCommand, RequestCode};

/// 34. The other members hear of a change before the answer is written.
pub(crate) fn heartbeat(state: &mut State, request: &Request) -> Handled {
    let heartbeat = HeartbeatData::read(&request.command.body)?;
    let channel = Channel {
        client_id: heartbeat.client_id,
        language: request.command.language,
        version: request.command.version,
        remote: request.remote,
        seen: state.now.millis,
    };
    for consumer in heartbeat.consumer_data_set {
        join(state, request.peer(), channel.clone(), consumer);
    }
    for producer in heartbeat.producer_data_set {
        state.members.producer_seen(&producer.group_name, request.peer(), channel.clone());
    }
    Answer::ok()
}

/// 35.
pub(crate) fn unregister(state: &mut State, request: &Request) -> Handled {
    let header: UnregisterClient = request.header()?;
    if let Some(group) = header.producer_group {
        state.members.remove_producer(&group, request.peer());
    }
    if let Some(group) = header.consumer_group
        && state.members.remove_consumer(&group, request.peer())
    {
        log::debug!("{} has left group {group}", header.client_id);
        state.notify_members(&group);
    }
    Answer::ok()
}

/// 38.
pub(crate) fn consumer_list(state: &State, request: &Request) -> Handled {
    let group = request.header::<ConsumerGroup>()?.consumer_group;
    match state.members.group(&group) {
        Some(members) => {
            let ids = members.channels.values().map(|channel| channel.client_id.clone());
            Answer::body(ConsumerIdList { consumer_id_list: ids.collect() }.write())
        }
        None => Err(Refusal::error(format_args!("no consumer for this group, {group}"))),
    }
}

/// 46: whether the broker can filter as a consumer wants it to.
pub(crate) fn check_config(state: &State, request: &Request) -> Handled {
    let config = CheckClientConfig::read(&request.command.body)?;
    if let Some(subscription) = config.subscription_data {
        let kind = subscription.expression_type.as_deref();
        if pull::is_expression(kind) {
            state.check_property_filter(kind)?;
            state.parse_filter(kind, &subscription.sub_string)?;
        }
    }
    Answer::ok()
}

/// 302, of filter servers: the class is one of those that the broker was built with, whatever its source says.
pub(crate) fn register_class(state: &mut State, request: &Request) -> Handled {
    let header: RegisterFilterClass = request.header()?;
    let crc = (crc32fast::hash(&request.command.body) & 0x7FFF_FFFF).cast_signed();
    if crc != header.class_crc {
        return Err(Refusal::error("the checksum of the class is not that of its source"));
    }
    let class = state.settings.classes.iter().find(|class| class.name == header.class_name);
    let unknown = || Refusal::error(format_args!("there is no class {}", header.class_name));
    let class = class.cloned().ok_or_else(unknown)?;
    state.filters.register_class(header.consumer_group, header.topic, class);
    Answer::ok()
}

fn join(state: &mut State, peer: PeerId, channel: Channel, consumer: ConsumerData) {
    let group = consumer.group_name;
    let Some(config) = state.group_or_create(&group) else {
        // Real brokers skip the group silently; its pulls are told that it does not exist.
        log::warn!("a heartbeat of group {group}, which does not exist and may not be created");
        return;
    };
    let retry_queues = config.retry_queue_nums;
    if retry_queues > 0 {
        state.ensure_topic(&retry_topic(&group), retry_queues);
    }
    let joining = Joining {
        consume_type: consumer.consume_type,
        message_model: consumer.message_model,
        consume_from: consumer.consume_from_where,
        subscriptions: consumer.subscription_data_set,
    };
    log::trace!("heartbeat of {} in group {group}", channel.client_id);
    let dialect = state.dialect();
    for subscription in joining.subscriptions.iter().filter(|subscription| subscription.is_sql92()) {
        state.filters.register(&group, subscription, dialect);
    }
    if state.members.consumer_seen(&group, peer, channel, joining) {
        state.notify_members(&group);
    }
}

impl State {
    /// Tells every member of a group that it has changed. Brokers from 5.3.1 on leave broadcasting groups alone.
    pub(crate) fn notify_members(&mut self, group: &str) {
        let Some(members) = self.members.group(group) else { return };
        let enabled = self.groups.get(group).is_none_or(|config| config.notify_consumer_ids_changed_enable);
        if !enabled || (members.is_broadcasting() && self.settings.version.is_5()) {
            return;
        }
        let peers: Vec<PeerId> = members.channels.keys().copied().collect();
        let header = ConsumerGroup { consumer_group: group.to_owned() };
        for peer in peers {
            let command =
                RemotingCommand::with_header(RequestCode::NOTIFY_CONSUMER_IDS_CHANGED, &header).oneway();
            self.send_request(peer, &command);
        }
    }
}
