//! Topics and filters that change while a consumer runs.

use std::time::{Duration, Instant};

use crate::support::{
    SOON, Seen, advance_until, client_by_hand, consumed, noting_member, orders, orders_by_hand, put, until,
};
use rocketmq_sync::broker::Broker;
use rocketmq_sync::{ConsumeFrom, Message, MessageQueue, PushConsumer};

/// Topics come and go while it runs; the queues of the others are not disturbed.
#[test]
fn topics_are_subscribed_and_given_up_while_it_runs() {
    let broker = Broker::builder().topic("orders", 2).topic("stock", 2).start().unwrap();
    let seen = Seen::default();
    let consumer = noting_member(&broker, &seen);
    let of = |topic: &str| consumer.assignment().iter().filter(|queue| queue.topic() == topic).count();
    let generations = || {
        let queues = consumer.stats().queues.into_iter().filter(|one| one.queue.topic() == "orders");
        queues.map(|one| one.generation).collect::<Vec<_>>()
    };
    let before = generations();
    consumer.subscribe("stock", "a || b").unwrap();
    until("stock is owned", || of("stock") == 2);
    for (tag, n) in [("a", 0), ("c", 1), ("b", 2)] {
        let queue = MessageQueue::new("stock", "broker-a", 0);
        broker.put(&Message::new("stock", n.to_string()).tag(tag).queue(&queue)).unwrap();
    }
    put(&broker, 3..5);
    seen.wait(4);
    assert!(!seen.counts().contains_key("1"));
    consumer.unsubscribe("stock").unwrap();
    until("stock is given up", || of("stock") == 0);
    assert_eq!(broker.inspect().lag("billing", "stock"), 0, "and committed");
    assert_eq!(generations(), before);
    assert!(consumer.unsubscribe("stock").is_err() && consumer.subscribe("bad topic", "*").is_err());
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_topic_given_up_and_subscribed_anew_at_the_same_moment_has_its_new_filter() {
    let broker = orders_by_hand(1);
    let client = client_by_hand(&broker);
    broker.put(&Message::new("orders", "0").tag("a")).unwrap();
    let seen = Seen::default();
    let consumer = PushConsumer::builder("billing")
        .client(&client)
        .subscribe("orders", "a")
        .consume_from(ConsumeFrom::FirstOffset)
        // No pull is held with the old filter while the clock stands still.
        .pull_interval(Duration::from_secs(60))
        .consume_concurrently(seen.listener())
        .start()
        .unwrap();
    seen.wait(1);
    consumer.unsubscribe("orders").unwrap();
    consumer.subscribe("orders", "b").unwrap();
    // What comes before brokers have heard of the new filter is still met by the old one.
    advance_until(broker.clock(), Duration::from_secs(1), "a message", || {
        broker.put(&Message::new("orders", "1").tag("b")).unwrap();
        seen.len() > 1
    });
    assert!(consumer.shutdown(SOON).is_clean());
}

/// A broker that holds a pull by the old filter holds it for up to 15 s, whatever comes meanwhile.
#[test]
fn a_changed_filter_counts_at_once_though_a_pull_is_held_by_the_old_one() {
    let broker = orders(1);
    let seen = Seen::default();
    let consumer = PushConsumer::builder("billing")
        .name_servers(broker.name_server())
        .subscribe("orders", "a")
        .consume_concurrently(seen.listener())
        .start()
        .unwrap();
    let held = |n: usize| broker.wait(SOON, |state| state.waiting_pulls("billing") >= n).unwrap();
    held(2);
    consumer.subscribe("orders", "b").unwrap();
    // That of the retry topic, the old one and the new one.
    held(3);
    let put = Instant::now();
    broker.put(&Message::new("orders", "0").tag("b")).unwrap();
    seen.wait(1);
    assert!(put.elapsed() < Duration::from_secs(10), "{:?}", put.elapsed());
    consumed(&broker);
    assert!(consumer.shutdown(SOON).is_clean());
    seen.assert_once(0..1);
}
