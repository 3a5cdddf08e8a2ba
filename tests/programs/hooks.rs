use rocketmq_sync::{ConsumeStatus, Message, Producer, PushConsumer, Result, allocate};
fn main() -> Result<()> {
    let producer = Producer::builder("shop")
        .name_servers(servers())
        .before_send(|message| message.set_property("traceparent", current_trace()))
        .after_send(|message, result| {
            if let Err(e) = result {
                eprintln!("{} {e}", message.topic())
            }
        })
        .start()?;
    let consumer = PushConsumer::builder("billing")
        .client(producer.client())
        .subscribe("orders", "*")
        .consume_hook(|batch, next| {
            let _span = enter_span(batch[0].property("traceparent"));
            let verdict = next.run(); // the listener, or the next hook
            if verdict.status() != ConsumeStatus::Success {
                eprintln!("{:?}", verdict.error());
            }
            verdict
        })
        .consume_hook(|batch, next| if batch.iter().all(seen_before) { ().into() } else { next.run() })
        .allocate(|me, members, queues| {
            // my own strategy: even queues to the first member
            let first = members.first().is_some_and(|first| first == me);
            queues.iter().filter(|q| (q.queue_id() % 2 == 0) == first).cloned().collect()
        })
        .consume_concurrently(|_| ())
        .start()?;
    let _b = PushConsumer::builder("x").allocate(allocate::averagely).allocate(
        allocate::machine_room_nearby(allocate::averagely, |q| q.broker_name().to_owned(), |c| c.to_owned()),
    );
    producer.send(&Message::new("orders", "x").queue(&producer.queues("orders")?[0]))?;
    wait_a_while(&consumer);
    Ok(())
}
fn seen_before(message: &rocketmq_sync::MessageView) -> bool {
    message.keys().any(|key| key == "seen")
}
struct Span;
fn enter_span(parent: Option<&str>) -> Span {
    println!("span of {parent:?}");
    Span
}
fn current_trace() -> String {
    "00-trace-1".to_owned()
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
