//! Name server.

use super::{Header, Value};
use crate::protocol::{DecodeError, Fields};

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
