//! Each kind of error, and what it says.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::support::{
    SOON, Seen, Ticking, advance_until, client_by_hand, client_of, noting_member_of, orders_by_hand, put,
};
use rocketmq_sync::broker::{Broker, Fault, Reaction};
use rocketmq_sync::producer::ProducerBuilder;
use rocketmq_sync::{
    Error, ErrorKind, Message, MessageQueue, Producer, RequestCode, ResponseCode, Result, SendStatus,
};

fn broker() -> Broker {
    Broker::builder().topic("orders", 1).auto_create_topics(false).start().unwrap()
}

fn producer(broker: &Broker) -> ProducerBuilder {
    Producer::builder("shop").name_servers(broker.name_server())
}

fn order() -> Message {
    Message::new("orders", "x")
}

fn answered(reaction: Reaction) -> (Broker, Error) {
    answered_within(reaction, Duration::from_secs(5), Duration::from_secs(15))
}

fn answered_within(reaction: Reaction, attempt: Duration, all: Duration) -> (Broker, Error) {
    let broker = broker();
    broker.fault(Fault::on(RequestCode::SEND_MESSAGE, reaction).forever());
    let producer = producer(&broker).attempt_timeout(attempt).send_timeout(all).start().unwrap();
    let error = producer.send(&order()).unwrap_err();
    (broker, error)
}

#[test]
fn config_lists_all_mistakes_of_the_builder_and_of_its_client() {
    let error = Producer::builder("b illing").name_servers("nowhere").max_attempts(0).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let settings: Vec<&str> = error.mistakes().iter().map(|mistake| mistake.setting).collect();
    assert_eq!(settings, ["name_servers", "group", "max_attempts"]);
    for setting in settings {
        assert!(error.to_string().contains(setting), "{error}");
    }
    assert!(!error.is_retryable());
}

#[test]
fn config_also_means_two_producers_of_one_group_on_one_client() {
    let broker = broker();
    let client = client_of(broker.name_server());
    let _first = Producer::builder("shop").client(&client).start().unwrap();
    let error = Producer::builder("shop").client(&client).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("shop"), "{error}");
}

#[test]
fn invalid_input_is_refused_before_anything_is_sent() {
    let broker = broker();
    let producer = producer(&broker).max_message_size(10).start().unwrap();
    let foreign = MessageQueue::new("orders", "broker-x", 0);
    let results: [Result<_>; 4] = [
        producer.send(&Message::new("orders", vec![0; 11])).map(drop),
        producer.send(&order().queue(&foreign)).map(drop),
        producer.send(&Message::new("or ders", "x")).map(drop),
        producer.send_oneway(&Message::new("orders", "")),
    ];
    for result in results {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.topic().is_some() && !error.is_retryable());
    }
    assert_eq!(broker.inspect().requests(RequestCode::SEND_MESSAGE_V2), 0);
}

#[test]
fn topic_not_found_is_the_word_of_a_name_server() {
    let broker = broker();
    let producer = producer(&broker).start().unwrap();
    for error in [
        producer.send(&Message::new("nothing", "x")).unwrap_err(),
        producer.queues("nothing").unwrap_err(),
        producer.send_batch(&[Message::new("nothing", "x")]).unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.topic()), (ErrorKind::TopicNotFound, Some("nothing")), "{error}");
        assert_eq!(error.attempts()[0].server, broker.name_server());
    }
}

#[test]
fn a_topic_to_preload_has_to_exist() {
    let broker = broker();
    assert!(producer(&broker).preload("orders").start().is_ok());
    let error = producer(&broker).preload("nothing").start().unwrap_err();
    assert_eq!((error.kind(), error.topic()), (ErrorKind::TopicNotFound, Some("nothing")));
}

#[test]
fn n6_unreachable_names_every_server() {
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = Producer::builder("shop").name_servers(format!("{dead};[::1]:9")).start().unwrap_err();
    assert_eq!((error.kind(), error.attempts().len()), (ErrorKind::Unreachable, 2), "{error}");
    assert!(error.is_retryable() && error.to_string().contains(&dead));
}

#[test]
fn an_advertised_address_that_nobody_listens_on_is_unreachable_too() {
    let broker = broker();
    let producer = producer(&broker).start().unwrap();
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    broker.advertise_as(&dead);
    let error = producer.send(&order()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert_eq!(error.attempts().len(), 3);
    assert!(
        error.to_string().contains(&dead) && !error.to_string().contains("may have been stored"),
        "{error}"
    );
}

#[test]
fn timeout_is_a_server_that_does_not_answer() {
    let began = Instant::now();
    let (attempt, all) = (Duration::from_millis(400), Duration::from_millis(1_500));
    let (broker, error) = answered_within(Reaction::Ignore, attempt, all);
    assert_eq!((error.kind(), error.code()), (ErrorKind::Timeout, None), "{error}");
    assert!(error.is_retryable() && error.to_string().contains("broker-a"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(error.attempts().len(), 3);
    assert_eq!(broker.inspect().requests(RequestCode::SEND_MESSAGE_V2), 3);
}

#[test]
fn busy_is_a_broker_that_wants_less() {
    for code in [ResponseCode::SYSTEM_BUSY, ResponseCode::FLOW_CONTROL] {
        let (_broker, error) = answered(Reaction::Reply(code));
        assert_eq!((error.kind(), error.code()), (ErrorKind::Busy, Some(code)), "{error}");
        assert!(error.is_retryable());
    }
}

#[test]
fn refused_is_a_matter_of_permission() {
    let (_broker, error) = answered(Reaction::Reply(ResponseCode::NO_PERMISSION));
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(!error.is_retryable());
}

#[test]
fn group_not_found_and_any_other_answer_keep_their_code() {
    let (_broker, error) = answered(Reaction::Reply(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST));
    assert_eq!(error.kind(), ErrorKind::GroupNotFound, "{error}");
    let (_broker, error) = answered(Reaction::Reply(ResponseCode(31_999)));
    assert_eq!((error.kind(), error.code()), (ErrorKind::Broker, Some(ResponseCode(31_999))));
    assert!(error.to_string().contains("31999"), "{error}");
}

fn every_code() -> impl Iterator<Item = ResponseCode> {
    (1..5000).map(ResponseCode).filter(|code| code.name().is_some()).chain([ResponseCode(31_999)])
}

#[test]
fn x7_whatever_a_broker_answers_to_a_send_is_a_receipt_or_an_error_that_says_it() {
    let broker = broker();
    let producer = producer(&broker).max_attempts(1).start().unwrap();
    let mut refusals = 0;
    for code in every_code() {
        let fault = broker.fault(Fault::on(RequestCode::SEND_MESSAGE, Reaction::Reply(code)));
        match producer.send(&order()) {
            Ok(receipt) => assert_ne!(receipt.status(), SendStatus::SendOk, "{code}"),
            Err(error) => {
                assert_eq!((error.code(), error.attempts().len()), (Some(code), 1), "{error}");
                assert!(error.to_string().contains(&code.to_string()), "{error}");
                refusals += 1;
            }
        }
        assert_eq!(fault.hits(), 1);
    }
    assert!(refusals > 30, "{refusals}");
    assert_eq!(producer.send(&order()).unwrap().status(), SendStatus::SendOk);
}

#[test]
fn x7_whatever_a_broker_answers_to_a_pull_the_queue_goes_on() {
    let broker = orders_by_hand(1);
    let client = client_by_hand(&broker);
    let answers: Vec<_> = every_code()
        .map(|code| {
            let fault = Fault::on(RequestCode::PULL_MESSAGE, Reaction::Reply(code)).topic("orders");
            broker.fault(fault)
        })
        .collect();
    let seen = Seen::default();
    put(&broker, 0..10);
    let consumer = noting_member_of(&client, &seen);
    // After many failures in a row it waits for half a minute.
    advance_until(broker.clock(), Duration::from_secs(30), "all answers", || {
        answers.iter().all(|answer| answer.hits() == 1)
    });
    advance_until(broker.clock(), Duration::from_secs(30), "the messages", || seen.len() >= 10);
    seen.assert_once(0..10);
    let _ticking = Ticking::of(broker.clock());
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn protocol_is_an_answer_that_cannot_be_read() {
    let (_broker, error) = answered(Reaction::Corrupt);
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
}

#[test]
fn closed_is_a_handle_that_has_been_shut_down() {
    let broker = broker();
    let producer = producer(&broker).start().unwrap();
    let client = producer.client().clone();
    assert!(client.shutdown(Duration::from_secs(5)).is_clean());
    for error in [
        producer.send(&order()).unwrap_err(),
        producer.send_oneway(&order()).unwrap_err(),
        producer.queues("orders").unwrap_err(),
        Producer::builder("other").client(&client).start().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
}

#[test]
fn a_lost_connection_is_told_from_a_refused_one() {
    let (_broker, error) = answered(Reaction::Disconnect);
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("may have been stored"), "{error}");
}
