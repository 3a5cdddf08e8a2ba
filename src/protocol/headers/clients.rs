//! Clients and their groups.

use super::{Header, Value};
use crate::protocol::{DecodeError, Fields};

headers! {
    /// Answer to 34.
    HeartbeatAnswer {
        is_support_heart_beat_v2: Option<bool> = "IS_SUPPORT_HEART_BEAT_V2",
        is_sub_change: Option<bool> = "IS_SUB_CHANGE",
    }
    /// 35: a client leaves a group.
    UnregisterClient {
        client_id: String = "clientID",
        producer_group: Option<String> = "producerGroup",
        consumer_group: Option<String> = "consumerGroup",
    }
    /// 302: the source of a class filter is in the body.
    RegisterFilterClass {
        consumer_group: String = "consumerGroup",
        topic: String = "topic",
        class_name: String = "className",
        class_crc: i32 = "classCRC",
    }
    /// 38, 40, 203: of one consumer group.
    ConsumerGroup {
        consumer_group: String = "consumerGroup",
    }
    /// 204: of one producer group.
    ProducerGroup {
        producer_group: String = "producerGroup",
    }
    /// 307: what a consumer is doing.
    GetConsumerRunningInfo {
        consumer_group: String = "consumerGroup",
        client_id: String = "clientId",
        jstack_enable: Option<bool> = "jstackEnable",
    }
    /// 309: one consumer is to consume one message now.
    ConsumeMessageDirectly {
        consumer_group: String = "consumerGroup",
        client_id: Option<String> = "clientId",
        msg_id: Option<String> = "msgId",
        broker_name: Option<String> = "brokerName",
        topic: Option<String> = "topic",
        topic_sys_flag: Option<i32> = "topicSysFlag",
        group_sys_flag: Option<i32> = "groupSysFlag",
    }
    /// 302: uploads a filter class to a filter server (brokers up to 4.2).
    RegisterMessageFilterClass {
        consumer_group: String = "consumerGroup",
        topic: String = "topic",
        class_name: String = "className",
        class_crc: i32 = "classCRC",
    }
}
