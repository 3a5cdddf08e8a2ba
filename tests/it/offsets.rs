//! Where a queue starts, what is committed, and when.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use crate::support::{
    Gate, SOON, Seen, billing, body, consumed, next_event, noting_member, noting_member_of, orders, put,
    queue, until,
};
use crate::wire::Wire;
use rocketmq_sync::broker::{Broker, Clock, Fault, Lose, Reaction, Snapshot, Version};
use rocketmq_sync::consumer::{Event, OffsetIllegal, StartReason, Waiting};
use rocketmq_sync::testing::protocol::headers::ResetOffset;
use rocketmq_sync::{Client, Message, PushConsumer, RequestCode, ResponseCode};

/// Offsets that pulls of `orders` asked for.
fn pulled_from(broker: &Broker) -> Vec<i64> {
    let requests = broker.requests();
    let pulls = requests.iter().filter(|request| request.code == RequestCode::PULL_MESSAGE);
    pulls.filter(|pull| pull.topic.as_deref() == Some("orders")).filter_map(|pull| pull.offset).collect()
}

/// Leaves the group with offset 10 of 10 messages in one queue.
fn consumed_ten(broker: &Broker) {
    put(broker, 0..10);
    let seen = Seen::default();
    let consumer = noting_member(broker, &seen);
    seen.wait(10);
    assert!(consumer.shutdown(SOON).is_clean());
    assert_eq!(broker.inspect().committed("billing", &queue(0)), Some(10));
}

#[test]
fn o1_an_offset_that_could_not_be_read_is_read_again_and_never_guessed() {
    for reaction in [Reaction::Ignore, Reaction::Delay(Duration::from_millis(600)), Reaction::Disconnect] {
        let broker = orders(1);
        consumed_ten(&broker);
        put(&broker, 10..15);
        let already = pulled_from(&broker).len();
        let late = broker
            .fault(Fault::on(RequestCode::QUERY_CONSUMER_OFFSET, reaction.clone()).topic("orders").times(1));
        let client = Client::builder()
            .name_servers(broker.name_server())
            .request_timeout(Duration::from_millis(200))
            .start()
            .unwrap();
        let seen = Seen::default();
        let consumer = noting_member_of(&client, &seen);
        late.wait_hits(1, SOON).unwrap();
        seen.wait(5);
        consumed(&broker);
        assert!(pulled_from(&broker)[already..].iter().all(|offset| *offset >= 10), "{reaction:?}");
        let committed = broker.requests();
        let committed = committed
            .iter()
            .filter(|request| request.code == RequestCode::UPDATE_CONSUMER_OFFSET)
            .filter(|request| request.topic.as_deref() == Some("orders"))
            .filter_map(|request| request.offset);
        assert!(committed.clone().is_sorted(), "{reaction:?}: {:?}", committed.collect::<Vec<_>>());
        seen.assert_once(10..15);
        assert!(consumer.shutdown(SOON).is_clean());
    }
}

/// The reads fail while two members share the queues out, and while one of them comes.
#[test]
fn o2_offsets_that_could_not_be_read_during_a_rebalance_are_never_guessed() {
    let broker = orders(4);
    let each = |from: u32, to: u32| {
        for n in from..to {
            let queue = queue(i32::try_from(n % 4).unwrap());
            broker.put(&Message::new("orders", n.to_string()).queue(&queue)).unwrap();
        }
    };
    let start = |seen: &Seen| {
        let client =
            Client::builder().name_servers(broker.name_server()).request_timeout(Duration::from_millis(200));
        let client = client.start().unwrap();
        noting_member_of(&client, seen)
    };
    each(0, 40);
    let before = Seen::default();
    let consumer = start(&before);
    before.wait(40);
    assert!(consumer.shutdown(SOON).is_clean());
    let already = broker.requests().len();
    let seen = Seen::default();
    let unread = |reaction| {
        broker.fault(Fault::on(RequestCode::QUERY_CONSUMER_OFFSET, reaction).topic("orders").times(4))
    };
    let faults =
        [Reaction::Ignore, Reaction::Disconnect, Reaction::Reply(ResponseCode::SYSTEM_ERROR)].map(unread);
    each(40, 48);
    let members = std::thread::scope(|scope| {
        [0, 1].map(|_| scope.spawn(|| start(&seen))).map(|member| member.join().unwrap())
    });
    faults.iter().for_each(|fault| fault.wait_hits(4, SOON).unwrap());
    let again = unread(Reaction::Delay(Duration::from_millis(600)));
    let third = start(&seen);
    assert!(members[0].shutdown(SOON).is_clean());
    again.wait_hits(1, SOON).unwrap();
    each(48, 56);
    consumed(&broker);
    for request in &broker.requests()[already..] {
        let about_offsets = [RequestCode::PULL_MESSAGE, RequestCode::UPDATE_CONSUMER_OFFSET];
        if about_offsets.contains(&request.code) && request.topic.as_deref() == Some("orders") {
            assert!(request.offset >= Some(10), "{request:?}");
        }
    }
    assert!(members[1].shutdown(SOON).is_clean() && third.shutdown(SOON).is_clean());
    seen.assert_once(40..56);
}

#[test]
fn o9_one_stuck_message_stops_the_pulls_at_the_span() {
    let broker = orders(1);
    put(&broker, 0..2000);
    let (seen, gate) = (Seen::default(), Gate::default());
    let (noting, stuck) = (seen.clone(), gate.clone());
    let consumer = billing()
        .name_servers(broker.name_server())
        .max_span(200)
        .consume_concurrently(move |batch| {
            if body(&batch[0]) == "10" {
                stuck.pass();
            }
            noting.note(batch);
        })
        .start()
        .unwrap();
    gate.wait_for(1);
    until("flow control", || {
        let stats = consumer.stats();
        let orders = stats.queues.iter().find(|one| one.queue == queue(0)).unwrap();
        orders.waiting == Some(Waiting::FlowControl) && orders.in_flight == 1 && orders.cached_messages == 1
    });
    let stats = consumer.stats();
    let orders = stats.queues.iter().find(|one| one.queue == queue(0)).unwrap();
    assert!((210..210 + 32).contains(&orders.position), "{}", orders.position);
    assert!(orders.oldest_in_flight.is_some());
    assert!(broker.inspect().committed("billing", &queue(0)).unwrap_or(0) <= 10);
    gate.open();
    consumed(&broker);
    seen.assert_once(0..2000);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// What is finished within a second of the last commit is committed when that second is over, not with the interval.
#[test]
fn an_idle_queue_is_committed_soon_however_short_the_pause_before() {
    let broker = orders(1);
    let consumer = billing()
        .name_servers(broker.name_server())
        .commit_interval(Duration::from_secs(3600))
        .consume_concurrently(|_| ())
        .start()
        .unwrap();
    for n in 0..3 {
        put(&broker, n..n + 1);
        consumed(&broker);
    }
    assert!(consumer.shutdown(SOON).is_clean());
}

/// As Java's client, and said in the event and the log.
#[test]
fn o7_last_offset_takes_what_a_young_topic_has_and_only_news_of_an_old_one() {
    for (min, offset, seen_first) in [(0, 0, 10), (5, 10, 0)] {
        let broker = orders(1);
        put(&broker, 0..10);
        broker.truncate(&queue(0), min, 10);
        let seen = Seen::default();
        let consumer = PushConsumer::builder("billing")
            .name_servers(broker.name_server())
            .subscribe("orders", "*")
            .consume_concurrently(seen.listener())
            .start()
            .unwrap();
        let mut events = consumer.events();
        let (at, why) = next_event(&mut events, "the start", |event| match event {
            Event::Assigned { queue, offset, reason, .. } if queue.topic() == "orders" => {
                Some((offset, reason))
            }
            _ => None,
        });
        assert_eq!(at, offset);
        let stored = StartReason::Stored;
        assert!(if min == 0 { why == stored } else { matches!(why, StartReason::ConsumeFrom(_)) }, "{why}");
        put(&broker, 10..11);
        seen.wait(seen_first + 1);
        assert!(consumer.shutdown(SOON).is_clean());
        assert_eq!(seen.len(), seen_first + 1);
    }
}

#[test]
fn o10_a_broker_that_comes_back_with_old_offsets_gets_the_new_ones_again() {
    let broker = orders(2);
    let seen = Seen::default();
    let consumer = billing()
        .name_servers(broker.name_server())
        .commit_interval(Duration::from_secs(3600))
        .consume_concurrently(seen.listener())
        .start()
        .unwrap();
    put(&broker, 0..100);
    consumed(&broker);
    for lost in [Lose::Offsets, Lose::OffsetsSince(std::time::UNIX_EPOCH)] {
        broker.restart_losing(lost).unwrap();
        consumed(&broker);
    }
    put(&broker, 100..110);
    consumed(&broker);
    assert!(consumer.shutdown(SOON).is_clean());
    seen.assert_once(0..110);
}

#[test]
fn o11_an_offset_that_does_not_exist_becomes_the_nearest_that_does() {
    for version in [Version::V4_9, Version::V5_3, Version::V5_5] {
        for (range, corrected) in [((0, 5), 5), ((12, 15), 12)] {
            let broker = Broker::builder().topic("orders", 1).version(version).start().unwrap();
            consumed_ten(&broker);
            put(&broker, 10..15);
            broker.truncate(&queue(0), range.0, range.1);
            let seen = Seen::default();
            let consumer = noting_member(&broker, &seen);
            let (from, to) = next_event(&mut consumer.events(), "the correction", |event| match event {
                Event::OffsetCorrected { from, to, .. } => Some((from, to)),
                _ => None,
            });
            assert_eq!((from, to), (10, corrected), "{version:?}");
            put(&broker, 100..101);
            seen.wait(1);
            consumed(&broker);
            let left = seen.messages();
            assert!(left.iter().all(|message| message.queue_offset() >= corrected), "{left:?}");
            assert!(left.iter().any(|message| body(message) == "100"), "{left:?}");
            assert!(consumer.shutdown(SOON).is_clean());
        }
    }
}

/// The end of a queue is lost while it is consumed; each policy has its way, and says so.
#[test]
fn o11_a_running_consumer_goes_where_its_policy_says() {
    for (policy, goes_on) in [
        (OffsetIllegal::Nearest, Some(10)),
        (OffsetIllegal::LastOffset, Some(10)),
        (OffsetIllegal::FirstOffset, Some(3)),
        (OffsetIllegal::Suspend, None),
    ] {
        let broker = orders(1);
        put(&broker, 0..15);
        let seen = Seen::default();
        let consumer = billing()
            .name_servers(broker.name_server())
            .offset_illegal(policy)
            .consume_concurrently(seen.listener())
            .start()
            .unwrap();
        consumed(&broker);
        broker.truncate(&queue(0), 3, 10);
        broker.cut_connections();
        let repeated = if let Some(goes_on) = goes_on {
            let moved = next_event(&mut consumer.events(), "the correction", |event| match event {
                Event::OffsetCorrected { from, to, .. } => Some((from, to)),
                _ => None,
            });
            assert_eq!(moved, (15, goes_on), "{policy:?}");
            10 - goes_on
        } else {
            until("it says why it stands still", || {
                let stats = consumer.stats();
                let one = stats.queues.into_iter().find(|one| one.queue == queue(0)).unwrap();
                matches!(one.waiting, Some(Waiting::Failing(why)) if why.contains("15") && why.contains("3 to 10"))
            });
            // Until somebody says where to go on.
            reset(&broker, 0);
            7
        };
        put(&broker, 15..17);
        seen.wait(15 + usize::try_from(repeated).unwrap() + 2);
        broker.wait(SOON, |state| state.committed("billing", &queue(0)) == Some(12)).unwrap();
        let counts = seen.counts();
        assert_eq!((counts["15"], counts["16"], counts["2"]), (1, 1, 1), "{policy:?} {counts:?}");
        assert!(consumer.shutdown(SOON).is_clean());
    }
}

/// A reset meets a queue whose offset does not exist any more: the broker tells of it once, in the place of the usual
/// correction.
#[test]
fn o12_a_reset_is_followed_from_an_offset_that_does_not_exist_any_more() {
    let broker = orders(1);
    put(&broker, 0..15);
    let seen = Seen::default();
    let consumer = noting_member(&broker, &seen);
    seen.wait(15);
    let held = |state: &Snapshot| state.lag("billing", "orders") == 0 && state.waiting_pulls("billing") == 2;
    broker.wait(SOON, held).unwrap();
    broker.truncate(&queue(0), 2, 10);
    reset(&broker, 0);
    let to = next_event(&mut consumer.events(), "the reset", |event| match event {
        Event::OffsetReset { to, .. } => Some(to),
        _ => None,
    });
    assert_eq!(to, 2);
    seen.wait(15 + 8);
    consumed(&broker);
    // Several threads consume at once.
    let again: BTreeSet<i64> = seen.messages()[15..].iter().map(|message| message.queue_offset()).collect();
    assert_eq!(again, (2..10).collect());
    assert!(consumer.shutdown(SOON).is_clean());
}

/// Brokers 4.9 tell the members (220), brokers 5 answer the next pull with 21.
#[test]
fn o12_a_reset_of_a_running_group_is_followed_at_once() {
    for version in [Version::V4_9, Version::V5_3] {
        let broker =
            Broker::builder().topic("orders", 2).version(version).clock(Clock::manual()).start().unwrap();
        let seen = Seen::default();
        let consumer = noting_member(&broker, &seen);
        put(&broker, 0..100);
        broker.clock().advance(Duration::from_secs(3600));
        let time = millis(broker.clock().now());
        put(&broker, 100..200);
        consumed(&broker);
        let began = Instant::now();
        reset(&broker, time);
        seen.wait(201);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        seen.wait(300);
        consumed(&broker);
        let counts = seen.counts();
        assert!(
            (0..200).all(|n| counts[&n.to_string()] == if n < 100 { 1 } else { 2 }),
            "{version:?} {counts:?}"
        );
        let mut events = consumer.events();
        next_event(&mut events, "the reset", |event| {
            matches!(event, Event::OffsetReset { .. }).then_some(())
        });
        put(&broker, 200..210);
        seen.wait(310);
        assert_eq!(consumer.assignment().iter().filter(|queue| queue.topic() == "orders").count(), 2);
        assert!(consumer.shutdown(SOON).is_clean());
    }
}

/// As the console does it: the group goes back to the first message stored then or later.
fn reset(broker: &Broker, timestamp: i64) {
    let header = ResetOffset {
        topic: "orders".into(),
        group: "billing".into(),
        timestamp,
        is_force: true,
        ..ResetOffset::default()
    };
    let mut tool = Wire::connect(&broker.name_server());
    let answer = tool.ask(RequestCode::INVOKE_BROKER_TO_RESET_OFFSET, &header);
    assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{answer:?}");
}

fn millis(time: SystemTime) -> i64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}
