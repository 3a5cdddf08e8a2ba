use std::collections::BTreeMap;

use super::bodies;

bodies! {
    /// Answer to 105: where a topic is.
    TopicRouteData {
        broker_datas: Vec<BrokerData> = "brokerDatas",
        filter_server_table: BTreeMap<String, Vec<String>> = "filterServerTable",
        order_topic_conf: Option<String> = "orderTopicConf",
        queue_datas: Vec<QueueData> = "queueDatas",
        topic_queue_mapping_by_broker: Option<BTreeMap<String, TopicQueueMapping>> = "topicQueueMappingByBroker",
    }
    /// The logical queues of a static topic on one broker; of this, only that there are any is of interest.
    TopicQueueMapping {
        total_queues: i32 = "totalQueues",
    }
    /// The queues of a topic on the brokers of one name.
    QueueData {
        broker_name: String = "brokerName",
        perm: i32 = "perm",
        read_queue_nums: i32 = "readQueueNums",
        topic_sys_flag: i32 = "topicSysFlag",
        write_queue_nums: i32 = "writeQueueNums",
    }
    /// The brokers of one name: address by id, of which 0 is the master.
    BrokerData {
        broker_addrs: BTreeMap<i64, String> = "brokerAddrs",
        broker_name: String = "brokerName",
        cluster: String = "cluster",
        enable_acting_master: Option<bool> = "enableActingMaster",
        zone_name: Option<String> = "zoneName",
    }
    /// Answer to 106: all brokers of all clusters.
    ClusterInfo {
        broker_addr_table: BTreeMap<String, BrokerData> = "brokerAddrTable",
        cluster_addr_table: BTreeMap<String, Vec<String>> = "clusterAddrTable",
    }
    /// Answer to 206, 224, 304, 305, 343: names of topics.
    TopicList {
        broker_addr: Option<String> = "brokerAddr",
        topic_list: Vec<String> = "topicList",
    }
    /// Answer to 219 and 28, and to 103.
    KvTable {
        table: BTreeMap<String, String> = "table",
    }
    /// Answer to 901.
    BrokerMemberGroupBody {
        broker_member_group: Option<BrokerMemberGroup> = "brokerMemberGroup",
    }
    /// The brokers of one name.
    BrokerMemberGroup {
        broker_addrs: BTreeMap<i64, String> = "brokerAddrs",
        broker_name: String = "brokerName",
        cluster: String = "cluster",
    }
}

/// Bits of the `perm` of a topic.
pub mod perm {
    /// May be the template of topics that are created on the way.
    pub const INHERIT: i32 = 1;
    /// May be written.
    pub const WRITE: i32 = 2;
    /// May be read.
    pub const READ: i32 = 4;
}
