//! Consumes a topic until Enter is pressed: `cargo run --example push_consumer -- TOPIC [TAGS]`, with `NAMESRV_ADDR`
//! set. Without it, a broker inside this process gets a message every half a second.

use std::time::Duration;

use rocketmq_sync::broker::Broker;
use rocketmq_sync::{Message, PushConsumer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    env_logger::init();
    let mut words = std::env::args().skip(1);
    let topic = words.next().unwrap_or("orders".into());
    let tags = words.next().unwrap_or("*".into());

    let mut builder = PushConsumer::builder("push-consumer-example").subscribe(&topic, tags.as_str());
    let embedded = match std::env::var_os("NAMESRV_ADDR").filter(|list| !list.is_empty()) {
        Some(_) => None,
        None => Some(Broker::builder().topic(topic.as_str(), 4).start()?),
    };
    if let Some(broker) = &embedded {
        builder = builder.name_servers(broker.name_server());
    }
    let consumer = builder
        .consume_concurrently(|batch| {
            for message in batch {
                println!("{} {}", message.queue(), message.body_str().unwrap_or("(binary)"));
            }
        })
        .start()?;

    println!("consuming {topic}; Enter ends");
    std::thread::scope(|scope| {
        let feeder = scope.spawn(|| feed(embedded.as_ref(), &topic, &consumer));
        let ended = std::io::stdin().read_line(&mut String::new());
        println!("{}", consumer.shutdown(Duration::from_secs(10)));
        drop(feeder.join());
        ended
    })?;
    Ok(())
}

/// Something to see on the embedded broker, until the consumer is shut down.
fn feed(broker: Option<&Broker>, topic: &str, consumer: &PushConsumer) {
    let (Some(broker), mut events) = (broker, consumer.events()) else { return };
    for n in 1.. {
        while events.next_timeout(Duration::from_millis(500)).is_some() {}
        if events.is_closed() || broker.put(&Message::new(topic, format!("message {n}"))).is_err() {
            return;
        }
    }
}
