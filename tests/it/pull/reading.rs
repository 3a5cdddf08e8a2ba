//! What is handed out: everything, once, as it was stored.

use std::sync::Mutex;
use std::time::Duration;

use super::{committed, member, numbers, reader, rest, some, sorted};
use crate::support::{SOON, body, client_of, orders, put, queue, until};
use rocketmq_sync::consumer::Waiting;
use rocketmq_sync::{ConsumeFrom, Message, PullConsumer, RequestCode, TOOLS_GROUP};

#[test]
fn everything_is_read_to_the_end_and_committed_when_it_is_said() {
    let broker = orders(4);
    put(&broker, 0..1000);
    let consumer = member(&broker).start().unwrap();
    assert_eq!(consumer.assignment(), (0..4).map(queue).collect::<Vec<_>>());
    assert_eq!(sorted(rest(&consumer)), (0..1000).collect::<Vec<_>>());
    assert!((0..4).all(|id| committed(&broker, id).is_none()), "nobody has asked for it");
    assert_eq!(rest(&consumer), [] as [u32; 0]);
    consumer.commit().unwrap();
    assert_eq!(broker.inspect().lag("billing", "orders"), 0);
    assert_eq!(consumer.position(&queue(0)), Some(250));
    assert_eq!(consumer.committed(&queue(0)).unwrap(), Some(250));
    put(&broker, 1000..1004);
    assert!(consumer.shutdown(SOON).is_clean());
    let next = member(&broker).start().unwrap();
    assert_eq!(sorted(rest(&next)), [1000, 1001, 1002, 1003]);
    assert!(next.shutdown(SOON).is_clean());
    let stats = next.stats();
    assert_eq!((stats.succeeded, stats.threads), (4, 0));
}

#[test]
fn reading_on_its_own_is_no_membership_and_commits_nothing() {
    let broker = orders(2);
    put(&broker, 0..100);
    let consumer = reader(&broker).start().unwrap();
    assert_eq!(sorted(rest(&consumer)), (0..100).collect::<Vec<_>>());
    let state = broker.inspect();
    assert!(state.members(TOOLS_GROUP).is_empty());
    let requests = broker.requests();
    let of_group = |code| requests.iter().filter(move |request| request.code == code);
    assert_eq!(of_group(RequestCode::UPDATE_CONSUMER_OFFSET).count(), 0);
    assert_eq!(of_group(RequestCode::GET_CONSUMER_LIST_BY_GROUP).count(), 0);
    consumer.commit().unwrap();
    assert_eq!(broker.inspect().committed(TOOLS_GROUP, &queue(0)), Some(50));
    assert!(consumer.shutdown(SOON).is_clean());
    let goodbyes = broker.requests();
    assert!(goodbyes.iter().all(|request| request.code != RequestCode::UNREGISTER_CLIENT));
}

#[test]
fn a_filter_is_kept_to_without_a_membership() {
    let broker = orders(2);
    for n in 0..60 {
        let tag = ["paid", "created", "Aa", "BB"][n % 4];
        broker.put(&Message::new("orders", n.to_string()).tag(tag)).unwrap();
    }
    let consumer = PullConsumer::builder(TOOLS_GROUP)
        .name_servers(broker.name_server())
        .assign_topic("orders", "paid || Aa")
        .consume_from(ConsumeFrom::FirstOffset)
        .start()
        .unwrap();
    let expected: Vec<u32> = (0..60).filter(|n| n % 2 == 0).collect();
    assert_eq!(sorted(rest(&consumer)), expected, "Aa and BB have the same hash");
    // Nothing that matches comes after the last ones: the end is reached all the same.
    for _ in 0..10 {
        broker.put(&Message::new("orders", "0").tag("created")).unwrap();
    }
    assert_eq!(rest(&consumer), [] as [u32; 0]);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn compressed_bodies_are_read() {
    let broker = orders(1);
    let client = client_of(broker.name_server());
    let producer = rocketmq_sync::Producer::builder("shop").client(&client).start().unwrap();
    let long = "x".repeat(20_000);
    producer.send(&Message::new("orders", long.as_str())).unwrap();
    let consumer = member(&broker).start().unwrap();
    assert_eq!(body(&some(&consumer)[0]), long);
    assert!(consumer.shutdown(SOON).is_clean());
    assert!(client.shutdown(SOON).is_clean());
}

#[test]
fn until_end_ends_where_the_end_was() {
    let broker = orders(1);
    put(&broker, 0..10);
    let consumer = member(&broker).pull_batch_size(4).start().unwrap();
    let mut reading = consumer.until_end().unwrap();
    put(&broker, 10..20);
    let mut got = Vec::new();
    for messages in reading.by_ref() {
        got.extend(numbers(&messages.unwrap()));
    }
    assert_eq!(got, (0..10).collect::<Vec<_>>());
    drop(reading);
    assert_eq!(rest(&consumer), (10..20).collect::<Vec<_>>());
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_slow_program_stops_the_pulls_and_loses_nothing() {
    let broker = orders(1);
    put(&broker, 0..2000);
    let consumer = member(&broker).pull_threshold_messages(100).start().unwrap();
    until("flow control", || {
        consumer.stats().queues.iter().any(|queue| queue.waiting == Some(Waiting::FlowControl))
    });
    let cached = consumer.stats().cached_messages;
    assert!((100..132).contains(&cached), "{cached}");
    assert_eq!(rest(&consumer), (0..2000).collect::<Vec<_>>());
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_paused_queue_rests_and_the_others_go_on() {
    let broker = orders(2);
    put(&broker, 0..100);
    let consumer = member(&broker).start().unwrap();
    until("something is fetched of both", || {
        consumer.stats().queues.iter().all(|queue| queue.cached_messages > 0)
    });
    consumer.pause([&queue(1)]);
    let mut got = Vec::new();
    while got.len() < 50 {
        let messages = some(&consumer);
        assert_eq!(messages[0].queue(), &queue(0));
        got.extend(numbers(&messages));
    }
    assert!(consumer.poll(Duration::from_millis(50)).unwrap().is_empty());
    assert!(rest(&consumer).is_empty(), "it is not waited for");
    until("it says so", || {
        consumer
            .stats()
            .queues
            .iter()
            .any(|one| one.queue == queue(1) && one.waiting == Some(Waiting::Paused))
    });
    consumer.resume([&queue(1)]);
    got.extend(rest(&consumer));
    assert_eq!(sorted(got), (0..100).collect::<Vec<_>>());
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn several_threads_poll_and_commit_what_they_have_done() {
    let broker = orders(4);
    put(&broker, 0..2000);
    let consumer = member(&broker).start().unwrap();
    let read: Mutex<Vec<u32>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while read.lock().unwrap().len() < 2000 {
                    let messages = consumer.poll(Duration::from_millis(20)).unwrap();
                    let Some(last) = messages.last() else { continue };
                    consumer.commit_offsets([(last.queue().clone(), last.queue_offset() + 1)]).unwrap();
                    read.lock().unwrap().extend(numbers(&messages));
                }
            });
        }
    });
    assert_eq!(sorted(read.into_inner().unwrap()), (0..2000).collect::<Vec<_>>());
    assert!(consumer.shutdown(SOON).is_clean());
}
