use rocketmq_sync::{Client, ConsumeFrom, ErrorKind, PullConsumer, Result, TOOLS_GROUP};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Err(error) = tail("orders", 10) else { return ExitCode::SUCCESS };
    eprintln!("{error}"); // names every server tried, and what each said
    ExitCode::from(match error.kind() {
        ErrorKind::TopicNotFound => 3,
        ErrorKind::Unreachable | ErrorKind::Timeout => 4,
        ErrorKind::Refused => 5,
        _ => 1,
    })
}

fn tail(topic: &str, n: usize) -> Result<()> {
    let client = Client::builder().environment("RMQ").start()?;
    let reader = PullConsumer::builder(TOOLS_GROUP).client(&client).assign_topic(topic, "*").start()?;
    for queue in reader.assignment() {
        reader.seek(&queue, ConsumeFrom::LastMessages(n as u64))?;
    }
    let mut found = reader.until_end()?.collect::<Result<Vec<_>>>()?.concat();
    found.sort_by_key(|message| message.store_time());
    for message in &found[found.len().saturating_sub(n)..] {
        println!("{} {}", message.queue(), message.body_str().unwrap_or("(binary)"));
    }
    Ok(())
}
