use rocketmq_sync::{MessageQueue, MessageView, PullConsumer};
use std::{sync::Arc, time::Duration};
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Arc::new(Db);
    let stored = db.clone();
    let consumer = PullConsumer::builder("exactly-once")
        .name_servers("127.0.0.1:9876")
        .subscribe("orders", "*")
        .auto_commit(false)
        .start_offset(move |queue| stored.next_offset(queue)) // asked at each assignment, on the polling thread
        .start()?;
    while running() {
        let messages = consumer.poll(Duration::from_secs(1))?;
        let Some(last) = messages.last() else { continue };
        db.in_transaction(&messages, last.queue(), last.queue_offset() + 1)?; // rows and offset in one transaction
    }
    Ok(())
}
struct Db;
impl Db {
    fn next_offset(&self, _: &MessageQueue) -> std::io::Result<Option<i64>> {
        Ok(None)
    }
    fn in_transaction(&self, _: &[MessageView], _: &MessageQueue, _: i64) -> std::io::Result<()> {
        Ok(())
    }
}
fn running() -> bool {
    false
}
