//! The name server: which brokers there are, and which topics they have.
//!
//! In one process nobody need register over the wire: each broker writes its own entry, the brokers of a cluster into
//! the same table.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use super::settings::CLUSTER;
use crate::protocol::body::{BrokerData, ClusterInfo, QueueData, TopicConfig, TopicRouteData, perm};

/// The table that routes are made from. Locked for a moment only, and nothing else is locked meanwhile.
#[derive(Debug, Default)]
pub(crate) struct NameServer {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    brokers: BTreeMap<String, Registered>,
    /// By namespace and key.
    settings: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Debug, Default)]
struct Registered {
    addresses: BTreeMap<i64, String>,
    topics: BTreeMap<String, TopicConfig>,
    hidden: BTreeSet<String>,
    /// The ids that are filter servers, too.
    filters: BTreeSet<i64>,
    read_only: bool,
}

impl NameServer {
    /// Enters a broker with all its topics, in place of what was known of it.
    pub(crate) fn register(
        &self,
        broker: &str,
        id: i64,
        address: &str,
        topics: &BTreeMap<String, TopicConfig>,
    ) {
        let mut tables = self.tables.lock();
        let entry = tables.brokers.entry(broker.to_owned()).or_default();
        entry.addresses.insert(id, address.to_owned());
        entry.topics.clone_from(topics);
    }

    /// Enters a slave. What topics there are is its master's to say; until that has, they are the slave's.
    pub(crate) fn register_slave(
        &self,
        broker: &str,
        id: i64,
        address: &str,
        topics: &BTreeMap<String, TopicConfig>,
    ) {
        let mut tables = self.tables.lock();
        let entry = tables.brokers.entry(broker.to_owned()).or_default();
        if entry.addresses.is_empty() {
            entry.topics.clone_from(topics);
        }
        entry.addresses.insert(id, address.to_owned());
    }

    /// Says that a broker filters by class, too.
    pub(crate) fn set_filter_server(&self, broker: &str, id: i64) {
        self.tables.lock().brokers.entry(broker.to_owned()).or_default().filters.insert(id);
    }

    /// Takes one address of a broker away, and with the last one the broker.
    pub(crate) fn unregister(&self, broker: &str, id: i64) {
        let mut tables = self.tables.lock();
        let Some(entry) = tables.brokers.get_mut(broker) else { return };
        entry.addresses.remove(&id);
        if entry.addresses.is_empty() {
            entry.topics.clear();
        }
    }

    pub(crate) fn set_topic(&self, broker: &str, topic: TopicConfig) {
        let mut tables = self.tables.lock();
        if let Some(entry) = tables.brokers.get_mut(broker) {
            entry.topics.insert(topic.topic_name.clone(), topic);
        }
    }

    pub(crate) fn remove_topic(&self, broker: &str, topic: &str) {
        if let Some(entry) = self.tables.lock().brokers.get_mut(broker) {
            entry.topics.remove(topic);
        }
    }

    /// Removes a topic from the routes of all brokers; one that still has it may enter it again.
    pub(crate) fn forget_topic(&self, topic: &str) {
        self.tables.lock().brokers.values_mut().for_each(|entry| drop(entry.topics.remove(topic)));
    }

    /// Leaves a broker out of the route of a topic, or puts it back.
    pub(crate) fn hide(&self, broker: &str, topic: &str, hidden: bool) {
        let mut tables = self.tables.lock();
        let entry = tables.brokers.entry(broker.to_owned()).or_default();
        if hidden {
            entry.hidden.insert(topic.to_owned());
        } else {
            entry.hidden.remove(topic);
        }
    }

    /// Takes the right to write from a broker, or gives it back; says how many topics that concerns.
    pub(crate) fn set_read_only(&self, broker: &str, read_only: bool) -> usize {
        let mut tables = self.tables.lock();
        let Some(entry) = tables.brokers.get_mut(broker) else { return 0 };
        entry.read_only = read_only;
        entry.topics.len()
    }

    /// Where a topic is, if any broker that is there has it.
    pub(crate) fn route(&self, topic: &str) -> Option<TopicRouteData> {
        let tables = self.tables.lock();
        let has = |(_, entry): &(&String, &Registered)| {
            !entry.addresses.is_empty() && entry.topics.contains_key(topic) && !entry.hidden.contains(topic)
        };
        let mut route = TopicRouteData {
            order_topic_conf: tables.settings.get("ORDER_TOPIC_CONFIG").and_then(|t| t.get(topic)).cloned(),
            ..TopicRouteData::default()
        };
        for (name, entry) in tables.brokers.iter().filter(has) {
            let Some(config) = entry.topics.get(topic) else { continue };
            route.queue_datas.push(queue_data(name, config, entry.read_only));
            route.broker_datas.push(broker_data(name, entry));
            for address in entry.filters.iter().filter_map(|id| entry.addresses.get(id)) {
                route.filter_server_table.insert(address.clone(), vec![address.clone()]);
            }
        }
        (!route.broker_datas.is_empty()).then_some(route)
    }

    pub(crate) fn cluster(&self) -> ClusterInfo {
        let tables = self.tables.lock();
        let present = || tables.brokers.iter().filter(|(_, entry)| !entry.addresses.is_empty());
        ClusterInfo {
            broker_addr_table: present()
                .map(|(name, entry)| (name.clone(), broker_data(name, entry)))
                .collect(),
            cluster_addr_table: [(CLUSTER.to_owned(), present().map(|(name, _)| name.clone()).collect())]
                .into(),
        }
    }

    /// Every topic of every broker that is there.
    pub(crate) fn topics(&self) -> BTreeSet<String> {
        let tables = self.tables.lock();
        tables.brokers.values().flat_map(|entry| entry.topics.keys()).cloned().collect()
    }

    pub(crate) fn put_setting(&self, namespace: String, key: String, value: String) {
        self.tables.lock().settings.entry(namespace).or_default().insert(key, value);
    }

    pub(crate) fn setting(&self, namespace: &str, key: &str) -> Option<String> {
        self.tables.lock().settings.get(namespace)?.get(key).cloned()
    }

    pub(crate) fn remove_setting(&self, namespace: &str, key: &str) {
        if let Some(settings) = self.tables.lock().settings.get_mut(namespace) {
            settings.remove(key);
        }
    }

    pub(crate) fn settings(&self, namespace: &str) -> Option<BTreeMap<String, String>> {
        self.tables.lock().settings.get(namespace).cloned()
    }
}

fn queue_data(broker: &str, config: &TopicConfig, read_only: bool) -> QueueData {
    QueueData {
        broker_name: broker.to_owned(),
        read_queue_nums: config.read_queue_nums,
        write_queue_nums: config.write_queue_nums,
        perm: if read_only { config.perm & !perm::WRITE } else { config.perm },
        topic_sys_flag: config.topic_sys_flag,
    }
}

fn broker_data(name: &str, entry: &Registered) -> BrokerData {
    BrokerData {
        cluster: CLUSTER.to_owned(),
        broker_name: name.to_owned(),
        broker_addrs: entry.addresses.clone(),
        ..BrokerData::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::topics::{READ_WRITE, topic_config};
    use super::*;

    fn names() -> NameServer {
        let names = NameServer::default();
        for (broker, address) in [("a", "127.0.0.1:1"), ("b", "127.0.0.1:2")] {
            let topics = BTreeMap::from([("t".to_owned(), topic_config("t", 4, READ_WRITE))]);
            names.register(broker, 0, address, &topics);
        }
        names
    }

    fn brokers(names: &NameServer, topic: &str) -> Vec<String> {
        names
            .route(topic)
            .into_iter()
            .flat_map(|route| route.queue_datas)
            .map(|data| data.broker_name)
            .collect()
    }

    #[test]
    fn a_route_has_the_brokers_that_are_there_and_show_the_topic() {
        let names = names();
        assert_eq!(brokers(&names, "t"), ["a", "b"]);
        names.hide("a", "t", true);
        assert_eq!(brokers(&names, "t"), ["b"]);
        names.unregister("b", 0);
        assert!(names.route("t").is_none());
        names.hide("a", "t", false);
        assert_eq!(brokers(&names, "t"), ["a"]);
        assert_eq!(names.cluster().broker_addr_table.len(), 1);
    }

    #[test]
    fn a_broker_without_write_permission_is_still_read_from() {
        let names = names();
        assert_eq!(names.set_read_only("a", true), 1);
        assert_eq!(names.set_read_only("nobody", true), 0);
        let perms: Vec<_> = names.route("t").unwrap().queue_datas.iter().map(|data| data.perm).collect();
        assert_eq!(perms, [perm::READ, READ_WRITE]);
    }

    #[test]
    fn settings_have_namespaces() {
        let names = names();
        assert_eq!(names.settings("ORDER_TOPIC_CONFIG"), None);
        names.put_setting("ORDER_TOPIC_CONFIG".into(), "t".into(), "a:4".into());
        assert_eq!(names.route("t").unwrap().order_topic_conf.as_deref(), Some("a:4"));
        names.remove_setting("ORDER_TOPIC_CONFIG", "t");
        assert_eq!(names.setting("ORDER_TOPIC_CONFIG", "t"), None);
    }
}
