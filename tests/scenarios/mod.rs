//! What is expected of the client wherever it runs: written once, run against the embedded broker, whose clock is
//! moved, and against Apache RocketMQ, whose delay levels are short.

#![allow(dead_code, reason = "each test program runs its part of them")]

pub mod broadcast;
pub mod certificates;
pub mod crash;
pub mod embedded;
pub mod everything;
pub mod filters;
#[cfg(all(feature = "acl", feature = "tls"))]
pub mod guarded;
pub mod in_order;
pub mod java;
pub mod killed_in_order;
pub mod own;
pub mod peer;
pub mod poller;
pub mod pulling;
pub mod resume;
pub mod retries;
pub mod sending;
pub mod shared_group;
pub mod strategies;
pub mod subscriptions;
pub mod tally;
pub mod topics;

use rocketmq_sync::consumer::PushConsumerBuilder;
use rocketmq_sync::producer::ProducerBuilder;
use rocketmq_sync::{
    Client, ClientBuilder, ConsumeFrom, Error, ErrorKind, Message, Producer, PushConsumer, Result,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally::Tally;

/// Servers that a scenario runs against. Topics and groups are named after the scenario, so scenarios may share one.
pub trait Target {
    fn name_server(&self) -> String;
    /// Where topics are created.
    fn broker(&self) -> String;
    /// Waits until `done`; meanwhile the delays of retries pass, in one way or the other.
    fn pass_until(&self, limit: Duration, what: &str, done: &dyn Fn() -> bool);
    /// At once: nothing is flushed, nobody is told.
    fn kill_broker(&self);
    /// The same broker again, with what it had acknowledged.
    fn start_broker(&self);
    /// In order: the broker saves what it knows.
    fn restart_broker(&self);

    /// The settings of clients, as far as they are not those of all.
    fn client(&self) -> ClientBuilder {
        Client::builder()
    }

    fn create_topic(&self, topic: &str, queues: u32) {
        topics::create(&self.broker(), &self.name_server(), topic, queues);
    }
}

/// Enough for anything that takes no delay, also on a machine that is busy with other things.
pub const SOON: Duration = Duration::from_secs(120);

/// What it logs is shown when the test fails; `RUST_LOG` says how much.
pub fn client(target: &dyn Target) -> Client {
    let _ = env_logger::builder().is_test(true).try_init();
    target.client().name_servers(target.name_server()).start().expect("the servers are there")
}

pub fn producer(client: &Client) -> Producer {
    producer_builder(client, "scenario-producer").start().expect("the client runs")
}

/// A patient one: on a busy machine an answer may take its time, and a message that is sent again comes twice.
pub fn producer_builder(client: &Client, group: &str) -> ProducerBuilder {
    Producer::builder(group).client(client).send_timeout(SOON).attempt_timeout(SOON)
}

/// A member of `group` that shows `tally` what it gets, from the beginning of `topic` unless the group has offsets.
pub fn member(client: &Client, group: &str, topic: &str, tally: &Arc<Tally>) -> PushConsumer {
    let tally = tally.clone();
    let builder = PushConsumer::builder(group)
        .client(client)
        .subscribe(topic, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(move |batch| batch.each(|message| tally.take(message)));
    start(&builder)
}

/// The same, in order; a message may fail twice before it becomes a dead letter.
pub fn member_in_order(client: &Client, group: &str, topic: &str, tally: &Arc<Tally>) -> PushConsumer {
    let tally = tally.clone();
    let builder = PushConsumer::builder(group)
        .client(client)
        .subscribe(topic, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .suspend_time(Duration::from_millis(20))
        .max_reconsume_times(2)
        .consume_orderly(move |batch| batch.each(|message| tally.take(message)));
    start(&builder)
}

/// Starts a consumer, as soon as its topic is known everywhere.
pub fn start(builder: &PushConsumerBuilder) -> PushConsumer {
    once_known(|| builder.clone().start())
}

/// The same, however it is started.
fn once_known<T>(start: impl Fn() -> Result<T>) -> T {
    let begun = Instant::now();
    loop {
        match start() {
            Ok(started) => return started,
            Err(error) if may_pass(&error) && begun.elapsed() < SOON => pause(Duration::from_millis(50)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A topic that was just made may be unknown for a while once more: a broker that has just started announces all its
/// topics, and what it had gathered before this one was made can reach the name server after it.
fn may_pass(error: &Error) -> bool {
    error.is_retryable() || error.kind() == ErrorKind::TopicNotFound
}

/// The bodies are the numbers. A broker that has just come back may need another try.
pub fn send_numbers(producer: &Producer, topic: &str, numbers: std::ops::Range<u64>) {
    let messages: Vec<_> = numbers.map(|number| Message::new(topic, number.to_string())).collect();
    for some in messages.chunks(50) {
        until_acknowledged(|| producer.send_batch(some).map(drop));
    }
}

/// Sends again and again until the broker has acknowledged. A send whose answer was lost
/// may have been stored: the message then comes twice, as any producer's would.
pub fn until_acknowledged(send: impl Fn() -> Result<()>) {
    let begun = Instant::now();
    while let Err(error) = send() {
        assert!(may_pass(&error) && begun.elapsed() < SOON, "{error}");
        pause(Duration::from_millis(50));
    }
}

/// Waits until `done`, and says what was missing if it does not come true.
pub fn eventually(limit: Duration, what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + limit;
    while !done() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        pause(Duration::from_millis(10));
    }
}

/// Between two looks at a condition, or to keep a pace.
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}
