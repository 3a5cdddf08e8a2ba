//! The header fields of all requests and answers, from one table: what a field is called on the wire is said once, here.
//!
//! An `Option` may be missing. `bname` is the name of the broker that a request is for; old clients do not send it.

use super::json::write::decimal;
use super::{DecodeError, Fields};

/// A set of header fields.
pub trait Header: Sized {
    /// Adds the fields to those of a command.
    fn write(&self, fields: &mut Fields);

    /// Reads the fields out of those of a command.
    ///
    /// # Errors
    /// When one is missing that must be there, or is not of its type.
    fn read(fields: &Fields) -> Result<Self, DecodeError>;
}

/// A type that a field can have; on the wire all are texts.
trait Value: Sized {
    fn write(&self, name: &'static str, fields: &mut Fields);
    fn read(name: &'static str, text: Option<&str>) -> Result<Self, DecodeError>;
}

impl Value for String {
    fn write(&self, name: &'static str, fields: &mut Fields) {
        fields.set(name, self.as_str());
    }

    fn read(name: &'static str, text: Option<&str>) -> Result<Self, DecodeError> {
        text.map(String::from).ok_or_else(|| missing(name))
    }
}

impl Value for bool {
    fn write(&self, name: &'static str, fields: &mut Fields) {
        fields.set(name, if *self { "true" } else { "false" });
    }

    /// As in Java, anything but `true` is `false`.
    fn read(name: &'static str, text: Option<&str>) -> Result<Self, DecodeError> {
        text.map(|text| text.eq_ignore_ascii_case("true")).ok_or_else(|| missing(name))
    }
}

macro_rules! numbers {
    ($($type:ty)*) => { $(
        impl Value for $type {
            fn write(&self, name: &'static str, fields: &mut Fields) {
                let mut digits = [0; 20];
                let digits = decimal(i64::from(*self), &mut digits);
                fields.set(name, std::str::from_utf8(digits).expect("digits are ASCII"));
            }

            fn read(name: &'static str, text: Option<&str>) -> Result<Self, DecodeError> {
                let text = text.filter(|text| !text.is_empty()).ok_or_else(|| missing(name))?;
                text.parse().map_err(|_| DecodeError::new(format!("field {name}: {text:?} is not a number")))
            }
        }
    )* };
}

numbers!(i32 i64);

impl<T: Value> Value for Option<T> {
    fn write(&self, name: &'static str, fields: &mut Fields) {
        if let Some(value) = self {
            value.write(name, fields);
        }
    }

    /// An empty text is nothing: in the binary encoding Java cannot tell the two apart.
    fn read(name: &'static str, text: Option<&str>) -> Result<Self, DecodeError> {
        match text {
            None | Some("") => Ok(None),
            Some(text) => T::read(name, Some(text)).map(Some),
        }
    }
}

fn missing(name: &'static str) -> DecodeError {
    DecodeError::new(format!("field {name} is missing"))
}

macro_rules! headers {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $type:ty = $wire:literal,)* })*) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $(
                #[doc = concat!("`", $wire, "` on the wire.")]
                pub $field: $type,
            )*
        }

        impl Header for $name {
            fn write(&self, fields: &mut Fields) {
                fields.reserve(const { [$($wire),*].len() });
                $(Value::write(&self.$field, $wire, fields);)*
            }

            fn read(fields: &Fields) -> Result<Self, DecodeError> {
                Ok(Self { $($field: Value::read($wire, fields.get($wire))?,)* })
            }
        }
    )* };
}

// Name server.
headers! {
    /// 105: which brokers have the topic.
    GetRoute {
        topic: String = "topic",
        accept_standard_json_only: Option<bool> = "acceptStandardJsonOnly",
    }
    /// 100: stores a value.
    PutKvConfig {
        namespace: String = "namespace",
        key: String = "key",
        value: String = "value",
    }
    /// 101, 102: reads or deletes a value.
    KvConfig {
        namespace: String = "namespace",
        key: String = "key",
    }
    /// Answer to 101.
    KvConfigAnswer {
        value: Option<String> = "value",
    }
    /// 219: all values of a namespace.
    KvNamespace {
        namespace: String = "namespace",
    }
    /// 205, 327: takes the right to write from a broker, or gives it back.
    WritePermission {
        broker_name: String = "brokerName",
    }
    /// Answer to 205.
    WipeWritePermissionAnswer {
        wipe_topic_count: i32 = "wipeTopicCount",
    }
    /// Answer to 327.
    AddWritePermissionAnswer {
        add_topic_count: i32 = "addTopicCount",
    }
    /// 224: the topics of a cluster.
    TopicsByCluster {
        cluster: String = "cluster",
    }
    /// 216: forgets a topic.
    DeleteTopicInNameServer {
        topic: String = "topic",
        cluster_name: Option<String> = "clusterName",
    }
    /// 217: a broker announces one topic.
    RegisterTopic {
        topic: String = "topic",
    }
    /// 901: the brokers of one name.
    GetBrokerMemberGroup {
        cluster_name: String = "clusterName",
        broker_name: String = "brokerName",
    }
    /// 103: a broker announces itself.
    RegisterBroker {
        broker_name: String = "brokerName",
        broker_addr: String = "brokerAddr",
        cluster_name: String = "clusterName",
        ha_server_addr: String = "haServerAddr",
        broker_id: i64 = "brokerId",
        heartbeat_timeout_millis: Option<i64> = "heartbeatTimeoutMillis",
        enable_acting_master: Option<bool> = "enableActingMaster",
        compressed: Option<bool> = "compressed",
        body_crc32: Option<i32> = "bodyCrc32",
    }
    /// Answer to 103.
    RegisterBrokerAnswer {
        ha_server_addr: Option<String> = "haServerAddr",
        master_addr: Option<String> = "masterAddr",
    }
    /// 104, 322: a broker says good-bye, or asks whether its data is known.
    BrokerIdentity {
        broker_name: String = "brokerName",
        broker_addr: String = "brokerAddr",
        cluster_name: String = "clusterName",
        broker_id: i64 = "brokerId",
    }
    /// Answer to 322.
    QueryDataVersionAnswer {
        changed: Option<bool> = "changed",
    }
}

// Clients and their groups.
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

// Sending.
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

// Pulling and offsets.
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

// Pop consumption, brokers 5.x. These codes need JSON headers.
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

// Administration.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back() {
        let header = SearchOffset {
            topic: "t".into(),
            queue_id: 3,
            timestamp: -1,
            boundary_type: Some("LOWER".into()),
            bname: None,
        };
        let mut fields = Fields::default();
        header.write(&mut fields);
        let written: Vec<_> = fields.iter().collect();
        assert_eq!(
            written,
            [("topic", "t"), ("queueId", "3"), ("timestamp", "-1"), ("boundaryType", "LOWER")]
        );
        assert_eq!(SearchOffset::read(&fields), Ok(header));
    }

    #[test]
    fn says_which_field_is_wrong() {
        let fields = Fields::from_iter([("topic", "t"), ("queueId", " 3")]);
        assert_eq!(
            QueueStart::read(&fields).unwrap_err().to_string(),
            "field queueId: \" 3\" is not a number"
        );
        let fields = Fields::from_iter([("topic", "t"), ("queueId", "")]);
        assert_eq!(QueueStart::read(&fields).unwrap_err().to_string(), "field queueId is missing");
    }

    #[test]
    fn reads_what_java_reads() {
        let fields = Fields::from_iter([
            ("topic", "t"),
            ("group", "g"),
            ("timestamp", "+5"),
            ("isForce", "TRUE"),
            ("queueId", ""),
        ]);
        let reset = ResetOffset::read(&fields).unwrap();
        assert_eq!((reset.timestamp, reset.is_force, reset.queue_id), (5, true, None));
    }
}
