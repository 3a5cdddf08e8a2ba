use rocketmq_sync::{ConsumeFrom, Message, PushConsumer, Result, broker::Broker};
use std::time::{Duration, Instant};
fn main() -> Result<()> {
    for threads in [1, 2, 4, 8, 16, 32] {
        let broker = Broker::builder().topic("work", 16).start()?;
        for i in 0..10_000 {
            broker.put(&Message::new("work", format!("{i}")))?;
        }
        let begun = Instant::now();
        let consumer = PushConsumer::builder("bench")
            .name_servers(broker.name_server())
            .subscribe("work", "*")
            .consume_from(ConsumeFrom::FirstOffset)
            .consume_threads(threads)
            .consume_concurrently(|_| std::thread::sleep(Duration::from_millis(1)))
            .start()?;
        broker.wait(Duration::from_secs(60), |state| state.lag("bench", "work") == 0)?;
        println!(
            "{threads} threads: {:?}, listener {:?}",
            begun.elapsed(),
            consumer.stats().listener_time.total
        );
    }
    Ok(())
}
