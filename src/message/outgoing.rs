use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::view::BodyPrefix;
use super::{MessageQueue, properties as names};

/// A message to send: topic, body, and what goes with it. Cheap to clone, the body is shared.
///
/// ```
/// use rocketmq_sync::Message;
///
/// let message = Message::new("orders", "paid 42 EUR").tag("paid").key("order-7").property("currency", "EUR");
/// assert_eq!(message.body(), b"paid 42 EUR");
/// ```
#[derive(Clone)]
#[must_use = "a message does nothing until it is sent"]
pub struct Message {
    topic: String,
    body: Arc<Vec<u8>>,
    properties: Vec<Property>,
    queue: Option<MessageQueue>,
    wait_store_ok: bool,
    flag: i32,
}

#[derive(Clone)]
struct Property {
    name: Cow<'static, str>,
    value: String,
    /// Named by the program, so that RocketMQ's own names are a mistake.
    chosen: bool,
}

impl Message {
    /// A message for a topic. A body can be text, bytes, or anything else that turns into bytes.
    pub fn new(topic: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self {
            topic: topic.into(),
            body: Arc::new(body.into()),
            properties: Vec::new(),
            queue: None,
            wait_store_ok: true,
            flag: 0,
        }
    }

    /// The tag, by which consumers can choose messages. One message has one tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.set(names::TAGS, tag.into());
        self
    }

    /// Adds a key, by which the message can be found on the broker. A key with spaces counts as several.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        let key = key.into();
        let keys = match self.get(names::KEYS) {
            Some(keys) => format!("{keys} {key}"),
            None => key,
        };
        self.set(names::KEYS, keys);
        self
    }

    /// Sets a property of your own. Java: `putUserProperty`.
    ///
    /// A name that RocketMQ uses itself, an empty name or value, and the bytes 1 and 2 in them are refused when the
    /// message is sent.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.set_property(name, value);
        self
    }

    /// Messages with the same sharding key go to the same queue, in order, also when sending is retried.
    pub fn sharding_key(mut self, key: impl Into<String>) -> Self {
        self.set(names::SHARDING_KEY, key.into());
        self
    }

    /// Sends the message to exactly this queue.
    pub fn queue(mut self, queue: &MessageQueue) -> Self {
        self.queue = Some(queue.clone());
        self
    }

    /// Delivers the message later: 1 … 18 stand for 1 s 5 s 10 s 30 s 1 … 10 min 20 min 30 min 1 h 2 h, unless the
    /// broker is set up differently. 0: at once.
    pub fn delay_level(mut self, level: u8) -> Self {
        self.undelay();
        if level > 0 {
            self.set(names::DELAY, level.to_string());
        }
        self
    }

    /// Delivers the message after this time (brokers 5.x; older ones deliver at once).
    pub fn deliver_after(mut self, delay: Duration) -> Self {
        self.undelay();
        self.set(names::TIMER_DELAY_MS, delay.as_millis().to_string());
        self
    }

    /// Delivers the message at this time (brokers 5.x; older ones deliver at once).
    pub fn deliver_at(mut self, time: SystemTime) -> Self {
        self.undelay();
        let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.set(names::TIMER_DELIVER_MS, since_1970.as_millis().to_string());
        self
    }

    /// `true` by default: the broker answers when the message is stored as safely as the broker is set up to (flushed,
    /// replicated). `false`: as soon as it is taken.
    pub fn wait_store_ok(mut self, wait: bool) -> Self {
        self.wait_store_ok = wait;
        self
    }

    /// A number of your own, 0 by default, delivered with the message.
    pub fn flag(mut self, flag: i32) -> Self {
        self.flag = flag;
        self
    }

    /// The topic to send to.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The content.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// All properties that have been set, tag, keys and delay included, under their names in RocketMQ.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        self.properties.iter().map(|property| (&*property.name, property.value.as_str()))
    }

    /// As [`property`](Self::property), on a message that exists already.
    pub fn set_property(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.put(Property { name: Cow::Owned(name.into()), value: value.into(), chosen: true });
    }

    /// Sets a property under one of RocketMQ's own names.
    pub(crate) fn set(&mut self, name: &'static str, value: String) {
        self.put(Property { name: Cow::Borrowed(name), value, chosen: false });
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|property| property.name == name).map(|property| property.value.as_str())
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.properties.retain(|property| property.name != name);
    }

    pub(crate) fn set_topic(&mut self, topic: impl Into<String>) {
        self.topic = topic.into();
    }

    pub(crate) fn shared_body(&self) -> &Arc<Vec<u8>> {
        &self.body
    }

    pub(crate) fn target(&self) -> Option<&MessageQueue> {
        self.queue.as_ref()
    }

    pub(crate) fn shard(&self) -> Option<&str> {
        self.get(names::SHARDING_KEY)
    }

    pub(crate) fn waits_for_store(&self) -> bool {
        self.wait_store_ok
    }

    pub(crate) fn flag_value(&self) -> i32 {
        self.flag
    }

    /// Whether the broker is asked to hold the message back; such a message cannot be part of a batch.
    pub(crate) fn is_delayed(&self) -> bool {
        DELAYS.iter().any(|name| self.get(name).is_some())
    }

    /// Appends the property string of the wire, `WAIT` included.
    pub(crate) fn write_properties(&self, out: &mut Vec<u8>) {
        names::append(out, self.properties());
        if self.get(names::WAIT).is_none() {
            names::push(out, names::WAIT, if self.wait_store_ok { "true" } else { "false" });
        }
    }

    /// What about the properties and the delay no broker would understand, in words for the user.
    pub(crate) fn problem(&self) -> Option<String> {
        self.properties.iter().find_map(Property::problem).or_else(|| {
            match self.get(names::DELAY)?.parse::<u8>() {
                Ok(1..=18) => None,
                _ => Some(format!("delay level {}: only 0 to 18 exist", self.get(names::DELAY)?)),
            }
        })
    }

    fn put(&mut self, new: Property) {
        match self.properties.iter_mut().find(|property| property.name == new.name) {
            Some(old) => *old = new,
            None => self.properties.push(new),
        }
    }

    fn undelay(&mut self) {
        for name in DELAYS {
            self.remove(name);
        }
    }
}

impl Property {
    fn problem(&self) -> Option<String> {
        let name = &*self.name;
        if name.is_empty() {
            return Some("a property has no name".into());
        }
        if self.chosen && names::is_reserved(name) {
            return Some(format!("the property name `{name}` belongs to RocketMQ"));
        }
        if self.value.is_empty() {
            return Some(format!("the property `{name}` has no value"));
        }
        let separator =
            |text: &str| text.bytes().any(|byte| byte == names::NAME_END || byte == names::VALUE_END);
        if separator(name) || self.value.as_bytes().contains(&names::VALUE_END) {
            return Some(format!("the property `{name}` contains a byte 1 or 2, which end names and values"));
        }
        None
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("topic", &self.topic)
            .field("queue", &self.queue)
            .field("flag", &self.flag)
            .field("properties", &DebugProperties(self))
            .field("body", &BodyPrefix(&self.body))
            .finish_non_exhaustive()
    }
}

struct DebugProperties<'a>(&'a Message);

impl fmt::Debug for DebugProperties<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.properties()).finish()
    }
}

const DELAYS: [&str; 4] =
    [names::DELAY, names::TIMER_DELAY_SEC, names::TIMER_DELAY_MS, names::TIMER_DELIVER_MS];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_and_keys_are_properties() {
        let message = Message::new("t", "body").tag("a").key("k1").key("k2").property("color", "red");
        let all: Vec<_> = message.properties().collect();
        assert_eq!(all, [("TAGS", "a"), ("KEYS", "k1 k2"), ("color", "red")]);
        let mut encoded = Vec::new();
        message.write_properties(&mut encoded);
        assert_eq!(encoded, b"TAGS\x01a\x02KEYS\x01k1 k2\x02color\x01red\x02WAIT\x01true\x02");
    }

    #[test]
    fn the_last_delay_counts() {
        let delayed = Message::new("t", "").delay_level(3).deliver_after(Duration::from_millis(2500));
        assert_eq!(Vec::from_iter(delayed.properties()), [("TIMER_DELAY_MS", "2500")]);
        assert!(delayed.is_delayed() && !delayed.delay_level(0).is_delayed());
        let at = Message::new("t", "").deliver_at(UNIX_EPOCH + Duration::from_millis(17));
        assert_eq!(at.get("TIMER_DELIVER_MS"), Some("17"));
    }

    #[test]
    fn says_what_is_wrong() {
        for (message, says) in [
            (Message::new("t", "").property("KEYS", "x"), "belongs to RocketMQ"),
            (Message::new("t", "").property("", "x"), "no name"),
            (Message::new("t", "").property("a", ""), "no value"),
            (Message::new("t", "").property("a\u{1}", "x"), "byte 1 or 2"),
            (Message::new("t", "").tag("x\u{2}y"), "byte 1 or 2"),
            (Message::new("t", "").delay_level(19), "0 to 18"),
        ] {
            let problem = message.problem().unwrap_or_default();
            assert!(problem.contains(says), "{message:?}: {problem}");
        }
        assert_eq!(Message::new("t", "").tag("a").delay_level(18).property("x", "\u{1}").problem(), None);
    }

    #[test]
    fn debug_does_not_show_whole_bodies() {
        let text = format!("{:?}", Message::new("t", "x".repeat(1000)).key("k"));
        assert!(text.len() < 250 && text.contains("1000 bytes"), "{text}");
    }
}
