//! The topics of a broker, and the groups it knows: their settings.

use std::collections::BTreeMap;

use super::delay::{SCHEDULE_TOPIC, TIMER_TOPIC};
use super::settings::{CLUSTER, Settings, TEMPLATE_TOPIC};
use crate::protocol::body::{SubscriptionGroupConfig, TopicConfig, perm};

pub(crate) const READ_WRITE: i32 = perm::READ | perm::WRITE;

pub(crate) fn topic_config(name: &str, queues: i32, perm: i32) -> TopicConfig {
    TopicConfig {
        topic_name: name.to_owned(),
        read_queue_nums: queues,
        write_queue_nums: queues,
        perm,
        ..TopicConfig::default()
    }
}

pub(crate) fn group_config(name: &str) -> SubscriptionGroupConfig {
    SubscriptionGroupConfig { group_name: name.to_owned(), ..SubscriptionGroupConfig::default() }
}

/// The topics that a broker has from the start (`TopicConfigManager`), and those it was built with.
pub(crate) fn first_topics(settings: &Settings) -> BTreeMap<String, TopicConfig> {
    let all = READ_WRITE | perm::INHERIT;
    let levels = i32::try_from(settings.delay_levels.len()).unwrap_or(i32::MAX);
    let reply = format!("{CLUSTER}_REPLY_TOPIC");
    let mut topics = vec![
        topic_config("SELF_TEST_TOPIC", 1, READ_WRITE),
        topic_config("BenchmarkTest", 1024, READ_WRITE),
        topic_config(CLUSTER, 16, all),
        topic_config(&settings.name, 1, all),
        topic_config("OFFSET_MOVED_EVENT", 1, READ_WRITE),
        topic_config(SCHEDULE_TOPIC, levels.max(1), READ_WRITE),
        topic_config(&reply, 1, READ_WRITE),
    ];
    if settings.auto_create_topics {
        topics.push(topic_config(TEMPLATE_TOPIC, 8, all));
    }
    if settings.version.is_5() {
        topics.push(topic_config(TIMER_TOPIC, 1, READ_WRITE));
    }
    let own = settings.topics.iter().map(|(name, queues)| topic_config(name, *queues, READ_WRITE));
    topics.into_iter().chain(own).map(|config| (config.topic_name.clone(), config)).collect()
}

/// The groups that every broker knows (`SubscriptionGroupManager`).
pub(crate) fn first_groups() -> BTreeMap<String, SubscriptionGroupConfig> {
    let names = [
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
    ];
    names.into_iter().map(|name| (name.to_owned(), group_config(name))).collect()
}
