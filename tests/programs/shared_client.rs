use rocketmq_sync::{Client, ConsumeFrom, Message, Producer, PushConsumer, Result};
use std::time::Duration;
fn main() -> Result<()> {
    let client = Client::builder()
        .name_servers("127.0.0.1:9876")
        .instance_name("shop-1")
        .cache_limit(64 << 20)
        .start()?;
    let producer = Producer::builder("shop").client(&client).start()?;
    let stock = PushConsumer::builder("stock")
        .client(&client)
        .subscribe("orders", "*")
        .consume_concurrently(|_| ())
        .start()?;
    let mail = PushConsumer::builder("mail")
        .client(&client)
        .subscribe("orders", "paid")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(|_| ())
        .start()?;
    producer.send(&Message::new("orders", "x"))?;
    println!("{}", stock.shutdown(Duration::from_secs(5))); // mail and producer go on
    println!("{}", client.shutdown(Duration::from_secs(5))); // consumers, then producers, then connections
    drop(mail);
    Ok(())
}
