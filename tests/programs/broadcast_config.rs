use rocketmq_sync::{ConsumeFrom, MessageModel, PushConsumer, Result, consumer::LocalOffsets};
use std::sync::{Arc, RwLock};
fn main() -> Result<()> {
    let config = Arc::new(RwLock::new(String::new()));
    let seen = config.clone();
    let consumer = PushConsumer::builder("config-watch")
        .name_servers("127.0.0.1:9876")
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
    drop(consumer);
    println!("{}", config.read().unwrap());
    Ok(())
}
