//! Members of one group that do not subscribe the same, or have the same name.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::support::{SOON, Seen, billing, consumed, next_event, put, queue, until};
use crate::wire::{Wire, heartbeat};
use rocketmq_sync::broker::Broker;
use rocketmq_sync::consumer::{Event, Events, PushConsumerBuilder};
use rocketmq_sync::{Client, Message, MessageModel, PushConsumer};

fn broker() -> Broker {
    Broker::builder().topic("orders", 4).topic("stock", 4).start().unwrap()
}

fn both(broker: &Broker) -> PushConsumerBuilder {
    billing().name_servers(broker.name_server()).subscribe("stock", "*")
}

fn owned(consumer: &PushConsumer, topic: &str) -> BTreeSet<i32> {
    let all = consumer.assignment().into_iter();
    all.filter(|queue| queue.topic() == topic).map(|queue| queue.queue_id()).collect()
}

fn mismatch(events: &mut Events, of: &str) -> (String, String) {
    next_event(events, "a mismatch", |event| match event {
        Event::SubscriptionMismatch { topic, ours, theirs, .. } if topic == of => Some((ours, theirs)),
        _ => None,
    })
}

#[test]
fn u1_when_one_member_unsubscribes_the_other_owns_all_queues_in_two_seconds() {
    let broker = broker();
    let seen = Seen::default();
    let start = || both(&broker).consume_concurrently(seen.listener()).start().unwrap();
    let (first, second) = (start(), start());
    let halves = |topic: &str| {
        let (a, b) = (owned(&first, topic), owned(&second, topic));
        a.len() == 2 && b.len() == 2 && a.is_disjoint(&b)
    };
    until("each has half", || halves("orders") && halves("stock"));
    put(&broker, 0..40);
    seen.wait(40);
    let mut events = second.events();
    let began = Instant::now();
    first.unsubscribe("orders").unwrap();
    until("the other has all", || owned(&second, "orders").len() == 4 && owned(&first, "orders").is_empty());
    // Two seconds, and what a loaded machine may add.
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(mismatch(&mut events, "orders"), ("*".into(), String::new()));
    assert!(halves("stock"), "the other topic is left in peace");
    put(&broker, 40..80);
    seen.wait(80);
    consumed(&broker);
    first.subscribe("orders", "*").unwrap();
    until("each has half again", || halves("orders"));
    put(&broker, 80..120);
    seen.wait(120);
    consumed(&broker);
    assert!(first.shutdown(SOON).is_clean() && second.shutdown(SOON).is_clean());
    seen.assert_once(0..120);
}

/// A client that counts every member would not take over what is left, so that nobody may: its own idea of who owns what
/// would be another.
#[test]
fn beside_a_client_that_counts_every_member_everybody_does() {
    let broker = broker();
    let consumer = both(&broker).consume_concurrently(|_| ()).start().unwrap();
    let mut events = consumer.events();
    until("all owned", || owned(&consumer, "orders").len() == 4);
    let id = broker.inspect().members("billing")[0].clone();
    // It reads `stock` alone, and answers no question about itself.
    let mut other = Wire::connect(&broker.name_server());
    other.heartbeat(&format!("{id}-z"), "billing", "stock", &["*"]);
    until("the other is counted", || owned(&consumer, "orders").len() == 2);
    assert_eq!(mismatch(&mut events, "orders"), ("*".into(), String::new()));
    assert_eq!(owned(&consumer, "orders").len(), 2);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn r2_members_with_different_topics_both_tell() {
    let broker = broker();
    let start = |topic: &str| {
        let builder =
            PushConsumer::builder("billing").name_servers(broker.name_server()).subscribe(topic, "*");
        builder.consume_concurrently(|_| ()).start().unwrap()
    };
    let (first, second) = (start("orders"), start("stock"));
    let (mut a, mut b) = (first.events(), second.events());
    assert_eq!(mismatch(&mut a, "orders"), ("*".into(), String::new()));
    assert_eq!(mismatch(&mut b, "orders"), (String::new(), "*".into()));
    assert_eq!(mismatch(&mut b, "stock"), ("*".into(), String::new()));
    // Nothing is left alone all the same.
    until("each has all of its own", || {
        owned(&first, "orders").len() == 4 && owned(&second, "stock").len() == 4
    });
    assert!(first.shutdown(SOON).is_clean() && second.shutdown(SOON).is_clean());
}

#[test]
fn r2_members_with_different_filters_both_tell() {
    let broker = broker();
    let start = |tags: &str| {
        let builder = PushConsumer::builder("billing").name_servers(broker.name_server());
        builder.subscribe("orders", tags).consume_concurrently(|_| ()).start().unwrap()
    };
    let (first, second) = (start("a || b"), start("b"));
    assert_eq!(mismatch(&mut first.events(), "orders"), ("a || b".into(), "b".into()));
    assert_eq!(mismatch(&mut second.events(), "orders"), ("b".into(), "a || b".into()));
    assert!(first.shutdown(SOON).is_clean() && second.shutdown(SOON).is_clean());
}

#[test]
fn the_same_filter_written_otherwise_is_no_mismatch() {
    let broker = broker();
    let start = |tags: &str| {
        let builder = PushConsumer::builder("billing").name_servers(broker.name_server());
        builder.subscribe("orders", tags).consume_concurrently(|_| ()).start().unwrap()
    };
    let (first, second) = (start("a||b"), start(" b || a "));
    let (mut a, mut b) = (first.events(), second.events());
    until("shared", || owned(&first, "orders").len() == 2 && owned(&second, "orders").len() == 2);
    let asked = broker.inspect().requests(rocketmq_sync::RequestCode::GET_CONSUMER_CONNECTION_LIST);
    // Somebody comes, so that they look again.
    let id = broker.inspect().members("billing")[0].clone();
    Wire::connect(&broker.name_server()).call(heartbeat(
        &format!("{id}-z"),
        "billing",
        "orders",
        &["b", "a"],
        1,
    ));
    broker
        .wait(SOON, |state| {
            state.requests(rocketmq_sync::RequestCode::GET_CONSUMER_CONNECTION_LIST) > asked + 1
        })
        .unwrap();
    assert!(first.shutdown(SOON).is_clean() && second.shutdown(SOON).is_clean());
    for event in a.by_ref().chain(b.by_ref()) {
        assert!(!matches!(event, Event::SubscriptionMismatch { .. }), "{event}");
    }
}

/// They would take the same queues.
#[test]
fn r1_twins_are_told_of_each_other() {
    let broker = broker();
    let client = || {
        let builder = Client::builder().name_servers(broker.name_server()).instance_name("twin");
        builder.start().unwrap()
    };
    let clients = [client(), client()];
    assert_eq!(clients[0].client_id(), clients[1].client_id());
    let members: Vec<PushConsumer> = clients
        .iter()
        .map(|client| billing().client(client).consume_concurrently(|_| ()).start().unwrap())
        .collect();
    for (member, client) in members.iter().zip(&clients) {
        let id = next_event(&mut member.events(), "a twin", |event| match event {
            Event::DuplicateClientId { client_id, .. } => Some(client_id),
            _ => None,
        });
        assert_eq!(id, client.client_id());
    }
    members.iter().for_each(|member| drop(member.shutdown(SOON)));
}

/// A client that has lost its connection and come back is not its own twin.
#[test]
fn a_client_that_comes_back_is_no_twin() {
    let broker = broker();
    let consumer = billing().name_servers(broker.name_server()).consume_concurrently(|_| ()).start().unwrap();
    let mut events = consumer.events();
    let looks = || broker.inspect().requests(rocketmq_sync::RequestCode::GET_CONSUMER_CONNECTION_LIST);
    until("a look", || looks() > 0);
    let before = looks();
    broker.cut_connections();
    until("owned again", || owned(&consumer, "orders").len() == 4 && looks() > before);
    assert!(consumer.shutdown(SOON).is_clean());
    assert!(!events.any(|event| matches!(event, Event::DuplicateClientId { .. })));
}

#[test]
fn u2_members_share_unless_told_otherwise() {
    assert_eq!(MessageModel::default(), MessageModel::Clustering);
    let broker = broker();
    let seen = Seen::default();
    let start = || {
        let builder = billing().name_servers(broker.name_server());
        builder.consume_concurrently(seen.listener()).start().unwrap()
    };
    let members = [start(), start()];
    until("shared", || members.iter().all(|member| owned(member, "orders").len() == 2));
    for id in 0..4 {
        broker.put(&Message::new("orders", id.to_string()).queue(&queue(id))).unwrap();
    }
    seen.wait(4);
    consumed(&broker);
    for member in members {
        assert!(member.shutdown(SOON).is_clean());
    }
    seen.assert_once(0..4);
}
