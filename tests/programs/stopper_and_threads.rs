use rocketmq_sync::{Batch, MessageView, PushConsumer, Result};
use std::{cell::RefCell, rc::Rc, time::Duration};
fn book(_m: &MessageView) -> std::result::Result<(), String> {
    Ok(())
}
fn main() -> Result<()> {
    let consumer = PushConsumer::builder("ledger")
        .name_servers("127.0.0.1:9876")
        .subscribe("orders", "created || paid")
        .consume_concurrently(|batch| batch.each(|message| book(message)))
        .start()?;
    let stopper = consumer.stopper();
    std::thread::spawn(move || stopper.stop());
    consumer.wait();
    println!("{}", consumer.shutdown(Duration::from_secs(10)));
    let _loader = PushConsumer::builder("loader")
        .subscribe("orders", "*")
        .consume_concurrently_with(|_thread| {
            let connection = Rc::new(RefCell::new(0u32));
            move |batch: &Batch| {
                *connection.borrow_mut() += batch.len() as u32;
                batch.each(book)
            }
        })
        .start()?;
    Ok(())
}
