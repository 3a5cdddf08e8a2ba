//! A model of a broker: queues, filters, offsets, members, held pulls, send-backs. It answers; when, and whether the
//! answer arrives, is decided by the world.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::core::{BROKERS, RETRY_TOPIC};
use super::locks::{BrokerLocks, Granted};
use crate::consumer::answer::Pulled;
use crate::message::{Filter, MessageQueue, Subscription, properties, tags};
use crate::protocol::headers::{ConsumerSendBack, PullMessage, SendMessage};
use crate::protocol::{PullOffsets, ResponseCode, StoredMessage};

/// One broker.
pub(super) struct Broker {
    pub(super) number: usize,
    /// Where it is, and where name servers say that it is.
    pub(super) port: usize,
    pub(super) registered: usize,
    pub(super) queues: Vec<Queue>,
    /// Where each stored message is: queue and offset, by its place in the log.
    log: Vec<(usize, i64)>,
    pub(super) subscriptions: BTreeMap<String, Arc<Subscription>>,
    /// The connection of each member, by number.
    pub(super) members: BTreeMap<usize, u64>,
    pub(super) held: Vec<Held>,
    pub(super) locks: BrokerLocks,
    pub(super) down_until: Instant,
}

/// One queue.
pub(super) struct Queue {
    pub(super) queue: MessageQueue,
    /// Its number in the ledger.
    pub(super) ledger: usize,
    pub(super) min: i64,
    pub(super) messages: Vec<Message>,
    pub(super) committed: Option<i64>,
    /// What a crash leaves of it.
    pub(super) saved: Option<i64>,
    /// An operator's reset that no pull has met yet.
    pub(super) reset_to: Option<i64>,
}

/// One message as it is stored, or about to be.
#[derive(Clone)]
pub(super) struct Message {
    bytes: Vec<u8>,
    pub(super) tag: &'static str,
    pub(super) times: u32,
    /// The number that it keeps over retries.
    pub(super) id: u64,
    /// Its bytes are damaged.
    pub(super) damaged: bool,
}

/// A pull that waits for messages.
pub(super) struct Held {
    pub(super) call: u64,
    pub(super) queue: usize,
    pub(super) header: PullMessage,
}

/// What is answered.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    Done,
    Refused(ResponseCode),
    Pulled(Pulled, Covered),
    Members(Vec<usize>),
    Stored(Option<i64>),
    Offset(i64),
    Locked(Granted),
}

/// What the answer to a pull is about, for the ledger.
#[derive(Debug, Clone)]
pub(super) struct Covered {
    pub(super) from: i64,
    pub(super) next: i64,
    /// The offsets it has messages of, and their tags.
    pub(super) sent: Vec<(i64, &'static str)>,
}

/// What becomes of a message that comes back.
pub(super) struct Returned {
    /// Where it was: queue and offset.
    pub(super) from: (MessageQueue, i64),
    /// The delay level at which it comes again; `None` for a dead letter.
    pub(super) level: Option<u32>,
    pub(super) message: Message,
}

impl Message {
    pub(super) fn new(id: u64, tag: &'static str) -> Self {
        Self { bytes: Vec::new(), tag, times: 0, id, damaged: false }
    }

    fn store(&mut self, queue: &MessageQueue, offset: i64, place: usize) {
        let mut text = Vec::new();
        properties::push(&mut text, properties::TAGS, self.tag);
        properties::push(&mut text, properties::UNIQ_KEY, &self.id.to_string());
        properties::push(&mut text, AT, &format!("{}/{}/{offset}", queue.topic(), queue.queue_id()));
        properties::push(&mut text, BROKER, queue.broker_name());
        let stored = StoredMessage {
            queue_id: queue.queue_id(),
            queue_offset: offset,
            physical_offset: place as i64,
            reconsume_times: self.times as i32,
            body: b"message".into(),
            topic: queue.topic().into(),
            properties: text.into(),
            ..StoredMessage::default()
        };
        self.bytes.clear();
        stored.encode(&mut self.bytes).expect("a small message fits");
        if self.damaged {
            // The first byte of the body: the checksum is wrong, the length is not.
            self.bytes[88] ^= 0xFF;
        }
    }
}

impl Queue {
    pub(super) fn max(&self) -> i64 {
        self.messages.len() as i64
    }
}

impl Broker {
    pub(super) fn new(number: usize, now: Instant) -> Self {
        Self {
            number,
            port: FIRST_PORT,
            registered: FIRST_PORT,
            queues: Vec::new(),
            log: Vec::new(),
            subscriptions: BTreeMap::new(),
            members: BTreeMap::new(),
            held: Vec::new(),
            locks: BrokerLocks::default(),
            down_until: now,
        }
    }

    pub(super) fn add_queue(&mut self, topic: &str, id: usize, ledger: usize) {
        let queue = MessageQueue::new(topic, BROKERS[self.number].0, id as i32);
        self.queues.push(Queue {
            queue,
            ledger,
            min: 0,
            messages: Vec::new(),
            committed: None,
            saved: None,
            reset_to: None,
        });
    }

    pub(super) fn find(&self, topic: &str, id: i32) -> Option<usize> {
        self.queues.iter().position(|known| known.queue.topic() == topic && known.queue.queue_id() == id)
    }

    /// Appends a message.
    pub(super) fn append(&mut self, queue: usize, mut message: Message) {
        let place = self.log.len();
        let target = &mut self.queues[queue];
        let offset = target.max();
        message.store(&target.queue, offset, place);
        target.messages.push(message);
        self.log.push((queue, offset));
    }

    /// Answers a pull, or holds it (`None`).
    pub(super) fn pull(&mut self, header: &PullMessage, queue: usize, torn: bool) -> Option<Reply> {
        let own = header.subscription.as_deref().map(|filter| {
            let own = Subscription::parse(&*header.topic, &Filter::from(filter), header.sub_version);
            Arc::new(own.expect("its member has parsed it"))
        });
        let Some(subscription) = own.as_ref().or_else(|| self.subscriptions.get(&header.topic)) else {
            return Some(Reply::Refused(ResponseCode::SUBSCRIPTION_NOT_EXIST));
        };
        if subscription.version < header.sub_version {
            return Some(Reply::Refused(ResponseCode::SUBSCRIPTION_NOT_LATEST));
        }
        let target = &mut self.queues[queue];
        let (from, min, max) = (header.queue_offset, target.min, target.max());
        if let Some(to) = target.reset_to.take() {
            target.committed = Some(to);
            return Some(target.pulled(ResponseCode::PULL_OFFSET_MOVED, from, to));
        }
        if from < min || from > max {
            let next = if from < min { min } else { max };
            return Some(target.pulled(ResponseCode::PULL_OFFSET_MOVED, from, next));
        }
        if from == max {
            return None;
        }
        let (most, mut next) = (header.max_msg_nums.max(1) as usize, from);
        let (mut bytes, mut sent, mut last) = (Vec::new(), Vec::new(), 0);
        for message in target.messages.iter().skip(from as usize).take(SCAN) {
            if sent.len() == most {
                break;
            }
            let wanted =
                subscription.takes_all() || subscription.codes.contains(&tags::java_hash(message.tag));
            if wanted {
                last = message.bytes.len();
                bytes.extend_from_slice(&message.bytes);
                sent.push((next, message.tag));
            }
            next += 1;
        }
        if sent.is_empty() {
            return Some(target.pulled(ResponseCode::PULL_RETRY_IMMEDIATELY, from, next));
        }
        let covered = Covered { from, next, sent };
        let mut answer = target.answer(ResponseCode::SUCCESS, covered);
        if let Reply::Pulled(pulled, covered) = &mut answer {
            if torn {
                bytes.truncate(bytes.len() - last / 2);
                covered.sent.pop();
                covered.next = covered.sent.last().map_or(from, |(offset, _)| offset + 1);
            }
            pulled.body = 0..bytes.len();
            pulled.bytes = bytes;
        }
        Some(answer)
    }

    /// The answer to a pull that was held as long as it may.
    pub(super) fn nothing(&self, held: &Held) -> Reply {
        let from = held.header.queue_offset;
        self.queues[held.queue].pulled(ResponseCode::PULL_NOT_FOUND, from, from)
    }

    /// 36: looks the message up in the log.
    pub(super) fn send_back(&self, header: &ConsumerSendBack) -> Option<Returned> {
        let (queue, offset) = *self.log.get(usize::try_from(header.offset).ok()?)?;
        let from = &self.queues[queue];
        let message = from.messages.get(offset as usize)?;
        let most = u32::try_from(header.max_reconsume_times?).ok()?;
        let level = match header.delay_level {
            level if level < 0 || message.times >= most => None,
            0 => Some(3 + message.times),
            level => Some(level as u32),
        };
        let message = Message { times: message.times + 1, damaged: false, ..message.clone() };
        Some(Returned { from: (from.queue.clone(), offset), level, message })
    }

    /// A message of the retry topic from a member.
    pub(super) fn send(&self, header: &SendMessage, tags: &[&'static str]) -> Option<Returned> {
        let text = header.properties.as_deref()?.as_bytes();
        let property = |name| properties::find_str(text, name);
        let mut at = property(AT)?.split('/');
        let queue = MessageQueue::new(at.next()?, property(BROKER)?, at.next()?.parse().ok()?);
        let tag = tags.iter().find(|tag| Some(**tag) == property(properties::TAGS))?;
        let times = u32::try_from(header.reconsume_times?).ok()?;
        let id = property(properties::UNIQ_KEY)?.parse().ok()?;
        let level = property(properties::DELAY)?.parse().ok()?;
        Some(Returned {
            from: (queue, at.next()?.parse().ok()?),
            level: (i64::from(times) <= i64::from(header.max_reconsume_times?)).then_some(level),
            message: Message { bytes: Vec::new(), tag, times, id, damaged: false },
        })
    }

    /// A heartbeat. Whether the other members are to hear of it, and whether the retry topic must be made.
    pub(super) fn heartbeat(
        &mut self,
        member: usize,
        connection: u64,
        subscriptions: &[Arc<Subscription>],
    ) -> (bool, bool) {
        let mut news = self.members.insert(member, connection) != Some(connection);
        for new in subscriptions {
            let known = self.subscriptions.get(&new.topic);
            if known.is_none_or(|known| known.version < new.version) {
                news |= known.is_some();
                self.subscriptions.insert(new.topic.clone(), new.clone());
            }
        }
        let retries = subscriptions.iter().any(|one| one.topic == RETRY_TOPIC);
        (news, retries && self.find(RETRY_TOPIC, 0).is_none())
    }

    /// A restart: what was in memory only is gone.
    pub(super) fn restart(&mut self, crashed: bool, until: Instant) {
        self.subscriptions.clear();
        self.members.clear();
        self.held.clear();
        self.down_until = until;
        for queue in &mut self.queues {
            queue.reset_to = None;
            match crashed {
                true => queue.committed = queue.saved,
                false => queue.saved = queue.committed,
            }
        }
    }
}

impl Queue {
    fn pulled(&self, code: ResponseCode, from: i64, next: i64) -> Reply {
        // Only what was looked at and left out is passed over.
        let passed = if code == ResponseCode::PULL_RETRY_IMMEDIATELY { next } else { from };
        let mut reply = self.answer(code, Covered { from, next, sent: Vec::new() });
        if let Reply::Pulled(_, covered) = &mut reply {
            covered.next = passed;
        }
        reply
    }

    fn answer(&self, code: ResponseCode, covered: Covered) -> Reply {
        let offsets = PullOffsets {
            next_begin_offset: covered.next,
            min_offset: self.min,
            max_offset: self.max(),
            suggest_which_broker_id: 0,
            offset_delta: 0,
        };
        let pulled = Pulled { code, offsets: Some(offsets), remark: None, bytes: Vec::new(), body: 0..0 };
        Reply::Pulled(pulled, covered)
    }
}

/// Where each broker is at first.
pub(super) const FIRST_PORT: usize = 1;
/// Where a message is stored, in a property, so that a copy says where it comes from.
const AT: &str = "AT";
const BROKER: &str = "BY";
/// Messages looked at for one pull.
const SCAN: usize = 12;
