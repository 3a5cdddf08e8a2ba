use rocketmq_sync::{ConsumeFrom, Filter, PushConsumer, Result};
use std::time::{Duration, SystemTime};
fn main() -> Result<()> {
    let consumer = PushConsumer::builder("fraud")
        .name_servers(servers())
        .subscribe("payments", Filter::sql("amount > 1000 AND country IN ('NL', 'DE')"))
        .subscribe("chargebacks", Filter::all())
        .consume_from(ConsumeFrom::Timestamp(SystemTime::now() - Duration::from_secs(3600)))
        .consume_concurrently(|batch| {
            for m in batch {
                println!("{} {:?}", m.message_id(), m.property("amount"))
            }
        })
        .start()?;
    wait_a_while(&consumer);
    consumer.unsubscribe("chargebacks")?;
    consumer.subscribe("refunds", "*")?;
    consumer.suspend();
    consumer.resume();
    consumer.set_consume_threads(4);
    consumer.shutdown(Duration::from_secs(5));
    Ok(())
}
// Until the listener has had so many messages, or for a minute.
fn wait_a_while(consumer: &PushConsumer) {
    let wanted = std::env::var("PROGRAM_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(u64::MAX);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while consumer.stats().succeeded < wanted && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
fn servers() -> String {
    std::env::var("NAMESRV_ADDR").unwrap_or_else(|_| "127.0.0.1:9876".to_owned())
}
