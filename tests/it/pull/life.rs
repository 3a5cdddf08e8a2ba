//! Its queues come, change and fail, and in the end it is closed.

use std::time::{Duration, Instant};

use super::{member, numbers, rest, some, sorted};
use crate::support::{
    SOON, advance_until, client_by_hand, client_of, orders, orders_by_hand, put, queue, until,
};
use crate::wire::Wire;
use rocketmq_sync::testing::protocol::headers::GetConsumerRunningInfo;
use rocketmq_sync::{
    Client, ConsumeFrom, ErrorKind, MessageQueue, PullConsumer, RequestCode, ResponseCode, TOOLS_GROUP,
};

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
fn poll_fails_when_every_queue_does() {
    let broker = orders(2);
    let client = client_of(broker.name_server());
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
