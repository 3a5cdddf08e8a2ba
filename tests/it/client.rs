//! The life of a client, against the embedded broker.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::support::{Seen, billing, client_of, consumed, next_event};
use crate::wire::SOON;
use rocketmq_sync::broker::{Broker, Cluster, Fault, Reaction};
use rocketmq_sync::consumer::Event;
use rocketmq_sync::{
    Client, ConsumeFrom, ConsumeStatus, ErrorKind, Message, Producer, PullConsumer, PushConsumer,
    RequestCode, dead_letter_topic,
};

#[test]
fn a_client_starts_in_milliseconds_and_leaves_nothing_behind() {
    let broker = Broker::builder().start().unwrap();
    for _ in 0..20 {
        let began = Instant::now();
        let client = client_of(broker.name_server());
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert!(client.stats().threads >= 2);
        assert!(client.shutdown(SOON).is_clean());
    }
    broker.wait(SOON, |state| state.connections() == 0).unwrap();
}

#[test]
fn f4_threads_do_not_grow_with_the_number_of_producers() {
    let broker = Broker::builder().topic("orders", 1).start().unwrap();
    let client = client_of(broker.name_server());
    let producers: Vec<Producer> =
        (0..20).map(|n| Producer::builder(format!("p{n}")).client(&client).start().unwrap()).collect();
    for producer in &producers {
        producer.send(&Message::new("orders", "x")).unwrap();
    }
    assert_eq!(client.stats().threads, 2);
    assert!(client.stats().bytes_sent > 0 && client.stats().bytes_received > 0);
}

#[test]
fn name_servers_stand_in_for_each_other() {
    let cluster = Cluster::builder()
        .brokers(1)
        .name_servers(2)
        .each(|broker| broker.topic("orders", 1))
        .start()
        .unwrap();
    let producer = Producer::builder("shop").name_servers(cluster.name_server()).start().unwrap();
    producer.send(&Message::new("orders", "x")).unwrap();
    assert_eq!(producer.queues("orders").unwrap().len(), 1);
}

#[test]
fn a_cut_connection_is_made_again() {
    let broker = Broker::builder().topic("orders", 1).start().unwrap();
    let producer = Producer::builder("shop").name_servers(broker.name_server()).start().unwrap();
    for _ in 0..3 {
        producer.send(&Message::new("orders", "x")).unwrap();
        broker.cut_connections();
    }
    producer.send(&Message::new("orders", "x")).unwrap();
}

#[test]
fn a_broker_that_restarts_is_found_again_and_gets_its_heartbeat() {
    let broker = Broker::builder().topic("orders", 1).start().unwrap();
    let producer = Producer::builder("shop").name_servers(broker.name_server()).start().unwrap();
    producer.send(&Message::new("orders", "x")).unwrap();
    broker.wait(SOON, |state| state.requests(RequestCode::HEART_BEAT) > 0).unwrap();
    let before = broker.inspect().requests(RequestCode::HEART_BEAT);
    broker.restart().unwrap();
    broker.wait(SOON, |state| state.requests(RequestCode::HEART_BEAT) > before).unwrap();
    producer.send(&Message::new("orders", "x")).unwrap();
}

#[test]
fn a_name_server_that_hangs_is_a_timeout_within_the_start_timeout() {
    let broker = Broker::builder().start().unwrap();
    broker.fault(Fault::on_any(Reaction::Ignore).forever());
    let began = Instant::now();
    let error = Client::builder()
        .name_servers(broker.name_server())
        .start_timeout(Duration::from_millis(300))
        .start()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains(&broker.name_server()), "{error}");
    assert!(began.elapsed() < Duration::from_secs(2));
}

/// For producers, consumers and questions alike: nothing dials the advertised address.
#[test]
fn n7_an_advertised_address_can_be_translated() {
    let broker = Broker::builder().topic("orders", 1).start().unwrap();
    broker.advertise_as("10.255.255.1:10911");
    let real = broker.name_server();
    let client = Client::builder()
        .name_servers(broker.name_server())
        .address_map(
            move |address| if address.starts_with("10.255.") { real.clone() } else { address.to_owned() },
        )
        .start()
        .unwrap();
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    producer.send(&Message::new("orders", "x")).unwrap();
    let seen = Seen::default();
    let pushed = billing().client(&client).max_reconsume_times(0).consume_concurrently({
        let seen = seen.clone();
        move |batch| {
            seen.note(batch);
            ConsumeStatus::DeadLetter
        }
    });
    let pushed = pushed.start().unwrap();
    let ordered = PushConsumer::builder("ordered").client(&client).subscribe("orders", "*");
    let ordered =
        ordered.consume_from(ConsumeFrom::FirstOffset).consume_orderly(seen.listener()).start().unwrap();
    seen.wait(2);
    broker.wait(SOON, |state| state.depth(&dead_letter_topic("billing")) == 1).unwrap();
    let reader = PullConsumer::builder("reader").client(&client).assign_topic("orders", "*").start().unwrap();
    for queue in reader.assignment() {
        reader.seek(&queue, ConsumeFrom::LastMessages(1)).unwrap();
    }
    assert_eq!(reader.poll(SOON).unwrap().len(), 1);
    reader.commit().unwrap();
    assert!(reader.shutdown(SOON).is_clean());
    assert!(pushed.shutdown(SOON).is_clean() && ordered.shutdown(SOON).is_clean());
}

#[test]
fn n11_producers_work_over_ipv6_and_say_so_in_their_ids() {
    let broker = Broker::builder().topic("orders", 1).listen("[::1]:0").start().unwrap();
    let client = client_of(broker.name_server());
    assert!(client.client_id().starts_with("[::1]@"), "{}", client.client_id());
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    let receipt = producer.send(&Message::new("orders", "x")).unwrap();
    assert_eq!(receipt.offset_message_id().len(), 56);
}

#[test]
fn n12_two_clusters_in_one_process_do_not_know_of_each_other() {
    let (one, two) = (
        Broker::builder().topic("orders", 1).start().unwrap(),
        Broker::builder().topic("orders", 1).start().unwrap(),
    );
    let start =
        |broker: &Broker| Producer::builder("shop").name_servers(broker.name_server()).start().unwrap();
    let (to_one, to_two) = (start(&one), start(&two));
    to_one.send(&Message::new("orders", "1")).unwrap();
    to_two.send(&Message::new("orders", "2")).unwrap();
    for (broker, body) in [(&one, b"1"), (&two, b"2")] {
        let messages = broker.inspect().messages("orders");
        assert_eq!((messages.len(), messages[0].body()), (1, &body[..]));
    }
}

/// What a broker has been told belongs to a connection: whatever happens to connections, the first pull and the first
/// question for the members of a group on each of them come after a heartbeat.
#[test]
fn on_every_connection_the_heartbeat_comes_first() {
    let broker = Broker::builder().topic("orders", 8).start().unwrap();
    let consumer = PushConsumer::builder("billing")
        .name_servers(broker.name_server())
        .subscribe("orders", "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(|_| ())
        .start()
        .unwrap();
    for round in 1..=4 {
        for _ in 0..20 {
            broker.put(&Message::new("orders", "x")).unwrap();
        }
        consumed(&broker);
        assert!(consumer.stats().succeeded >= round * 20);
        broker.cut_connections();
    }
    // Of a connection whose loss it does not know yet, a report says that all that went over it is in doubt.
    let mut events = consumer.events();
    for _ in 0..4 {
        next_event(&mut events, "a lost connection", |event| match event {
            Event::Disconnected { .. } => Some(()),
            _ => None,
        });
    }
    let mut told = HashSet::new();
    for request in broker.requests() {
        match request.code {
            RequestCode::HEART_BEAT => drop(told.insert(request.client)),
            RequestCode::PULL_MESSAGE | RequestCode::GET_CONSUMER_LIST_BY_GROUP => {
                assert!(told.contains(&request.client), "{request:?}");
            }
            _ => {}
        }
    }
    assert!(told.len() >= 4, "{told:?}");
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
}
