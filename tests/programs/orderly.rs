use rocketmq_sync::{ConsumeStatus, Message, Producer, PushConsumer, Result, allocate};
use std::time::Duration;
fn main() -> Result<()> {
    let producer = Producer::builder("shop").name_servers(servers()).start()?;
    producer.send(&Message::new("order-steps", "paid").sharding_key("order-7"))?; // same key: same queue, in order
    let consumer = PushConsumer::builder("ledger")
        .client(producer.client())
        .subscribe("order-steps", "*")
        .allocate(allocate::consistent_hash(10))
        .suspend_time(Duration::from_secs(2))
        .max_reconsume_times(20)
        .consume_orderly(|batch| match apply(batch[0].body()) {
            Ok(()) => ConsumeStatus::Success,
            Err(Busy) => ConsumeStatus::ReconsumeAfter(Duration::from_millis(200)), // the queue waits, nothing overtakes
        })
        .start()?;
    wait_for_ctrl_c();
    std::process::exit(if consumer.shutdown(Duration::from_secs(10)).is_clean() { 0 } else { 1 });
}
// stubs
struct Busy;
fn apply(_: &[u8]) -> std::result::Result<(), Busy> {
    Ok(())
}
fn wait_for_ctrl_c() {}
fn servers() -> String {
    std::env::var("NAMESRV_ADDR").unwrap_or_else(|_| "127.0.0.1:9876".to_owned())
}
