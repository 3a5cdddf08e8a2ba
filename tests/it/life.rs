//! From start to shutdown: nothing is lost, repeated or left behind.

use std::time::Duration;

use crate::support::{
    Gate, SOON, Seen, alone, billing, library_threads, open_files, orders, put, queue, until,
};
use rocketmq_sync::consumer::Waiting;

/// Pain S1.
#[test]
fn a_shutdown_waits_for_running_listeners_and_the_next_consumer_repeats_nothing() {
    let broker = orders(4);
    put(&broker, 0..200);
    let (seen, gate) = (Seen::default(), Gate::default());
    let (noting, waiting) = (seen.clone(), gate.clone());
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_threads(8)
        .consume_concurrently(move |batch| {
            noting.note(batch);
            waiting.pass();
        })
        .start()
        .unwrap();
    gate.wait_for(8);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            consumer.wait();
            until("nothing new begins", || {
                let queues = consumer.stats().queues;
                queues
                    .iter()
                    .all(|queue| queue.waiting == Some(Waiting::Revoking) || queue.cached_messages == 0)
            });
            gate.open();
        });
        consumer.shutdown(SOON)
    });
    assert!(report.is_clean(), "{report}");
    assert!(report.finished <= 8 && report.released > 0, "{report}");
    assert!(seen.len() < 200);
    let next =
        billing().name_servers(broker.name_server()).consume_concurrently(seen.listener()).start().unwrap();
    broker.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
    seen.wait(200);
    assert!(next.shutdown(SOON).is_clean());
    seen.assert_once(0..200);
}

/// Pain S2.
#[test]
fn a_listener_longer_than_the_grace_is_named_and_its_offset_not_passed() {
    let broker = orders(1);
    put(&broker, 0..3);
    let (seen, gate) = (Seen::default(), Gate::default());
    let (noting, waiting) = (seen.clone(), gate.clone());
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_threads(1)
        .consume_concurrently(move |batch| {
            noting.note(batch);
            if noting.len() == 2 {
                waiting.pass();
            }
        })
        .start()
        .unwrap();
    gate.wait_for(1);
    let report = consumer.shutdown(Duration::from_millis(600));
    assert!(!report.is_clean(), "{report}");
    assert_eq!(report.abandoned, [(queue(0), 1)]);
    assert_eq!(broker.inspect().committed("billing", &queue(0)), Some(1));
    assert!(report.elapsed < Duration::from_secs(5), "{:?}", report.elapsed);
    gate.open();
    let again = Seen::default();
    let next =
        billing().name_servers(broker.name_server()).consume_concurrently(again.listener()).start().unwrap();
    again.wait(2);
    assert!(next.shutdown(SOON).is_clean());
    again.assert_once(1..3);
}

/// Pains S5 and S6.
#[test]
fn fifty_starts_and_stops_leave_no_thread_and_no_socket_behind() {
    alone("life::fifty_starts_and_stops_leave_no_thread_and_no_socket_behind", || {
        let broker = orders(4);
        let cycle = || {
            let seen = Seen::default();
            let consumer = billing()
                .name_servers(broker.name_server())
                .consume_threads(4)
                .consume_concurrently(seen.listener())
                .start()
                .unwrap();
            put(&broker, 0..8);
            seen.wait(8);
            assert!(consumer.shutdown(SOON).is_clean());
        };
        cycle();
        let settled = || {
            broker.wait(SOON, |state| state.connections() == 0).unwrap();
            until("threads end", || library_threads() == ["rmq-broker"]);
            open_files()
        };
        let files = settled();
        (0..50).for_each(|_| cycle());
        assert!(settled() <= files, "{} files were open, now {}", files, open_files());
    });
}
