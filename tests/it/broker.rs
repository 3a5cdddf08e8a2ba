//! The embedded broker, asked in raw frames: what clients and tools ask of it, and what it asks of clients.

#[cfg(feature = "acl")]
mod accounts;
mod groups;
mod later;
mod life;
mod nonsense;
mod offsets;
mod pulling;
mod sending;
mod topics;

use crate::wire::Wire;
use rocketmq_sync::broker::Broker;
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::headers::{GetRoute, UpdateConsumerOffset};
use rocketmq_sync::{Message, MessageQueue, RequestCode, ResponseCode};

fn broker() -> Broker {
    Broker::builder().topic("t", 2).start().unwrap()
}

fn connect(broker: &Broker) -> Wire {
    Wire::connect(&broker.name_server())
}

fn queue(id: i32) -> MessageQueue {
    MessageQueue::new("t", "broker-a", id)
}

fn code(answer: &RemotingCommand) -> ResponseCode {
    answer.response_code()
}

fn route(topic: &str) -> GetRoute {
    GetRoute { topic: topic.into(), accept_standard_json_only: None }
}

fn put(broker: &Broker, id: i32, body: &str) {
    broker.put(&Message::new("t", body).key(body).queue(&queue(id))).unwrap();
}

fn commit(wire: &mut Wire, queue_id: i32, offset: i64) {
    let header = UpdateConsumerOffset {
        consumer_group: "g".into(),
        topic: "t".into(),
        queue_id,
        commit_offset: offset,
        bname: None,
    };
    assert_eq!(code(&wire.ask(RequestCode::UPDATE_CONSUMER_OFFSET, &header)), ResponseCode::SUCCESS);
}
