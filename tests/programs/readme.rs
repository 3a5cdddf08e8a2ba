use rocketmq_sync::{ConsumeFrom, Message, MessageView, Producer, PushConsumer, Result};
use std::time::Duration;

fn main() -> Result<()> {
    let producer = Producer::builder("billing").name_servers("127.0.0.1:9876").start()?;
    producer.send(&Message::new("orders", "paid 42 EUR").tag("paid").key("order-7"))?;

    let consumer = PushConsumer::builder("billing")
        .client(producer.client())
        .subscribe("orders", "created || paid")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(|batch| {
            for message in batch {
                batch.answer(message, book(message)); // Err: logged, and this message is retried later
            }
        })
        .start()?;

    wait_for_ctrl_c();
    println!("{}", consumer.shutdown(Duration::from_secs(10)));
    Ok(())
}
fn book(_: &MessageView) -> std::io::Result<()> {
    Ok(())
}
fn wait_for_ctrl_c() {}
