//! Where it goes on: where the program wants, where its own offsets say, or where an operator has set it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{committed, member, numbers, reader, rest, some, sorted};
use crate::support::{SOON, next_event, orders, put, queue, until};
use crate::wire::Wire;
use rocketmq_sync::broker::{Broker, Fault, Reaction, Version};
use rocketmq_sync::consumer::{Event, StartReason};
use rocketmq_sync::testing::protocol::headers::ResetOffset;
use rocketmq_sync::{ConsumeFrom, ErrorKind, MessageQueue, RequestCode, ResponseCode};

#[test]
fn the_last_messages_of_each_queue() {
    let broker = orders(4);
    put(&broker, 0..100);
    let consumer = reader(&broker).start().unwrap();
    for queue in consumer.assignment() {
        consumer.seek(&queue, ConsumeFrom::LastMessages(3)).unwrap();
    }
    assert_eq!(sorted(rest(&consumer)), (88..100).collect::<Vec<_>>());
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn seek_drops_what_was_fetched_and_an_answer_that_comes_later() {
    let broker = orders(1);
    put(&broker, 0..500);
    let consumer = member(&broker).pull_threshold_messages(1).start().unwrap();
    assert_eq!(numbers(&some(&consumer))[0], 0);
    until("more is fetched", || consumer.stats().cached_messages > 0);
    consumer.seek(&queue(0), 400).unwrap();
    assert_eq!(consumer.position(&queue(0)), Some(400));
    assert_eq!(numbers(&some(&consumer))[0], 400);
    // The answer to this pull is under way when the program goes elsewhere.
    consumer.seek(&queue(0), ConsumeFrom::LastOffset).unwrap();
    assert!(consumer.poll(Duration::ZERO).unwrap().is_empty());
    let late =
        broker.fault(Fault::on(RequestCode::PULL_MESSAGE, Reaction::Delay(Duration::from_millis(200))));
    consumer.seek(&queue(0), 300).unwrap();
    late.wait_hits(1, SOON).unwrap();
    consumer.seek(&queue(0), 7).unwrap();
    assert_eq!(numbers(&some(&consumer))[0], 7);
    assert_eq!(rest(&consumer).first(), Some(&39));
    assert_eq!(committed(&broker, 0), None);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn offsets_that_do_not_exist_are_refused() {
    let broker = orders(1);
    put(&broker, 0..10);
    broker.truncate(&queue(0), 4, 10);
    let consumer = member(&broker).start().unwrap();
    for wrong in [-1, 3, 11, i64::MAX, i64::MIN] {
        assert_eq!(consumer.seek(&queue(0), wrong).unwrap_err().kind(), ErrorKind::InvalidInput, "{wrong}");
        assert_eq!(consumer.offset_at(&queue(0), wrong).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    for wrong in [-1, i64::MIN, 11] {
        let error = consumer.commit_offsets([(queue(0), wrong)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong}");
    }
    let foreign = queue(7);
    assert_eq!(consumer.seek(&foreign, 0).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(consumer.commit_offsets([(foreign, 0)]).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(consumer.offset_at(&queue(0), ConsumeFrom::FirstOffset).unwrap(), 4);
    assert_eq!(consumer.offset_at(&queue(0), ConsumeFrom::LastOffset).unwrap(), 10);
    assert_eq!(consumer.offset_at(&queue(0), ConsumeFrom::LastMessages(100)).unwrap(), 4);
    assert_eq!(consumer.offset_at(&queue(0), ConsumeFrom::LastMessages(2)).unwrap(), 8);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn own_offsets_are_asked_for_on_the_thread_that_polls() {
    let broker = orders(2);
    put(&broker, 0..20);
    let asked: Arc<Mutex<Vec<(MessageQueue, std::thread::ThreadId)>>> = Arc::default();
    let noting = asked.clone();
    let consumer = member(&broker)
        .start_offset(move |queue| {
            noting.lock().unwrap().push((queue.clone(), std::thread::current().id()));
            Ok::<_, String>((queue.queue_id() == 0).then_some(7))
        })
        .start()
        .unwrap();
    let mut events = consumer.events();
    assert_eq!((consumer.assignment().len(), consumer.position(&queue(0))), (2, None));
    assert_eq!(rest(&consumer).len(), 13);
    let reasons: BTreeMap<i32, StartReason> = (0..2)
        .map(|_| {
            next_event(&mut events, "a start", |event| match event {
                Event::Assigned { queue, reason, .. } => Some((queue.queue_id(), reason)),
                _ => None,
            })
        })
        .collect();
    assert_eq!(reasons[&0], StartReason::StartOffset);
    assert_ne!(reasons[&1], StartReason::StartOffset);
    let asked = asked.lock().unwrap();
    assert_eq!(asked.iter().map(|(queue, _)| queue.queue_id()).collect::<BTreeSet<_>>().len(), 2);
    assert!(asked.len() == 2 && asked.iter().all(|(_, thread)| *thread == std::thread::current().id()));
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn own_offsets_that_fail_leave_the_queue_unread_until_they_are_known() {
    let broker = orders(1);
    put(&broker, 0..5);
    let times = Arc::new(AtomicUsize::new(0));
    let count = times.clone();
    let consumer = member(&broker)
        .start_offset(move |_| match count.fetch_add(1, Ordering::SeqCst) {
            0 => Err("the database is down"),
            1 => panic!("the code is broken"),
            2 => Ok(Some(-5)),
            _ => Ok(Some(3)),
        })
        .start()
        .unwrap();
    let mut seen = Vec::new();
    let deadline = Instant::now() + SOON;
    let messages = loop {
        assert!(Instant::now() < deadline);
        match consumer.poll(Duration::from_millis(20)) {
            Ok(messages) if messages.is_empty() => {}
            Ok(messages) => break messages,
            Err(error) => seen.push(error.to_string()),
        }
    };
    assert_eq!(numbers(&messages), [3, 4]);
    for text in ["the database is down", "the code is broken", "negative"] {
        assert!(seen.iter().any(|error| error.contains(text)), "{text} in {seen:?}");
    }
    assert!(consumer.shutdown(SOON).is_clean());
}

/// On both kinds of brokers: newer ones tell the next pull, older ones the members.
#[test]
fn o12_a_reset_from_the_console_reaches_a_pull_consumer_too() {
    for version in [Version::V5_3, Version::V4_9] {
        for auto in [true, false] {
            let broker = Broker::builder().topic("orders", 1).version(version).start().unwrap();
            put(&broker, 0..200);
            let consumer = member(&broker).auto_commit(auto).start().unwrap();
            assert_eq!(rest(&consumer).len(), 200);
            consumer.commit().unwrap();
            assert_eq!(committed(&broker, 0), Some(200));
            // To the beginning: everything was stored after that.
            let header = ResetOffset {
                topic: "orders".into(),
                group: "billing".into(),
                timestamp: 0,
                is_force: true,
                ..ResetOffset::default()
            };
            let begun = Instant::now();
            let answer =
                Wire::connect(&broker.name_server()).ask(RequestCode::INVOKE_BROKER_TO_RESET_OFFSET, &header);
            assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{:?}", answer.remark);
            let again = some(&consumer);
            assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
            assert_eq!(numbers(&again)[0], 0);
            let mut got = numbers(&again);
            got.extend(rest(&consumer));
            assert_eq!(got, (0..200).collect::<Vec<_>>(), "{version:?}");
            assert!(auto || committed(&broker, 0) == Some(0), "the reset is all that was committed");
            consumer.commit().unwrap();
            assert_eq!(committed(&broker, 0), Some(200));
            assert!(consumer.shutdown(SOON).is_clean());
        }
    }
}
