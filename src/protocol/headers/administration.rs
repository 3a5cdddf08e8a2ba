//! Administration.

use super::{Header, Value};
use crate::protocol::{DecodeError, Fields};

headers! {
    /// 17: makes or changes a topic.
    CreateTopic {
        topic: String = "topic",
        default_topic: Option<String> = "defaultTopic",
        read_queue_nums: i32 = "readQueueNums",
        write_queue_nums: i32 = "writeQueueNums",
        perm: i32 = "perm",
        topic_filter_type: String = "topicFilterType",
        topic_sys_flag: Option<i32> = "topicSysFlag",
        order: Option<bool> = "order",
        attributes: Option<String> = "attributes",
        force: Option<bool> = "force",
    }
    /// 202, 215, 300: of one topic.
    Topic {
        topic: String = "topic",
    }
    /// 351: the configuration of a topic.
    GetTopicConfig {
        topic: String = "topic",
        lo: Option<bool> = "lo",
    }
    /// 21: the configuration of all topics; brokers 5.5 can send it in pages.
    GetAllTopicConfig {
        topic_seq: Option<i32> = "topicSeq",
        data_version: Option<String> = "dataVersion",
        max_topic_num: Option<i32> = "maxTopicNum",
    }
    /// Answer to 21 of brokers 5.5.
    GetAllTopicConfigAnswer {
        total_topic_num: Option<i32> = "totalTopicNum",
    }
    /// 201: the configuration of all groups; brokers 5.5 can send it in pages.
    GetAllGroupConfig {
        group_seq: Option<i32> = "groupSeq",
        data_version: Option<String> = "dataVersion",
        max_group_num: Option<i32> = "maxGroupNum",
    }
    /// Answer to 201 of brokers 5.5.
    GetAllGroupConfigAnswer {
        total_group_num: Option<i32> = "totalGroupNum",
    }
    /// 207: deletes a group. Brokers 4.x and 5.x call the flag differently; send both.
    DeleteGroup {
        group_name: String = "groupName",
        clean_offset: Option<bool> = "cleanOffset",
        remove_offset: Option<bool> = "removeOffset",
    }
    /// 343, 352: of one group.
    Group {
        group: String = "group",
    }
    /// 353: forbids a group to read a topic.
    GroupForbidden {
        group: String = "group",
        topic: String = "topic",
        readable: Option<bool> = "readable",
    }
    /// 208: how far a group is.
    GetConsumeStats {
        consumer_group: String = "consumerGroup",
        topic: Option<String> = "topic",
        topic_list: Option<String> = "topicList",
    }
    /// 303, 345: of a group and a topic.
    GroupTopic {
        group: String = "group",
        topic: String = "topic",
    }
    /// 308: where groups should be.
    QueryCorrectionOffset {
        filter_groups: Option<String> = "filterGroups",
        compare_group: String = "compareGroup",
        topic: String = "topic",
    }
    /// 314: copies the offsets of a group.
    CloneGroupOffset {
        src_group: String = "srcGroup",
        dest_group: String = "destGroup",
        topic: Option<String> = "topic",
        offline: Option<bool> = "offline",
    }
    /// 315: statistics of a broker.
    ViewBrokerStats {
        stats_name: String = "statsName",
        stats_key: String = "statsKey",
    }
    /// 317: how far all groups are.
    GetBrokerConsumeStats {
        is_order: bool = "isOrder",
    }
    /// 321: the index entries of a queue.
    QueryConsumeQueue {
        topic: String = "topic",
        queue_id: i32 = "queueId",
        index: i64 = "index",
        count: i32 = "count",
        consumer_group: Option<String> = "consumerGroup",
    }
    /// 323: asks about a half message again.
    ResumeCheckHalfMessage {
        topic: Option<String> = "topic",
        msg_id: Option<String> = "msgId",
    }
    /// Answer to 26.
    BrokerConfigAnswer {
        version: Option<String> = "version",
    }
}
