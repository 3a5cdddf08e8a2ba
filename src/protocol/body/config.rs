use std::collections::BTreeMap;

use super::{bodies, perm};

bodies! {
    /// Tells two states of a table apart.
    DataVersion {
        counter: i64 = "counter",
        state_version: Option<i64> = "stateVersion",
        timestamp: i64 = "timestamp",
    }
    /// The configuration of a topic. Answer to 351.
    TopicConfig {
        attributes: Option<BTreeMap<String, String>> = "attributes",
        order: bool = "order",
        perm: i32 = "perm" or perm::READ | perm::WRITE,
        read_queue_nums: i32 = "readQueueNums" or 16,
        topic_filter_type: String = "topicFilterType" or "SINGLE_TAG".into(),
        topic_name: String = "topicName",
        topic_sys_flag: i32 = "topicSysFlag",
        write_queue_nums: i32 = "writeQueueNums" or 16,
    }
    /// Request 18.
    TopicConfigList {
        topic_config_list: Vec<TopicConfig> = "topicConfigList",
    }
    /// Answer to 21: the configuration of all topics.
    TopicConfigTable {
        data_version: Option<DataVersion> = "dataVersion",
        mapping_data_version: Option<DataVersion> = "mappingDataVersion",
        topic_config_table: BTreeMap<String, TopicConfig> = "topicConfigTable",
    }
    /// The configuration of a consumer group. Request 200, answer to 352.
    SubscriptionGroupConfig {
        attributes: Option<BTreeMap<String, String>> = "attributes",
        broker_id: i64 = "brokerId",
        consume_broadcast_enable: bool = "consumeBroadcastEnable" or true,
        consume_enable: bool = "consumeEnable" or true,
        consume_from_min_enable: bool = "consumeFromMinEnable" or true,
        consume_message_orderly: Option<bool> = "consumeMessageOrderly",
        consume_timeout_minute: Option<i32> = "consumeTimeoutMinute",
        group_name: String = "groupName",
        group_retry_policy: Option<GroupRetryPolicy> = "groupRetryPolicy",
        group_sys_flag: Option<i32> = "groupSysFlag",
        notify_consumer_ids_changed_enable: bool = "notifyConsumerIdsChangedEnable" or true,
        retry_max_times: i32 = "retryMaxTimes" or 16,
        retry_queue_nums: i32 = "retryQueueNums" or 1,
        subscription_data_set: Option<Vec<SimpleSubscription>> = "subscriptionDataSet",
        which_broker_when_consume_slowly: i64 = "whichBrokerWhenConsumeSlowly" or 1,
    }
    /// When a pop consumer gets a failed message again (5.x).
    GroupRetryPolicy {
        customized_retry_policy: Option<CustomizedRetryPolicy> = "customizedRetryPolicy",
        exponential_retry_policy: Option<ExponentialRetryPolicy> = "exponentialRetryPolicy",
        policy_type: String = "type" or "CUSTOMIZED".into(),
    }
    /// After these times, in ms.
    CustomizedRetryPolicy {
        next: Vec<i64> = "next",
    }
    /// After times that grow, in ms.
    ExponentialRetryPolicy {
        initial: i64 = "initial",
        max: i64 = "max",
        multiplier: i64 = "multiplier",
    }
    /// A subscription that is part of the configuration of a group (5.x).
    SimpleSubscription {
        expression: Option<String> = "expression",
        expression_type: Option<String> = "expressionType",
        topic: String = "topic",
        version: i64 = "version",
    }
    /// Request 225.
    SubscriptionGroupList {
        group_config_list: Vec<SubscriptionGroupConfig> = "groupConfigList",
    }
    /// Answer to 201: the configuration of all groups.
    SubscriptionGroupTable {
        data_version: Option<DataVersion> = "dataVersion",
        forbidden_table: Option<BTreeMap<String, BTreeMap<String, i32>>> = "forbiddenTable",
        subscription_group_table: BTreeMap<String, SubscriptionGroupConfig> = "subscriptionGroupTable",
    }
}
