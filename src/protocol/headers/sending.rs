//! Sending.

use super::{Header, Value};
use crate::protocol::{DecodeError, Fields};

headers! {
    /// 310, 320, 325: sends, under short names.
    SendMessage {
        producer_group: String = "a",
        topic: String = "b",
        default_topic: String = "c",
        default_topic_queue_nums: i32 = "d",
        queue_id: i32 = "e",
        sys_flag: i32 = "f",
        born_timestamp: i64 = "g",
        flag: i32 = "h",
        properties: Option<String> = "i",
        reconsume_times: Option<i32> = "j",
        unit_mode: Option<bool> = "k",
        max_reconsume_times: Option<i32> = "l",
        batch: Option<bool> = "m",
        broker_name: Option<String> = "n",
    }
    /// 10, 324: sends, under long names.
    SendMessageLong {
        producer_group: String = "producerGroup",
        topic: String = "topic",
        default_topic: String = "defaultTopic",
        default_topic_queue_nums: i32 = "defaultTopicQueueNums",
        queue_id: i32 = "queueId",
        sys_flag: i32 = "sysFlag",
        born_timestamp: i64 = "bornTimestamp",
        flag: i32 = "flag",
        properties: Option<String> = "properties",
        reconsume_times: Option<i32> = "reconsumeTimes",
        unit_mode: Option<bool> = "unitMode",
        max_reconsume_times: Option<i32> = "maxReconsumeTimes",
        batch: Option<bool> = "batch",
        bname: Option<String> = "bname",
    }
    /// Answer to a send. Of a batch, `msgId` has the ids of all messages, and the offset is the first one.
    SendAnswer {
        msg_id: String = "msgId",
        queue_id: i32 = "queueId",
        queue_offset: i64 = "queueOffset",
        transaction_id: Option<String> = "transactionId",
        batch_uniq_id: Option<String> = "batchUniqId",
        recall_handle: Option<String> = "recallHandle",
        msg_region: Option<String> = "MSG_REGION",
        trace_on: Option<String> = "TRACE_ON",
    }
    /// What the refusal of a send has.
    SendRefusal {
        msg_region: Option<String> = "MSG_REGION",
        trace_on: Option<String> = "TRACE_ON",
    }
    /// 326: a broker passes a reply on to the client that asked.
    PushReply {
        producer_group: String = "producerGroup",
        topic: String = "topic",
        default_topic: String = "defaultTopic",
        default_topic_queue_nums: i32 = "defaultTopicQueueNums",
        queue_id: i32 = "queueId",
        sys_flag: i32 = "sysFlag",
        born_timestamp: i64 = "bornTimestamp",
        flag: i32 = "flag",
        properties: Option<String> = "properties",
        reconsume_times: Option<i32> = "reconsumeTimes",
        unit_mode: Option<bool> = "unitMode",
        born_host: String = "bornHost",
        store_host: String = "storeHost",
        store_timestamp: i64 = "storeTimestamp",
    }
    /// 36: a consumer gives a message back for later, or for ever.
    ConsumerSendBack {
        offset: i64 = "offset",
        group: String = "group",
        delay_level: i32 = "delayLevel",
        origin_msg_id: Option<String> = "originMsgId",
        origin_topic: Option<String> = "originTopic",
        unit_mode: Option<bool> = "unitMode",
        max_reconsume_times: Option<i32> = "maxReconsumeTimes",
        bname: Option<String> = "bname",
    }
    /// 370: takes a timer message back.
    RecallMessage {
        producer_group: Option<String> = "producerGroup",
        topic: String = "topic",
        recall_handle: String = "recallHandle",
        bname: Option<String> = "bname",
    }
    /// Answer to 370.
    RecallMessageAnswer {
        msg_id: String = "msgId",
        msg_region: Option<String> = "MSG_REGION",
    }
    /// 37: commits a transaction (8), rolls it back (12), or does not know (0).
    EndTransaction {
        topic: Option<String> = "topic",
        producer_group: String = "producerGroup",
        tran_state_table_offset: i64 = "tranStateTableOffset",
        commit_log_offset: i64 = "commitLogOffset",
        commit_or_rollback: i32 = "commitOrRollback",
        from_transaction_check: Option<bool> = "fromTransactionCheck",
        msg_id: String = "msgId",
        transaction_id: Option<String> = "transactionId",
        bname: Option<String> = "bname",
    }
    /// 39: a broker asks what became of a transaction.
    CheckTransactionState {
        topic: Option<String> = "topic",
        tran_state_table_offset: i64 = "tranStateTableOffset",
        commit_log_offset: i64 = "commitLogOffset",
        msg_id: Option<String> = "msgId",
        transaction_id: Option<String> = "transactionId",
        offset_msg_id: Option<String> = "offsetMsgId",
        bname: Option<String> = "bname",
    }
}

impl From<SendMessageLong> for SendMessage {
    fn from(long: SendMessageLong) -> Self {
        Self {
            producer_group: long.producer_group,
            topic: long.topic,
            default_topic: long.default_topic,
            default_topic_queue_nums: long.default_topic_queue_nums,
            queue_id: long.queue_id,
            sys_flag: long.sys_flag,
            born_timestamp: long.born_timestamp,
            flag: long.flag,
            properties: long.properties,
            reconsume_times: long.reconsume_times,
            unit_mode: long.unit_mode,
            max_reconsume_times: long.max_reconsume_times,
            batch: long.batch,
            broker_name: long.bname,
        }
    }
}
