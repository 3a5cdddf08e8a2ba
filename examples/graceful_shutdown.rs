//! Ends on Ctrl-C without losing or repeating a message: `cargo run --example graceful_shutdown`, on the cluster of
//! `NAMESRV_ADDR`, or else on a broker inside this process. The exit code tells whether the end was clean.

use std::process::ExitCode;
use std::time::Duration;

use rocketmq_sync::broker::Broker;
use rocketmq_sync::{ConsumeFrom, Message, PushConsumer};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    env_logger::init();
    let mut builder = PushConsumer::builder("graceful-shutdown-example").subscribe("orders", "*");
    let embedded = match std::env::var_os("NAMESRV_ADDR").filter(|list| !list.is_empty()) {
        Some(_) => None,
        None => Some(Broker::builder().topic("orders", 4).start()?),
    };
    if let Some(broker) = &embedded {
        for n in 1..=100 {
            broker.put(&Message::new("orders", format!("order {n}")))?;
        }
        builder = builder.name_servers(broker.name_server());
    }
    let consumer = builder
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_threads(4)
        .consume_concurrently(|batch| {
            for message in batch {
                std::thread::sleep(Duration::from_millis(300)); // the work, which a shutdown lets finish
                println!("booked {}", message.body_str().unwrap_or("(binary)"));
            }
        })
        .start()?;

    // The stopper does not keep the consumer alive and may be used anywhere.
    let stopper = consumer.stopper();
    ctrlc::set_handler(move || stopper.stop())?;
    println!("Ctrl-C ends");
    consumer.wait();

    let report = consumer.shutdown(Duration::from_secs(10));
    println!("{report}");
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
