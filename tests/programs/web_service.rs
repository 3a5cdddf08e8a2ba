use rocketmq_sync::{Batch, Client, Message, Producer, PushConsumer};
use std::{sync::Arc, time::Duration};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Arc::new(Pool::open("postgres://localhost/shop")?);
    let client = Client::builder().environment("SHOP_RMQ").start()?;
    let producer = Producer::builder("shop").client(&client).start()?;
    let consumer = PushConsumer::builder("shop")
        .client(&client)
        .subscribe("orders", "created || paid")
        .consume_threads(8)
        .consume_concurrently({
            let pool = pool.clone();
            move |batch| book(batch, &pool, &producer)
        })
        .start()?;
    serve_http_until_ctrl_c(&pool)?;
    println!("{}", consumer.shutdown(Duration::from_secs(10))); // running listeners may still send
    println!("{}", client.shutdown(Duration::from_secs(5)));
    Ok(())
}

fn book(batch: &Batch, pool: &Pool, producer: &Producer) -> Result<(), BookError> {
    for message in batch {
        pool.insert(message.message_id(), message.body())?; // Err: logged; this message and the rest come again
        producer.send(&Message::new("receipts", message.body()).key(message.message_id()))?;
        batch.answer(message, ()); // done, whatever happens to the next one
    }
    Ok(())
}
// stubs
struct Pool;
impl Pool {
    fn open(_: &str) -> Result<Pool, BookError> {
        Ok(Pool)
    }
    fn insert(&self, _: &str, _: &[u8]) -> Result<(), BookError> {
        Ok(())
    }
}
#[derive(Debug)]
struct BookError;
impl std::fmt::Display for BookError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("x")
    }
}
impl std::error::Error for BookError {}
impl From<rocketmq_sync::Error> for BookError {
    fn from(_: rocketmq_sync::Error) -> Self {
        BookError
    }
}
fn serve_http_until_ctrl_c(_: &Pool) -> Result<(), BookError> {
    Ok(())
}
