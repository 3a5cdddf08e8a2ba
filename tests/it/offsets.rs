//! Where a queue starts, what is committed, and when.

use std::time::Duration;

use crate::support::{Gate, SOON, Seen, billing, body, orders, put, queue, until};
use rocketmq_sync::broker::{Broker, Fault, Reaction};
use rocketmq_sync::consumer::Waiting;
use rocketmq_sync::{Client, RequestCode};

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
    let consumer =
        billing().name_servers(broker.name_server()).consume_concurrently(seen.listener()).start().unwrap();
    seen.wait(10);
    assert!(consumer.shutdown(SOON).is_clean());
    assert_eq!(broker.inspect().committed("billing", &queue(0)), Some(10));
}

/// Pains O1 and O2.
#[test]
fn an_offset_that_could_not_be_read_is_read_again_and_never_guessed() {
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
        let consumer = billing().client(&client).consume_concurrently(seen.listener()).start().unwrap();
        late.wait_hits(1, SOON).unwrap();
        seen.wait(5);
        broker.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
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

/// Pain O9.
#[test]
fn one_stuck_message_stops_the_pulls_at_the_span() {
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
    broker.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
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
        broker.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
    }
    assert!(consumer.shutdown(SOON).is_clean());
}
