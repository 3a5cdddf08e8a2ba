use std::collections::BTreeMap;

use super::{MessageModel, bodies, wire_enums};
use crate::message::MessageQueue;

bodies! {
    /// Request 400: which queues a member gets, if the broker decides.
    QueryAssignment {
        client_id: String = "clientId",
        consumer_group: String = "consumerGroup",
        message_model: MessageModel = "messageModel",
        strategy_name: String = "strategyName",
        topic: String = "topic",
    }
    /// Answer to 400.
    QueryAssignmentAnswer {
        message_queue_assignments: Vec<MessageQueueAssignment> = "messageQueueAssignments",
    }
    /// One queue, and how to read it.
    MessageQueueAssignment {
        attachments: Option<BTreeMap<String, String>> = "attachments",
        message_queue: Option<MessageQueue> = "messageQueue",
        mode: RequestMode = "mode",
    }
    /// Request 401: how a group is to read a topic.
    SetMessageRequestMode {
        consumer_group: String = "consumerGroup",
        mode: RequestMode = "mode",
        pop_share_queue_num: i32 = "popShareQueueNum",
        topic: String = "topic",
    }
    /// Request 200151: popped messages that are done.
    BatchAck {
        acks: Vec<BatchAckEntry> = "acks",
        broker_name: String = "brokerName",
    }
    /// Messages of one pop from one queue.
    BatchAckEntry {
        bit_set: String = "b" | "bitSet",
        consumer_group: String = "c" | "consumerGroup",
        invisible_time: i64 = "it" | "invisibleTime",
        pop_time: i64 = "pt" | "popTime",
        queue_id: i32 = "q" | "queueId",
        retry: String = "r" | "retry",
        revive_queue_id: i32 = "rq" | "reviveQueueId",
        start_offset: i64 = "so" | "startOffset",
        topic: String = "t" | "topic",
    }
}

wire_enums! {
    /// How messages are read.
    RequestMode {
        /// From an offset on.
        Pull = "PULL",
        /// With a receipt each.
        Pop = "POP",
    }
}
