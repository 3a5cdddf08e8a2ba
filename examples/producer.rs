//! Sends each line of standard input as a message: `cargo run --example producer -- TOPIC < FILE`, with `NAMESRV_ADDR`
//! set. Without it, to a broker inside this process, which then tells what it holds.

use std::io::BufRead;

use rocketmq_sync::broker::Broker;
use rocketmq_sync::{Message, Producer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    env_logger::init();
    let topic = std::env::args().nth(1).unwrap_or("orders".into());
    let mut builder = Producer::builder("producer-example");
    let embedded = match std::env::var_os("NAMESRV_ADDR").filter(|list| !list.is_empty()) {
        Some(_) => None,
        None => Some(Broker::builder().start()?),
    };
    if let Some(broker) = &embedded {
        builder = builder.name_servers(broker.name_server());
    }
    let producer = builder.start()?;

    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.is_empty() {
            continue;
        }
        // Waits for the broker's word; other brokers have been tried before an error comes back.
        let receipt = producer.send(&Message::new(&topic, line))?;
        println!("{} in {} at {}", receipt.message_id(), receipt.queue(), receipt.queue_offset());
    }
    if let Some(broker) = &embedded {
        println!("the embedded broker holds {} messages of {topic}", broker.inspect().depth(&topic));
    }
    Ok(())
}
