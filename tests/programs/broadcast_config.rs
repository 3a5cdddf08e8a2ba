use rocketmq_sync::{ConsumeFrom, MessageModel, PushConsumer, Result, consumer::LocalOffsets};
use std::sync::{Arc, RwLock};
fn main() -> Result<()> {
    let config = Arc::new(RwLock::new(String::new()));
    let seen = config.clone();
    let consumer = PushConsumer::builder("config-watch")
        .name_servers(servers())
        .subscribe("config", "shop")
        .message_model(MessageModel::Broadcasting)
        .local_offsets(LocalOffsets::Memory)
        .consume_from(ConsumeFrom::LastMessages(1))
        .consume_threads(1)
        .consume_orderly(move |batch| {
            if let Some(last) = batch.last() {
                *seen.write().unwrap() = last.body_str()?.to_owned();
            }
            Ok::<(), std::str::Utf8Error>(())
        })
        .start()?;
    wait_a_while(&consumer);
    drop(consumer);
    println!("{}", config.read().unwrap());
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
