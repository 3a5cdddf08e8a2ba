use rocketmq_sync::{ConsumeFrom, Filter, PushConsumer, Result};
use std::time::{Duration, SystemTime};
fn main() -> Result<()> {
    let consumer = PushConsumer::builder("fraud")
        .name_servers("127.0.0.1:9876")
        .subscribe("payments", Filter::sql("amount > 1000 AND country IN ('NL', 'DE')"))
        .subscribe("chargebacks", Filter::all())
        .consume_from(ConsumeFrom::Timestamp(SystemTime::now() - Duration::from_secs(3600)))
        .consume_concurrently(|batch| {
            for m in batch {
                println!("{} {:?}", m.message_id(), m.property("amount"))
            }
        })
        .start()?;
    std::thread::sleep(Duration::from_secs(60));
    consumer.unsubscribe("chargebacks")?;
    consumer.subscribe("refunds", "*")?;
    consumer.suspend();
    consumer.resume();
    consumer.set_consume_threads(4);
    consumer.shutdown(Duration::from_secs(5));
    Ok(())
}
