//! Broadcasting: every member gets everything, and keeps its offsets itself.

use std::path::Path;
use std::time::Duration;

use crate::support::{
    SOON, Seen, advance_until, client_by_hand, client_with_routes_every, next_event, orders, orders_by_hand,
    put, queue, until,
};
use crate::wire::Wire;
use rocketmq_sync::broker::Broker;
use rocketmq_sync::consumer::{Event, LocalOffsets, PushConsumerBuilder};
use rocketmq_sync::testing::protocol::headers::ResetOffset;
use rocketmq_sync::{
    ConsumeFrom, ConsumeStatus, ErrorKind, Message, MessageModel, PushConsumer, RequestCode, ResponseCode,
};

/// A broadcasting member of `watch`, with its offsets in this directory.
fn watch(broker: &Broker, directory: &Path) -> PushConsumerBuilder {
    PushConsumer::builder("watch")
        .name_servers(broker.name_server())
        .subscribe("orders", "*")
        .message_model(MessageModel::Broadcasting)
        .local_offsets(LocalOffsets::Directory(directory.to_owned()))
        .consume_threads(4)
}

fn requests(broker: &Broker, code: RequestCode) -> usize {
    broker.requests().iter().filter(|request| request.code == code).count()
}

#[test]
fn every_member_gets_everything_and_no_broker_keeps_an_offset() {
    let broker = orders(4);
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (first, second) = (Seen::default(), Seen::default());
    let start = |directory: &tempfile::TempDir, seen: &Seen| {
        watch(&broker, directory.path()).consume_concurrently(seen.listener()).start().unwrap()
    };
    let (a, b) = (start(&one, &first), start(&two, &second));
    put(&broker, 0..100);
    first.wait(100);
    second.wait(100);
    first.assert_once(0..100);
    second.assert_once(0..100);
    assert_eq!((a.assignment().len(), b.assignment().len()), (4, 4), "no retry topic");
    let reports = [a.shutdown(SOON), b.shutdown(SOON)];
    for report in reports {
        assert!(report.is_clean() && report.committed.len() == 4, "{report}");
        assert_eq!(report.committed.iter().map(|(_, offset)| offset).sum::<i64>(), 100);
    }
    assert_eq!(requests(&broker, RequestCode::UPDATE_CONSUMER_OFFSET), 0);
    assert_eq!(requests(&broker, RequestCode::QUERY_CONSUMER_OFFSET), 0);
    assert_eq!(requests(&broker, RequestCode::GET_CONSUMER_LIST_BY_GROUP), 0);
    assert_eq!(broker.inspect().committed("watch", &queue(0)), None);
}

#[test]
fn o15_a_restart_repeats_nothing_and_loses_nothing() {
    let broker = orders(2);
    let directory = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    for round in 0..3 {
        let consumer =
            watch(&broker, directory.path()).consume_concurrently(seen.listener()).start().unwrap();
        put(&broker, round * 20..round * 20 + 10);
        seen.wait(round as usize * 20 + 10);
        let report = consumer.shutdown(SOON);
        assert!(report.is_clean(), "{report}");
        // What comes while nobody is there is waited for.
        put(&broker, round * 20 + 10..round * 20 + 20);
    }
    let last = watch(&broker, directory.path()).consume_concurrently(seen.listener()).start().unwrap();
    seen.wait(60);
    assert!(last.shutdown(SOON).is_clean());
    seen.assert_once(0..60);
}

#[test]
fn o6_what_is_sent_after_start_has_returned_arrives() {
    for _ in 0..5 {
        let broker = orders(4);
        put(&broker, 0..10);
        let directory = tempfile::tempdir().unwrap();
        let seen = Seen::default();
        let consumer =
            watch(&broker, directory.path()).consume_concurrently(seen.listener()).start().unwrap();
        put(&broker, 10..110);
        seen.wait(100);
        assert!(consumer.shutdown(SOON).is_clean());
        seen.assert_once(10..110);
    }
}

/// By brokers that tell the next pull; older ones know no offsets of such a group, and refuse.
#[test]
fn o12_a_reset_reaches_a_broadcasting_member_too() {
    let broker = orders(1);
    let directory = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    let start = || watch(&broker, directory.path()).consume_concurrently(seen.listener()).start().unwrap();
    let consumer = start();
    put(&broker, 0..10);
    seen.wait(10);
    let header = ResetOffset {
        topic: "orders".into(),
        group: "watch".into(),
        timestamp: 0,
        is_force: true,
        ..ResetOffset::default()
    };
    let answer =
        Wire::connect(&broker.name_server()).ask(RequestCode::INVOKE_BROKER_TO_RESET_OFFSET, &header);
    assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{answer:?}");
    seen.wait(20);
    assert!(seen.counts().values().all(|times| *times == 2));
    assert!(consumer.shutdown(SOON).is_clean());
    let next = start();
    put(&broker, 10..11);
    seen.wait(21);
    assert!(next.shutdown(SOON).is_clean());
    assert_eq!(seen.len(), 21);
}

#[test]
fn a_failed_message_is_tried_again_here_and_then_given_up_with_an_event() {
    let broker = orders_by_hand(1);
    let client = client_by_hand(&broker);
    let directory = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    let consumer = PushConsumer::builder("watch")
        .client(&client)
        .subscribe("orders", "*")
        .message_model(MessageModel::Broadcasting)
        .local_offsets(LocalOffsets::Directory(directory.path().to_owned()))
        .consume_from(ConsumeFrom::FirstOffset)
        .max_reconsume_times(3)
        .consume_concurrently(seen.answering(|batch| match batch[0].body() {
            b"1" => ConsumeStatus::ReconsumeLater,
            b"2" => ConsumeStatus::DeadLetter,
            _ => ConsumeStatus::Success,
        }));
    let started = std::thread::scope(|scope| {
        let started = scope.spawn(|| consumer.start().unwrap());
        advance_until(broker.clock(), Duration::from_millis(100), "it starts", || started.is_finished());
        started.join().unwrap()
    });
    let mut events = started.events();
    put(&broker, 0..4);
    let mut given_up = Vec::new();
    let mut look = || {
        while let Some(event) = events.try_next() {
            if let Event::GivenUp { message, .. } = event {
                given_up.push((message.body().to_vec(), message.reconsume_times()));
            }
        }
        given_up.len() == 2
    };
    advance_until(broker.clock(), Duration::from_millis(500), "both are given up", &mut look);
    assert_eq!(given_up, [(b"2".to_vec(), 0), (b"1".to_vec(), 3)]);
    let counts = seen.counts();
    assert_eq!((counts["0"], counts["1"], counts["2"], counts["3"]), (1, 4, 1, 1));
    let stats = started.stats();
    assert_eq!((stats.given_up, stats.dead_letters, stats.reconsumed), (2, 0, 0));
    let report = started.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.committed, [(queue(0), 4)]);
    assert_eq!(requests(&broker, RequestCode::CONSUMER_SEND_MSG_BACK), 0);
    assert_eq!(requests(&broker, RequestCode::SEND_MESSAGE_V2), 0);
}

/// A message that waits for its retry pins the offset, so that a restart gives it to the listener again.
#[test]
fn a_message_that_waits_for_its_retry_survives_a_restart() {
    let broker = orders(1);
    let directory = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    let consumer = watch(&broker, directory.path())
        .consume_concurrently(seen.answering(|batch| {
            if batch[0].body() == b"1" {
                ConsumeStatus::ReconsumeAfter(Duration::from_secs(3600))
            } else {
                ConsumeStatus::Success
            }
        }))
        .start()
        .unwrap();
    put(&broker, 0..3);
    seen.wait(3);
    until("1 waits", || consumer.stats().queues[0].in_flight == 0);
    let report = consumer.shutdown(SOON);
    assert!(!report.is_clean() && report.to_string().contains("wait for their retry"), "{report}");
    let again = Seen::default();
    let next = watch(&broker, directory.path()).consume_concurrently(again.listener()).start().unwrap();
    again.wait(2);
    assert!(next.shutdown(SOON).is_clean());
    again.assert_once(1..3);
}

#[test]
fn a_second_consumer_of_the_group_is_told_what_to_set() {
    let broker = orders(1);
    let directory = tempfile::tempdir().unwrap();
    let start = || watch(&broker, directory.path()).consume_concurrently(|_| ()).start();
    let first = start().unwrap();
    let error = start().unwrap_err();
    assert_eq!((error.kind(), error.mistakes()[0].setting), (ErrorKind::Config, "local_offsets"));
    assert!(error.to_string().contains("own directory"), "{error}");
    // Other places are free.
    let elsewhere = tempfile::tempdir().unwrap();
    let second = watch(&broker, elsewhere.path()).consume_concurrently(|_| ()).start().unwrap();
    let third =
        watch(&broker, directory.path()).local_offsets(LocalOffsets::Memory).consume_concurrently(|_| ());
    let third = third.start().unwrap();
    drop((first, second, third));
    assert!(start().unwrap().shutdown(SOON).is_clean());
}

#[test]
fn without_a_file_each_start_goes_by_consume_from() {
    let broker = orders(1);
    put(&broker, 0..5);
    for _ in 0..2 {
        let seen = Seen::default();
        let consumer = watch(&broker, Path::new("/not/to/be/made"))
            .local_offsets(LocalOffsets::Memory)
            .consume_from(ConsumeFrom::LastMessages(1))
            .consume_concurrently(seen.listener())
            .start()
            .unwrap();
        seen.wait(1);
        let report = consumer.shutdown(SOON);
        assert!(report.is_clean(), "{report}");
        seen.assert_once(4..5);
    }
}

/// It starts with the offsets of the backup.
#[test]
fn o13_a_file_without_an_end_is_no_reason_not_to_start() {
    let broker = orders(1);
    let directory = tempfile::tempdir().unwrap();
    let start = |seen: &Seen| {
        let builder = watch(&broker, directory.path()).consume_from(ConsumeFrom::FirstOffset);
        builder.consume_concurrently(seen.listener()).start().unwrap()
    };
    let seen = Seen::default();
    let consumer = start(&seen);
    put(&broker, 0..5);
    seen.wait(5);
    assert!(consumer.shutdown(SOON).is_clean());
    let path = directory.path().join("watch.json");
    let whole = std::fs::read(&path).unwrap();
    std::fs::copy(&path, directory.path().join("watch.json.bak")).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    put(&broker, 5..8);
    let again = Seen::default();
    let consumer = start(&again);
    again.wait(3);
    assert!(consumer.shutdown(SOON).is_clean());
    again.assert_once(5..8);
    assert!(directory.path().join("watch.json.damaged").exists());
}

#[test]
fn offsets_that_cannot_be_written_are_in_the_report() {
    let broker = orders(1);
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("offsets");
    let seen = Seen::default();
    let consumer = watch(&broker, &directory).consume_concurrently(seen.listener()).start().unwrap();
    // The first write may be under way in it.
    until("the directory is gone", || std::fs::remove_dir_all(&directory).is_ok());
    put(&broker, 0..3);
    seen.wait(3);
    let report = consumer.shutdown(Duration::from_secs(3));
    assert!(!report.is_clean() && report.uncommitted[0].1.contains("watch.json"), "{report}");
}

#[test]
fn a_crash_repeats_at_most_what_was_not_committed_yet() {
    let broker = orders(1);
    let directory = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    let consumer = watch(&broker, directory.path())
        .commit_interval(Duration::from_secs(3600))
        .consume_concurrently(seen.listener())
        .start()
        .unwrap();
    let mut events = consumer.events();
    next_event(&mut events, "assigned", |event| matches!(event, Event::Assigned { .. }).then_some(()));
    put(&broker, 0..5);
    seen.wait(5);
    // Nothing is left to do: it is committed soon, whatever the interval.
    let copy = tempfile::tempdir().unwrap();
    until("five are in the file", || {
        let text = std::fs::read_to_string(directory.path().join("watch.json")).unwrap_or_default();
        text.contains("\"offset\":5")
    });
    std::fs::copy(directory.path().join("watch.json"), copy.path().join("watch.json")).unwrap();
    put(&broker, 5..7);
    let again = Seen::default();
    let next = watch(&broker, copy.path()).consume_concurrently(again.listener()).start().unwrap();
    again.wait(2);
    again.assert_once(5..7);
    assert!(next.shutdown(SOON).is_clean());
    assert!(consumer.shutdown(SOON).is_clean());
}

/// No lock is needed where every member has every queue.
#[test]
fn members_that_consume_in_order_all_get_everything_in_order() {
    let broker = orders(2);
    let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let seen = [Seen::default(), Seen::default()];
    let members: Vec<PushConsumer> =
        places
            .iter()
            .zip(&seen)
            .map(|(place, seen)| {
                watch(&broker, place.path())
                    .max_reconsume_times(2)
                    .suspend_time(Duration::from_millis(10))
                    .consume_orderly(seen.answering(|batch| {
                        if batch[0].body() == b"10" { Err("not this one") } else { Ok(()) }
                    }))
                    .start()
                    .unwrap()
            })
            .collect();
    let mut events: Vec<_> = members.iter().map(PushConsumer::events).collect();
    put(&broker, 0..40);
    for (seen, events) in seen.iter().zip(&mut events) {
        seen.wait(42);
        let given_up = next_event(events, "given up", |event| match event {
            Event::GivenUp { message, .. } => Some((message.body().to_vec(), message.reconsume_times())),
            _ => None,
        });
        assert_eq!(given_up, (b"10".to_vec(), 2));
        let counts = seen.counts();
        assert!(counts.len() == 40 && counts["10"] == 3 && counts["11"] == 1, "{counts:?}");
        for id in 0..2 {
            let messages = seen.messages();
            let of_queue = messages.iter().filter(|message| message.queue() == &queue(id));
            assert!(of_queue.map(|message| message.queue_offset()).is_sorted());
        }
    }
    for member in members {
        let report = member.shutdown(SOON);
        assert!(report.is_clean() && report.committed.len() == 2, "{report}");
    }
    assert_eq!(requests(&broker, RequestCode::LOCK_BATCH_MQ), 0);
    assert_eq!(requests(&broker, RequestCode::CONSUMER_SEND_MSG_BACK), 0);
}

/// What comes to a queue before the member has heard of it is not missed, though it begins at the ends of queues.
#[test]
fn queues_that_are_added_are_consumed_from_their_beginning() {
    let broker = orders(2);
    put(&broker, 0..10);
    let client = client_with_routes_every(Duration::from_millis(200), broker.name_server());
    let directory = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    let consumer = PushConsumer::builder("watch")
        .client(&client)
        .subscribe("orders", "*")
        .message_model(MessageModel::Broadcasting)
        .local_offsets(LocalOffsets::Directory(directory.path().to_owned()))
        .consume_concurrently(seen.listener())
        .start()
        .unwrap();
    broker.set_queues("orders", 4);
    for id in 0..4 {
        broker.put(&Message::new("orders", (10 + id).to_string()).queue(&queue(id))).unwrap();
    }
    seen.wait(4);
    until("all owned", || consumer.assignment().len() == 4);
    // And fewer again: what is left goes on, and those that come back do not begin anew.
    broker.set_queues("orders", 1);
    until("one is left", || consumer.assignment().len() == 1);
    broker.put(&Message::new("orders", "14").queue(&queue(0))).unwrap();
    seen.wait(5);
    broker.set_queues("orders", 4);
    until("all are back", || consumer.assignment().len() == 4);
    broker.put(&Message::new("orders", "15").queue(&queue(3))).unwrap();
    seen.wait(6);
    assert!(consumer.shutdown(SOON).is_clean());
    seen.assert_once(10..16);
}
