//! Code of the user around listeners and sends: where it runs, and what its panics do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use crate::support::{SOON, Seen, billing, consumed, next_event, orders};
use rocketmq_sync::consumer::Event;
use rocketmq_sync::{ConsumeStatus, Message, Producer};

#[test]
fn a_panic_of_a_consume_hook_counts_as_later() {
    let broker = orders(1);
    let (seen, first) = (Seen::default(), Arc::new(Mutex::new(true)));
    let consumer = billing()
        .name_servers(broker.name_server())
        .consume_hook(move |_, next| {
            if std::mem::take(&mut *first.lock().unwrap()) {
                panic!("of the hook");
            }
            assert!(std::thread::current().name().unwrap().starts_with("rmq-consume-"));
            next.run()
        })
        .consume_concurrently(seen.listener())
        .start()
        .unwrap();
    let mut events = consumer.events();
    broker.put(&Message::new("orders", "x")).unwrap();
    let said = next_event(&mut events, "the panic", |event| match event {
        Event::ListenerPanicked { panic, .. } => Some(panic),
        _ => None,
    });
    assert_eq!(said, "of the hook");
    seen.wait(1);
    assert_eq!(seen.messages()[0].reconsume_times(), 1);
    consumed(&broker);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_hook_may_change_the_verdict_of_the_listener() {
    let broker = orders(1);
    let consumer = billing()
        .name_servers(broker.name_server())
        .max_reconsume_times(0)
        .consume_hook(|_, next| {
            let verdict = next.run();
            if verdict.status() == ConsumeStatus::Success {
                ConsumeStatus::DeadLetter
            } else {
                verdict.status()
            }
        })
        .consume_concurrently(|_| ())
        .start()
        .unwrap();
    broker.put(&Message::new("orders", "x")).unwrap();
    let dead = rocketmq_sync::dead_letter_topic("billing");
    broker.wait(SOON, |state| state.depth(&dead) == 1).unwrap();
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_panic_of_a_send_hook_unwinds_to_the_caller_and_the_producer_goes_on() {
    let broker = orders(1);
    let here = std::thread::current().id();
    let producer = Producer::builder("shop")
        .name_servers(broker.name_server())
        .before_send(move |message| {
            assert_eq!(std::thread::current().id(), here);
            assert_ne!(message.body(), b"before");
            message.set_property("traceparent", "00-1");
        })
        .after_send(move |message, result| {
            assert_eq!(std::thread::current().id(), here);
            assert!(result.is_ok());
            assert_ne!(message.body(), b"after");
        })
        .start()
        .unwrap();
    let send = |body: &str| {
        catch_unwind(AssertUnwindSafe(|| producer.send(&Message::new("orders", body)).map(drop))).is_ok()
    };
    assert!(!send("before"), "nothing was sent");
    assert!(!send("after"), "it was sent");
    let batch = [Message::new("orders", "fine"), Message::new("orders", "after")];
    assert!(catch_unwind(AssertUnwindSafe(|| producer.send_batch(&batch).map(drop))).is_err());
    assert!(send("fine"));
    let stored = broker.inspect().messages("orders");
    assert_eq!(stored.len(), 4);
    assert!(stored.iter().all(|message| message.property("traceparent") == Some("00-1")));
    let stats = producer.stats();
    assert_eq!((stats.sent, stats.failed, stats.in_flight), (4, 0, 0));
    assert!(producer.shutdown(SOON).is_clean());
}
