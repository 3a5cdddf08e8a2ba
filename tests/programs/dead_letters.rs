use rocketmq_sync::{Client, Producer, PullConsumer, Result, dead_letter_topic};
fn main() -> Result<()> {
    let client = Client::builder().name_servers(servers()).start()?;
    let producer = Producer::builder("dead-letter-office").client(&client).start()?;
    let dead = PullConsumer::builder("dead-letter-office")
        .client(&client)
        .subscribe(dead_letter_topic("billing"), "*")
        .auto_commit(false)
        .start()?;
    for messages in dead.until_end()? {
        for message in messages? {
            println!(
                "{} of {} after {} tries",
                message.message_id(),
                message.origin_topic(),
                message.reconsume_times()
            );
            producer.send(&message.to_message())?; // back to its original topic, as new
        }
        dead.commit()?;
    }
    Ok(())
}
fn servers() -> String {
    std::env::var("NAMESRV_ADDR").unwrap_or_else(|_| "127.0.0.1:9876".to_owned())
}
