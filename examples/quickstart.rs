//! A push consumer at work: several threads, a message that fails before it succeeds, and one that never does.
//!
//! `cargo run --example quickstart` starts a broker inside this process and moves its clock, so that hours of retries
//! take milliseconds. With `NAMESRV_ADDR` set it uses that cluster instead, with one retry, which takes about a minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rocketmq_sync::broker::{Broker, Clock};
use rocketmq_sync::consumer::Event;
use rocketmq_sync::{Client, ConsumeFrom, Message, MessageView, Producer, PushConsumer, Result};
use rocketmq_sync::{dead_letter_topic, retry_topic};

const TOPIC: &str = "quickstart-orders";
const GROUP: &str = "quickstart";
const ORDERS: usize = 12;
const LONG_ENOUGH: Duration = Duration::from_secs(180);

fn main() -> Result<()> {
    env_logger::init();
    let began = Instant::now();
    let broker = match std::env::var_os("NAMESRV_ADDR").filter(|list| !list.is_empty()) {
        Some(_) => None,
        None => Some(Broker::builder().topic(TOPIC, 4).clock(Clock::manual()).start()?),
    };
    let client = match &broker {
        Some(broker) => Client::builder().name_servers(broker.name_server()).start()?,
        None => Client::builder().start()?,
    };

    let producer = Producer::builder(GROUP).client(&client).start()?;
    for n in 1..=ORDERS {
        producer.send(&Message::new(TOPIC, format!("order {n}")).key(format!("order-{n}")))?;
    }
    producer.send(&Message::new(TOPIC, "flaky"))?;
    producer.send(&Message::new(TOPIC, "poison"))?;
    println!("sent {} messages", ORDERS + 2);

    // On a real cluster retries take their time: one is enough to show.
    let (fails, retries) = if broker.is_some() { (2, 16) } else { (1, 1) };
    let succeeded = Arc::new(AtomicUsize::new(0));
    let counter = succeeded.clone();
    let consumer = PushConsumer::builder(GROUP)
        .client(&client)
        .subscribe(TOPIC, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_threads(4)
        .max_reconsume_times(retries)
        .consume_concurrently(move |batch| {
            batch.each(|message| {
                let booked = book(message, fails);
                counter.fetch_add(usize::from(booked.is_ok()), Ordering::SeqCst);
                booked
            })
        })
        .start()?;

    let dead = dead_letter_topic(GROUP);
    match &broker {
        Some(broker) => broker.fast_forward(LONG_ENOUGH, |state| {
            state.depth(&dead) == 1 && state.lag(GROUP, &retry_topic(GROUP)) == 0
        })?,
        None => wait_for_dead_letter(&consumer),
    }
    println!("{} messages consumed, 1 dead letter in {dead}", succeeded.load(Ordering::SeqCst));
    println!("{}", consumer.shutdown(Duration::from_secs(5)));
    println!("done in {:.1?}", began.elapsed());
    Ok(())
}

/// The work of a service: an error means that the message comes again later.
fn book(message: &MessageView, fails: u32) -> std::result::Result<(), String> {
    std::thread::sleep(Duration::from_millis(2)); // as if it were work
    let (text, times) = (message.body_str().unwrap_or("(binary)"), message.reconsume_times());
    let thread = std::thread::current();
    let ok = match text {
        "poison" => false,
        "flaky" => times >= fails,
        _ => true,
    };
    let word = if ok { "ok" } else { "failed" };
    println!("{:14} {text:9} attempt {:2}: {word}", thread.name().unwrap_or_default(), times + 1);
    if ok { Ok(()) } else { Err(format!("{text} cannot be booked")) }
}

fn wait_for_dead_letter(consumer: &PushConsumer) {
    let (mut events, end) = (consumer.events(), Instant::now() + LONG_ENOUGH);
    while let Some(event) = events.next_timeout(end.saturating_duration_since(Instant::now())) {
        if let Event::DeadLetter { message, .. } = event {
            println!("{} became a dead letter", message.message_id());
            return;
        }
    }
    println!("no dead letter within {LONG_ENOUGH:?}");
}
