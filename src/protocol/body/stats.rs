use std::collections::BTreeMap;

use super::{ConsumeFromWhere, ConsumeType, DataVersion, MessageModel, SubscriptionData, bodies};
use crate::message::MessageQueue;

bodies! {
    /// Answer to 202: the queues of a topic.
    TopicStatsTable {
        offset_table: BTreeMap<MessageQueue, TopicOffset> = "offsetTable",
        topic_put_tps: Option<f64> = "topicPutTps",
    }
    /// Beginning and end of a queue.
    TopicOffset {
        last_update_timestamp: i64 = "lastUpdateTimestamp",
        max_offset: i64 = "maxOffset",
        min_offset: i64 = "minOffset",
    }
    /// Answer to 208: how far a group is.
    ConsumeStats {
        consume_tps: f64 = "consumeTps",
        offset_table: BTreeMap<MessageQueue, ConsumeOffset> = "offsetTable",
    }
    /// How far a group is with one queue.
    ConsumeOffset {
        broker_offset: i64 = "brokerOffset",
        consumer_offset: i64 = "consumerOffset",
        last_timestamp: i64 = "lastTimestamp",
        pull_offset: Option<i64> = "pullOffset",
    }
    /// Answer to 203: the members of a consumer group.
    ConsumerConnection {
        connection_set: Vec<Connection> = "connectionSet",
        consume_from_where: ConsumeFromWhere = "consumeFromWhere",
        consume_type: ConsumeType = "consumeType",
        message_model: MessageModel = "messageModel",
        subscription_table: BTreeMap<String, SubscriptionData> = "subscriptionTable",
    }
    /// Answer to 204: the members of a producer group.
    ProducerConnection {
        connection_set: Vec<Connection> = "connectionSet",
    }
    /// One client.
    Connection {
        client_addr: String = "clientAddr",
        client_id: String = "clientId",
        language: Option<String> = "language",
        version: i32 = "version",
    }
    /// Answer to 328: all producers, by group.
    ProducerTable {
        data: BTreeMap<String, Vec<ProducerInfo>> = "data",
    }
    /// One producer.
    ProducerInfo {
        client_id: String = "clientId",
        language: Option<String> = "language",
        last_update_timestamp: i64 = "lastUpdateTimestamp",
        remote_ip: String = "remoteIP",
        version: i32 = "version",
    }
    /// Answer to 300: the groups that read a topic.
    GroupList {
        group_list: Vec<String> = "groupList",
    }
    /// Answer to 345: what a group wants of a topic.
    GroupSubscription {
        group: String = "group",
        subscription_data: Option<SubscriptionData> = "subscriptionData",
        topic: String = "topic",
    }
    /// Answer to 303: the times that a group is at.
    ConsumeTimeSpans {
        consume_time_span_set: Vec<ConsumeTimeSpan> = "consumeTimeSpanSet",
    }
    /// The times that a group is at with one queue.
    ConsumeTimeSpan {
        consume_time_stamp: i64 = "consumeTimeStamp",
        consume_time_stamp_str: Option<String> = "consumeTimeStampStr",
        delay_time: i64 = "delayTime",
        max_time_stamp: i64 = "maxTimeStamp",
        max_time_stamp_str: Option<String> = "maxTimeStampStr",
        message_queue: Option<MessageQueue> = "messageQueue",
        min_time_stamp: i64 = "minTimeStamp",
        min_time_stamp_str: Option<String> = "minTimeStampStr",
    }
    /// Answer to 308: offsets by number of the queue.
    CorrectionOffsets {
        correction_offsets: BTreeMap<i32, i64> = "correctionOffsets",
    }
    /// Answer to 43: all offsets, by `topic@group` and number of the queue.
    ConsumerOffsets {
        data_version: Option<DataVersion> = "dataVersion",
        offset_table: BTreeMap<String, BTreeMap<i32, i64>> = "offsetTable",
    }
    /// Answer to 45: how far the delay levels are.
    DelayOffsets {
        data_version: Option<DataVersion> = "dataVersion",
        offset_table: BTreeMap<i32, i64> = "offsetTable",
    }
    /// Answer to 315: one figure over time.
    BrokerStats {
        stats_day: Option<BrokerStatsItem> = "statsDay",
        stats_hour: Option<BrokerStatsItem> = "statsHour",
        stats_minute: Option<BrokerStatsItem> = "statsMinute",
    }
    /// One figure over one time.
    BrokerStatsItem {
        average: f64 = "avgpt",
        sum: i64 = "sum",
        tps: f64 = "tps",
    }
    /// Answer to 317: how far all groups are.
    BrokerConsumeStats {
        broker_addr: Option<String> = "brokerAddr",
        consume_stats_list: Vec<BTreeMap<String, Vec<ConsumeStats>>> = "consumeStatsList",
        total_diff: i64 = "totalDiff",
        total_inflight_diff: Option<i64> = "totalInflightDiff",
    }
    /// Answer to 321: index entries of one queue.
    QueryConsumeQueueAnswer {
        filter_data: Option<String> = "filterData",
        max_queue_index: i64 = "maxQueueIndex",
        min_queue_index: i64 = "minQueueIndex",
        queue_data: Vec<ConsumeQueueEntry> = "queueData",
        subscription_data: Option<SubscriptionData> = "subscriptionData",
    }
    /// One index entry.
    ConsumeQueueEntry {
        bit_map: Option<String> = "bitMap",
        eval: bool = "eval",
        extend_data_json: Option<String> = "extendDataJson",
        msg: Option<String> = "msg",
        physic_offset: i64 = "physicOffset",
        physic_size: i32 = "physicSize",
        tags_code: i64 = "tagsCode",
    }
    /// Answer to 907: how a master and its slaves are doing.
    BrokerHaStatus {
        ha_client_runtime_info: Option<HaClientInfo> = "haClientRuntimeInfo",
        ha_connection_info: Vec<HaConnectionInfo> = "haConnectionInfo",
        in_sync_slave_nums: i32 = "inSyncSlaveNums",
        master: bool = "master",
        master_commit_log_max_offset: i64 = "masterCommitLogMaxOffset",
    }
    /// What a slave says of its master.
    HaClientInfo {
        last_read_timestamp: i64 = "lastReadTimestamp",
        last_write_timestamp: i64 = "lastWriteTimestamp",
        master_addr: Option<String> = "masterAddr",
        master_flush_offset: i64 = "masterFlushOffset",
        max_offset: i64 = "maxOffset",
        transferred_byte_in_second: i64 = "transferredByteInSecond",
    }
    /// What a master says of one slave.
    HaConnectionInfo {
        addr: Option<String> = "addr",
        diff: i64 = "diff",
        in_sync: bool = "inSync",
        slave_ack_offset: i64 = "slaveAckOffset",
        transfer_from_where: i64 = "transferFromWhere",
        transferred_byte_in_second: i64 = "transferredByteInSecond",
    }
}
