//! The bodies that are JSON.

use super::all;
use rocketmq_sync::testing::protocol::body::*;
use rocketmq_sync::testing::protocol::json;
use rocketmq_sync::testing::protocol::json::{Key, Value};
use serde_json::Value as Recorded;

/// Reads a body, writes it, and gives back what has been written.
fn rewrite(request: &str, is_response: bool, body: &[u8]) -> Option<Vec<u8>> {
    macro_rules! through {
        ($type:ty) => {{
            let value = <$type>::read(body).unwrap();
            let written = value.write();
            assert_eq!(<$type>::read(&written).unwrap(), value);
            written
        }};
    }
    Some(match (request, is_response) {
        ("HEART_BEAT", false) => through!(HeartbeatData),
        ("CHECK_CLIENT_CONFIG", false) => through!(CheckClientConfig),
        ("LOCK_BATCH_MQ" | "UNLOCK_BATCH_MQ", false) => through!(LockBatchRequest),
        ("LOCK_BATCH_MQ", true) => through!(LockBatchAnswer),
        ("QUERY_ASSIGNMENT", false) => through!(QueryAssignment),
        ("QUERY_ASSIGNMENT", true) => through!(QueryAssignmentAnswer),
        ("SET_MESSAGE_REQUEST_MODE", false) => through!(SetMessageRequestMode),
        ("RESET_CONSUMER_CLIENT_OFFSET", false) | ("INVOKE_BROKER_TO_RESET_OFFSET", true) => {
            through!(ResetOffsetBody)
        }
        ("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", false) => through!(SubscriptionGroupConfig),
        ("CONSUME_MESSAGE_DIRECTLY", true) => through!(ConsumeMessageDirectlyResult),
        ("GET_ALL_PRODUCER_INFO", true) => through!(ProducerTable),
        ("GET_ALL_SUBSCRIPTIONGROUP_CONFIG", true) => through!(SubscriptionGroupTable),
        ("GET_ALL_TOPIC_CONFIG", true) => through!(TopicConfigTable),
        ("GET_ALL_TOPIC_LIST_FROM_NAMESERVER" | "GET_SYSTEM_TOPIC_LIST_FROM_BROKER", true) => {
            through!(TopicList)
        }
        ("GET_BROKER_CLUSTER_INFO", true) => through!(ClusterInfo),
        ("GET_BROKER_CONSUME_STATS", true) => through!(BrokerConsumeStats),
        ("GET_BROKER_HA_STATUS", true) => through!(BrokerHaStatus),
        ("GET_BROKER_RUNTIME_INFO" | "GET_KVLIST_BY_NAMESPACE", true) => through!(KvTable),
        ("GET_CONSUMER_CONNECTION_LIST", true) => through!(ConsumerConnection),
        ("GET_CONSUMER_LIST_BY_GROUP", true) => through!(ConsumerIdList),
        ("GET_CONSUMER_RUNNING_INFO", true) => through!(ConsumerRunningInfo),
        ("GET_CONSUMER_STATUS_FROM_CLIENT" | "INVOKE_BROKER_TO_GET_CONSUMER_STATUS", true) => {
            through!(GetConsumerStatusBody)
        }
        ("GET_CONSUME_STATS", true) => through!(ConsumeStats),
        ("GET_PRODUCER_CONNECTION_LIST", true) => through!(ProducerConnection),
        ("GET_ROUTEINFO_BY_TOPIC", true) => through!(TopicRouteData),
        ("GET_TOPIC_CONFIG", true) => through!(TopicConfig),
        ("GET_TOPIC_STATS_INFO", true) => through!(TopicStatsTable),
        ("QUERY_CONSUME_QUEUE", true) => through!(QueryConsumeQueueAnswer),
        ("QUERY_CONSUME_TIME_SPAN", true) => through!(ConsumeTimeSpans),
        ("QUERY_TOPIC_CONSUME_BY_WHO", true) => through!(GroupList),
        ("VIEW_BROKER_STATS_DATA", true) => through!(BrokerStats),
        _ => return None,
    })
}

/// The same value in one form: members sorted by name, numbers as numbers, empty texts and nulls left out.
fn normal(value: &Value<'_>) -> Recorded {
    match value {
        Value::Null => Recorded::Null,
        Value::Bool(value) => Recorded::Bool(*value),
        Value::Number(text) => match text.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => text.parse::<f64>().unwrap().into(),
        },
        Value::String(text) => Recorded::String(text.to_string()),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(members) => {
            let name = |key: &Key<'_>| match key {
                Key::Object(value) => normal(value).to_string(),
                key => key.to_text().unwrap().into_owned(),
            };
            members
                .iter()
                .map(|(key, value)| (name(key), normal(value)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
    }
}

#[test]
fn x1_bodies_keep_every_recorded_member() {
    let mut seen = 0;
    for capture in all() {
        let body = capture.frame.body();
        if body.first() != Some(&b'{') {
            continue;
        }
        let value = json::parse(body).unwrap_or_else(|error| panic!("{}: {error}", capture.place));
        let written = rewrite(capture.request(), capture.is_response(), body)
            .unwrap_or_else(|| panic!("{}: {} has no type", capture.place, capture.request()));
        let (mut recorded, ours) = (normal(&value), normal(&json::parse(&written).unwrap()));
        // Of static topics, which are not supported; there were none.
        for name in ["topicQueueMappingDetailMap", "topicQueueMappingInfoMap"] {
            let dropped = recorded.as_object_mut().unwrap().remove(name);
            assert!(dropped.is_none_or(|dropped| dropped.as_object().unwrap().is_empty()));
        }
        assert_eq!(ours, recorded, "{}", capture.place);
        seen += 1;
    }
    assert!(seen > 400, "{seen}");
}
