//! Pulls: held until there is something, refused for who has not said what it wants.

use std::time::{Duration, Instant};

use super::{broker, code, connect, queue};
use crate::wire::{SOON, heartbeat, message, messages, pull};
use rocketmq_sync::broker::Broker;
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::headers::{PullMessage, PullMessageAnswer};
use rocketmq_sync::{Message, RequestCode, ResponseCode};

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
fn a_subscription_that_is_older_does_not_replace_a_newer_one() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.call(heartbeat("c", "g", "t", &["*"], 5));
    wire.call(heartbeat("c", "g", "t", &["*"], 3));
    let asked = PullMessage { sub_version: 5, suspend_timeout_millis: 0, ..pull("g", "t", 0, 0) };
    assert_eq!(code(&wire.ask(RequestCode::PULL_MESSAGE, &asked)), ResponseCode::PULL_NOT_FOUND);
}
