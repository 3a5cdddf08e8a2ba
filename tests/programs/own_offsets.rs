use rocketmq_sync::{MessageQueue, MessageView, PullConsumer};
use std::{sync::Arc, time::Duration};
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Arc::new(Db);
    let stored = db.clone();
    let consumer = PullConsumer::builder("exactly-once")
        .name_servers(servers())
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
// A table in a file: a line is a transaction, with its queue, the offset to go on at, and rows.
struct Db;
impl Db {
    fn next_offset(&self, queue: &MessageQueue) -> std::io::Result<Option<i64>> {
        let lines = lines()?;
        let last = lines.iter().rev().find(|line| line[0] == queue.to_string());
        Ok(last.and_then(|line| line[1].parse().ok()))
    }
    fn in_transaction(&self, rows: &[MessageView], queue: &MessageQueue, next: i64) -> std::io::Result<()> {
        let rows: Vec<_> = rows.iter().map(|row| row.body_str().unwrap_or_default()).collect();
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path())?;
        std::io::Write::write_all(&mut file, format!("{queue} {next} {}\n", rows.join(" ")).as_bytes())
    }
}
fn lines() -> std::io::Result<Vec<Vec<String>>> {
    if !std::path::Path::new(&path()).exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(path())?;
    Ok(text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect())
}
fn path() -> String {
    std::env::var("PROGRAM_TABLE").unwrap_or_else(|_| "table".to_owned())
}
fn running() -> bool {
    let wanted = std::env::var("PROGRAM_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(0);
    lines().unwrap_or_default().iter().map(|line| line.len() - 2).sum::<usize>() < wanted
}
fn servers() -> String {
    std::env::var("NAMESRV_ADDR").unwrap_or_else(|_| "127.0.0.1:9876".to_owned())
}
