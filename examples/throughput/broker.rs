//! The embedded broker in a process of its own, until it is told to stop by a signal.

use std::sync::mpsc;

use rocketmq_sync::broker::Broker;

use crate::Outcome;
use crate::args::Args;

pub fn run(args: &Args) -> Outcome {
    let mut builder = Broker::builder().listen(args.text("listen")?);
    for topic in args.all("topic") {
        let (name, queues) = topic.split_once(':').ok_or(format!("--topic {topic:?} is not NAME:QUEUES"))?;
        builder =
            builder.topic(name, queues.parse().map_err(|_| format!("{queues:?} is not a number of queues"))?);
    }
    let broker = builder.start()?;
    let (stop, stopped) = mpsc::channel();
    ctrlc::set_handler(move || {
        let _ = stop.send(());
    })?;
    println!("NAMESRV_ADDR={}", broker.name_server());
    // An error means that nobody can stop it any more: then it stops as well.
    let _ = stopped.recv();
    broker.shutdown();
    Ok(true)
}
