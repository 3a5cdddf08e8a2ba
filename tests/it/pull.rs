//! The pull consumer: polling, committing, going elsewhere, and the queues of one's own choice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{
    SOON, advance_until, body, client_by_hand, next_event, orders, orders_by_hand, put, queue, until,
};
use crate::wire::Wire;
use rocketmq_sync::broker::{Broker, Fault, Reaction, Version};
use rocketmq_sync::consumer::{Event, LocalOffsets, PullConsumerBuilder, StartReason, Waiting};
use rocketmq_sync::testing::protocol::headers::{GetConsumerRunningInfo, ResetOffset};
use rocketmq_sync::{
    Client, ConsumeFrom, ErrorKind, Message, MessageModel, MessageQueue, MessageView, PullConsumer,
    RequestCode, ResponseCode, TOOLS_GROUP,
};

/// A member of `billing` that reads `orders` from the beginning and commits when it is told to.
fn member(broker: &Broker) -> PullConsumerBuilder {
    PullConsumer::builder("billing")
        .name_servers(broker.name_server())
        .subscribe("orders", "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .auto_commit(false)
}

/// Reads all of `orders` on its own.
fn reader(broker: &Broker) -> PullConsumerBuilder {
    PullConsumer::builder(TOOLS_GROUP)
        .name_servers(broker.name_server())
        .assign_topic("orders", "*")
        .consume_from(ConsumeFrom::FirstOffset)
}

fn numbers(messages: &[MessageView]) -> Vec<u32> {
    messages.iter().map(|message| body(message).parse().unwrap()).collect()
}

/// The next messages, which must come.
fn some(consumer: &PullConsumer) -> Vec<MessageView> {
    let messages = consumer.poll(SOON).unwrap();
    assert!(!messages.is_empty(), "nothing within {SOON:?}");
    messages
}

/// Everything to the end, in the order it came.
fn rest(consumer: &PullConsumer) -> Vec<u32> {
    consumer.until_end().unwrap().flat_map(|messages| numbers(&messages.unwrap())).collect()
}

fn sorted(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers
}

fn committed(broker: &Broker, id: i32) -> Option<i64> {
    broker.inspect().committed("billing", &queue(id))
}

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
fn a_poll_commits_what_earlier_polls_handed_out() {
    let broker = orders_by_hand(1);
    put(&broker, 0..3);
    let client = client_by_hand(&broker);
    let consumer = PullConsumer::builder("billing")
        .client(&client)
        .subscribe("orders", "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .pull_batch_size(2)
        .start()
        .unwrap();
    assert_eq!(numbers(&some(&consumer)), [0, 1]);
    let passed = || {
        advance_until(broker.clock(), Duration::from_secs(1), "some time", {
            let end = broker.clock().now() + Duration::from_secs(12);
            let clock = broker.clock().clone();
            move || clock.now() >= end
        });
    };
    passed();
    assert!(committed(&broker, 0).is_none_or(|offset| offset == 0), "the program may still work on them");
    assert_eq!(numbers(&some(&consumer)), [2]);
    passed();
    broker.wait(SOON, |state| state.committed("billing", &queue(0)) == Some(2)).unwrap();
    assert!(consumer.poll(Duration::ZERO).unwrap().is_empty());
    passed();
    broker.wait(SOON, |state| state.committed("billing", &queue(0)) == Some(3)).unwrap();
    put(&broker, 3..4);
    assert_eq!(numbers(&some(&consumer)), [3]);
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    assert_eq!(committed(&broker, 0), Some(4), "a shutdown commits what was handed out");
    assert!(client.shutdown(SOON).is_clean());
}

/// What was handed out is not charged, however much of it is never committed.
#[test]
fn a_program_that_never_commits_is_not_stopped_by_what_it_got() {
    let broker = orders(1);
    put(&broker, 0..5000);
    let consumer = member(&broker).pull_threshold_messages(100).start().unwrap();
    let all = rest(&consumer);
    assert_eq!(all, (0..5000).collect::<Vec<_>>());
    until("nothing is cached", || consumer.client().stats().cached_bytes == 0);
    let begun = Instant::now();
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean() && begun.elapsed() < Duration::from_secs(3), "{report}");
    assert_eq!(committed(&broker, 0), None);
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
fn assign_replaces_what_was_assigned() {
    let broker = orders(3);
    put(&broker, 0..30);
    let consumer = PullConsumer::builder("reader")
        .name_servers(broker.name_server())
        .consume_from(ConsumeFrom::FirstOffset)
        .assign([])
        .start()
        .unwrap();
    assert!(consumer.assignment().is_empty() && rest(&consumer).is_empty());
    let queues = consumer.queues("orders").unwrap();
    assert_eq!(queues, (0..3).map(queue).collect::<Vec<_>>());
    consumer.assign(queues[..2].to_vec()).unwrap();
    consumer.seek(&queue(1), 5).unwrap();
    assert_eq!(rest(&consumer).len(), 15);
    consumer.assign(queues[1..].to_vec()).unwrap();
    assert_eq!(consumer.assignment(), [queue(1), queue(2)]);
    assert_eq!(rest(&consumer).len(), 10, "the second one goes on where it is");
    assert_eq!(consumer.seek(&queue(0), 0).unwrap_err().kind(), ErrorKind::InvalidInput);
    let missing = MessageQueue::new("nowhere", "broker-a", 0);
    assert_eq!(consumer.assign([missing]).unwrap_err().kind(), ErrorKind::TopicNotFound);
    assert_eq!(consumer.assignment(), [queue(1), queue(2)], "nothing was changed");
    assert_eq!(consumer.subscribe("orders", "*").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(consumer.shutdown(SOON).is_clean());
    let member = member(&broker).start().unwrap();
    assert_eq!(member.assign(queues).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(member.shutdown(SOON).is_clean());
}

#[test]
fn new_queues_of_an_assigned_topic_are_read() {
    let broker = orders_by_hand(1);
    let client = client_by_hand(&broker);
    let consumer = PullConsumer::builder(TOOLS_GROUP)
        .client(&client)
        .assign_topic("orders", "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .start()
        .unwrap();
    assert_eq!(consumer.assignment(), [queue(0)]);
    broker.set_queues("orders", 2);
    advance_until(broker.clock(), Duration::from_secs(1), "the new queue", || {
        consumer.assignment().len() == 2
    });
    put(&broker, 0..10);
    let mut got = Vec::new();
    while got.len() < 10 {
        got.extend(numbers(&some(&consumer)));
    }
    assert_eq!(sorted(got), (0..10).collect::<Vec<_>>());
    assert!(client.shutdown(SOON).is_clean());
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

#[test]
fn a_revoked_queue_is_committed_as_far_as_it_was_handed_out() {
    let broker = orders(2);
    put(&broker, 0..400);
    let first = member(&broker).auto_commit(true).start().unwrap();
    let mut got = numbers(&some(&first));
    got.extend(numbers(&some(&first)));
    let second = member(&broker).auto_commit(true).start().unwrap();
    until("each has one queue", || first.assignment().len() == 1 && second.assignment().len() == 1);
    got.extend(rest(&second));
    got.extend(rest(&first));
    assert!(first.shutdown(SOON).is_clean() && second.shutdown(SOON).is_clean());
    assert_eq!(sorted(got), (0..400).collect::<Vec<_>>(), "nothing twice, nothing lost");
    assert_eq!(broker.inspect().lag("billing", "orders"), 0);
}

#[test]
fn a_program_that_commits_has_a_moment_for_it_when_a_queue_goes() {
    let broker = orders(1);
    put(&broker, 0..10);
    let client = Client::builder().name_servers(broker.name_server()).start().unwrap();
    let mine = member(&broker).start().unwrap();
    assert_eq!(numbers(&some(&mine)).len(), 10);
    // Whoever sorts first gets the only queue.
    let builder = || PullConsumer::builder("billing").client(&client).auto_commit(false);
    let other = builder().subscribe("orders", "*").allocate(|_, _, queues| queues.to_vec()).start().unwrap();
    mine.unsubscribe("orders").unwrap();
    mine.commit().unwrap();
    assert_eq!(committed(&broker, 0), Some(10));
    assert!(mine.commit().is_ok(), "nothing is left");
    assert!(other.shutdown(SOON).is_clean());
    assert!(mine.shutdown(SOON).is_clean());
}

#[test]
fn a_commit_of_what_went_to_another_member_is_an_error() {
    let broker = orders(1);
    put(&broker, 0..10);
    let mine = member(&broker).start().unwrap();
    assert_eq!(numbers(&some(&mine)).len(), 10);
    let mut events = mine.events();
    mine.unsubscribe("orders").unwrap();
    next_event(&mut events, "it is gone", |event| matches!(event, Event::Revoked { .. }).then_some(()));
    let error = mine.commit().unwrap_err();
    assert!(
        error.kind() == ErrorKind::InvalidInput && error.to_string().contains("orders@broker-a:0"),
        "{error}"
    );
    assert!(mine.commit().is_ok(), "said once");
    assert_eq!(committed(&broker, 0), None);
    assert!(mine.shutdown(SOON).is_clean());
}

#[test]
fn a_commit_that_a_broker_refuses_is_told_with_its_code() {
    let broker = orders(1);
    put(&broker, 0..10);
    let consumer = member(&broker).start().unwrap();
    some(&consumer);
    let busy = Reaction::Reply(ResponseCode::SYSTEM_BUSY);
    broker.fault(Fault::on(RequestCode::UPDATE_CONSUMER_OFFSET, busy));
    let error = consumer.commit().unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Busy, Some(ResponseCode::SYSTEM_BUSY)), "{error}");
    assert!(error.is_retryable());
    consumer.commit().unwrap();
    assert_eq!(committed(&broker, 0), Some(10));
    consumer.commit_offsets([(queue(0), 4)]).unwrap();
    assert_eq!(committed(&broker, 0), Some(4), "backwards, since the program says so");
    assert!(consumer.shutdown(SOON).is_clean());
    assert_eq!(committed(&broker, 0), Some(4));
}

#[test]
fn poll_fails_when_every_queue_does() {
    let broker = orders(2);
    let client = Client::builder().name_servers(broker.name_server()).start().unwrap();
    let consumer = member(&broker).start().unwrap();
    assert!(consumer.poll(Duration::from_millis(20)).unwrap().is_empty());
    broker.kill();
    let deadline = Instant::now() + SOON;
    let error = loop {
        assert!(Instant::now() < deadline);
        if let Err(error) = consumer.poll(Duration::from_millis(50)) {
            break error;
        }
    };
    assert!(error.is_retryable(), "{error:?}");
    assert!(error.attempts().len() == 2 && error.to_string().contains("orders@broker-a:1"), "{error}");
    let error = consumer.until_end().unwrap_err();
    assert!(error.is_retryable(), "{error}");
    broker.start().unwrap();
    put(&broker, 0..10);
    let mut got = Vec::new();
    while got.len() < 10 {
        match consumer.poll(Duration::from_millis(200)) {
            Ok(messages) => got.extend(numbers(&messages)),
            Err(error) => assert!(error.is_retryable() && Instant::now() < deadline, "{error}"),
        }
    }
    assert!(consumer.shutdown(SOON).is_clean());
    assert!(client.shutdown(SOON).is_clean());
}

#[test]
fn a_shutdown_wakes_whoever_polls_and_closed_handles_say_so() {
    let broker = orders(1);
    let consumer = member(&broker).start().unwrap();
    std::thread::scope(|scope| {
        let polling = scope.spawn(|| consumer.poll(Duration::MAX));
        until("somebody waits", || broker.inspect().waiting_pulls("billing") == 1);
        let begun = Instant::now();
        assert!(consumer.shutdown(SOON).is_clean());
        assert_eq!(polling.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
        assert!(begun.elapsed() < Duration::from_secs(5));
    });
    let closed = |kind| assert_eq!(kind, ErrorKind::Closed);
    closed(consumer.poll(Duration::ZERO).unwrap_err().kind());
    closed(consumer.until_end().unwrap_err().kind());
    closed(consumer.commit().unwrap_err().kind());
    closed(consumer.commit_offsets([]).unwrap_err().kind());
    closed(consumer.committed(&queue(0)).unwrap_err().kind());
    closed(consumer.seek(&queue(0), 0).unwrap_err().kind());
    closed(consumer.offset_at(&queue(0), 0).unwrap_err().kind());
    closed(consumer.assign([]).unwrap_err().kind());
    closed(consumer.queues("orders").unwrap_err().kind());
    closed(consumer.subscribe("orders", "*").unwrap_err().kind());
    closed(consumer.unsubscribe("orders").unwrap_err().kind());
    consumer.events().for_each(drop);
    assert!(consumer.events().is_closed());
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_missing_topic_fails_the_start_and_missing_dead_letters_do_not() {
    let broker = orders(1);
    let error =
        PullConsumer::builder("x").name_servers(broker.name_server()).assign_topic("none", "*").start();
    assert_eq!(error.unwrap_err().kind(), ErrorKind::TopicNotFound);
    let begun = Instant::now();
    let consumer = PullConsumer::builder("office")
        .name_servers(broker.name_server())
        .subscribe("%DLQ%billing", "*")
        .start()
        .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(rest(&consumer).is_empty());
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn compressed_bodies_are_read() {
    let broker = orders(1);
    let client = Client::builder().name_servers(broker.name_server()).start().unwrap();
    let producer = rocketmq_sync::Producer::builder("shop").client(&client).start().unwrap();
    let long = "x".repeat(20_000);
    producer.send(&Message::new("orders", long.as_str())).unwrap();
    let consumer = member(&broker).start().unwrap();
    assert_eq!(body(&some(&consumer)[0]), long);
    assert!(consumer.shutdown(SOON).is_clean());
    assert!(client.shutdown(SOON).is_clean());
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

#[test]
fn broadcasting_members_read_everything_and_keep_their_own_offsets() {
    let broker = orders(2);
    put(&broker, 0..50);
    let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let start = |place: &tempfile::TempDir| {
        let builder = member(&broker).message_model(MessageModel::Broadcasting);
        builder.local_offsets(LocalOffsets::Directory(place.path().into())).start().unwrap()
    };
    let members = [start(&places[0]), start(&places[1])];
    for member in &members {
        assert_eq!(sorted(rest(member)), (0..50).collect::<Vec<_>>());
    }
    members[0].commit().unwrap();
    assert_eq!(members[0].committed(&queue(0)).unwrap(), Some(25));
    assert_eq!(members[1].committed(&queue(0)).unwrap(), None);
    for member in members {
        assert!(member.shutdown(SOON).is_clean());
    }
    assert_eq!(committed(&broker, 0), None, "no broker knows");
    put(&broker, 50..60);
    let again = start(&places[0]);
    assert_eq!(sorted(rest(&again)), (50..60).collect::<Vec<_>>());
    assert!(again.shutdown(SOON).is_clean());
}

/// What is read goes on when the broker is back; meanwhile it says what is wrong.
#[test]
fn until_end_says_that_a_broker_is_away_and_can_go_on() {
    let broker = orders(1);
    put(&broker, 0..300);
    let client = Client::builder()
        .name_servers(broker.name_server())
        .start_timeout(Duration::from_millis(500))
        .start()
        .unwrap();
    let consumer = PullConsumer::builder("billing")
        .client(&client)
        .subscribe("orders", "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .pull_threshold_messages(1)
        .auto_commit(false)
        .start()
        .unwrap();
    let mut reading = consumer.until_end().unwrap();
    let mut got = numbers(&reading.next().unwrap().unwrap());
    broker.kill();
    let deadline = Instant::now() + SOON;
    let error = loop {
        assert!(Instant::now() < deadline);
        match reading.next().unwrap() {
            Ok(messages) => got.extend(numbers(&messages)),
            Err(error) => break error,
        }
    };
    assert!(error.is_retryable() && error.to_string().contains("orders@broker-a:0"), "{error}");
    broker.start().unwrap();
    // In memory: what it held is gone, and so is the end that was there.
    drop(reading);
    assert!(got.len() < 300);
    assert!(client.shutdown(SOON).is_clean());
}

#[test]
fn operators_see_a_pull_consumer() {
    let broker = orders(1);
    let consumer = member(&broker).start().unwrap();
    let id = consumer.client().client_id().to_owned();
    assert_eq!(broker.inspect().members("billing"), [id.as_str()]);
    let info = GetConsumerRunningInfo {
        consumer_group: "billing".into(),
        client_id: id,
        jstack_enable: Some(false),
    };
    let mut tool = Wire::connect(&broker.name_server());
    let answer = tool.ask(RequestCode::GET_CONSUMER_RUNNING_INFO, &info);
    assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{answer:?}");
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(text.contains("CONSUME_ACTIVELY") && text.contains("orders"), "{text}");
    assert!(consumer.shutdown(SOON).is_clean());
}
