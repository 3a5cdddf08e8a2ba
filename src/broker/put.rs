//! Storing messages: where they are to be seen at once, or where they wait until they are.

use std::borrow::Cow;

use super::delay::{SCHEDULE_TOPIC, TIMER_TOPIC};
use super::request::Refusal;
use super::state::State;
use super::store::{Entry, Placed};
use super::topics::{READ_WRITE, group_config, topic_config};
use crate::message::properties as names;
use crate::message::{dead_letter_topic, retry_topic, tags, topic_problem};
use crate::protocol::ResponseCode;
use crate::protocol::StoredMessage;
use crate::protocol::body::{SubscriptionGroupConfig, TopicConfig};

/// The longest delivery time from now on, in ms: three days (`timerMaxDelaySec`).
const LONGEST_TIMER: i64 = 3 * 24 * 3600 * 1000;
/// The longest stored body, in bytes (`maxMessageSize`).
const MAX_BODY: usize = 4 * 1024 * 1024;

impl State {
    /// Stores a message, unless it is to be seen later: then it waits in a topic of the broker until its time has come.
    pub(crate) fn put(&mut self, message: StoredMessage<'_>) -> Result<Placed, Refusal> {
        if message.body.len() > MAX_BODY || message.properties.len() > i16::MAX as usize {
            let remark = "the message is illegal, maybe msg body or properties length not matched. \
                          msg body length limit 4194304B, msg properties length limit 32KB.";
            return Err(Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark));
        }
        let level = number(&message.properties, names::DELAY).unwrap_or(0);
        if level > 0 {
            let level = i32::try_from(level).unwrap_or(i32::MAX);
            if let Some((queue_id, due)) = self.delays.level(level, self.now.millis) {
                let placed = self.set_aside(message, SCHEDULE_TOPIC, queue_id, due, &[])?;
                self.delays.add_delayed(queue_id, due);
                return Ok(placed);
            }
        } else if let Some(due) = self.delivery_time(&message.properties)? {
            let (out, enqueued) = (due.to_string(), self.now.millis.to_string());
            let extra = [(names::TIMER_OUT_MS, out.as_str()), (names::TIMER_ENQUEUE_MS, enqueued.as_str())];
            let placed = self.set_aside(message, TIMER_TOPIC, 0, due, &extra)?;
            self.delays.add_timer(due, placed.queue_offset);
            return Ok(placed);
        }
        let tag = tags::code_of(&message.properties).into();
        self.append(message, tag)
    }

    /// Moves the messages whose time has come to where they are seen.
    pub(crate) fn deliver_due(&mut self) {
        while let Some(entry) = self.delays.take_due(&self.store, self.now.millis) {
            if let Err(refusal) = self.deliver(entry) {
                log::warn!("a delayed message could not be delivered: {}", refusal.remark);
            }
        }
        self.wake_holds();
    }

    /// The settings of a group. One that is not known is created, if the broker may.
    pub(crate) fn group_or_create(&mut self, group: &str) -> Option<&SubscriptionGroupConfig> {
        let creatable = self.settings.auto_create_groups && topic_problem(&retry_topic(group)).is_none();
        if creatable && !self.groups.contains_key(group) {
            log::info!("group {group} is new");
            self.groups.insert(group.to_owned(), group_config(group));
        }
        self.groups.get(group)
    }

    /// Creates the topic with so many queues unless it is there.
    pub(crate) fn ensure_topic(&mut self, topic: &str, queues: i32) {
        if !self.topics.contains_key(topic) {
            self.set_topic(topic_config(topic, queues, READ_WRITE));
        }
    }

    /// Creates or changes a topic, and tells the name server.
    pub(crate) fn set_topic(&mut self, config: TopicConfig) {
        log::info!("topic {}: {} queues", config.topic_name, config.write_queue_nums);
        if !self.is_slave() {
            self.names.set_topic(&self.settings.name, config.clone());
        }
        self.topics.insert(config.topic_name.clone(), config);
    }

    /// Creates the topic of a group's dead letters unless it is there, and names it.
    pub(crate) fn dead_letters(&mut self, group: &str) -> String {
        let topic = dead_letter_topic(group);
        self.ensure_topic(&topic, 1);
        topic
    }

    /// Whichever queue is next, where nobody asks for a certain one.
    pub(crate) fn any_queue(&mut self, queues: i32) -> i32 {
        self.round_robin = self.round_robin.wrapping_add(1);
        i32::try_from(self.round_robin % queues.max(1).unsigned_abs()).unwrap_or(0)
    }

    /// The code for parameters out of range, which brokers before 5.3.2 do not have.
    pub(crate) fn invalid(&self, remark: std::fmt::Arguments<'_>) -> Refusal {
        let old = !self.settings.version.is_5();
        Refusal::new(if old { ResponseCode::SYSTEM_ERROR } else { ResponseCode::INVALID_PARAMETER }, remark)
    }

    fn append(&mut self, mut message: StoredMessage<'_>, tag: i64) -> Result<Placed, Refusal> {
        (message.store_timestamp, message.store_host) = (self.now.millis, self.host);
        let (topic, queue_id) = (message.topic.clone().into_owned(), message.queue_id);
        let placed = self.store.append(&topic, queue_id, tag, |queue_offset, position, out| {
            message.queue_offset = queue_offset;
            message.physical_offset = i64::try_from(position).unwrap_or(i64::MAX);
            message.encode(out).map_err(Refusal::from)
        })?;
        if !self.holds.is_empty() {
            let entry = Entry { position: placed.position, size: placed.size, tag };
            self.arrivals.entry((topic, queue_id)).or_default().push(entry);
        }
        Ok(placed)
    }

    /// Stores a message in a topic of the broker, with the address of the queue that it is for.
    fn set_aside(
        &mut self,
        mut message: StoredMessage<'_>,
        topic: &'static str,
        queue_id: i32,
        due: i64,
        extra: &[(&str, &str)],
    ) -> Result<Placed, Refusal> {
        let real_queue = message.queue_id.to_string();
        let mut changes = vec![(names::REAL_TOPIC, &*message.topic), (names::REAL_QID, real_queue.as_str())];
        changes.extend_from_slice(extra);
        message.properties = Cow::Owned(with(&message.properties, &changes));
        message.topic = Cow::Borrowed(topic);
        message.queue_id = queue_id;
        self.append(message, due)
    }

    fn deliver(&mut self, entry: Entry) -> Result<(), Refusal> {
        let mut record = Vec::new();
        self.store.read(entry, &mut record)?;
        let mut message = StoredMessage::decode(&record)?;
        let topic = names::find_str(&message.properties, names::REAL_TOPIC).unwrap_or_default().to_owned();
        let queue_id = number(&message.properties, names::REAL_QID).and_then(|id| i32::try_from(id).ok());
        if !self.topics.contains_key(&topic) {
            return Err(Refusal::no_topic(&topic));
        }
        if message.topic == TIMER_TOPIC {
            let now = self.now.millis.to_string();
            message.properties = Cow::Owned(with(&message.properties, &[(names::TIMER_DEQUEUE_MS, &now)]));
        }
        message.topic = Cow::Owned(topic);
        message.queue_id = queue_id.unwrap_or(0);
        let tag = tags::code_of(&message.properties).into();
        self.append(message, tag).map(drop)
    }

    /// When a message is to be delivered, if that is later than now and the broker is one that knows delivery times.
    pub(crate) fn delivery_time(&self, properties: &[u8]) -> Result<Option<i64>, Refusal> {
        let done = names::find(properties, names::TIMER_OUT_MS).is_some();
        if !self.settings.version.is_5()
            || done
            || number(properties, names::DELAY).is_some_and(|level| level > 0)
        {
            return Ok(None);
        }
        let after = |millis: i64| self.now.millis.saturating_add(millis);
        let at = number(properties, names::TIMER_DELIVER_MS)
            .or_else(|| number(properties, names::TIMER_DELAY_MS).map(after))
            .or_else(|| {
                number(properties, names::TIMER_DELAY_SEC).map(|sec| after(sec.saturating_mul(1000)))
            });
        match at.filter(|at| *at > self.now.millis) {
            Some(at) if at > after(LONGEST_TIMER) => {
                let remark =
                    "timer message illegal, the delay time should not be bigger than the max delay 259200s";
                Err(Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark))
            }
            at => Ok(at),
        }
    }
}

/// The property string with some properties set anew.
pub(crate) fn with(properties: &[u8], changes: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(properties.len() + 64);
    for (name, value) in names::entries(properties) {
        if !changes.iter().any(|(changed, _)| changed.as_bytes() == name) {
            out.extend_from_slice(name);
            out.push(names::NAME_END);
            out.extend_from_slice(value);
            out.push(names::VALUE_END);
        }
    }
    names::append(&mut out, changes.iter().copied());
    out
}

pub(crate) fn number(properties: &[u8], name: &str) -> Option<i64> {
    names::find_str(properties, name)?.parse().ok()
}
