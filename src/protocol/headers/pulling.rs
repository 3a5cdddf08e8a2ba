//! Pulling and offsets.

use super::{Header, Value};
use crate::protocol::{DecodeError, Fields};

/// Bits of the `sysFlag` of a pull.
pub mod pull_flag {
    /// `commitOffset` is to be committed.
    pub const COMMIT_OFFSET: i32 = 1;
    /// The broker may hold the pull until something comes.
    pub const SUSPEND: i32 = 2;
    /// The subscription is in this request.
    pub const SUBSCRIPTION: i32 = 4;
    /// Class filter.
    pub const CLASS_FILTER: i32 = 8;
    /// Lite pull.
    pub const LITE_PULL: i32 = 16;
}

headers! {
    /// 11, 361: the messages of one queue from one offset on.
    PullMessage {
        consumer_group: String = "consumerGroup",
        topic: String = "topic",
        queue_id: i32 = "queueId",
        queue_offset: i64 = "queueOffset",
        max_msg_nums: i32 = "maxMsgNums",
        sys_flag: i32 = "sysFlag",
        commit_offset: i64 = "commitOffset",
        suspend_timeout_millis: i64 = "suspendTimeoutMillis",
        sub_version: i64 = "subVersion",
        subscription: Option<String> = "subscription",
        expression_type: Option<String> = "expressionType",
        max_msg_bytes: Option<i32> = "maxMsgBytes",
        request_source: Option<i32> = "requestSource",
        proxy_forward_client_id: Option<String> = "proxyFrowardClientId",
        bname: Option<String> = "bname",
    }
    /// Answer to a pull. Clients read it with `Frame::pull_answer`.
    PullMessageAnswer {
        suggest_which_broker_id: i64 = "suggestWhichBrokerId",
        next_begin_offset: i64 = "nextBeginOffset",
        min_offset: i64 = "minOffset",
        max_offset: i64 = "maxOffset",
        offset_delta: Option<i64> = "offsetDelta",
        topic_sys_flag: Option<i32> = "topicSysFlag",
        group_sys_flag: Option<i32> = "groupSysFlag",
        forbidden_type: Option<i32> = "forbiddenType",
    }
    /// 14: where a group is.
    QueryConsumerOffset {
        consumer_group: String = "consumerGroup",
        topic: String = "topic",
        queue_id: i32 = "queueId",
        set_zero_if_not_found: Option<bool> = "setZeroIfNotFound",
        bname: Option<String> = "bname",
    }
    /// 15: where a group is from now on.
    UpdateConsumerOffset {
        consumer_group: String = "consumerGroup",
        topic: String = "topic",
        queue_id: i32 = "queueId",
        commit_offset: i64 = "commitOffset",
        bname: Option<String> = "bname",
    }
    /// 30: the end of a queue.
    GetMaxOffset {
        topic: String = "topic",
        queue_id: i32 = "queueId",
        committed: Option<bool> = "committed",
        bname: Option<String> = "bname",
    }
    /// 31, 32: the beginning of a queue, and when its first message was stored.
    QueueStart {
        topic: String = "topic",
        queue_id: i32 = "queueId",
        bname: Option<String> = "bname",
    }
    /// 29: the offset at a time.
    SearchOffset {
        topic: String = "topic",
        queue_id: i32 = "queueId",
        timestamp: i64 = "timestamp",
        boundary_type: Option<String> = "boundaryType",
        bname: Option<String> = "bname",
    }
    /// Answer to 14, 29, 30, 31.
    OffsetAnswer {
        offset: i64 = "offset",
    }
    /// Answer to 32.
    TimestampAnswer {
        timestamp: i64 = "timestamp",
    }
    /// 220, 222: moves a group to another place.
    ResetOffset {
        topic: String = "topic",
        group: String = "group",
        timestamp: i64 = "timestamp",
        is_force: bool = "isForce",
        queue_id: Option<i32> = "queueId",
        offset: Option<i64> = "offset",
    }
    /// 221, 223: where the members of a group are.
    GetConsumerStatus {
        topic: String = "topic",
        group: String = "group",
        client_addr: Option<String> = "clientAddr",
    }
    /// 33: the message at a place in the log.
    ViewMessage {
        offset: i64 = "offset",
        topic: Option<String> = "topic",
    }
    /// 12: messages by key.
    QueryMessage {
        topic: String = "topic",
        key: String = "key",
        max_num: i32 = "maxNum",
        begin_timestamp: i64 = "beginTimestamp",
        end_timestamp: i64 = "endTimestamp",
        unique_key_query: Option<bool> = "_UNIQUE_KEY_QUERY",
        index_type: Option<String> = "indexType",
    }
    /// Answer to 12.
    QueryMessageAnswer {
        index_last_update_timestamp: i64 = "indexLastUpdateTimestamp",
        index_last_update_phyoffset: i64 = "indexLastUpdatePhyoffset",
    }
}
