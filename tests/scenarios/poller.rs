//! A thread that polls as a member of a group, and commits what a poll has brought before the next.

use super::tally::Tally;
use super::{SOON, once_known};
use rocketmq_sync::{Client, ConsumeFrom, ErrorKind, PullConsumer, ShutdownReport};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ended by its consumer when dropped.
#[derive(Debug)]
pub struct Poller {
    consumer: Arc<PullConsumer>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Poller {
    /// From the beginning of `topic` unless the group has offsets; shows `tally` what it gets.
    pub fn start(client: &Client, group: &str, topic: &str, tally: &Arc<Tally>) -> Self {
        let consumer = Arc::new(started(client, group, topic));
        let stop = Arc::new(AtomicBool::new(false));
        let (polling, stopped, tally) = (consumer.clone(), stop.clone(), tally.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                poll(&polling, &tally);
            }
        });
        Poller { consumer, stop, thread }
    }

    pub fn consumer(&self) -> &PullConsumer {
        &self.consumer
    }

    /// Everything that it was given is committed, or had gone to another member before that.
    pub fn stop(self) -> ShutdownReport {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("it only polls");
        self.consumer.shutdown(SOON)
    }
}

fn started(client: &Client, group: &str, topic: &str) -> PullConsumer {
    let builder = PullConsumer::builder(group)
        .client(client)
        .subscribe(topic, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .auto_commit(false);
    once_known(|| builder.clone().start())
}

fn poll(consumer: &PullConsumer, tally: &Tally) {
    let messages = match consumer.poll(Duration::from_millis(100)) {
        Ok(messages) => messages,
        // What failed is tried again.
        Err(error) if error.is_retryable() => return,
        Err(error) => panic!("{error}"),
    };
    for message in &messages {
        tally.take(message).expect("nothing is to fail");
    }
    match consumer.commit() {
        Ok(()) => {}
        // Of a queue that has gone to another member meanwhile.
        Err(error) if error.is_retryable() || error.kind() == ErrorKind::InvalidInput => {}
        Err(error) => panic!("{error}"),
    }
}
