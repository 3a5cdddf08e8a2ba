//! A job that reads everything there is, commits when it is stored, and ends.
//!
//! Against a server: `NAMESRV_ADDR=127.0.0.1:9876 cargo run --example batch_job`. Without `NAMESRV_ADDR` it starts an
//! embedded broker and has some orders put there.

use std::time::Duration;

use rocketmq_sync::broker::Broker;
use rocketmq_sync::{ConsumeFrom, Message, MessageView, PullConsumer, Result};

fn main() -> Result<()> {
    let (name_servers, _broker) = servers()?;
    let consumer = PullConsumer::builder("nightly-load")
        .name_servers(name_servers)
        .subscribe("orders", "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .auto_commit(false)
        .start()?;
    let mut rows = 0;
    for messages in consumer.until_end()? {
        let messages = messages?;
        store(&messages);
        // What is stored is committed: a crash in between repeats this batch and no other.
        consumer.commit()?;
        rows += messages.len();
    }
    println!("{rows} rows stored");
    println!("{}", consumer.shutdown(Duration::from_secs(5)));
    Ok(())
}

/// Stands for a transaction with a database.
fn store(messages: &[MessageView]) {
    if let (Some(first), Some(last)) = (messages.first(), messages.last()) {
        println!("{}: offsets {} to {}", first.queue(), first.queue_offset(), last.queue_offset());
    }
}

fn servers() -> Result<(String, Option<Broker>)> {
    let given = std::env::var("NAMESRV_ADDR").unwrap_or_default();
    if !given.trim().is_empty() {
        return Ok((given, None));
    }
    let broker = Broker::builder().topic("orders", 4).start()?;
    for n in 0..500 {
        broker.put(&Message::new("orders", format!("order {n}")))?;
    }
    Ok((broker.name_server(), Some(broker)))
}
