//! The bounds of queues and the offsets of groups, told, stored and reset.

use std::time::{Duration, SystemTime};

use super::{broker, code, commit, connect, put, queue};
use crate::wire::{SOON, Wire, pull};
use rocketmq_sync::broker::{Broker, Clock, Version};
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::body::{
    ConsumeStats, ConsumerConnection, GroupList, KvTable, ResetOffsetBody, TopicStatsTable,
};
use rocketmq_sync::testing::protocol::headers::{
    ConsumerGroup, GetConsumeStats, GetMaxOffset, OffsetAnswer, PullMessageAnswer, QueryConsumerOffset,
    QueueStart, ResetOffset, SearchOffset, Topic, UpdateConsumerOffset,
};
use rocketmq_sync::{Message, MessageQueue, RequestCode, ResponseCode, retry_topic};

fn reset(timestamp: i64) -> ResetOffset {
    ResetOffset {
        topic: "t".into(),
        group: "g".into(),
        timestamp,
        is_force: true,
        queue_id: Some(-1),
        offset: Some(-1),
    }
}

#[test]
fn no_offset_is_told_from_offset_zero() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["*"]);
    let ask = |queue_id| QueryConsumerOffset {
        consumer_group: "g".into(),
        topic: "t".into(),
        queue_id,
        ..QueryConsumerOffset::default()
    };
    let query = |wire: &mut Wire, header: &QueryConsumerOffset| {
        let answer = wire.ask(RequestCode::QUERY_CONSUMER_OFFSET, header);
        (code(&answer), answer.header::<OffsetAnswer>().ok().map(|answer| answer.offset))
    };
    assert_eq!(query(&mut wire, &ask(0)), (ResponseCode::QUERY_NOT_FOUND, None), "an empty queue");
    broker.put(&Message::new("t", "x").queue(&queue(0))).unwrap();
    assert_eq!(query(&mut wire, &ask(0)), (ResponseCode::SUCCESS, Some(0)), "a young queue");
    let strictly = QueryConsumerOffset { set_zero_if_not_found: Some(false), ..ask(0) };
    assert_eq!(query(&mut wire, &strictly), (ResponseCode::QUERY_NOT_FOUND, None));
    let commit = |topic: &str, commit_offset| UpdateConsumerOffset {
        consumer_group: "g".into(),
        topic: topic.into(),
        queue_id: 1,
        commit_offset,
        bname: None,
    };
    let answer = wire.ask(RequestCode::UPDATE_CONSUMER_OFFSET, &commit("t", 41));
    assert_eq!(code(&answer), ResponseCode::SUCCESS);
    let oneway = RemotingCommand::with_header(RequestCode::UPDATE_CONSUMER_OFFSET, &commit("t", 42)).oneway();
    wire.send(oneway);
    assert_eq!(query(&mut wire, &ask(1)), (ResponseCode::SUCCESS, Some(42)));
    assert_eq!(broker.inspect().committed("g", &queue(1)), Some(42));
    assert_eq!(broker.inspect().committed("g", &queue(0)), None);
    let answer = wire.ask(RequestCode::UPDATE_CONSUMER_OFFSET, &commit("nowhere", 1));
    assert_eq!(code(&answer), ResponseCode::TOPIC_NOT_EXIST);
}

#[test]
fn the_bounds_of_a_queue_and_offsets_by_time() {
    let broker = Broker::builder().topic("t", 2).clock(Clock::manual()).start().unwrap();
    let mut wire = connect(&broker);
    let start = broker.clock().now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let start = i64::try_from(start).unwrap();
    for _ in 0..5 {
        broker.put(&Message::new("t", "x").queue(&queue(0))).unwrap();
        broker.clock().advance(Duration::from_secs(1));
    }
    broker.truncate(&queue(0), 1, 5);
    let at = QueueStart { topic: "t".into(), queue_id: 0, bname: None };
    let mut offset =
        |code, header: &QueueStart| wire.ask(code, header).header::<OffsetAnswer>().unwrap().offset;
    assert_eq!(offset(RequestCode::GET_MIN_OFFSET, &at), 1);
    assert_eq!(offset(RequestCode::GET_MIN_OFFSET, &QueueStart { queue_id: 1, ..at.clone() }), 0);
    let max = GetMaxOffset { topic: "t".into(), queue_id: 0, ..GetMaxOffset::default() };
    let answer = wire.ask(RequestCode::GET_MAX_OFFSET, &max);
    assert_eq!(answer.header::<OffsetAnswer>().unwrap().offset, 5);
    let mut search = |millis: i64, boundary: &str| {
        let header = SearchOffset {
            topic: "t".into(),
            queue_id: 0,
            timestamp: start + millis,
            boundary_type: Some(boundary.into()),
            bname: None,
        };
        let answer = wire.ask(RequestCode::SEARCH_OFFSET_BY_TIMESTAMP, &header);
        answer.header::<OffsetAnswer>().unwrap().offset
    };
    assert_eq!(
        [search(0, "LOWER"), search(2000, "LOWER"), search(2001, "LOWER"), search(9000, "LOWER")],
        [1, 2, 3, 5]
    );
    assert_eq!(
        [search(0, "UPPER"), search(2000, "upper"), search(2999, "UPPER"), search(9000, "UPPER")],
        [1, 2, 2, 4]
    );
    let earliest = wire.ask(RequestCode::GET_EARLIEST_MSG_STORETIME, &at);
    assert_eq!(earliest.fields.get("timestamp"), Some((start + 1000).to_string().as_str()));
    let empty = wire.ask(RequestCode::GET_EARLIEST_MSG_STORETIME, &QueueStart { queue_id: 1, ..at });
    assert_eq!(empty.fields.get("timestamp"), Some("-1"));
}

#[test]
fn depths_lags_and_members_are_told() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["a"]);
    for body in ["one", "two", "three"] {
        put(&broker, 1, body);
    }
    commit(&mut wire, 1, 1);
    let topic = Topic { topic: "t".into() };
    let stats = TopicStatsTable::read(&wire.ask(RequestCode::GET_TOPIC_STATS_INFO, &topic).body).unwrap();
    assert_eq!(stats.offset_table.len(), 2);
    assert_eq!(stats.offset_table[&queue(1)].max_offset, 3);
    assert!(stats.offset_table[&queue(1)].last_update_timestamp > 0);
    let of_group = GetConsumeStats { consumer_group: "g".into(), ..GetConsumeStats::default() };
    let stats = ConsumeStats::read(&wire.ask(RequestCode::GET_CONSUME_STATS, &of_group).body).unwrap();
    let progress = &stats.offset_table[&queue(1)];
    assert_eq!((progress.broker_offset, progress.consumer_offset), (3, 1));
    assert!(stats.offset_table.contains_key(&MessageQueue::new(retry_topic("g"), "broker-a", 0)));
    let group = ConsumerGroup { consumer_group: "g".into() };
    let answer = wire.ask(RequestCode::GET_CONSUMER_CONNECTION_LIST, &group);
    let connections = ConsumerConnection::read(&answer.body).unwrap();
    assert_eq!(connections.connection_set[0].client_id, "c");
    assert_eq!(connections.subscription_table["t"].sub_string, "a");
    let offline = ConsumerGroup { consumer_group: "nobody".into() };
    let answer = wire.ask(RequestCode::GET_CONSUMER_CONNECTION_LIST, &offline);
    assert_eq!(code(&answer), ResponseCode::CONSUMER_NOT_ONLINE);
    let groups = GroupList::read(&wire.ask(RequestCode::QUERY_TOPIC_CONSUME_BY_WHO, &topic).body).unwrap();
    assert_eq!(groups.group_list, ["g"]);
    let runtime = wire.call(RemotingCommand::request(RequestCode::GET_BROKER_RUNTIME_INFO));
    assert_eq!(KvTable::read(&runtime.body).unwrap().table["brokerVersionDesc"], "V5_3_3");
}

#[test]
fn a_reset_on_the_broker_reaches_the_next_pull_and_the_held_ones() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["*"]);
    for body in ["one", "two", "three"] {
        put(&broker, 0, body);
    }
    commit(&mut wire, 0, 3);
    let held = wire.send(RemotingCommand::with_header(RequestCode::PULL_MESSAGE, &pull("g", "t", 0, 3)));
    broker.wait(SOON, |state| state.waiting_pulls("g") == 1).unwrap();
    let answer = connect(&broker).ask(RequestCode::INVOKE_BROKER_TO_RESET_OFFSET, &reset(0));
    assert_eq!(ResetOffsetBody::read(&answer.body).unwrap().offset_table[&queue(0)], 0);
    let told = wire.answer(held);
    assert_eq!(
        (code(&told), told.remark.as_deref()),
        (ResponseCode::PULL_OFFSET_MOVED, Some("OFFSET_RESET"))
    );
    assert_eq!(told.header::<PullMessageAnswer>().unwrap().next_begin_offset, 0);
    assert_eq!(broker.inspect().committed("g", &queue(0)), Some(0));
    commit(&mut wire, 1, 7);
    assert_eq!(broker.inspect().committed("g", &queue(1)), Some(0), "until queue 1 has heard of it");
    let outside = ResetOffset { queue_id: Some(0), offset: Some(4), ..reset(0) };
    let refused = wire.ask(RequestCode::INVOKE_BROKER_TO_RESET_OFFSET, &outside);
    assert_eq!(code(&refused), ResponseCode::SYSTEM_ERROR);
}

#[test]
fn a_broker_of_old_tells_the_members_to_reset() {
    let broker = Broker::builder().topic("t", 1).version(Version::V4_9).start().unwrap();
    let (mut member, mut tool) = (connect(&broker), connect(&broker));
    put(&broker, 0, "one");
    let ask = RequestCode::INVOKE_BROKER_TO_RESET_OFFSET;
    assert_eq!(code(&tool.ask(ask, &reset(-1))), ResponseCode::SYSTEM_ERROR, "nothing committed");
    commit(&mut tool, 0, 0);
    assert_eq!(code(&tool.ask(ask, &reset(-1))), ResponseCode::CONSUMER_NOT_ONLINE);
    member.heartbeat("c", "g", "t", &["*"]);
    member.requests.clear();
    assert_eq!(code(&tool.ask(ask, &reset(-1))), ResponseCode::SUCCESS);
    let told = member.request();
    assert_eq!(told.request_code(), RequestCode::RESET_CONSUMER_CLIENT_OFFSET);
    assert_eq!(ResetOffsetBody::read(&told.body).unwrap().offset_table[&queue(0)], 1);
    assert_eq!(broker.inspect().committed("g", &queue(0)), Some(0), "the member stores it");
}
