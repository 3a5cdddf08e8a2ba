//! Namespaces of the first kind: a prefix that names have on the servers and that programs do not see.

use std::borrow::Cow;
use std::sync::Arc;

use crate::message::{DLQ_PREFIX, MessageQueue, RETRY_PREFIX, is_reserved_group, is_system_topic};

/// The prefix of a client, if it has one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Namespace {
    /// With the separator.
    prefix: Option<String>,
    /// Without it.
    name: Option<Arc<str>>,
}

impl Namespace {
    pub(crate) fn new(name: Option<&str>) -> Self {
        Namespace { prefix: name.map(|name| format!("{name}%")), name: name.map(Arc::from) }
    }

    /// The topic's name on the servers. Retry and dead-letter topics keep their prefix in front.
    pub(crate) fn topic(&self, name: &str) -> String {
        let Some(prefix) = &self.prefix else { return name.to_owned() };
        let (kind, rest) = split_kind(name);
        if is_system_topic(rest) || rest.starts_with(prefix.as_str()) {
            return name.to_owned();
        }
        format!("{kind}{prefix}{rest}")
    }

    /// The group's name on the servers. Groups that every broker knows stay as they are.
    pub(crate) fn group(&self, name: &str) -> String {
        match &self.prefix {
            Some(prefix) if !is_reserved_group(name) && !name.starts_with(prefix.as_str()) => {
                format!("{prefix}{name}")
            }
            _ => name.to_owned(),
        }
    }

    /// The name as the program knows it, of a topic or a group.
    pub(crate) fn strip(&self, name: &str) -> String {
        let Some(prefix) = &self.prefix else { return name.to_owned() };
        let (kind, rest) = split_kind(name);
        match rest.strip_prefix(prefix.as_str()) {
            Some(plain) => format!("{kind}{plain}"),
            None => name.to_owned(),
        }
    }

    /// The queue as servers know it. One that has the prefix already stays as it is.
    pub(crate) fn queue<'a>(&self, queue: &'a MessageQueue) -> Cow<'a, MessageQueue> {
        self.renamed(queue, Self::topic)
    }

    /// The queue as the program knows it.
    pub(crate) fn strip_queue<'a>(&self, queue: &'a MessageQueue) -> Cow<'a, MessageQueue> {
        self.renamed(queue, Self::strip)
    }

    /// Names it as the program knows it.
    pub(crate) fn strip_from(&self, queue: &mut MessageQueue) {
        if let Cow::Owned(plain) = self.strip_queue(queue) {
            *queue = plain;
        }
    }

    fn renamed<'a>(
        &self,
        queue: &'a MessageQueue,
        name: impl FnOnce(&Self, &str) -> String,
    ) -> Cow<'a, MessageQueue> {
        if self.is_none() {
            return Cow::Borrowed(queue);
        }
        let topic = name(self, queue.topic());
        Cow::Owned(MessageQueue::new(topic, queue.broker_name(), queue.queue_id()))
    }

    /// The name of the namespace, for views of messages to take off.
    pub(crate) fn shared_name(&self) -> Option<Arc<str>> {
        self.name.clone()
    }

    pub(crate) fn is_none(&self) -> bool {
        self.prefix.is_none()
    }
}

fn split_kind(name: &str) -> (&str, &str) {
    for kind in [RETRY_PREFIX, DLQ_PREFIX] {
        if let Some(rest) = name.strip_prefix(kind) {
            return (kind, rest);
        }
    }
    ("", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_the_prefix_and_lose_it() {
        let namespace = Namespace::new(Some("shop"));
        for (name, on_server) in [
            ("orders", "shop%orders"),
            ("%RETRY%billing", "%RETRY%shop%billing"),
            ("%DLQ%billing", "%DLQ%shop%billing"),
            ("TBW102", "TBW102"),
            ("rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
        ] {
            assert_eq!(namespace.topic(name), on_server);
            assert_eq!(namespace.topic(on_server), on_server, "only once");
            assert_eq!(namespace.strip(on_server), name);
        }
        let plain = MessageQueue::new("orders", "broker-a", 3);
        let on_server = MessageQueue::new("shop%orders", "broker-a", 3);
        for queue in [&plain, &on_server] {
            assert_eq!((&*namespace.queue(queue), &*namespace.strip_queue(queue)), (&on_server, &plain));
        }
        assert_eq!(namespace.group("billing"), "shop%billing");
        assert_eq!(namespace.group("TOOLS_CONSUMER"), "TOOLS_CONSUMER");
        assert_eq!(namespace.strip("other%orders"), "other%orders");
    }

    #[test]
    fn without_a_namespace_nothing_changes() {
        let namespace = Namespace::new(None);
        assert!(namespace.is_none());
        assert_eq!(
            (namespace.topic("a%b"), namespace.group("g"), namespace.strip("a%b")),
            ("a%b".into(), "g".into(), "a%b".into())
        );
    }
}
