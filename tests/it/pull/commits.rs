//! What is committed: as much as was handed out, or as much as the program says.

use std::time::{Duration, Instant};

use super::{committed, member, numbers, rest, some, sorted};
use crate::support::{
    SOON, advance_until, client_by_hand, client_of, next_event, orders, orders_by_hand, put, queue, until,
};
use rocketmq_sync::broker::{Fault, Reaction};
use rocketmq_sync::consumer::{Event, LocalOffsets};
use rocketmq_sync::{ConsumeFrom, ErrorKind, MessageModel, PullConsumer, RequestCode, ResponseCode};

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
    let client = client_of(broker.name_server());
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
