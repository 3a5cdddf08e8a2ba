//! What is sent is stored with what the broker adds, and found again.

use super::{broker, code, connect, put};
use crate::wire::{message, messages, pull};
use rocketmq_sync::broker::{Broker, Version};
use rocketmq_sync::testing::message::properties;
use rocketmq_sync::testing::protocol::body::{HeartbeatData, ProducerData};
use rocketmq_sync::testing::protocol::headers::{
    PullMessageAnswer, QueryMessage, SendAnswer, SendMessage, ViewMessage, pull_flag,
};
use rocketmq_sync::testing::protocol::record::{BatchElement, write_batch_element};
use rocketmq_sync::testing::protocol::{Encoding, OffsetId, RemotingCommand};
use rocketmq_sync::{ErrorKind, Message, RequestCode, ResponseCode};

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
fn n11_ipv6_addresses_are_stored_as_such() {
    // Machines without IPv6 have nothing to be tested here.
    let Ok(broker) = Broker::builder().topic("t", 1).listen("[::1]:0").start() else { return };
    let sent = connect(&broker).publish(&message("t", 0), b"x");
    assert_eq!(sent.msg_id.len(), 56);
    let stored = broker.inspect().messages("t").remove(0);
    assert!(stored.born_host().is_ipv6() && stored.store_host().to_string() == broker.name_server());
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
