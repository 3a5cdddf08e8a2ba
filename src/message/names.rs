/// A group that every broker knows: for reading without a group of one's own.
pub const TOOLS_GROUP: &str = "TOOLS_CONSUMER";

/// What the name of a retry topic begins with.
pub const RETRY_PREFIX: &str = "%RETRY%";

/// What the name of a dead-letter topic begins with.
pub const DLQ_PREFIX: &str = "%DLQ%";

/// The topic of a group's dead letters, `%DLQ%group`: messages that were given up after their last retry.
pub fn dead_letter_topic(group: &str) -> String {
    format!("{DLQ_PREFIX}{group}")
}

/// The topic of a group's retries, `%RETRY%group`. Push consumers subscribe to it by themselves.
pub fn retry_topic(group: &str) -> String {
    format!("{RETRY_PREFIX}{group}")
}

/// Why no server would take this as the name of a topic, if so.
pub fn topic_problem(topic: &str) -> Option<String> {
    let longest = if topic.starts_with(RETRY_PREFIX) || topic.starts_with(DLQ_PREFIX) { 255 } else { 127 };
    name_problem("topic", topic, longest)
}

/// Why no server would take this as the name of a group, if so.
///
/// Newer Java clients stop at 120 characters, older ones at 255. The shorter limit is ours: `%RETRY%` and the group
/// must be a topic for all of them.
pub fn group_problem(group: &str) -> Option<String> {
    name_problem("group", group, 120)
}

/// Whether the topic belongs to the servers and is not for programs to create.
pub fn is_system_topic(topic: &str) -> bool {
    topic.starts_with("rmq_sys_") || SYSTEM_TOPICS.contains(&topic)
}

/// Whether brokers refuse messages that clients send to this topic.
pub fn is_unsendable_topic(topic: &str) -> bool {
    UNSENDABLE_TOPICS.contains(&topic)
}

/// Whether the group belongs to RocketMQ itself.
pub fn is_reserved_group(group: &str) -> bool {
    group.starts_with("CID_RMQ_SYS_") || RESERVED_GROUPS.contains(&group)
}

fn name_problem(what: &str, name: &str, longest: usize) -> Option<String> {
    if name.is_empty() {
        return Some(format!("the {what} has no name"));
    }
    if name.len() > longest {
        return Some(format!(
            "the {what} name is {} characters long, at most {longest} are allowed",
            name.len()
        ));
    }
    let wrong = name.chars().find(|c| !c.is_ascii_alphanumeric() && !"%|_-".contains(*c))?;
    Some(format!(
        "the {what} name `{name}` contains {wrong:?}: allowed are letters, digits, and `%`, `|`, `_`, `-`"
    ))
}

const SYSTEM_TOPICS: &[&str] = &[
    "TBW102",
    "SCHEDULE_TOPIC_XXXX",
    "BenchmarkTest",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "RMQ_SYS_TRACE_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
    "CHECKPOINT_TOPIC",
];

const UNSENDABLE_TOPICS: &[&str] = &[
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
];

const RESERVED_GROUPS: &[&str] = &[
    "DEFAULT_CONSUMER",
    "DEFAULT_PRODUCER",
    "TOOLS_CONSUMER",
    "SCHEDULE_CONSUMER",
    "FILTERSRV_CONSUMER",
    "__MONITOR_CONSUMER",
    "CLIENT_INNER_PRODUCER",
    "SELF_TEST_P_GROUP",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_ONSAPI_PULL",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_servers_take() {
        for name in ["orders", "a", "A-b_c|d%e", "%RETRY%group", &"x".repeat(127)] {
            assert_eq!(topic_problem(name), None, "{name}");
        }
        assert_eq!(topic_problem(&retry_topic(&"g".repeat(248))), None);
    }

    #[test]
    fn names_that_servers_refuse() {
        for (name, says) in [
            ("", "no name"),
            ("or ders", "' '"),
            ("bestellungen-größe", "'ö'"),
            (&*"x".repeat(128), "at most 127"),
            (&*retry_topic(&"g".repeat(249)), "at most 255"),
        ] {
            let problem = topic_problem(name).unwrap();
            assert!(problem.contains(says), "{name}: {problem}");
        }
        assert!(group_problem(&"g".repeat(121)).unwrap().contains("at most 120"));
    }
}
