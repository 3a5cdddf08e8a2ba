//! The pull consumer: polling, committing, going elsewhere, and the queues of one's own choice.

mod commits;
mod life;
mod positions;
mod reading;

use crate::support::{SOON, body, queue};
use rocketmq_sync::broker::Broker;
use rocketmq_sync::consumer::PullConsumerBuilder;
use rocketmq_sync::{ConsumeFrom, MessageView, PullConsumer, TOOLS_GROUP};

/// A member of `billing` that reads `orders` from the beginning and commits when it is told to.
fn member(broker: &Broker) -> PullConsumerBuilder {
    PullConsumer::builder("billing")
        .name_servers(broker.name_server())
        .subscribe("orders", "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .auto_commit(false)
}

/// Reads all of `orders` on its own.
fn reader(broker: &Broker) -> PullConsumerBuilder {
    PullConsumer::builder(TOOLS_GROUP)
        .name_servers(broker.name_server())
        .assign_topic("orders", "*")
        .consume_from(ConsumeFrom::FirstOffset)
}

fn numbers(messages: &[MessageView]) -> Vec<u32> {
    messages.iter().map(|message| body(message).parse().unwrap()).collect()
}

/// The next messages, which must come.
fn some(consumer: &PullConsumer) -> Vec<MessageView> {
    let messages = consumer.poll(SOON).unwrap();
    assert!(!messages.is_empty(), "nothing within {SOON:?}");
    messages
}

/// Everything to the end, in the order it came.
fn rest(consumer: &PullConsumer) -> Vec<u32> {
    consumer.until_end().unwrap().flat_map(|messages| numbers(&messages.unwrap())).collect()
}

fn sorted(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers
}

fn committed(broker: &Broker, id: i32) -> Option<i64> {
    broker.inspect().committed("billing", &queue(id))
}
