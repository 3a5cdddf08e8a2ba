use rocketmq_sync::{
    Batch, Message, PushConsumer, Result,
    broker::{Broker, Clock},
    dead_letter_topic,
};
use std::time::Duration;

#[test]
fn a_poison_order_ends_as_a_dead_letter() -> Result<()> {
    let broker = Broker::builder().topic("orders", 4).clock(Clock::manual()).start()?;
    let consumer = PushConsumer::builder("billing")
        .name_servers(broker.name_server())
        .subscribe("orders", "*")
        .consume_concurrently(on_orders)
        .start()?;
    broker.put(&Message::new("orders", "poison").key("order-7"))?;
    let dead = dead_letter_topic("billing");
    broker.fast_forward(SOON, |state| state.depth(&dead) == 1)?; // 4 h 46 min of retries, in milliseconds
    let letter = broker.inspect().messages(&dead).remove(0);
    assert_eq!((letter.body(), letter.origin_topic()), (&b"poison"[..], "orders"));
    broker.wait(SOON, |state| state.lag("billing", "orders") == 0)?;
    assert!(consumer.shutdown(SOON).is_clean());
    Ok(())
}

// stubs
#[test]
fn the_listener_alone_needs_no_broker() {
    let batch = Batch::for_test([Message::new("orders", "a"), Message::new("orders", "b")]);
    assert!(on_orders(&batch).is_err());
    assert_eq!(batch.status_of(&batch[0]), None);
}
const SOON: Duration = Duration::from_secs(5);
fn on_orders(batch: &Batch) -> std::result::Result<(), String> {
    Err(format!("{} is not an order", batch[0].body_str().unwrap_or("?")))
}
