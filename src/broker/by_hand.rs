//! What the handle of a broker does to its state, in place of a client.

use std::borrow::Cow;
use std::sync::Arc;

use super::delay::Delays;
use super::keys::Keys;
use super::look;
use super::request::Refusal;
use super::settings::{CLUSTER, REGION, TEMPLATE_TOPIC};
use super::state::State;
use super::store::{Memory, Placed, Store};
use super::topics::{READ_WRITE, first_groups, first_topics, topic_config};
use crate::Result;
use crate::error::Error;
use crate::message::properties as names;
use crate::message::{Message, MessageQueue, MessageView, is_unsendable_topic, tags};
use crate::protocol::{OffsetId, ResponseCode, StoredMessage};

/// How many queues a topic gets that is created by the first message.
const QUEUES: i32 = 4;

impl State {
    /// Stores a message as if a producer had sent it.
    pub(crate) fn put_by_hand(&mut self, message: &Message) -> Result<MessageView> {
        if let Some(problem) = message.problem() {
            return Err(Error::invalid_input(problem));
        }
        let queue_id = self.queue_for(message)?;
        let mut properties = Vec::new();
        message.write_properties(&mut properties);
        let id = self.ids.next(self.now.millis);
        let of_broker = [(names::MSG_REGION, REGION), (names::CLUSTER, CLUSTER), (names::TRACE_ON, "true")];
        names::append(&mut properties, [(names::UNIQ_KEY, id.as_str())].into_iter().chain(of_broker));
        let stored = StoredMessage {
            queue_id,
            flag: message.flag_value(),
            born_timestamp: self.now.millis,
            born_host: self.host,
            body: Cow::Borrowed(message.body()),
            topic: Cow::Borrowed(message.topic()),
            properties: Cow::Owned(properties),
            ..StoredMessage::default()
        };
        let view = self.put(stored).and_then(|placed| {
            self.wake_holds();
            self.view(placed)
        });
        view.map_err(|refusal| self.error(refusal, message.topic()))
    }

    /// Changes the number of queues of a topic, or creates it.
    pub(crate) fn set_queues(&mut self, topic: &str, queues: i32) {
        let mut config =
            self.topics.get(topic).cloned().unwrap_or_else(|| topic_config(topic, 0, READ_WRITE));
        (config.read_queue_nums, config.write_queue_nums) = (queues, queues);
        self.set_topic(config);
    }

    /// Whether sending creates topics is a matter of the template topic.
    pub(crate) fn set_auto_create_topics(&mut self, on: bool) {
        self.settings.auto_create_topics = on;
        match first_topics(&self.settings).remove(TEMPLATE_TOPIC) {
            Some(template) => self.set_topic(template),
            None => self.delete_topic(TEMPLATE_TOPIC),
        }
    }

    /// The id of a stored message.
    pub(crate) fn message_id(&self, placed: Placed) -> String {
        let commit_log_offset = i64::try_from(placed.position).unwrap_or(i64::MAX);
        OffsetId { host: self.host, commit_log_offset }.to_string()
    }

    /// What ends with the connections.
    pub(crate) fn forget_connections(&mut self) {
        self.connections.clear();
        self.members.clear();
        self.filters.forget_classes();
        self.holds.clear();
        self.relays.clear();
        self.forget_effects();
    }

    /// What is lost with a disk.
    pub(crate) fn forget_everything(&mut self) {
        self.forget_connections();
        self.store = Store::new(Arc::new(Memory));
        self.store_number += 1;
        self.keys = Keys::default();
        self.config.clear();
        self.delays = Delays::new(&self.settings.delay_levels);
        self.topics = first_topics(&self.settings);
        self.groups = first_groups();
        self.filters.clear();
        self.offsets.clear();
        self.locks.clear();
    }

    fn queue_for(&mut self, message: &Message) -> Result<i32> {
        let topic = message.topic();
        let foreign =
            |queue: &MessageQueue| queue.topic() != topic || queue.broker_name() != self.settings.name;
        if is_unsendable_topic(topic) {
            return Err(Error::invalid_input(format!("the topic {topic} belongs to the broker")));
        }
        if let Some(queue) = message.target().filter(|queue| foreign(queue)) {
            let name = &self.settings.name;
            return Err(Error::invalid_input(format!(
                "{queue} is not a queue of topic {topic} on broker {name}"
            )));
        }
        if !self.topics.contains_key(topic) && self.topics.contains_key(TEMPLATE_TOPIC) {
            self.ensure_topic(topic, QUEUES);
        }
        let queues = self.topics.get(topic).map(|config| config.write_queue_nums);
        let queues = queues.ok_or_else(|| self.error(Refusal::no_topic(topic), topic))?;
        match (message.target(), message.shard()) {
            (Some(queue), _) if (0..queues).contains(&queue.queue_id()) => Ok(queue.queue_id()),
            (Some(queue), _) => Err(Error::invalid_input(format!("{topic} has {queues} queues, no {queue}"))),
            // As Java's SelectMessageQueueByHash, so that a key goes where producers send it.
            (None, Some(key)) => {
                let place = tags::java_hash(key).unsigned_abs() % queues.max(1).unsigned_abs();
                Ok(i32::try_from(place).unwrap_or(0))
            }
            (None, None) => Ok(self.any_queue(queues)),
        }
    }

    fn view(&self, placed: Placed) -> Result<MessageView, Refusal> {
        let missing = || Refusal::error("what was just stored cannot be read");
        let bytes = self.store.record_at(placed.position).ok_or_else(missing)?;
        let stored = StoredMessage::decode(&bytes)?;
        let queue = MessageQueue::new(&*stored.topic, self.settings.name.as_str(), stored.queue_id);
        look::decode(bytes, &queue).pop().ok_or_else(missing)
    }

    fn error(&self, refusal: Refusal, topic: &str) -> Error {
        match refusal.code {
            ResponseCode::TOPIC_NOT_EXIST => Error::topic_not_found(topic, Vec::new()),
            ResponseCode::MESSAGE_ILLEGAL => Error::invalid_input(refusal.remark),
            code => Error::answer("put", &self.host.to_string(), code, Some(&refusal.remark)),
        }
    }
}
