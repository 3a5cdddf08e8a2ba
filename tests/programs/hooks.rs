use rocketmq_sync::{ConsumeStatus, Producer, PushConsumer, Result, allocate};
fn main() -> Result<()> {
    let producer = Producer::builder("shop")
        .name_servers("127.0.0.1:9876")
        .before_send(|message| message.set_property("traceparent", current_trace()))
        .after_send(|message, result| {
            if let Err(e) = result {
                eprintln!("{} {e}", message.topic())
            }
        })
        .start()?;
    let _consumer = PushConsumer::builder("billing")
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
    Ok(())
}
fn seen_before(_: &rocketmq_sync::MessageView) -> bool {
    false
}
struct Span;
fn enter_span(_: Option<&str>) -> Span {
    Span
}
fn current_trace() -> String {
    String::new()
}
