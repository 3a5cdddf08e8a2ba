use rocketmq_sync::{MessageView, PullConsumer};
use std::time::Duration;
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut db = Db;
    let consumer = PullConsumer::builder("nightly-load")
        .name_servers(servers())
        .subscribe("orders", "*")
        .auto_commit(false)
        .pull_batch_size(500)
        .start()?;
    for messages in consumer.until_end()? {
        // the ends as they are now, on all queues this member owns
        let messages = messages?;
        db.insert_all(&messages)?;
        consumer.commit()?; // everything handed out so far; confirmed by the broker
    }
    println!("{}", consumer.shutdown(Duration::from_secs(5)));
    Ok(())
}
// stubs
struct Db;
impl Db {
    fn insert_all(&mut self, messages: &[MessageView]) -> std::io::Result<()> {
        messages.iter().for_each(|message| println!("row {}", message.body_str().unwrap_or_default()));
        Ok(())
    }
}
fn servers() -> String {
    std::env::var("NAMESRV_ADDR").unwrap_or_else(|_| "127.0.0.1:9876".to_owned())
}
