//! From start to shutdown: nothing is lost, repeated or left behind.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::support::{
    Gate, SOON, Seen, alone, billing, body, client_of, consumed, library_threads, noting_member, open_files,
    orders, put, queue, until,
};
use rocketmq_sync::consumer::Waiting;
use rocketmq_sync::{ErrorKind, PullConsumer, PushConsumer};

#[test]
fn s1_a_shutdown_waits_for_running_listeners_and_the_next_consumer_repeats_nothing() {
    let broker = orders(4);
    put(&broker, 0..200);
    let (seen, gate) = (Seen::default(), Gate::default());
    let waiting = gate.clone();
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_threads(8)
        .consume_concurrently(seen.answering(move |_| waiting.pass()))
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
    let next = noting_member(&broker, &seen);
    consumed(&broker);
    seen.wait(200);
    assert!(next.shutdown(SOON).is_clean());
    seen.assert_once(0..200);
}

#[test]
fn s2_a_listener_longer_than_the_grace_is_named_and_its_offset_not_passed() {
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
    let next = noting_member(&broker, &again);
    again.wait(2);
    assert!(next.shutdown(SOON).is_clean());
    again.assert_once(1..3);
}

#[test]
fn s6_fifty_starts_and_stops_leave_no_thread_and_no_socket_behind() {
    alone("life::s6_fifty_starts_and_stops_leave_no_thread_and_no_socket_behind", || {
        let broker = &orders(4);
        let start = |group: &str, seen: &Seen| {
            PushConsumer::builder(group)
                .name_servers(broker.name_server())
                .subscribe("orders", "*")
                .consume_threads(4)
                .consume_concurrently(seen.listener())
                .start()
                .unwrap()
        };
        let cycle = || {
            let seen = Seen::default();
            let consumer = start("billing", &seen);
            put(broker, 0..8);
            seen.wait(8);
            assert!(consumer.shutdown(SOON).is_clean());
        };
        let own_group = |group: &str| assert!(start(group, &Seen::default()).shutdown(SOON).is_clean());
        cycle();
        let settled = || {
            broker.wait(SOON, |state| state.connections() == 0).unwrap();
            until("threads end", || library_threads() == ["rmq-broker"]);
            open_files()
        };
        let files = settled();
        (0..30).for_each(|_| cycle());
        settled();
        // Side by side, each with a client and a group of its own.
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || (0..10).for_each(|n| own_group(&format!("g{thread}-{n}"))));
            }
        });
        settled();
        // The broker counts a connection out before it closes its socket.
        until("no more files are open than before", || open_files() <= files);
    });
}

/// A shutdown ends the handle and nothing else: the same settings start again at once, with a client of their own and on
/// a shared one.
#[test]
fn s5_the_same_settings_start_again_after_each_shutdown() {
    let broker = orders(1);
    let client = client_of(broker.name_server());
    let seen = Seen::default();
    let settings = || billing().consume_threads(1).consume_concurrently(seen.listener());
    let (own, shared) = (settings().name_servers(broker.name_server()), settings().client(&client));
    for n in 0..100 {
        let consumer = if n % 2 == 0 { &own } else { &shared }.clone().start().unwrap();
        put(&broker, n..n + 1);
        seen.wait(n as usize + 1);
        assert!(consumer.shutdown(SOON).is_clean());
        assert_eq!(consumer.subscribe("orders", "x").unwrap_err().kind(), ErrorKind::Closed);
    }
    seen.assert_once(0..100);
    assert!(client.shutdown(SOON).is_clean());
}

#[test]
fn s4_of_two_consumers_on_one_client_one_may_go() {
    let broker = orders(2);
    let client = client_of(broker.name_server());
    let (stock, mail) = (Seen::default(), Seen::default());
    let start = |group: &str, seen: &Seen| {
        let builder = PushConsumer::builder(group).client(&client).subscribe("orders", "*");
        builder.consume_concurrently(seen.listener()).start().unwrap()
    };
    let (first, second) = (start("stock", &stock), start("mail", &mail));
    put(&broker, 0..10);
    stock.wait(10);
    assert!(first.shutdown(SOON).is_clean());
    broker.wait(SOON, |state| state.members("stock").is_empty() && state.members("mail").len() == 1).unwrap();
    put(&broker, 10..20);
    mail.wait(20);
    // The group is free again on the same client.
    let again = start("stock", &stock);
    put(&broker, 20..30);
    stock.wait(30);
    assert!(client.shutdown(SOON).is_clean());
    assert_eq!(again.subscribe("x", "*").unwrap_err().kind(), ErrorKind::Closed);
    assert!(second.shutdown(SOON).is_clean());
    let builder = billing().client(&client).consume_concurrently(|_| ());
    assert_eq!(builder.start().unwrap_err().kind(), ErrorKind::Closed);
}

/// A listener may stop its own consumer: its own message still counts.
#[test]
fn a_listener_stops_its_consumer() {
    let broker = orders(1);
    let handle: Arc<OnceLock<PushConsumer>> = Arc::default();
    let seen = Seen::default();
    let (inside, noting) = (handle.clone(), seen.clone());
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_threads(1)
        .consume_concurrently(move |batch| {
            noting.note(batch);
            if body(&batch[0]) == "3" {
                let report = inside.get().unwrap().shutdown(SOON);
                assert!(report.in_background && !report.is_clean(), "{report}");
            }
        })
        .start()
        .unwrap();
    let consumer = handle.get_or_init(|| consumer);
    put(&broker, 0..10);
    consumer.wait();
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    let committed = broker.inspect().committed("billing", &queue(0));
    let seen = i64::try_from(seen.len()).unwrap();
    assert!(seen >= 4 && committed == Some(seen), "{seen} seen, {committed:?} committed");
    assert_eq!(consumer.shutdown(SOON), report, "the second call gets the same report");
}

#[test]
fn a_stopper_stops_from_anywhere_and_keeps_nothing_alive() {
    let broker = orders(1);
    let consumer = billing().name_servers(broker.name_server()).consume_concurrently(|_| ()).start().unwrap();
    let mut events = consumer.events();
    let stopper = consumer.stopper();
    std::thread::scope(|scope| {
        scope.spawn(|| stopper.stop());
        consumer.wait();
    });
    assert!(consumer.shutdown(SOON).is_clean());
    // Events end with the consumer.
    assert!(events.by_ref().count() > 0 && events.is_closed());
    assert_eq!(consumer.set_consume_threads(3).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(consumer.unsubscribe("orders").unwrap_err().kind(), ErrorKind::Closed);
    drop(consumer);
    stopper.stop();
}

#[test]
fn s8_dropping_a_consumer_in_any_state_ends_it() {
    alone("life::s8_dropping_a_consumer_in_any_state_ends_it", || {
        let broker = orders(2);
        let start = |listener: Box<dyn Fn() + Send + Sync>| {
            billing()
                .name_servers(broker.name_server())
                .consume_threads(2)
                .consume_concurrently(move |_| listener())
                .start()
                .unwrap()
        };
        drop(billing().name_servers(broker.name_server()).consume_concurrently(|_| ()));
        drop(start(Box::new(|| ())));
        // In a listener call, which does not end before the drop gives up.
        let (gate, waiting) = (Gate::default(), Gate::default());
        let inside = gate.clone();
        put(&broker, 0..2);
        let consumer = start(Box::new(move || inside.pass()));
        gate.wait_for(1);
        drop(consumer);
        gate.open();
        // While the broker is away.
        let consumer = start(Box::new(|| ()));
        broker.kill();
        drop(consumer);
        broker.start().unwrap();
        // While panicking.
        let consumer = start(Box::new(|| ()));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _consumer = consumer;
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        // In its own listener.
        let slot: Arc<Mutex<Option<PushConsumer>>> = Arc::default();
        let (inside, ready) = (slot.clone(), waiting.clone());
        let consumer = start(Box::new(move || {
            ready.pass();
            drop(inside.lock().unwrap().take());
        }));
        *slot.lock().unwrap() = Some(consumer);
        waiting.open();
        put(&broker, 2..4);
        until("dropped", || slot.lock().unwrap().is_none());
        // One that polls, idle and with messages that nobody has asked for.
        let reader =
            || PullConsumer::builder("other").name_servers(broker.name_server()).subscribe("orders", "*");
        drop(reader());
        drop(reader().start().unwrap());
        put(&broker, 4..20);
        let polling = reader().start().unwrap();
        polling.poll(SOON).unwrap();
        drop(polling);
        // After its client and after a shutdown.
        let client = client_of(broker.name_server());
        let consumer = PushConsumer::builder("other")
            .client(&client)
            .subscribe("orders", "*")
            .consume_concurrently(|_| ())
            .start()
            .unwrap();
        assert!(client.shutdown(SOON).is_clean());
        drop(client);
        drop(consumer);
        until("threads end", || library_threads() == ["rmq-broker"]);
        broker.wait(SOON, |state| state.connections() == 0).unwrap();
    });
}

#[test]
fn a_grace_without_end_is_as_long_as_it_takes() {
    let broker = orders(1);
    let seen = Seen::default();
    let consumer = noting_member(&broker, &seen);
    put(&broker, 0..1);
    seen.wait(1);
    assert!(consumer.shutdown(Duration::MAX).is_clean());
    assert!(consumer.shutdown(Duration::MAX).is_clean());
    assert!(consumer.client().shutdown(Duration::MAX).is_clean());
    assert!(consumer.client().shutdown(Duration::MAX).is_clean());
}
