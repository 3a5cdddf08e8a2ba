//! The steps of each order are handled in their order, also when one has to wait: `cargo run --example orderly`, on the
//! cluster of `NAMESRV_ADDR`, or else on a broker inside this process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rocketmq_sync::broker::Broker;
use rocketmq_sync::{Client, ConsumeFrom, ConsumeStatus, Message, Producer, PushConsumer};

const STEPS: [&str; 4] = ["created", "paid", "packed", "shipped"];
const ORDERS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    env_logger::init();
    let mut builder = Client::builder();
    let embedded = match std::env::var_os("NAMESRV_ADDR").filter(|list| !list.is_empty()) {
        Some(_) => None,
        None => Some(Broker::builder().topic("order-steps", 4).start()?),
    };
    if let Some(broker) = &embedded {
        builder = builder.name_servers(broker.name_server());
    }
    let client = builder.start()?;

    // All messages of one sharding key go to one queue.
    let producer = Producer::builder("orderly-example").client(&client).start()?;
    for step in STEPS {
        for order in 1..=ORDERS {
            let message = Message::new("order-steps", format!("order {order}: {step}"));
            producer.send(&message.sharding_key(format!("order-{order}")))?;
        }
    }

    let (done, handled) = (std::sync::Arc::new(AtomicUsize::new(0)), std::sync::mpsc::channel());
    let (counted, tell) = (done.clone(), handled.0);
    let consumer = PushConsumer::builder("orderly-example")
        .client(&client)
        .subscribe("order-steps", "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .suspend_time(Duration::from_millis(200))
        .consume_orderly(move |batch| {
            let text = batch[0].body_str().unwrap_or("(binary)");
            if text.ends_with("2: paid") && batch[0].reconsume_times() == 0 {
                println!("{text} has to wait, and with it whatever follows in its queue");
                return ConsumeStatus::ReconsumeLater;
            }
            println!("{text}");
            if counted.fetch_add(1, Ordering::SeqCst) + 1 == STEPS.len() * ORDERS {
                // Nobody listens any more if somebody else had sent more.
                let _ = tell.send(());
            }
            ConsumeStatus::Success
        })
        .start()?;
    handled.1.recv_timeout(Duration::from_secs(60))?;
    println!("{} steps handled", done.load(Ordering::SeqCst));
    println!("{}", consumer.shutdown(Duration::from_secs(5)));
    Ok(())
}
