//! Pop consumption, brokers 5.x. These codes need JSON headers.

use super::{Header, Value};
use crate::protocol::{DecodeError, Fields};

headers! {
    /// 200050: messages of a topic, with a receipt each.
    PopMessage {
        consumer_group: String = "consumerGroup",
        topic: String = "topic",
        queue_id: i32 = "queueId",
        max_msg_nums: i32 = "maxMsgNums",
        invisible_time: i64 = "invisibleTime",
        poll_time: i64 = "pollTime",
        born_time: i64 = "bornTime",
        init_mode: i32 = "initMode",
        exp_type: Option<String> = "expType",
        exp: Option<String> = "exp",
        order: Option<bool> = "order",
        attempt_id: Option<String> = "attemptId",
        bname: Option<String> = "bname",
    }
    /// Answer to 200050.
    PopMessageAnswer {
        pop_time: i64 = "popTime",
        invisible_time: i64 = "invisibleTime",
        revive_qid: i32 = "reviveQid",
        rest_num: i64 = "restNum",
        start_offset_info: Option<String> = "startOffsetInfo",
        msg_offset_info: Option<String> = "msgOffsetInfo",
        order_count_info: Option<String> = "orderCountInfo",
    }
    /// 200051: a popped message is done.
    AckMessage {
        consumer_group: String = "consumerGroup",
        topic: String = "topic",
        queue_id: i32 = "queueId",
        extra_info: String = "extraInfo",
        offset: i64 = "offset",
        bname: Option<String> = "bname",
    }
    /// 200053: a popped message comes again at another time.
    ChangeInvisibleTime {
        consumer_group: String = "consumerGroup",
        topic: String = "topic",
        queue_id: i32 = "queueId",
        extra_info: String = "extraInfo",
        offset: i64 = "offset",
        invisible_time: i64 = "invisibleTime",
        suspend: Option<bool> = "suspend",
        bname: Option<String> = "bname",
    }
    /// Answer to 200053.
    ChangeInvisibleTimeAnswer {
        pop_time: i64 = "popTime",
        invisible_time: i64 = "invisibleTime",
        revive_qid: i32 = "reviveQid",
    }
    /// 200054: says when there is something to pop.
    PopNotification {
        consumer_group: String = "consumerGroup",
        topic: String = "topic",
        queue_id: i32 = "queueId",
        poll_time: i64 = "pollTime",
        born_time: i64 = "bornTime",
        order: Option<bool> = "order",
        attempt_id: Option<String> = "attemptId",
        bname: Option<String> = "bname",
    }
    /// Answer to 200054.
    PopNotificationAnswer {
        has_msg: bool = "hasMsg",
        polling_full: Option<bool> = "pollingFull",
    }
    /// 200052: messages of a topic, without a receipt.
    PeekMessage {
        consumer_group: String = "consumerGroup",
        topic: String = "topic",
        queue_id: i32 = "queueId",
        max_msg_nums: i32 = "maxMsgNums",
        bname: Option<String> = "bname",
    }
    /// 200055: how many pops are waiting.
    PollingInfo {
        consumer_group: String = "consumerGroup",
        topic: String = "topic",
        queue_id: i32 = "queueId",
        bname: Option<String> = "bname",
    }
    /// Answer to 200055.
    PollingInfoAnswer {
        polling_num: i32 = "pollingNum",
    }
}
