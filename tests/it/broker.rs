//! The embedded broker, asked in raw frames.

use std::time::{Duration, Instant, SystemTime};

use crate::wire::{SOON, Wire, heartbeat, message, messages, pull};
use rocketmq_sync::broker::{Broker, Clock, Cluster, Lose, Version};
use rocketmq_sync::testing::message::properties;
use rocketmq_sync::testing::protocol::body::{ConsumerIdList, TopicRouteData};
use rocketmq_sync::testing::protocol::headers::{
    ConsumerGroup, ConsumerSendBack, GetMaxOffset, GetRoute, OffsetAnswer, PullMessage, PullMessageAnswer,
    QueryConsumerOffset, QueueStart, RecallMessage, SearchOffset, SendAnswer, UnregisterClient,
    UpdateConsumerOffset, ViewMessage, pull_flag,
};
use rocketmq_sync::testing::protocol::record::{BatchElement, write_batch_element};
use rocketmq_sync::testing::protocol::{Encoding, OffsetId, RemotingCommand};
use rocketmq_sync::{
    ErrorKind, Message, MessageQueue, RequestCode, ResponseCode, dead_letter_topic, retry_topic,
};

fn broker() -> Broker {
    Broker::builder().topic("t", 2).start().unwrap()
}

fn connect(broker: &Broker) -> Wire {
    Wire::connect(&broker.name_server())
}

fn queue(id: i32) -> MessageQueue {
    MessageQueue::new("t", "broker-a", id)
}

fn code(answer: &RemotingCommand) -> ResponseCode {
    answer.response_code()
}

fn route(topic: &str) -> GetRoute {
    GetRoute { topic: topic.into(), accept_standard_json_only: None }
}

#[test]
fn a_route_can_be_fetched_as_soon_as_start_returns() {
    let begun = Instant::now();
    let broker = broker();
    let answer = connect(&broker).ask(RequestCode::GET_ROUTEINFO_BY_TOPIC, &route("t"));
    let took = begun.elapsed();
    let found = TopicRouteData::read(&answer.body).unwrap();
    assert_eq!(found.queue_datas[0].read_queue_nums, 2);
    assert_eq!(found.broker_datas[0].broker_addrs[&0], broker.name_server());
    assert_eq!(found.broker_datas[0].broker_name, "broker-a");
    assert!(took < Duration::from_secs(2), "{took:?}");
    let answer = connect(&broker).ask(RequestCode::GET_ROUTEINFO_BY_TOPIC, &route("nowhere"));
    assert_eq!(code(&answer), ResponseCode::TOPIC_NOT_EXIST);
}

#[test]
fn sent_messages_are_pulled_in_order_with_what_the_broker_adds() {
    let broker = broker();
    let mut wire = connect(&broker);
    for encoding in [Encoding::Json, Encoding::Binary] {
        wire.encoding = encoding;
        let first: SendAnswer = wire.publish(&message("t", 1), b"one");
        let second = wire.publish(&message("t", 1), b"two");
        assert_eq!((second.queue_id, second.queue_offset), (1, first.queue_offset + 1));
        assert_eq!(second.transaction_id.as_deref(), Some("0123"));
        let mut asked = pull("TOOLS_CONSUMER", "t", 1, first.queue_offset);
        (asked.sys_flag, asked.subscription) = (pull_flag::SUBSCRIPTION, Some("a".into()));
        let answer = wire.ask(RequestCode::PULL_MESSAGE, &asked);
        assert_eq!((code(&answer), answer.remark.as_deref()), (ResponseCode::SUCCESS, Some("FOUND")));
        let offsets: PullMessageAnswer = answer.header().unwrap();
        assert_eq!((offsets.min_offset, offsets.next_begin_offset), (0, second.queue_offset + 1));
        let found = messages(&answer.body);
        assert_eq!(found.iter().map(|m| &*m.body).collect::<Vec<_>>(), [b"one", b"two"]);
        assert_eq!(found[1].queue_offset, second.queue_offset);
        let id = OffsetId { host: found[1].store_host, commit_log_offset: found[1].physical_offset };
        assert_eq!(id.to_string(), second.msg_id);
        for (name, value) in [("TAGS", "a"), ("CLUSTER", "DefaultCluster"), ("TRACE_ON", "true")] {
            assert_eq!(properties::find_str(&found[0].properties, name), Some(value));
        }
        let view = ViewMessage { offset: found[0].physical_offset, topic: None };
        assert_eq!(messages(&wire.ask(RequestCode::VIEW_MESSAGE_BY_ID, &view).body), found[..1]);
    }
}

#[test]
fn sending_creates_the_topic_unless_that_is_switched_off() {
    let broker = broker();
    assert_eq!(connect(&broker).publish(&message("new", 3), b"x").queue_offset, 0);
    assert_eq!(broker.inspect().depth("new"), 1);
    let strict = Broker::builder().auto_create_topics(false).start().unwrap();
    let send = RemotingCommand::with_header(RequestCode::SEND_MESSAGE_V2, &message("new", 0)).body(vec![1]);
    let answer = connect(&strict).call(send);
    assert_eq!(code(&answer), ResponseCode::TOPIC_NOT_EXIST);
    assert_eq!(answer.fields.get("TRACE_ON"), Some("true"));
    assert_eq!(strict.put(&Message::new("new", "x")).unwrap_err().kind(), ErrorKind::TopicNotFound);
}

#[test]
fn wrong_sends_are_refused_as_a_real_broker_does() {
    for (version, invalid) in
        [(Version::V4_9, ResponseCode::SYSTEM_ERROR), (Version::V5_3, ResponseCode::INVALID_PARAMETER)]
    {
        let broker = Broker::builder().topic("t", 2).version(version).start().unwrap();
        let mut wire = connect(&broker);
        let mut send = |topic: &str, queue_id, body: Vec<u8>| {
            let request =
                RemotingCommand::with_header(RequestCode::SEND_MESSAGE_V2, &message(topic, queue_id));
            code(&wire.call(request.body(body)))
        };
        assert_eq!(send("t", 2, vec![1]), invalid);
        assert_eq!(send("no good name", 0, vec![1]), invalid);
        assert_eq!(send("SCHEDULE_TOPIC_XXXX", 0, vec![1]), ResponseCode::NO_PERMISSION);
        assert_eq!(send("t", 0, vec![0; 4 * 1024 * 1024 + 1]), ResponseCode::MESSAGE_ILLEGAL);
        assert_eq!(send("t", -1, vec![0; 4 * 1024 * 1024]), ResponseCode::SUCCESS);
    }
}

#[test]
fn a_batch_is_stored_as_messages_in_a_row() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.publish(&message("t", 0), b"before");
    let mut body = Vec::new();
    for (text, tag) in [("one", "a"), ("two", "b"), ("three", "a")] {
        let properties = format!("UNIQ_KEY\u{1}{text}\u{2}TAGS\u{1}{tag}\u{2}");
        let element = BatchElement { flag: 7, body: text.as_bytes(), properties: properties.as_bytes() };
        write_batch_element(&element, &mut body).unwrap();
    }
    let request =
        RemotingCommand::with_header(RequestCode::SEND_BATCH_MESSAGE, &message("t", 0)).body(body.clone());
    let answer: SendAnswer = wire.call(request.clone()).header().unwrap();
    assert_eq!((answer.queue_offset, answer.msg_id.split(',').count()), (1, 3));
    let stored = broker.inspect().messages("t");
    let ids: Vec<_> = stored.iter().map(|message| message.message_id()).collect();
    assert_eq!(ids, ["0123", "one", "two", "three"]);
    assert_eq!((stored[3].flag(), stored[3].queue_offset(), stored[3].tag()), (7, 3, Some("a")));
    body.truncate(body.len() - 1);
    assert_eq!(code(&wire.call(request.body(body))), ResponseCode::MESSAGE_ILLEGAL);
    assert_eq!(broker.inspect().depth("t"), 4, "all or nothing");
}

#[test]
fn a_held_pull_is_answered_when_a_wanted_message_arrives() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["b"]);
    let opaque = wire.send(RemotingCommand::with_header(RequestCode::PULL_MESSAGE, &pull("g", "t", 0, 0)));
    broker.wait(SOON, |state| state.waiting_pulls("g") == 1).unwrap();
    let tagged = |tag: &str| Message::new("t", "x").tag(tag).queue(&queue(0));
    broker.put(&tagged("a")).unwrap();
    assert_eq!(broker.inspect().waiting_pulls("g"), 1, "not a message for this group");
    broker.put(&tagged("b")).unwrap();
    let answer = wire.answer(opaque);
    let offsets: PullMessageAnswer = answer.header().unwrap();
    assert_eq!((messages(&answer.body).len(), offsets.next_begin_offset, offsets.max_offset), (1, 2, 2));
    assert_eq!(broker.inspect().waiting_pulls("g"), 0);
}

#[test]
fn a_hold_ends_when_the_client_said_so() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["*"]);
    let asked = PullMessage { suspend_timeout_millis: 80, ..pull("g", "t", 0, 0) };
    let begun = Instant::now();
    let answer = wire.ask(RequestCode::PULL_MESSAGE, &asked);
    assert_eq!(code(&answer), ResponseCode::PULL_NOT_FOUND);
    assert_eq!(answer.header::<PullMessageAnswer>().unwrap().next_begin_offset, 0);
    assert!(begun.elapsed() >= Duration::from_millis(80));
}

#[test]
fn pain_p9_no_message_waits_for_the_end_of_a_hold() {
    let broker = broker();
    let (mut consumer, mut producer) = (connect(&broker), connect(&broker));
    consumer.heartbeat("c", "g", "t", &["*"]);
    let mut slowest = Vec::new();
    for offset in 0..2000 {
        let asked = RemotingCommand::with_header(RequestCode::PULL_MESSAGE, &pull("g", "t", 0, offset));
        let opaque = consumer.send(asked);
        let sent = Instant::now();
        producer.publish(&message("t", 0), b"ping");
        assert_eq!(messages(&consumer.answer(opaque).body).len(), 1);
        slowest.push(sent.elapsed());
    }
    slowest.sort_unstable();
    // A loaded machine adds its own milliseconds to many of them; what was missed would wait for 15 s.
    assert!(slowest[1000] < Duration::from_millis(20), "median {:?}", slowest[1000]);
    assert!(slowest[1999] < Duration::from_secs(10), "max {:?}", slowest[1999]);
}

#[test]
fn a_broker_wants_to_be_told_before_it_is_asked() {
    let broker = broker();
    let mut wire = connect(&broker);
    let mut ask = |header: &PullMessage| code(&wire.ask(RequestCode::PULL_MESSAGE, header));
    assert_eq!(ask(&pull("g", "t", 0, 0)), ResponseCode::SUBSCRIPTION_NOT_EXIST);
    wire.heartbeat("c", "g", "t", &["*"]);
    let mut ask = |header: &PullMessage| code(&wire.ask(RequestCode::PULL_MESSAGE, header));
    assert_eq!(
        ask(&PullMessage { sub_version: 2, ..pull("g", "t", 0, 0) }),
        ResponseCode::SUBSCRIPTION_NOT_LATEST
    );
    assert_eq!(ask(&pull("g", "TBW102", 0, 0)), ResponseCode::SUBSCRIPTION_NOT_EXIST);
    assert_eq!(ask(&pull("g", "nowhere", 0, 0)), ResponseCode::TOPIC_NOT_EXIST);
    assert_eq!(ask(&pull("g", "t", 2, 0)), ResponseCode::INVALID_PARAMETER);
    assert_eq!(ask(&pull("g", "t", 0, 5)), ResponseCode::PULL_OFFSET_MOVED);
    let bad = PullMessage { subscription: Some("||".into()), sys_flag: 4, ..pull("g", "t", 0, 0) };
    assert_eq!(ask(&bad), ResponseCode::SUBSCRIPTION_PARSE_FAILED);
    let sql = PullMessage { expression_type: Some("SQL92".into()), ..bad };
    assert_eq!(ask(&sql), ResponseCode::SUBSCRIPTION_PARSE_FAILED);
    let other =
        PullMessage { expression_type: Some("SQL99".into()), subscription: Some("a = 1".into()), ..sql };
    assert_eq!(ask(&other), ResponseCode::SUBSCRIPTION_PARSE_FAILED);
    let strict = Broker::builder().topic("t", 1).auto_create_groups(false).start().unwrap();
    let answer = connect(&strict).ask(RequestCode::PULL_MESSAGE, &pull("g", "t", 0, 0));
    assert_eq!(code(&answer), ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST);
}

#[test]
fn members_hear_of_each_other() {
    let broker = broker();
    let (mut one, mut two) = (connect(&broker), connect(&broker));
    let group = ConsumerGroup { consumer_group: "g".into() };
    assert_eq!(code(&one.ask(RequestCode::GET_CONSUMER_LIST_BY_GROUP, &group)), ResponseCode::SYSTEM_ERROR);
    one.heartbeat("c1", "g", "t", &["*"]);
    assert_eq!(one.requests.len(), 1, "the notification comes before the answer");
    assert_eq!(one.request().request_code(), RequestCode::NOTIFY_CONSUMER_IDS_CHANGED);
    two.heartbeat("c2", "g", "t", &["*"]);
    let told = one.request();
    assert!(told.is_oneway() && told.fields.get("consumerGroup") == Some("g"));
    let list = ConsumerIdList::read(&one.ask(RequestCode::GET_CONSUMER_LIST_BY_GROUP, &group).body).unwrap();
    assert_eq!(list.consumer_id_list, ["c1", "c2"]);
    one.heartbeat("c1", "g", "t", &["*"]);
    assert!(one.requests.is_empty(), "nothing changed");
    drop(two);
    assert_eq!(one.request().request_code(), RequestCode::NOTIFY_CONSUMER_IDS_CHANGED);
    assert_eq!(broker.inspect().members("g"), ["c1"]);
    let leave =
        UnregisterClient { client_id: "c1".into(), producer_group: None, consumer_group: Some("g".into()) };
    assert_eq!(code(&one.ask(RequestCode::UNREGISTER_CLIENT, &leave)), ResponseCode::SUCCESS);
    assert!(broker.inspect().members("g").is_empty());
}

#[test]
fn a_silent_client_is_gone_after_two_minutes() {
    let broker = Broker::builder().topic("t", 1).clock(Clock::manual()).start().unwrap();
    let (mut silent, mut alive) = (connect(&broker), connect(&broker));
    silent.heartbeat("silent", "g", "t", &["*"]);
    broker.clock().advance(Duration::from_secs(100));
    alive.heartbeat("alive", "g", "t", &["*"]);
    assert_eq!(broker.inspect().members("g"), ["silent", "alive"]);
    broker.clock().advance(Duration::from_secs(21));
    assert_eq!(broker.inspect().members("g"), ["alive"]);
    while silent.requests.pop().is_some() || silent.frame(SOON).is_ok() {}
    assert!(silent.is_closed());
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

fn send_back(offset: i64, delay_level: i32) -> ConsumerSendBack {
    ConsumerSendBack { offset, group: "g".into(), delay_level, ..ConsumerSendBack::default() }
}

#[test]
fn a_message_sent_back_comes_again_later_and_in_the_end_as_a_dead_letter() {
    let broker = Broker::builder().topic("t", 1).clock(Clock::manual()).start().unwrap();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["*"]);
    let first = broker.put(&Message::new("t", "poison").key("k")).unwrap();
    let mut last = first.clone();
    let begun = broker.clock().now();
    for retry in 1..=16 {
        let answer = wire.ask(RequestCode::CONSUMER_SEND_MSG_BACK, &send_back(last.commit_log_offset(), 0));
        assert_eq!(code(&answer), ResponseCode::SUCCESS);
        assert_eq!(broker.inspect().delayed(), 1);
        broker.fast_forward(SOON, |state| state.depth(&retry_topic("g")) == retry).unwrap();
        last = broker.inspect().messages(&retry_topic("g")).pop().unwrap();
        assert_eq!((last.reconsume_times(), last.topic(), last.body()), (retry as u32, "t", &b"poison"[..]));
        assert_eq!(last.message_id(), first.message_id());
        assert_eq!(last.property("ORIGIN_MESSAGE_ID"), Some(first.offset_message_id().as_str()));
        assert_eq!(last.property("REAL_TOPIC"), Some(retry_topic("g").as_str()));
    }
    assert_eq!(broker.clock().now().duration_since(begun).unwrap(), Duration::from_secs(17_140));
    assert_eq!(broker.inspect().members("g"), ["c"], "fast_forward keeps those who are connected");
    wire.ask(RequestCode::CONSUMER_SEND_MSG_BACK, &send_back(last.commit_log_offset(), 0));
    let letters = broker.inspect().messages(&dead_letter_topic("g"));
    assert_eq!((letters[0].reconsume_times(), letters[0].origin_topic()), (17, "t"));
    let at_once = wire.ask(RequestCode::CONSUMER_SEND_MSG_BACK, &send_back(first.commit_log_offset(), -1));
    assert_eq!(code(&at_once), ResponseCode::SUCCESS);
    assert_eq!(broker.inspect().depth(&dead_letter_topic("g")), 2);
    let unknown = wire.ask(RequestCode::CONSUMER_SEND_MSG_BACK, &send_back(first.commit_log_offset() + 1, 0));
    assert_eq!(code(&unknown), ResponseCode::SYSTEM_ERROR);
}

#[test]
fn a_retry_that_a_producer_sends_is_counted_too() {
    let broker = Broker::builder().topic("t", 1).start().unwrap();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["*"]);
    for (times, max) in [(3, Some(3)), (4, Some(3)), (16, None), (17, None)] {
        let mut retry = message(&retry_topic("g"), 0);
        (retry.reconsume_times, retry.max_reconsume_times) = (Some(times), max);
        wire.publish(&retry, b"again");
    }
    let state = broker.inspect();
    assert_eq!((state.depth(&retry_topic("g")), state.depth(&dead_letter_topic("g"))), (2, 2));
}

#[test]
fn delayed_messages_come_in_the_order_of_their_times() {
    let broker = Broker::builder().topic("t", 1).clock(Clock::manual()).start().unwrap();
    let later = |seconds| Message::new("t", format!("{seconds}")).deliver_after(Duration::from_secs(seconds));
    broker.put(&Message::new("t", "10").delay_level(3)).unwrap();
    for seconds in [20, 7, 3600] {
        broker.put(&later(seconds)).unwrap();
    }
    broker.put(&Message::new("t", "0").deliver_at(broker.clock().now())).unwrap();
    assert_eq!((broker.inspect().depth("t"), broker.inspect().delayed()), (1, 4));
    broker.clock().advance(Duration::from_secs(7));
    assert_eq!(broker.inspect().depth("t"), 2, "whoever moves the clock sees what is due");
    broker.fast_forward(SOON, |state| state.delayed() == 0).unwrap();
    let bodies: Vec<_> =
        broker.inspect().messages("t").iter().map(|m| m.body_str().unwrap().to_owned()).collect();
    assert_eq!(bodies, ["0", "7", "10", "20", "3600"]);
    let too_far = later(4 * 24 * 3600);
    assert_eq!(broker.put(&too_far).unwrap_err().kind(), ErrorKind::InvalidInput);
    let old = Broker::builder().topic("t", 1).version(Version::V4_9).start().unwrap();
    old.put(&later(60)).unwrap();
    assert_eq!(old.inspect().depth("t"), 1, "4.9 does not know delivery times");
}

#[test]
fn a_message_can_be_recalled_until_it_is_due() {
    let broker = Broker::builder().topic("t", 1).clock(Clock::manual()).start().unwrap();
    let mut wire = connect(&broker);
    let mut later = message("t", 0);
    later.properties = Some("UNIQ_KEY\u{1}0123\u{2}TIMER_DELAY_SEC\u{1}60\u{2}".into());
    let recall_handle = wire.publish(&later, b"x").recall_handle.unwrap();
    let mut recall = |topic: &str| {
        let header = RecallMessage {
            topic: topic.into(),
            recall_handle: recall_handle.clone(),
            ..RecallMessage::default()
        };
        let answer = wire.ask(RequestCode::RECALL_MESSAGE, &header);
        (code(&answer), answer.fields.get("msgId").map(str::to_owned))
    };
    assert_eq!(recall("u").0, ResponseCode::ILLEGAL_OPERATION);
    assert_eq!(recall("t"), (ResponseCode::SUCCESS, Some("0123".to_owned())));
    assert_eq!(recall("t").0, ResponseCode::ILLEGAL_OPERATION);
    broker.clock().advance(Duration::from_secs(61));
    assert_eq!((broker.inspect().depth("t"), broker.inspect().delayed()), (0, 0));
    assert_eq!(wire.publish(&message("t", 0), b"x").recall_handle, None);
}

#[test]
fn a_delayed_message_wakes_a_held_pull() {
    let broker = Broker::builder().topic("t", 1).delay_levels([Duration::from_millis(30)]).start().unwrap();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["*"]);
    let opaque = wire.send(RemotingCommand::with_header(RequestCode::PULL_MESSAGE, &pull("g", "t", 0, 0)));
    broker.put(&Message::new("t", "x").delay_level(1)).unwrap();
    assert_eq!(messages(&wire.answer(opaque).body).len(), 1);
}

#[test]
fn x10_what_is_unknown_is_answered_and_what_is_broken_ends_the_connection() {
    let broker = broker();
    let mut wire = connect(&broker);
    let answer = wire.call(RemotingCommand::request(RequestCode(4711)));
    assert_eq!(code(&answer), ResponseCode::REQUEST_CODE_NOT_SUPPORTED);
    assert_eq!(answer.remark.as_deref(), Some(" request type 4711 not supported"));
    for known in [10, 11, 14, 15, 29, 30, 31, 32, 33, 34, 35, 36, 38, 105, 310, 320] {
        let answer = wire.call(RemotingCommand::request(RequestCode(known)).body(b"{]".to_vec()));
        assert_ne!(code(&answer), ResponseCode::SUCCESS, "{known} without fields");
    }
    wire.send_as_is(&RemotingCommand::response(ResponseCode::SUCCESS, 77));
    assert_eq!(code(&wire.ask(RequestCode::GET_ROUTEINFO_BY_TOPIC, &route("t"))), ResponseCode::SUCCESS);
    for broken in
        [&b"\xff\xff\xff\xff\xff\xff\xff\xff"[..], b"\0\0\0\x08\0\0\0\x04nope", b"GET / HTTP/1.1\r\n\r\n"]
    {
        let mut wire = connect(&broker);
        wire.write(broken);
        assert!(wire.is_closed());
    }
}

#[test]
fn a_restart_keeps_what_a_disk_keeps() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["*"]);
    wire.publish(&message("t", 0), b"x");
    let commit = UpdateConsumerOffset {
        consumer_group: "g".into(),
        topic: "t".into(),
        queue_id: 0,
        commit_offset: 1,
        bname: None,
    };
    wire.ask(RequestCode::UPDATE_CONSUMER_OFFSET, &commit);
    broker.restart().unwrap();
    assert!(wire.is_closed());
    let state = broker.inspect();
    assert_eq!((state.depth("t"), state.committed("g", &queue(0)), state.connections()), (1, Some(1), 0));
    assert!(state.members("g").is_empty());
    let mut wire = connect(&broker);
    assert_eq!(wire.publish(&message("t", 0), b"y").queue_offset, 1);
    broker.restart_losing(Lose::Offsets).unwrap();
    assert_eq!(broker.inspect().committed("g", &queue(0)), None);
    broker.restart_losing(Lose::Everything).unwrap();
    assert_eq!((broker.inspect().depth("t"), broker.inspect().requests(RequestCode::SEND_MESSAGE)), (0, 2));
    assert!(broker.inspect().topics().any(|topic| topic == "t"), "built with it");
    broker.kill();
    broker.kill();
    assert!(std::net::TcpStream::connect(broker.name_server()).is_err());
    broker.start().unwrap();
    broker.start().unwrap();
    connect(&broker).publish(&message("t", 0), b"z");
}

#[test]
fn a_paused_broker_accepts_and_is_silent() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["*"]);
    let held = wire.send(RemotingCommand::with_header(RequestCode::PULL_MESSAGE, &pull("g", "t", 0, 0)));
    broker.wait(SOON, |state| state.waiting_pulls("g") == 1).unwrap();
    broker.pause();
    broker.put(&Message::new("t", "x").queue(&queue(0))).unwrap();
    let mut late = connect(&broker);
    late.send(RemotingCommand::with_header(RequestCode::GET_ROUTEINFO_BY_TOPIC, &route("t")));
    assert!(late.answer_within(Duration::from_millis(50)).is_none());
    assert!(wire.answer_within(Duration::from_millis(50)).is_none());
    broker.resume();
    assert_eq!(code(&late.answer_within(SOON).unwrap()), ResponseCode::SUCCESS);
    assert_eq!(messages(&wire.answer(held).body).len(), 1);
}

#[test]
fn connections_can_be_cut() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["*"]);
    broker.cut_connections();
    assert!(wire.is_closed());
    broker.wait(SOON, |state| state.connections() == 0 && state.members("g").is_empty()).unwrap();
    assert_eq!(connect(&broker).publish(&message("t", 0), b"x").queue_offset, 0);
}

#[test]
fn routes_can_lie_and_topics_can_change() {
    let broker = Broker::builder().topic("t", 2).advertise("10.1.2.3:0").start().unwrap();
    let mut wire = connect(&broker);
    let mut ask = || {
        let answer = wire.ask(RequestCode::GET_ROUTEINFO_BY_TOPIC, &route("t"));
        TopicRouteData::read(&answer.body).ok().filter(|_| code(&answer) == ResponseCode::SUCCESS)
    };
    let address =
        |route: Option<TopicRouteData>| route.map(|route| route.broker_datas[0].broker_addrs[&0].clone());
    let port = broker.name_server().split_off("127.0.0.1:".len());
    assert_eq!(address(ask()), Some(format!("10.1.2.3:{port}")));
    broker.advertise_as("broker.example:1");
    assert_eq!(address(ask()), Some("broker.example:1".to_owned()));
    broker.hide_route("t");
    assert!(ask().is_none());
    broker.show_route("t");
    broker.set_queues("t", 5);
    assert_eq!(ask().unwrap().queue_datas[0].write_queue_nums, 5);
}

#[test]
fn brokers_of_a_cluster_share_their_name_server() {
    let cluster =
        Cluster::builder().brokers(2).name_servers(2).each(|broker| broker.topic("t", 2)).start().unwrap();
    let names = cluster.name_server();
    let names: Vec<&str> = names.split(';').collect();
    assert_eq!(names.len(), 2);
    let brokers = |address: &str| {
        let answer = Wire::connect(address).ask(RequestCode::GET_ROUTEINFO_BY_TOPIC, &route("t"));
        let route = TopicRouteData::read(&answer.body).unwrap();
        route.broker_datas.into_iter().map(|data| data.broker_name).collect::<Vec<_>>()
    };
    assert_eq!(brokers(names[1]), ["broker-a", "broker-b"]);
    let b = cluster.broker("broker-b").unwrap();
    connect(b).publish(&message("t", 0), b"x");
    cluster.wait(SOON, |state| state.depth("t") == 1).unwrap();
    assert_eq!(cluster.broker("broker-a").unwrap().inspect().depth("t"), 0);
    b.kill();
    assert_eq!(brokers(names[0]), ["broker-a"]);
    b.start().unwrap();
    assert_eq!(brokers(names[0]), ["broker-a", "broker-b"]);
    let unknown = Wire::connect(names[0]).call(RemotingCommand::request(RequestCode::PULL_MESSAGE));
    assert_eq!(code(&unknown), ResponseCode::REQUEST_CODE_NOT_SUPPORTED);
}

#[test]
fn n11_ipv6_addresses_are_stored_as_such() {
    // Machines without IPv6 have nothing to be tested here.
    let Ok(broker) = Broker::builder().topic("t", 1).listen("[::1]:0").start() else { return };
    let sent = connect(&broker).publish(&message("t", 0), b"x");
    assert_eq!(sent.msg_id.len(), 56);
    let stored = broker.inspect().messages("t").remove(0);
    assert!(stored.born_host().is_ipv6() && stored.store_host().to_string() == broker.name_server());
}

#[test]
fn mistakes_are_told_all_at_once() {
    let error = Broker::builder().topic("a b", 1).topic("t", 0).delay_levels([]).start().unwrap_err();
    assert_eq!((error.kind(), error.mistakes().len()), (ErrorKind::Config, 3));
    let error = Broker::builder().name("room@two@names").start().unwrap_err();
    assert!(error.to_string().contains("broker name"), "{error}");
    assert_eq!(Broker::builder().name("room@name").start().unwrap().name(), "room@name");
    let taken = broker();
    let error = Broker::builder().listen(taken.name_server()).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(taken.fast_forward(SOON, |_| true).unwrap_err().kind(), ErrorKind::Config);
    let late = taken.wait(Duration::from_millis(1), |_| false).unwrap_err();
    assert!(late.kind() == ErrorKind::Timeout && late.to_string().contains("connections: 0"), "{late}");
    assert_eq!(Cluster::builder().brokers(0).start().unwrap_err().kind(), ErrorKind::Config);
}

#[test]
fn a_subscription_that_is_older_does_not_replace_a_newer_one() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.call(heartbeat("c", "g", "t", &["*"], 5));
    wire.call(heartbeat("c", "g", "t", &["*"], 3));
    let asked = PullMessage { sub_version: 5, suspend_timeout_millis: 0, ..pull("g", "t", 0, 0) };
    assert_eq!(code(&wire.ask(RequestCode::PULL_MESSAGE, &asked)), ResponseCode::PULL_NOT_FOUND);
}
