use std::collections::BTreeMap;

use super::{SubscriptionData, bodies, wire_enums};
use crate::message::MessageQueue;
use crate::protocol::json::write;

bodies! {
    /// Answer to 38: the members of a group.
    ConsumerIdList {
        consumer_id_list: Vec<String> = "consumerIdList",
    }
    /// Request 41, 42: takes queues for one member alone, or gives them back.
    LockBatchRequest {
        client_id: String = "clientId",
        consumer_group: String = "consumerGroup",
        mq_set: Vec<MessageQueue> = "mqSet",
        only_this_broker: Option<bool> = "onlyThisBroker",
    }
    /// Answer to 41: the queues that the member has now.
    LockBatchAnswer {
        lock_ok_mq_set: Vec<MessageQueue> = "lockOKMQSet",
    }
    /// Request 220, answer to 222: where each queue is to go on.
    ResetOffsetBody {
        offset_table: BTreeMap<MessageQueue, i64> = "offsetTable",
    }
    /// Answer to 221: where one member is. Answer to 223: where all members are, by client id.
    GetConsumerStatusBody {
        consumer_table: BTreeMap<String, BTreeMap<MessageQueue, i64>> = "consumerTable",
        message_queue_table: BTreeMap<MessageQueue, i64> = "messageQueueTable",
    }
    /// Answer to 307: what a consumer is doing.
    ConsumerRunningInfo {
        jstack: Option<String> = "jstack",
        mq_pop_table: Option<BTreeMap<MessageQueue, PopProcessQueueInfo>> = "mqPopTable",
        mq_table: BTreeMap<MessageQueue, ProcessQueueInfo> = "mqTable",
        properties: BTreeMap<String, String> = "properties",
        status_table: BTreeMap<String, ConsumeRates> = "statusTable",
        subscription_set: Vec<SubscriptionData> = "subscriptionSet",
        user_consumer_info: Option<BTreeMap<String, String>> = "userConsumerInfo",
    }
    /// One queue of a consumer.
    ProcessQueueInfo {
        cached_msg_count: i32 = "cachedMsgCount",
        cached_msg_max_offset: i64 = "cachedMsgMaxOffset",
        cached_msg_min_offset: i64 = "cachedMsgMinOffset",
        cached_msg_size_in_mib: i32 = "cachedMsgSizeInMiB",
        commit_offset: i64 = "commitOffset",
        dropped: bool = "droped" | "dropped",
        last_consume_timestamp: i64 = "lastConsumeTimestamp",
        last_lock_timestamp: i64 = "lastLockTimestamp",
        last_pull_timestamp: i64 = "lastPullTimestamp",
        locked: bool = "locked",
        transaction_msg_count: i32 = "transactionMsgCount",
        transaction_msg_max_offset: i64 = "transactionMsgMaxOffset",
        transaction_msg_min_offset: i64 = "transactionMsgMinOffset",
        try_unlock_times: i64 = "tryUnlockTimes",
    }
    /// One queue of a pop consumer.
    PopProcessQueueInfo {
        dropped: bool = "droped" | "dropped",
        last_pop_timestamp: i64 = "lastPopTimestamp",
        wait_ack_count: i32 = "waitAckCount",
    }
    /// How fast a consumer is with one topic. Java: `ConsumeStatus`.
    ConsumeRates {
        consume_failed_msgs: i64 = "consumeFailedMsgs",
        consume_failed_tps: f64 = "consumeFailedTPS",
        consume_ok_tps: f64 = "consumeOKTPS",
        consume_rt: f64 = "consumeRT",
        pull_rt: f64 = "pullRT",
        pull_tps: f64 = "pullTPS",
    }
    /// Answer to 309: what the listener made of one message.
    ConsumeMessageDirectlyResult {
        auto_commit: bool = "autoCommit",
        consume_result: DirectResult = "consumeResult",
        order: bool = "order",
        remark: Option<String> = "remark",
        spent_time_mills: i64 = "spentTimeMills",
    }
}

wire_enums! {
    /// What came of consuming one message. Java: `CMResult`.
    DirectResult {
        /// Consumed.
        Success = "CR_SUCCESS",
        /// To be consumed again.
        Later = "CR_LATER",
        /// Rolled back.
        Rollback = "CR_ROLLBACK",
        /// Committed.
        Commit = "CR_COMMIT",
        /// The listener failed.
        ThrowException = "CR_THROW_EXCEPTION",
        /// The listener said nothing.
        ReturnNull = "CR_RETURN_NULL",
    }
}

impl ResetOffsetBody {
    /// As a list, for clients in C++. Reading takes both forms.
    pub fn write_list(&self) -> Vec<u8> {
        let mut out = b"{\"offsetTable\":".to_vec();
        write::sequence(&mut out, b"[]", &self.offset_table, |out, (queue, offset)| {
            out.extend_from_slice(b"{\"brokerName\":");
            write::string(out, queue.broker_name());
            out.extend_from_slice(b",\"offset\":");
            write::integer(out, *offset);
            out.extend_from_slice(b",\"queueId\":");
            write::integer(out, queue.queue_id().into());
            out.extend_from_slice(b",\"topic\":");
            write::string(out, queue.topic());
            out.push(b'}');
        });
        out.push(b'}');
        out
    }
}
