//! Listeners that panic or are late, and programs whose logger panics beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{
    Gate, SOON, Seen, Ticking, advance_until, alone, billing, body, client_by_hand, consumed,
    consumed_by_hand, next_event, orders_by_hand, put, queue,
};
use rocketmq_sync::broker::{Fault, Reaction};
use rocketmq_sync::consumer::Event;
use rocketmq_sync::{Batch, RequestCode, ResponseCode, retry_topic};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn p4_a_panic_of_the_listener_costs_one_message_a_retry_and_no_thread() {
    let broker = orders_by_hand(1);
    put(&broker, 0..10);
    let (seen, panics) = (Seen::default(), Arc::new(AtomicUsize::new(0)));
    let counting = panics.clone();
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_threads(2)
        .consume_concurrently(seen.answering(move |batch| {
            if body(&batch[0]) == "5" && batch[0].reconsume_times() == 0 {
                counting.fetch_add(1, Ordering::SeqCst);
                panic!("on purpose");
            }
        }))
        .start()
        .unwrap();
    let mut events = consumer.events();
    let (message, text) = next_event(&mut events, "the panic", |event| match event {
        Event::ListenerPanicked { message, panic, .. } => Some((message, panic)),
        _ => None,
    });
    assert_eq!((body(&message), text.as_str()), ("5", "on purpose"));
    consumed(&broker);
    let stats = consumer.stats();
    assert_eq!((stats.succeeded, stats.failed, stats.threads), (9, 1, 2));
    broker.fast_forward(SOON, |_| seen.len() == 11).unwrap();
    assert_eq!(seen.counts()["5"], 2);
    assert_eq!(panics.load(Ordering::SeqCst), 1);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn d8_a_late_listener_is_noticed_when_its_time_is_over_not_twice_as_late() {
    let broker = orders_by_hand(1);
    put(&broker, 0..1);
    let gate = Gate::default();
    let waiting = gate.clone();
    let client = client_by_hand(&broker);
    let ticking = Ticking::of(broker.clock());
    let consumer = billing()
        .client(&client)
        .consume_timeout(60 * SECOND)
        .consume_concurrently(move |batch| {
            if batch[0].reconsume_times() == 0 {
                waiting.pass();
                assert!(batch.is_cancelled());
            }
        })
        .start()
        .unwrap();
    gate.wait_for(1);
    drop(ticking);
    let mut events = consumer.events();
    let mut is_late = |wait| {
        std::iter::from_fn(|| events.next_timeout(wait)).find_map(|event| match event {
            Event::ListenerLate { running, .. } => Some(running),
            _ => None,
        })
    };
    broker.clock().advance(59 * SECOND);
    assert_eq!(is_late(Duration::from_millis(50)), None);
    let mut passed = 59;
    let running = loop {
        broker.clock().advance(SECOND);
        passed += 1;
        assert!(passed <= 66, "not noticed in 66 s");
        if let Some(running) = is_late(Duration::from_millis(300)) {
            break running;
        }
    };
    assert!(running >= 60 * SECOND && running <= 66 * SECOND, "{running:?}");
    let _ticking = Ticking::of(broker.clock());
    // It was sent back, and its place in the queue is done, whatever the listener says when it returns.
    consumed(&broker);
    gate.open();
    broker
        .fast_forward(SOON, |state| {
            state.lag("billing", &retry_topic("billing")) == 0 && state.delayed() == 0
        })
        .unwrap();
    assert!(consumer.shutdown(SOON).is_clean());
}

/// Java's client goes by the first that happens, too: the listener's success, or a broker that has the message.
#[test]
fn what_a_late_listener_accepts_does_not_come_again_if_no_broker_took_it() {
    let broker = orders_by_hand(1);
    put(&broker, 0..1);
    for code in [RequestCode::CONSUMER_SEND_MSG_BACK, RequestCode::SEND_MESSAGE] {
        broker.fault(Fault::on(code, Reaction::Reply(ResponseCode::SYSTEM_ERROR)).forever());
    }
    let (seen, gate) = (Seen::default(), Gate::default());
    let (noting, waiting) = (seen.clone(), gate.clone());
    let client = client_by_hand(&broker);
    let consumer = billing()
        .client(&client)
        .consume_timeout(10 * SECOND)
        .consume_concurrently(move |batch| {
            noting.note(batch);
            waiting.pass();
        })
        .start()
        .unwrap();
    gate.wait_for(1);
    let mut events = consumer.events();
    advance_until(broker.clock(), SECOND, "no broker takes it", || {
        std::iter::from_fn(|| events.try_next()).any(|event| matches!(event, Event::SendBackFailed { .. }))
    });
    gate.open();
    consumed_by_hand(&broker);
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    seen.assert_once(0..1);
}

#[test]
fn d6_only_a_message_that_is_being_handled_can_be_late() {
    let broker = orders_by_hand(1);
    put(&broker, 0..100);
    let client = client_by_hand(&broker);
    let _ticking = Ticking::of(broker.clock());
    let seen = Seen::default();
    let (noting, clock) = (seen.clone(), broker.clock().clone());
    let consumer = billing()
        .client(&client)
        .consume_threads(1)
        .consume_timeout(10 * SECOND)
        .consume_concurrently(move |batch| {
            // Each takes a second, so that the last one waits for 99.
            clock.advance(SECOND);
            noting.note(batch);
        })
        .start()
        .unwrap();
    seen.wait(100);
    consumed(&broker);
    seen.assert_once(0..100);
    assert_eq!(broker.inspect().requests(RequestCode::CONSUMER_SEND_MSG_BACK), 0);
    let mut events = consumer.events();
    assert!(
        std::iter::from_fn(|| events.try_next()).all(|event| !matches!(event, Event::ListenerLate { .. }))
    );
    assert!(consumer.shutdown(SOON).is_clean());
}

/// The program's logger panics in the thread that looks after late listeners: that costs the line.
#[test]
fn p3_the_look_at_late_listeners_survives_a_panic_and_names_what_is_stuck() {
    alone("listeners::p3_the_look_at_late_listeners_survives_a_panic_and_names_what_is_stuck", || {
        log::set_logger(&Breaking("has been in its listener")).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
        let broker = orders_by_hand(1);
        put(&broker, 0..1);
        let gate = Gate::default();
        let waiting = gate.clone();
        let client = client_by_hand(&broker);
        let ticking = Ticking::of(broker.clock());
        let consumer = billing()
            .client(&client)
            .consume_threads(2)
            .consume_timeout(60 * SECOND)
            .consume_concurrently(move |batch| {
                if batch[0].reconsume_times() == 0 {
                    waiting.pass();
                }
            })
            .start()
            .unwrap();
        let mut events = consumer.events();
        gate.wait_for(1);
        // The second one is late at another look than the first.
        broker.clock().advance(10 * SECOND);
        put(&broker, 1..2);
        gate.wait_for(2);
        drop(ticking);
        let committed = |n| broker.inspect().committed("billing", &queue(0)) == Some(n);
        for (n, text) in [(1, "0"), (2, "1")] {
            advance_until(broker.clock(), SECOND, "it is sent back", || committed(n));
            let (message, thread, running) = next_event(&mut events, "late", |event| match event {
                Event::ListenerLate { message, thread, running, .. } => Some((message, thread, running)),
                _ => None,
            });
            assert_eq!(body(&message), text);
            assert!(thread.starts_with("rmq-consume-") && running >= 60 * SECOND, "{thread} {running:?}");
            let thread = next_event(&mut events, "the panic", |event| match event {
                Event::ThreadRestarted { thread, .. } => Some(thread),
                _ => None,
            });
            assert_eq!(thread, "rmq-timer");
        }
        gate.open();
        let _ticking = Ticking::of(broker.clock());
        assert!(consumer.shutdown(SOON).is_clean());
    });
}

/// The program's logger panics on a consume thread: the message that it was about is delivered again, and the thread
/// goes on.
#[test]
fn p4_a_panic_beside_the_listener_costs_no_thread_either() {
    alone("listeners::p4_a_panic_beside_the_listener_costs_no_thread_either", || {
        log::set_logger(&Breaking("failed: ")).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
        for in_order in [false, true] {
            let broker = orders_by_hand(1);
            put(&broker, 0..10);
            let seen = Seen::default();
            let noting = seen.clone();
            let listener = move |batch: &Batch| {
                noting.note(batch);
                if body(&batch[0]) == "5" && noting.counts()["5"] == 1 { Err("no") } else { Ok(()) }
            };
            let builder = billing().name_servers(broker.name_server()).consume_threads(1);
            let consumer = if in_order {
                builder.consume_orderly(listener).start().unwrap()
            } else {
                builder.consume_concurrently(listener).start().unwrap()
            };
            let mut events = consumer.events();
            let thread = next_event(&mut events, "the panic", |event| match event {
                Event::ThreadRestarted { thread, .. } => Some(thread),
                _ => None,
            });
            assert_eq!(thread, "rmq-consume-0");
            broker
                .fast_forward(SOON, |state| {
                    state.lag("billing", "orders") == 0 && seen.counts().len() == 10 && seen.counts()["5"] > 1
                })
                .unwrap();
            assert_eq!(consumer.stats().threads, 1);
            assert!(consumer.shutdown(SOON).is_clean());
        }
    });
}

/// A logger with a bug.
struct Breaking(&'static str);

impl log::Log for Breaking {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        assert!(!record.args().to_string().contains(self.0), "on purpose");
    }

    fn flush(&self) {}
}
