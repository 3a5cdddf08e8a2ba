//! The push consumer on the embedded broker: one behaviour a test, each with a broker of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rocketmq_sync::broker::{Broker, Clock, Fault, Reaction};
use rocketmq_sync::{
    ConsumeFrom, Message, MessageQueue, PushConsumer, RequestCode, ResponseCode, Result, dead_letter_topic,
};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn everything_is_consumed_and_committed_and_the_shutdown_is_clean() -> Result<()> {
    let broker = Broker::builder().topic("orders", 4).start()?;
    for n in 0..1000 {
        broker.put(&Message::new("orders", format!("{n}")))?;
    }
    let seen = Arc::new(AtomicUsize::new(0));
    let counting = seen.clone();
    let began = Instant::now();
    let consumer = PushConsumer::builder("billing")
        .name_servers(broker.name_server())
        .subscribe("orders", "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(move |batch| {
            counting.fetch_add(batch.len(), Ordering::SeqCst);
        })
        .start()?;
    println!("started in {:?}", began.elapsed());
    broker.wait(SOON, |state| state.lag("billing", "orders") == 0)?;
    println!("consumed in {:?}", began.elapsed());
    assert_eq!(seen.load(Ordering::SeqCst), 1000);
    let stats = consumer.stats();
    assert_eq!((stats.succeeded, stats.failed, stats.pulled), (1000, 0, 1000));
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    println!("{report}");
    Ok(())
}

#[test]
fn a_message_that_always_fails_becomes_a_dead_letter_after_sixteen_retries() -> Result<()> {
    let broker = Broker::builder().topic("orders", 4).clock(Clock::manual()).start()?;
    let calls = Arc::new(AtomicUsize::new(0));
    let counting = calls.clone();
    let consumer = PushConsumer::builder("billing")
        .name_servers(broker.name_server())
        .subscribe("orders", "*")
        .consume_concurrently(move |_| {
            counting.fetch_add(1, Ordering::SeqCst);
            Err::<(), _>("no")
        })
        .start()?;
    broker.put(&Message::new("orders", "poison").key("order-7"))?;
    let dead = dead_letter_topic("billing");
    broker.fast_forward(SOON, |state| state.depth(&dead) == 1)?;
    let letter = broker.inspect().messages(&dead).remove(0);
    assert_eq!((letter.body(), letter.origin_topic()), (&b"poison"[..], "orders"));
    broker.wait(SOON, |state| state.lag("billing", "orders") == 0)?;
    assert_eq!(calls.load(Ordering::SeqCst), 17);
    assert!(consumer.shutdown(SOON).is_clean());
    Ok(())
}

#[test]
fn hooks_stand_around_the_listener_and_may_answer_in_its_place() -> Result<()> {
    let broker = Broker::builder().topic("orders", 1).start()?;
    let (note, notes) = std::sync::mpsc::channel();
    let (outer, inner, listener) = (note.clone(), note.clone(), note);
    let consumer = PushConsumer::builder("billing")
        .name_servers(broker.name_server())
        .subscribe("orders", "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_hook(move |batch, next| {
            let verdict = next.run();
            outer
                .send(format!("outer saw {:?} for {}", verdict.status(), batch[0].body_str().unwrap()))
                .unwrap();
            verdict
        })
        .consume_hook(move |batch, next| {
            if batch[0].body() == b"skip" {
                inner.send("inner answers".into()).unwrap();
                return ().into();
            }
            next.run()
        })
        .consume_concurrently(move |_| listener.send("listener".to_owned()).unwrap())
        .start()?;
    broker.put(&Message::new("orders", "skip"))?;
    broker.put(&Message::new("orders", "book"))?;
    broker.wait(SOON, |state| state.lag("billing", "orders") == 0)?;
    assert!(consumer.shutdown(SOON).is_clean());
    drop(consumer);
    let said: Vec<String> = notes.iter().collect();
    assert_eq!(
        said,
        ["inner answers", "outer saw Success for skip", "listener", "outer saw Success for book"]
    );
    Ok(())
}

/// A broker handles pulls and commits on different threads: an offset that came with a pull could overtake the last
/// commit, and the next owner would repeat what lies between.
#[test]
fn offsets_are_committed_by_commits_alone() -> Result<()> {
    let broker = Broker::builder().topic("orders", 1).start()?;
    let consumer = PushConsumer::builder("billing")
        .name_servers(broker.name_server())
        .subscribe("orders", "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(|_| ())
        .start()?;
    let refusal = broker.fault(
        Fault::on(RequestCode::UPDATE_CONSUMER_OFFSET, Reaction::Reply(ResponseCode::SYSTEM_ERROR)).forever(),
    );
    let queue = MessageQueue::new("orders", broker.name(), 0);
    let before = broker.inspect().committed("billing", &queue);
    for n in 0..200 {
        broker.put(&Message::new("orders", n.to_string()))?;
    }
    refusal.wait_hits(1, SOON)?;
    broker.wait(SOON, |state| state.waiting_pulls("billing") > 0 && consumer.stats().succeeded == 200)?;
    assert_eq!(broker.inspect().committed("billing", &queue), before);
    refusal.remove();
    assert!(consumer.shutdown(SOON).is_clean());
    assert_eq!(broker.inspect().committed("billing", &queue), Some(200));
    Ok(())
}
