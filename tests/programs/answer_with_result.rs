use rocketmq_sync::{MessageView, PushConsumer, Result};
fn main() -> Result<()> {
    // three closures with three return types
    let _a = PushConsumer::builder("a")
        .subscribe("t", "*")
        .consume_concurrently(|batch| {
            for m in batch {
                batch.answer(m, book(m));
            }
        })
        .start()?;
    let _b = PushConsumer::builder("b")
        .subscribe("t", "*")
        .consume_concurrently(|batch| {
            for m in batch.iter() {
                book(m)?;
            }
            Ok::<(), std::io::Error>(())
        })
        .start()?;
    let _c = PushConsumer::builder("c")
        .subscribe("t", "*")
        .consume_concurrently(|batch| -> std::result::Result<(), Box<dyn std::error::Error>> {
            book(&batch[0])?;
            batch.first().unwrap().body_str()?;
            Ok(())
        })
        .start()?;
    let _d = PushConsumer::builder("d")
        .subscribe("t", "*")
        .consume_orderly(|batch| book(&batch[0]).map_err(|e| format!("no: {e}")))
        .start()?;
    let _e = PushConsumer::builder("e").subscribe("t", "*").consume_concurrently(on_batch).start()?;
    let _f = PushConsumer::builder("f")
        .subscribe("t", "*")
        .consume_concurrently(|batch| {
            batch.chunks(10).for_each(|c| {
                let _ = c.len();
            });
            if batch.len() > 3 { Ok(rocketmq_sync::ConsumeStatus::DeadLetter) } else { Err("few") }
        })
        .start()?;
    let _g = PushConsumer::builder("g")
        .subscribe("t", "*")
        .consume_concurrently(|batch| {
            std::thread::scope(|s| {
                for m in batch {
                    s.spawn(move || batch.answer(m, book(m)));
                }
            })
        })
        .start()?;
    Ok(())
}
fn on_batch(batch: &rocketmq_sync::Batch) -> std::io::Result<()> {
    batch.iter().try_for_each(book)
}
fn book(_: &MessageView) -> std::io::Result<()> {
    Ok(())
}
