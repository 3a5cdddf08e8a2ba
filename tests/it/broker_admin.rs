//! What tools ask of the embedded broker, and what it asks of clients on their behalf.

use std::time::Duration;

use crate::wire::{SOON, Wire, message, messages, pull};
use rocketmq_sync::broker::{Broker, Clock, Permission, Rights, Version};
use rocketmq_sync::testing::protocol::body::{
    ConsumeStats, ConsumerConnection, GetConsumerStatusBody, GroupList, KvTable, LockBatchAnswer,
    LockBatchRequest, ProducerData, ResetOffsetBody, SubscriptionGroupConfig, SubscriptionGroupTable,
    TopicConfig, TopicConfigTable, TopicStatsTable,
};
use rocketmq_sync::testing::protocol::body::{HeartbeatData, TopicList};
use rocketmq_sync::testing::protocol::headers::{
    ConsumeMessageDirectly, ConsumerGroup, CreateTopic, DeleteGroup, GetConsumeStats, GetConsumerRunningInfo,
    GetConsumerStatus, GetTopicConfig, Group, KvConfig, PullMessage, PullMessageAnswer, PutKvConfig,
    QueryMessage, ResetOffset, SendAnswer, SendMessage, Topic, UpdateConsumerOffset,
};
use rocketmq_sync::testing::protocol::{Fields, RemotingCommand};
use rocketmq_sync::{Credentials, Message, MessageQueue, RequestCode, ResponseCode, retry_topic};

fn broker() -> Broker {
    Broker::builder().topic("t", 2).start().unwrap()
}

fn connect(broker: &Broker) -> Wire {
    Wire::connect(&broker.name_server())
}

fn code(answer: &RemotingCommand) -> ResponseCode {
    answer.response_code()
}

fn queue(id: i32) -> MessageQueue {
    MessageQueue::new("t", "broker-a", id)
}

fn put(broker: &Broker, id: i32, body: &str) {
    broker.put(&Message::new("t", body).key(body).queue(&queue(id))).unwrap();
}

fn commit(wire: &mut Wire, queue_id: i32, offset: i64) {
    let header = UpdateConsumerOffset {
        consumer_group: "g".into(),
        topic: "t".into(),
        queue_id,
        commit_offset: offset,
        bname: None,
    };
    assert_eq!(code(&wire.ask(RequestCode::UPDATE_CONSUMER_OFFSET, &header)), ResponseCode::SUCCESS);
}

#[test]
fn messages_are_found_by_key_and_by_id() {
    let broker = broker();
    let mut wire = connect(&broker);
    put(&broker, 0, "one");
    put(&broker, 1, "two");
    let id = broker.inspect().messages("t")[1].message_id().to_owned();
    let mut ask = |key: &str, unique, begin| {
        let header = QueryMessage {
            topic: "t".into(),
            key: key.into(),
            max_num: 10,
            begin_timestamp: begin,
            end_timestamp: i64::MAX,
            unique_key_query: Some(unique),
            index_type: None,
        };
        let answer = wire.ask(RequestCode::QUERY_MESSAGE, &header);
        (
            code(&answer),
            messages(&answer.body).into_iter().map(|message| message.body.to_vec()).collect::<Vec<_>>(),
        )
    };
    assert_eq!(ask("one", false, 0), (ResponseCode::SUCCESS, vec![b"one".to_vec()]));
    assert_eq!(ask(&id, true, 0), (ResponseCode::SUCCESS, vec![b"two".to_vec()]));
    assert_eq!(ask("three", false, 0), (ResponseCode::QUERY_NOT_FOUND, vec![]));
    assert_eq!(ask("one", false, i64::MAX), (ResponseCode::QUERY_NOT_FOUND, vec![]));
}

#[test]
fn locks_have_one_holder_who_renews_them() {
    let broker = Broker::builder().topic("t", 2).clock(Clock::manual()).start().unwrap();
    let mut wire = connect(&broker);
    let mut ask = |code, client: &str, ids: &[i32]| {
        let body = LockBatchRequest {
            client_id: client.into(),
            consumer_group: "g".into(),
            mq_set: ids.iter().map(|id| queue(*id)).collect(),
            only_this_broker: None,
        };
        let answer = wire.call(RemotingCommand::request(code).body(body.write()));
        LockBatchAnswer::read(&answer.body).map(|locked| locked.lock_ok_mq_set.len()).unwrap_or(0)
    };
    assert_eq!(ask(RequestCode::LOCK_BATCH_MQ, "a", &[0]), 1);
    assert_eq!(ask(RequestCode::LOCK_BATCH_MQ, "b", &[0, 1]), 1, "queue 0 is another's");
    assert_eq!(broker.inspect().lock_holder("g", &queue(0)), Some("a"));
    ask(RequestCode::UNLOCK_BATCH_MQ, "b", &[0]);
    assert_eq!(ask(RequestCode::LOCK_BATCH_MQ, "b", &[0]), 0, "only the holder can let go");
    broker.clock().advance(Duration::from_millis(60_001));
    assert_eq!(broker.inspect().lock_holder("g", &queue(0)), None);
    assert_eq!(ask(RequestCode::LOCK_BATCH_MQ, "b", &[0]), 1);
}

#[test]
fn retries_of_a_group_that_holds_locks_are_dead_letters() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["*"]);
    let body = LockBatchRequest {
        client_id: "c".into(),
        consumer_group: "g".into(),
        mq_set: vec![queue(0)],
        only_this_broker: None,
    };
    wire.call(RemotingCommand::request(RequestCode::LOCK_BATCH_MQ).body(body.write()));
    wire.publish(&message(&retry_topic("g"), 0), b"again");
    assert_eq!(broker.inspect().depth(&rocketmq_sync::dead_letter_topic("g")), 1);
}

#[test]
fn topics_are_created_changed_and_deleted() {
    let broker = broker();
    let mut wire = connect(&broker);
    let create = |topic: &str, queues| CreateTopic {
        topic: topic.into(),
        read_queue_nums: queues,
        write_queue_nums: queues,
        perm: 6,
        topic_filter_type: "SINGLE_TAG".into(),
        attributes: Some("+message.type=FIFO".into()),
        ..CreateTopic::default()
    };
    let created = wire.ask(RequestCode::UPDATE_AND_CREATE_TOPIC, &create("new", 3));
    assert_eq!(code(&created), ResponseCode::SUCCESS);
    let get = GetTopicConfig { topic: "new".into(), lo: Some(true) };
    let config = TopicConfig::read(&wire.ask(RequestCode::GET_TOPIC_CONFIG, &get).body).unwrap();
    assert_eq!((config.read_queue_nums, config.attributes.unwrap()["message.type"].as_str()), (3, "FIFO"));
    for (topic, queues) in [("no good", 1), ("TBW102", 1), ("new", -1), ("new", i32::MAX)] {
        let refused = wire.ask(RequestCode::UPDATE_AND_CREATE_TOPIC, &create(topic, queues));
        assert_eq!(code(&refused), ResponseCode::INVALID_PARAMETER, "{topic} {queues}");
    }
    let all = wire.call(RemotingCommand::request(RequestCode::GET_ALL_TOPIC_CONFIG));
    let table = TopicConfigTable::read(&all.body).unwrap().topic_config_table;
    assert!(
        table.contains_key("new")
            && table["TBW102"].perm == 7
            && table["SCHEDULE_TOPIC_XXXX"].read_queue_nums == 18
    );
    wire.publish(&message("new", 0), b"x");
    let topic = Topic { topic: "new".into() };
    wire.ask(RequestCode::DELETE_TOPIC_IN_BROKER, &topic);
    assert_eq!(code(&wire.ask(RequestCode::GET_ROUTEINFO_BY_TOPIC, &topic)), ResponseCode::TOPIC_NOT_EXIST);
    assert_eq!(broker.inspect().depth("new"), 0);
    let names = wire.call(RemotingCommand::request(RequestCode::GET_ALL_TOPIC_LIST_FROM_NAMESERVER));
    assert!(TopicList::read(&names.body).unwrap().topic_list.contains(&"t".to_owned()));
}

#[test]
fn groups_are_configured_and_deleted() {
    let broker = broker();
    let mut wire = connect(&broker);
    let closed = SubscriptionGroupConfig {
        group_name: "g".into(),
        consume_enable: false,
        retry_max_times: 3,
        ..SubscriptionGroupConfig::default()
    };
    let save = RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP;
    assert_eq!(code(&wire.call(RemotingCommand::request(save).body(closed.write()))), ResponseCode::SUCCESS);
    let group = Group { group: "g".into() };
    let read = wire.ask(RequestCode::GET_SUBSCRIPTIONGROUP_CONFIG, &group);
    assert_eq!(SubscriptionGroupConfig::read(&read.body).unwrap().retry_max_times, 3);
    let refused = wire.ask(RequestCode::PULL_MESSAGE, &pull("g", "t", 0, 0));
    assert_eq!(code(&refused), ResponseCode::NO_PERMISSION);
    let all = wire.call(RemotingCommand::request(RequestCode::GET_ALL_SUBSCRIPTIONGROUP_CONFIG));
    let table = SubscriptionGroupTable::read(&all.body).unwrap().subscription_group_table;
    assert!(!table["g"].consume_enable && table["TOOLS_CONSUMER"].consume_enable);
    commit(&mut wire, 0, 5);
    let delete = DeleteGroup { group_name: "g".into(), clean_offset: None, remove_offset: Some(true) };
    wire.ask(RequestCode::DELETE_SUBSCRIPTIONGROUP, &delete);
    let gone = wire.ask(RequestCode::GET_SUBSCRIPTIONGROUP_CONFIG, &group);
    assert_eq!(code(&gone), ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST);
    assert_eq!(broker.inspect().committed("g", &queue(0)), None);
    let bad = SubscriptionGroupConfig { group_name: "no good".into(), ..closed };
    assert_eq!(
        code(&wire.call(RemotingCommand::request(save).body(bad.write()))),
        ResponseCode::INVALID_PARAMETER
    );
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

#[test]
fn questions_to_members_are_passed_on() {
    let broker = broker();
    let (mut member, mut tool) = (connect(&broker), connect(&broker));
    put(&broker, 0, "one");
    let info =
        GetConsumerRunningInfo { consumer_group: "g".into(), client_id: "c".into(), jstack_enable: None };
    let nobody = tool.ask(RequestCode::GET_CONSUMER_RUNNING_INFO, &info);
    assert_eq!(code(&nobody), ResponseCode::SYSTEM_ERROR);
    member.heartbeat("c", "g", "t", &["*"]);
    member.requests.clear();

    let asked = tool.send(RemotingCommand::with_header(RequestCode::GET_CONSUMER_RUNNING_INFO, &info));
    let question = member.request();
    assert_eq!(question.header::<GetConsumerRunningInfo>().unwrap(), info);
    let answer = RemotingCommand::response(ResponseCode::SUCCESS, question.opaque).body(b"{}".to_vec());
    member.send_as_is(&answer);
    assert_eq!(tool.answer(asked).body, b"{}");

    let id = broker.inspect().messages("t")[0].offset_message_id();
    let directly = ConsumeMessageDirectly {
        consumer_group: "g".into(),
        client_id: Some("c".into()),
        msg_id: Some(id),
        ..ConsumeMessageDirectly::default()
    };
    let asked = tool.send(RemotingCommand::with_header(RequestCode::CONSUME_MESSAGE_DIRECTLY, &directly));
    let question = member.request();
    assert_eq!(question.fields.get("brokerName"), Some("broker-a"));
    assert_eq!(&*messages(&question.body)[0].body, b"one");
    drop(member);
    assert_eq!(code(&tool.answer(asked)), ResponseCode::SYSTEM_ERROR, "the member is gone");
}

#[test]
fn the_offsets_of_all_members_make_one_answer() {
    let broker = broker();
    let (mut one, mut two, mut tool) = (connect(&broker), connect(&broker), connect(&broker));
    one.heartbeat("c1", "g", "t", &["*"]);
    two.heartbeat("c2", "g", "t", &["*"]);
    let header = GetConsumerStatus { topic: "t".into(), group: "g".into(), client_addr: None };
    let asked =
        tool.send(RemotingCommand::with_header(RequestCode::INVOKE_BROKER_TO_GET_CONSUMER_STATUS, &header));
    let question = loop {
        let request = one.request();
        if request.request_code() == RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT {
            break request;
        }
    };
    let offsets = GetConsumerStatusBody {
        message_queue_table: [(queue(0), 5)].into(),
        ..GetConsumerStatusBody::default()
    };
    one.send_as_is(&RemotingCommand::response(ResponseCode::SUCCESS, question.opaque).body(offsets.write()));
    drop(two);
    let table = GetConsumerStatusBody::read(&tool.answer(asked).body).unwrap().consumer_table;
    assert_eq!((table.len(), table["c1"][&queue(0)]), (1, 5), "who is gone is left out");
}

#[test]
fn a_reply_goes_to_the_connection_of_who_asked() {
    let broker = broker();
    let (mut requester, mut replier) = (connect(&broker), connect(&broker));
    let body = HeartbeatData {
        client_id: "asker".into(),
        producer_data_set: vec![ProducerData { group_name: "p".into() }],
        ..HeartbeatData::default()
    };
    requester.call(RemotingCommand::request(RequestCode::HEART_BEAT).body(body.write()));
    let mut header = message("DefaultCluster_REPLY_TOPIC", 0);
    let properties =
        |client: &str| Some(format!("CORRELATION_ID\u{1}7\u{2}REPLY_TO_CLIENT\u{1}{client}\u{2}"));
    header.properties = properties("asker");
    let reply = |header: &SendMessage| {
        RemotingCommand::with_header(RequestCode::SEND_REPLY_MESSAGE_V2, header).body(b"42".to_vec())
    };
    let sent = replier.send(reply(&header));
    let pushed = requester.request();
    assert_eq!(
        (pushed.request_code(), &pushed.body[..]),
        (RequestCode::PUSH_REPLY_MESSAGE_TO_CLIENT, &b"42"[..])
    );
    assert!(pushed.fields.get("properties").unwrap().contains("PUSH_REPLY_TIME"));
    requester.send_as_is(&RemotingCommand::response(ResponseCode::SUCCESS, pushed.opaque));
    let answer = replier.answer(sent);
    assert_eq!(answer.header::<SendAnswer>().unwrap().queue_offset, 0);
    assert_eq!(broker.inspect().depth("DefaultCluster_REPLY_TOPIC"), 1);
    header.properties = properties("nobody");
    assert_eq!(code(&replier.call(reply(&header))), ResponseCode::SYSTEM_ERROR);
}

#[test]
fn settings_of_broker_and_name_server() {
    let broker = broker();
    let mut wire = connect(&broker);
    let update = |text: &str| RemotingCommand::request(RequestCode::UPDATE_BROKER_CONFIG).body(text.into());
    let answer = wire.call(update("autoCreateTopicEnable=false\nfileReservedTime=48\n"));
    assert_eq!(code(&answer), ResponseCode::SUCCESS);
    let send = RemotingCommand::with_header(RequestCode::SEND_MESSAGE_V2, &message("new", 0)).body(vec![1]);
    assert_eq!(code(&wire.call(send)), ResponseCode::TOPIC_NOT_EXIST);
    let text = wire.call(RemotingCommand::request(RequestCode::GET_BROKER_CONFIG)).body;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("fileReservedTime=48\n") && text.contains("messageDelayLevel=1s 5s 10s 30s 1m"),
        "{text}"
    );
    for bad in ["brokerName=x", "autoCreateTopicEnable=maybe"] {
        assert_eq!(code(&wire.call(update(bad))), ResponseCode::SYSTEM_ERROR);
    }
    let put = PutKvConfig { namespace: "N".into(), key: "k".into(), value: "v".into() };
    wire.ask(RequestCode::PUT_KV_CONFIG, &put);
    let get = KvConfig { namespace: "N".into(), key: "k".into() };
    assert_eq!(wire.ask(RequestCode::GET_KV_CONFIG, &get).fields.get("value"), Some("v"));
    wire.ask(RequestCode::DELETE_KV_CONFIG, &get);
    assert_eq!(code(&wire.ask(RequestCode::GET_KV_CONFIG, &get)), ResponseCode::QUERY_NOT_FOUND);
}

#[test]
fn accounts_are_asked_for_a_signature_and_a_right() {
    for (version, refused) in
        [(Version::V4_9, ResponseCode::SYSTEM_ERROR), (Version::V5_3, ResponseCode::NO_PERMISSION)]
    {
        let broker = Broker::builder()
            .topic("t", 1)
            .version(version)
            .account(Credentials::new("root", "secret"), Rights::all())
            .account(
                Credentials::new("cap-access", "cap-secret-1234"),
                Rights::none().group("g", Permission::Read),
            )
            .start()
            .unwrap();
        let mut wire = connect(&broker);
        let topic = Topic { topic: "t".into() };
        assert_eq!(code(&wire.ask(RequestCode::GET_ROUTEINFO_BY_TOPIC, &topic)), ResponseCode::SUCCESS);
        assert_eq!(code(&wire.ask(RequestCode::PULL_MESSAGE, &pull("g", "t", 0, 0))), refused);
        // A recorded request of a Java client with its signature.
        let fields = [
            ("queueId", "2"),
            ("bname", "broker-a"),
            ("topic", "cap-orders"),
            ("consumerGroup", "cap-trace-group"),
            ("AccessKey", "cap-access"),
            ("Signature", "Dxh7OC7zFCg87qmHfMMYl1wujVc="),
        ];
        let mut request = RemotingCommand::request(RequestCode::QUERY_CONSUMER_OFFSET);
        request.fields = Fields::from_iter(fields);
        let answer = wire.call(request.clone());
        assert!(code(&answer) == refused && answer.remark.unwrap().contains("no right"));
        request.fields.set("queueId", "3");
        let answer = wire.call(request);
        assert!(code(&answer) == refused && answer.remark.unwrap().contains("signature"));
        let broker = Broker::builder()
            .version(version)
            .account(Credentials::new("cap-access", "cap-secret-1234"), Rights::all())
            .start()
            .unwrap();
        let mut request = RemotingCommand::request(RequestCode::QUERY_CONSUMER_OFFSET);
        request.fields = Fields::from_iter(fields);
        assert_ne!(code(&connect(&broker).call(request)), refused);
    }
}

#[test]
fn nonsense_is_answered_whatever_it_is() {
    let broker = broker();
    let mut wire = connect(&broker);
    put(&broker, 0, "x");
    let numbers =
        ["-9223372036854775808", "9223372036854775807", "-1", "0", "1", "2147483647", "", "x", "1e9"];
    let names = ["t", "g", "", "%RETRY%g", "TBW102", "no good", "SCHEDULE_TOPIC_XXXX", "\u{1}\u{2}\u{0}"];
    let number_fields = [
        "queueId",
        "queueOffset",
        "commitOffset",
        "offset",
        "maxMsgNums",
        "sysFlag",
        "timestamp",
        "delayLevel",
        "suspendTimeoutMillis",
        "subVersion",
        "e",
        "f",
        "g",
        "h",
        "d",
        "j",
        "l",
        "readQueueNums",
        "writeQueueNums",
        "perm",
        "maxNum",
        "beginTimestamp",
        "endTimestamp",
        "index",
        "count",
        "maxReconsumeTimes",
    ];
    let name_fields = [
        "topic",
        "consumerGroup",
        "producerGroup",
        "group",
        "a",
        "b",
        "c",
        "i",
        "clientID",
        "clientId",
        "key",
        "msgId",
        "namespace",
        "value",
        "subscription",
        "brokerName",
        "groupName",
        "isForce",
        "topicFilterType",
        "cluster",
    ];
    let bodies: [&[u8]; 5] = [b"", b"{}", b"{\"clientID\":[1],\"mqSet\":{}}", b"null", &[0xff; 40]];
    let codes = [
        10, 11, 12, 14, 15, 17, 18, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 43, 45,
        46, 100, 101, 102, 105, 106, 200, 201, 202, 203, 204, 205, 206, 207, 208, 215, 216, 219, 222, 223,
        224, 225, 300, 305, 307, 309, 310, 320, 321, 324, 325, 327, 328, 343, 351, 352, 361, 370,
    ];
    let mut seed = 1u64;
    let mut random = move |n: usize| {
        // xorshift: any will do, as long as a failure can be repeated.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % n as u64).unwrap()
    };
    for round in 0..4000 {
        if round == 2000 {
            wire.heartbeat("c", "g", "t", &["*"]);
        }
        let mut request = RemotingCommand::request(RequestCode(codes[random(codes.len())]));
        if round >= 2000 && request.request_code() == RequestCode::INVOKE_BROKER_TO_GET_CONSUMER_STATUS {
            // This member would have to answer.
            continue;
        }
        for field in number_fields {
            request.fields.set(field, numbers[random(numbers.len())]);
        }
        for field in name_fields {
            request.fields.set(field, names[random(names.len())]);
        }
        request.body = bodies[random(bodies.len())].to_vec();
        // A pull that is rightly held would be waited for.
        request.fields.set("suspendTimeoutMillis", "0");
        let asked = format!("{round}: {request:?}");
        let opaque = wire.send(request);
        let answer = wire.answer_within(SOON).unwrap_or_else(|| panic!("no answer to {asked}"));
        assert_eq!(answer.opaque, opaque, "{asked}");
        wire.requests.clear();
    }
    let asked = PullMessage { suspend_timeout_millis: 0, ..pull("g", "t", 0, 0) };
    wire.heartbeat("c", "g", "t", &["*"]);
    wire.ask(RequestCode::PULL_MESSAGE, &asked);
}
