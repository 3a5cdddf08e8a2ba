//! What comes later: delayed messages, retries and in the end dead letters.

use std::time::Duration;

use super::{code, connect};
use crate::wire::{SOON, message, messages, pull};
use rocketmq_sync::broker::{Broker, Clock, Version};
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::headers::{ConsumerSendBack, RecallMessage};
use rocketmq_sync::{ErrorKind, Message, RequestCode, ResponseCode, dead_letter_topic, retry_topic};

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
