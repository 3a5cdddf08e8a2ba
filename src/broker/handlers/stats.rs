//! What operators ask: depths, lags, who is connected.

use std::collections::{BTreeMap, BTreeSet};

use super::super::members::Channel;
use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::state::State;
use crate::message::{MessageQueue, retry_topic};
use crate::protocol::body::{
    BrokerConsumeStats, Connection, ConsumeOffset, ConsumeStats, ConsumeTimeSpan, ConsumeTimeSpans,
    ConsumerConnection, ConsumerOffsets, DataVersion, DelayOffsets, GroupList, KvTable, ProducerConnection,
    ProducerInfo, ProducerTable, TopicList, TopicOffset, TopicStatsTable,
};
use crate::protocol::headers::{ConsumerGroup, GetConsumeStats, Group, GroupTopic, ProducerGroup, Topic};
use crate::protocol::{Language, ResponseCode};

/// 202: every queue of a topic.
pub(crate) fn topic(state: &State, request: &Request) -> Handled {
    let topic = request.header::<Topic>()?.topic;
    let queues = state.queues_of(&topic).ok_or_else(|| Refusal::no_topic(&topic))?;
    let table = queues.into_iter().map(|queue| {
        let (min_offset, max_offset) = state.store.range(&topic, queue.queue_id());
        let last = state.store_time_of(&topic, queue.queue_id(), max_offset - 1);
        (queue, TopicOffset { last_update_timestamp: last, max_offset, min_offset })
    });
    let topic_put_tps = state.settings.version.is_5().then_some(0.0);
    Answer::body(TopicStatsTable { offset_table: table.collect(), topic_put_tps }.write())
}

/// 208: how far a group is, in one topic, in several, or in all that it has consumed.
pub(crate) fn consumer(state: &State, request: &Request) -> Handled {
    let header: GetConsumeStats = request.header()?;
    let group = &header.consumer_group;
    let named = |text: Option<String>| text.filter(|text| !text.is_empty());
    let topics: BTreeSet<String> = match (named(header.topic), named(header.topic_list)) {
        (Some(topic), _) => BTreeSet::from([topic]),
        (None, Some(list)) => list.split(';').map(str::to_owned).collect(),
        (None, None) => state.topics_of_group(group),
    };
    let queues = topics.iter().filter_map(|topic| state.queues_of(topic)).flatten();
    let offset_table = queues.map(|queue| {
        let progress = progress(state, group, &queue);
        (queue, progress)
    });
    Answer::body(ConsumeStats { consume_tps: 0.0, offset_table: offset_table.collect() }.write())
}

/// 317: the same of all groups.
pub(crate) fn all_consumers(state: &State) -> Handled {
    let mut total = 0;
    let mut of_group = |group: &String| {
        let of_topic = |topic: String| {
            let queues = state.queues_of(&topic).unwrap_or_default();
            let offset_table: BTreeMap<_, _> = queues
                .into_iter()
                .map(|queue| {
                    let progress = progress(state, group, &queue);
                    (queue, progress)
                })
                .collect();
            total += offset_table.values().map(|at| at.broker_offset - at.consumer_offset).sum::<i64>();
            ConsumeStats { consume_tps: 0.0, offset_table }
        };
        let stats = state.offsets.topics_of(group).map(str::to_owned).map(of_topic).collect();
        BTreeMap::from([(group.clone(), stats)])
    };
    let consume_stats_list = state.groups.keys().map(&mut of_group).collect();
    let stats = BrokerConsumeStats {
        broker_addr: Some(state.host.to_string()),
        consume_stats_list,
        total_diff: total,
        total_inflight_diff: state.settings.version.is_5().then_some(0),
    };
    Answer::body(stats.write())
}

/// 303: when the oldest, the newest and the last consumed message of each queue were stored.
pub(crate) fn time_spans(state: &State, request: &Request) -> Handled {
    let GroupTopic { group, topic } = request.header()?;
    let queues = state.queues_of(&topic).ok_or_else(|| Refusal::no_topic(&topic))?;
    let spans = queues.into_iter().map(|queue| {
        let id = queue.queue_id();
        let (min, max) = state.store.range(&topic, id);
        let committed = state.offsets.committed(&group, &topic, id);
        let consumed = committed.map_or(0, |offset| state.store_time_of(&topic, id, offset - 1));
        let next = committed.map_or(0, |offset| state.store_time_of(&topic, id, offset));
        ConsumeTimeSpan {
            consume_time_stamp: consumed,
            // How long the next one has been waiting; nothing waits in a queue that is consumed to its end.
            delay_time: if next > 0 { state.now.millis - next } else { 0 },
            max_time_stamp: state.store_time_of(&topic, id, max - 1),
            message_queue: Some(queue),
            min_time_stamp: state.store_time_of(&topic, id, min),
            ..ConsumeTimeSpan::default()
        }
    });
    Answer::body(ConsumeTimeSpans { consume_time_span_set: spans.collect() }.write())
}

fn progress(state: &State, group: &str, queue: &MessageQueue) -> ConsumeOffset {
    let (topic, queue_id) = (queue.topic(), queue.queue_id());
    let committed = state.offsets.committed(group, topic, queue_id);
    let pulled = state.offsets.pulled(group, topic, queue_id);
    ConsumeOffset {
        broker_offset: state.store.range(topic, queue_id).1,
        // Real brokers write 0 for a group that has committed nothing.
        consumer_offset: committed.unwrap_or(0),
        last_timestamp: committed.map_or(0, |offset| state.store_time_of(topic, queue_id, offset - 1)),
        pull_offset: state.settings.version.is_5().then(|| pulled.or(committed).unwrap_or(0)),
    }
}

/// 203.
pub(crate) fn consumer_connections(state: &State, request: &Request) -> Handled {
    let group = request.header::<ConsumerGroup>()?.consumer_group;
    let Some(members) = state.members.group(&group) else {
        let remark = format!("the consumer group[{group}] not online");
        return Err(Refusal::new(ResponseCode::CONSUMER_NOT_ONLINE, remark));
    };
    let connections = ConsumerConnection {
        connection_set: members.channels.values().map(connection).collect(),
        consume_from_where: members.consume_from,
        consume_type: members.consume_type,
        message_model: members.message_model,
        subscription_table: members.subscriptions.clone(),
    };
    Answer::body(connections.write())
}

/// 204.
pub(crate) fn producer_connections(state: &State, request: &Request) -> Handled {
    let group = request.header::<ProducerGroup>()?.producer_group;
    match state.members.producers().get(&group) {
        Some(members) => Answer::body(
            ProducerConnection { connection_set: members.values().map(connection).collect() }.write(),
        ),
        None => Err(Refusal::error(format_args!("the producer group[{group}] not exist"))),
    }
}

/// 328.
pub(crate) fn producers(state: &State) -> Handled {
    let info = |channel: &Channel| ProducerInfo {
        client_id: channel.client_id.clone(),
        language: language(channel),
        last_update_timestamp: channel.seen,
        remote_ip: format!("/{}", channel.remote),
        version: channel.version,
    };
    let data = state.members.producers().iter();
    let data = data.map(|(group, members)| (group.clone(), members.values().map(info).collect()));
    Answer::body(ProducerTable { data: data.collect() }.write())
}

/// 300: the groups that consume a topic, now or before.
pub(crate) fn groups_of_topic(state: &State, request: &Request) -> Handled {
    let topic = request.header::<Topic>()?.topic;
    let online = state.members.groups().filter(|(_, group)| group.subscriptions.contains_key(&topic));
    let mut groups: BTreeSet<String> = online.map(|(group, _)| group.clone()).collect();
    groups.extend(state.offsets.groups_of(&topic).map(str::to_owned));
    Answer::body(GroupList { group_list: groups.into_iter().collect() }.write())
}

/// 343: the topics that a group consumes.
pub(crate) fn topics_of_group(state: &State, request: &Request) -> Handled {
    let group = request.header::<Group>()?.group;
    let topic_list = state.topics_of_group(&group).into_iter().collect();
    Answer::body(TopicList { topic_list, ..TopicList::default() }.write())
}

/// 43.
pub(crate) fn consumer_offsets(state: &State) -> Handled {
    let table =
        state.offsets.iter().map(|((group, topic), queues)| (format!("{topic}@{group}"), queues.clone()));
    let body = ConsumerOffsets { data_version: Some(state.data_version()), offset_table: table.collect() };
    Answer::body(body.write())
}

/// 45: the offset that each delay level has come to.
pub(crate) fn delay_offsets(state: &State) -> Handled {
    let offset_table: BTreeMap<i32, i64> = (1..).zip(state.delays.positions()).collect();
    Answer::body(DelayOffsets { data_version: Some(state.data_version()), offset_table }.write())
}

/// 28.
pub(crate) fn runtime(state: &State) -> Handled {
    let version = state.settings.version;
    let mut table = BTreeMap::new();
    let mut put = |name: &str, value: String| table.insert(name.to_owned(), value);
    put("brokerVersionDesc", version.name().to_owned());
    put("brokerVersion", version.number().to_string());
    let rates =
        ["putTps", "getTransferredTps", "getTransferedTps", "getTotalTps", "getFoundTps", "getMissTps"];
    for rate in rates {
        put(rate, "0.0 0.0 0.0".to_owned());
    }
    let (put_total, get_total) = (state.store.end(), 0);
    for (name, total) in [("msgPutTotal", put_total), ("msgGetTotal", get_total)] {
        put(&format!("{name}YesterdayMorning"), "0".to_owned());
        put(&format!("{name}TodayMorning"), "0".to_owned());
        put(&format!("{name}TodayNow"), total.to_string());
    }
    put("bootTimestamp", state.booted.to_string());
    put("runtime", format!("[ {} seconds ]", (state.now.millis - state.booted) / 1000));
    for pool in ["send", "pull"] {
        put(&format!("{pool}ThreadPoolQueueSize"), "0".to_owned());
        put(&format!("{pool}ThreadPoolQueueCapacity"), "10000".to_owned());
        put(&format!("{pool}ThreadPoolQueueHeadWaitTimeMills"), "0".to_owned());
    }
    put("pageCacheLockTimeMills", "0".to_owned());
    put("earliestMessageTimeStamp", state.booted.to_string());
    put("commitLogDiskRatio", "0.0".to_owned());
    put("consumeQueueDiskRatio", "0.0".to_owned());
    put("commitLogMinOffset", "0".to_owned());
    put("commitLogMaxOffset", state.store.end().to_string());
    put("brokerActive", "true".to_owned());
    for name in ["timerReadBehind", "timerOffsetBehind", "timerCongestNum"] {
        put(name, "0".to_owned());
    }
    for name in ["timerEnqueueTps", "timerDequeueTps"] {
        put(name, "0.0".to_owned());
    }
    Answer::body(KvTable { table }.write())
}

fn connection(channel: &Channel) -> Connection {
    Connection {
        client_addr: channel.remote.to_string(),
        client_id: channel.client_id.clone(),
        language: language(channel),
        version: channel.version,
    }
}

fn language(channel: &Channel) -> Option<String> {
    // Old Java tools do not know every name, and fail on one that they do not.
    Some(channel.language.name().unwrap_or_else(|| Language::OTHER.name().unwrap_or_default()).to_owned())
}

impl State {
    /// The readable queues of a topic on this broker.
    pub(crate) fn queues_of(&self, topic: &str) -> Option<Vec<MessageQueue>> {
        let config = self.topics.get(topic)?;
        let (topic, broker): (std::sync::Arc<str>, std::sync::Arc<str>) =
            (topic.into(), self.settings.name.as_str().into());
        let queues = config.read_queue_nums.max(config.write_queue_nums);
        Some((0..queues).map(|id| MessageQueue::new(topic.clone(), broker.clone(), id)).collect())
    }

    pub(crate) fn data_version(&self) -> DataVersion {
        let state_version = self.settings.version.is_5().then_some(0);
        DataVersion { counter: 1, state_version, timestamp: self.booted }
    }

    /// When the message of an offset was stored, in ms; 0 if there is none.
    fn store_time_of(&self, topic: &str, queue_id: i32, offset: i64) -> i64 {
        let entry = self.store.entry(topic, queue_id, offset);
        entry.and_then(|entry| self.store.store_time(entry)).unwrap_or(0)
    }

    fn topics_of_group(&self, group: &str) -> BTreeSet<String> {
        let mut topics: BTreeSet<String> = self.offsets.topics_of(group).map(str::to_owned).collect();
        if let Some(members) = self.members.group(group) {
            topics.extend(members.subscriptions.keys().cloned());
        }
        // A group that has only just come has this one, which tools look at first.
        topics.extend(Some(retry_topic(group)).filter(|topic| self.topics.contains_key(topic)));
        topics
    }
}
