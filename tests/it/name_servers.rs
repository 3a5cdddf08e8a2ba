//! Which name server is believed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::between::Between;
use crate::support::{
    SOON, Seen, advance_until, billing, client_of_list, consumed, next_event, noting_member_of, orders, put,
};
use rocketmq_sync::broker::{Broker, Clock};
use rocketmq_sync::consumer::Event;
use rocketmq_sync::{Client, ErrorKind, Producer, ResponseCode};

/// One that answers and knows no topic, as one that was retired or has just been started.
fn empty() -> Broker {
    Broker::builder().auto_create_topics(false).start().unwrap()
}

/// One that says of `orders` what the name server of `broker` says.
fn second_name_server(broker: &Broker) -> Broker {
    let builder = Broker::builder().topic("orders", 1).auto_create_topics(false);
    builder.advertise(broker.name_server()).start().unwrap()
}

#[test]
fn n3_a_name_server_that_knows_no_topic_is_not_the_last_to_be_asked() {
    let (retired, broker) = (empty(), orders(2));
    put(&broker, 0..10);
    // Each client begins with either of them.
    for _ in 0..8 {
        let list = format!("{};{}", retired.name_server(), broker.name_server());
        let client = Client::builder().name_servers(&list).start().unwrap();
        let producer = Producer::builder("shop").client(&client).start().unwrap();
        assert_eq!(producer.queues("orders").unwrap().len(), 2);
        let error = producer.queues("nothing").unwrap_err();
        assert_eq!((error.kind(), error.attempts().len()), (ErrorKind::TopicNotFound, 2), "{error}");
        let consumer = billing().client(&client).consume_concurrently(|_| ()).start().unwrap();
        consumed(&broker);
        assert!(consumer.shutdown(SOON).is_clean());
    }
}

#[test]
fn n3_a_retired_name_server_is_left_when_the_list_changes() {
    let broker = orders(1);
    let retired = second_name_server(&broker);
    let list = Arc::new(Mutex::new(retired.name_server()));
    let clock = Clock::manual();
    let client = client_of_list(&list, &clock);
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    put(&broker, 0..10);
    seen.wait(10);
    assert_eq!(retired.inspect().connections(), 1);

    *list.lock().unwrap() = broker.name_server();
    retired.hide_route("orders");
    advance_until(&clock, Duration::from_secs(10), "the connection to it is closed", || {
        retired.inspect().connections() == 0
    });
    // What is new is learnt of, and from the other one.
    broker.set_queues("orders", 3);
    advance_until(&clock, Duration::from_secs(10), "the new queues", || {
        consumer.assignment().iter().filter(|queue| queue.topic() == "orders").count() == 3
    });
    put(&broker, 10..20);
    seen.wait(20);
    seen.assert_once(0..20);
    assert_eq!(retired.inspect().connections(), 0);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn n3_when_a_route_disappears_the_other_name_server_is_asked() {
    let broker = orders(1);
    let retired = second_name_server(&broker);
    let clock = Clock::manual();
    let list = format!("{};{}", retired.name_server(), broker.name_server());
    let client = Client::builder().name_servers(list).clock(clock.clone()).start().unwrap();
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    let mut events = consumer.events();
    retired.hide_route("orders");
    broker.set_queues("orders", 3);
    advance_until(&clock, Duration::from_secs(10), "the new queues", || {
        consumer.assignment().iter().filter(|queue| queue.topic() == "orders").count() == 3
    });
    put(&broker, 0..20);
    seen.wait(20);
    while let Some(event) = events.try_next() {
        assert!(!matches!(event, Event::TopicMissing { .. }), "{event}");
    }
    assert!(consumer.shutdown(SOON).is_clean());
}

/// What a name server says of a static topic: one whose queues are logical and move between brokers.
const LOGICAL: &[u8] = br#"{"brokerDatas":[],"queueDatas":[],"topicQueueMappingByBroker":{
    "broker-a":{"bname":"broker-a","currIdMap":{0:0},"epoch":1,"scope":"__global__","topic":"logical","totalQueues":1}}}"#;

#[test]
fn a_static_topic_is_refused_at_the_start_and_told_of_later() {
    let broker = orders(1);
    let between = Between::clients_and(broker.name_server(), |request, answer| {
        if request.fields.get("topic") == Some("logical") {
            answer.code = ResponseCode::SUCCESS.0;
            answer.body = LOGICAL.to_vec();
        }
    });
    let client = Client::builder().name_servers(&between.address).start().unwrap();
    let error = billing().client(&client).subscribe("logical", "*").consume_concurrently(|_| ()).start();
    let error = error.unwrap_err();
    assert_eq!((error.kind(), error.topic()), (ErrorKind::InvalidInput, Some("logical")), "{error}");

    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    let mut events = consumer.events();
    consumer.subscribe("logical", "*").unwrap();
    let reason = next_event(&mut events, "it cannot be used", |event| match event {
        Event::TopicUnusable { topic, reason, .. } if topic == "logical" => Some(reason),
        _ => None,
    });
    assert!(reason.contains("static topic"), "{reason}");
    put(&broker, 0..5);
    seen.wait(5);
    assert!(consumer.shutdown(SOON).is_clean());
}
