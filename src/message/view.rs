use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::Utf8Error;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{DLQ_PREFIX, Message, MessageQueue, RETRY_PREFIX, Record, Source, properties as names, sys_flag};

/// A received message: immutable, cheap to clone. It keeps the bytes it came in alive, which are usually those of a
/// whole answer of the broker.
///
/// Java: `MessageExt`.
#[doc(alias = "MessageExt")]
#[derive(Clone)]
pub struct MessageView {
    source: Arc<Source>,
    record: Record,
    inflated: Option<Arc<[u8]>>,
    reconsume_times: Option<u32>,
    offset_id: OnceLock<Box<str>>,
}

impl MessageView {
    /// The topic that the message was sent to, also when it comes from a retry topic.
    pub fn topic(&self) -> &str {
        let stored = self.stored_topic();
        let topic = if stored.starts_with(RETRY_PREFIX) {
            self.property(names::RETRY_TOPIC).unwrap_or(stored)
        } else {
            stored
        };
        self.without_namespace(topic)
    }

    /// The content, inflated if it was compressed.
    pub fn body(&self) -> &[u8] {
        match &self.inflated {
            Some(body) => body,
            None => self.slice(self.record.body),
        }
    }

    /// The content as text.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub fn body_str(&self) -> Result<&str, Utf8Error> {
        std::str::from_utf8(self.body())
    }

    /// The id that the producer gave the message (`UNIQ_KEY`). It survives retries. Without one, the
    /// [`offset_message_id`](Self::offset_message_id).
    ///
    /// Treat it as an opaque text: it may be 32 or 56 characters long, or come from another client library.
    pub fn message_id(&self) -> &str {
        self.property(names::UNIQ_KEY)
            .unwrap_or_else(|| self.offset_id.get_or_init(|| self.offset_message_id().into_boxed_str()))
    }

    /// The id by which a broker finds the message where it is stored; each retry has its own.
    pub fn offset_message_id(&self) -> String {
        offset_message_id(self.store_host(), self.commit_log_offset())
    }

    /// The tag.
    pub fn tag(&self) -> Option<&str> {
        self.property(names::TAGS)
    }

    /// A property, unless it is missing or not UTF-8.
    pub fn property(&self, name: &str) -> Option<&str> {
        names::find_str(self.raw_properties(), name)
    }

    /// A property as bytes.
    pub fn property_bytes(&self, name: &str) -> Option<&[u8]> {
        names::find(self.raw_properties(), name)
    }

    /// The key of ordered sending.
    pub fn sharding_key(&self) -> Option<&str> {
        self.property(names::SHARDING_KEY)
    }

    /// The id of the transaction that the message was sent in.
    pub fn transaction_id(&self) -> Option<&str> {
        self.property(names::TRANSACTION_ID).or_else(|| {
            // Brokers 4.x do not say; the id is always that of the message.
            let transactional =
                self.property(names::TRAN_MSG).is_some_and(|text| text.eq_ignore_ascii_case("true"));
            if transactional { self.property(names::UNIQ_KEY) } else { None }
        })
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.property(names::KEYS).unwrap_or_default().split(' ').filter(|key| !key.is_empty())
    }

    /// All properties, those of RocketMQ included; what is not UTF-8 is left out.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        names::parse(self.raw_properties())
    }

    /// The queue that the message was read from: of the retry topic when this is a retry.
    pub fn queue(&self) -> &MessageQueue {
        &self.source.queue
    }

    /// The place in [`queue`](Self::queue).
    pub fn queue_offset(&self) -> i64 {
        self.record.queue_offset
    }

    /// The place in the log of the broker, in bytes. Java: `getCommitLogOffset`.
    pub fn commit_log_offset(&self) -> i64 {
        self.fixed(Self::PHYSICAL_OFFSET).map_or(0, i64::from_be_bytes)
    }

    /// How often the message was given to consumers of this group before, without success.
    pub fn reconsume_times(&self) -> u32 {
        self.reconsume_times.unwrap_or_else(|| {
            let stored = self.fixed(self.after_hosts()).map_or(0, i32::from_be_bytes);
            u32::try_from(stored).unwrap_or(0)
        })
    }

    /// The producer's number for it.
    pub fn flag(&self) -> i32 {
        self.record.flag
    }

    /// How many bytes the message takes in the log of the broker.
    pub fn store_size(&self) -> usize {
        self.record.total as usize
    }

    /// When the producer sent it, by the producer's clock.
    pub fn born_time(&self) -> SystemTime {
        time(self.fixed(Self::BORN_TIME))
    }

    /// When the broker stored it, by the broker's clock.
    pub fn store_time(&self) -> SystemTime {
        time(self.fixed(self.after_born_host()))
    }

    /// The address that the producer sent it from, as the broker saw it.
    pub fn born_host(&self) -> SocketAddr {
        self.host(Self::BORN_HOST, sys_flag::BORN_HOST_V6)
    }

    /// The address of the broker that stored it.
    pub fn store_host(&self) -> SocketAddr {
        self.host(self.after_born_host() + 8, sys_flag::STORE_HOST_V6)
    }

    /// Of a dead letter: the topic that it was sent to. Else the [`topic`](Self::topic).
    pub fn origin_topic(&self) -> &str {
        if !self.stored_topic().starts_with(DLQ_PREFIX) {
            return self.topic();
        }
        let origin = self.property(names::DLQ_ORIGIN_TOPIC).or_else(|| self.property(names::RETRY_TOPIC));
        origin.map_or_else(|| self.topic(), |topic| self.without_namespace(topic))
    }

    /// The message for sending it again as a new one: origin topic, body, tag, keys, sharding key, flag and the
    /// properties that are not RocketMQ's own.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(self.origin_topic(), self.body()).flag(self.flag());
        for (name, value) in self.properties() {
            match name {
                names::TAGS => message.set(names::TAGS, value.into()),
                names::KEYS => message.set(names::KEYS, value.into()),
                names::SHARDING_KEY => message.set(names::SHARDING_KEY, value.into()),
                _ if names::is_reserved(name) => {}
                _ => message.set_property(name, value),
            }
        }
        message
    }
}

/// For the library, and for tests of the library.
#[doc(hidden)]
impl MessageView {
    /// A view of one message. Allocates nothing.
    pub fn new(source: Arc<Source>, record: Record) -> Self {
        Self { source, record, inflated: None, reconsume_times: None, offset_id: OnceLock::new() }
    }

    /// Turns to another message of the same source, which saves counting references to it.
    pub fn turn_to(&mut self, record: Record) {
        self.record = record;
        (self.inflated, self.reconsume_times, self.offset_id) = (None, None, OnceLock::new());
    }

    /// Sets the inflated body; the message is not compressed any more.
    pub fn set_body(&mut self, inflated: Arc<[u8]>) {
        self.inflated = Some(inflated);
        self.record.sys_flag &= !(sys_flag::COMPRESSED | sys_flag::COMPRESSION_TYPE);
    }

    /// The same message with bytes of its own: keeping it does not keep the answer that it came in.
    pub fn detached(&self) -> Self {
        let bytes = self.raw_bytes().to_vec();
        if bytes.is_empty() {
            // Only its place is known: there is nothing to copy.
            return self.clone();
        }
        let from = self.record.start;
        let moved = |(start, end): (u32, u32)| (start.saturating_sub(from), end.saturating_sub(from));
        let record = Record {
            start: 0,
            body: moved(self.record.body),
            topic: moved(self.record.topic),
            properties: moved(self.record.properties),
            ..self.record
        };
        let source =
            Source { bytes, queue: self.source.queue.clone(), namespace: self.source.namespace.clone() };
        Self { source: Arc::new(source), record, ..self.clone() }
    }

    /// Whether the body is still compressed.
    pub fn is_compressed(&self) -> bool {
        self.record.sys_flag & sys_flag::COMPRESSED != 0
    }

    /// The system flag.
    pub fn sys_flag(&self) -> i32 {
        self.record.sys_flag
    }

    /// Where its parts lie.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// What its parts lie in.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Counts retries that the broker does not know of.
    pub fn set_reconsume_times(&mut self, times: u32) {
        self.reconsume_times = Some(times);
    }

    /// The property string.
    pub fn raw_properties(&self) -> &[u8] {
        self.slice(self.record.properties)
    }

    /// The topic it is stored under, which may be that of a retry, namespace included.
    pub fn stored_topic(&self) -> &str {
        std::str::from_utf8(self.slice(self.record.topic)).unwrap_or_default()
    }

    /// The number of the queue it is stored in.
    pub fn stored_queue_id(&self) -> i32 {
        self.fixed(Self::QUEUE_ID).map_or(0, i32::from_be_bytes)
    }

    /// The whole stored message.
    pub fn raw_bytes(&self) -> &[u8] {
        self.slice((self.record.start, self.record.start.saturating_add(self.record.total)))
    }
}

impl MessageView {
    const QUEUE_ID: usize = 12;
    const PHYSICAL_OFFSET: usize = 28;
    const BORN_TIME: usize = 40;
    const BORN_HOST: usize = 48;

    /// Empty when the record is not of this source, which only a mistake of ours could bring about.
    fn slice(&self, (start, end): (u32, u32)) -> &[u8] {
        self.source.bytes.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Bytes of the part with fixed places, which every stored message has.
    fn fixed<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.source.bytes.get(self.record.start as usize + offset..)?.first_chunk().copied()
    }

    fn after_born_host(&self) -> usize {
        Self::BORN_HOST + self.host_len(sys_flag::BORN_HOST_V6)
    }

    fn after_hosts(&self) -> usize {
        self.after_born_host() + 8 + self.host_len(sys_flag::STORE_HOST_V6)
    }

    fn host_len(&self, is_v6: i32) -> usize {
        if self.record.sys_flag & is_v6 != 0 { 20 } else { 8 }
    }

    fn host(&self, offset: usize, is_v6: i32) -> SocketAddr {
        let (ip, port): (IpAddr, Option<[u8; 4]>) = if self.record.sys_flag & is_v6 != 0 {
            (Ipv6Addr::from(self.fixed(offset).unwrap_or([0; 16])).into(), self.fixed(offset + 16))
        } else {
            (Ipv4Addr::from(self.fixed(offset).unwrap_or([0; 4])).into(), self.fixed(offset + 4))
        };
        // The port is stored in four bytes, of which it needs two.
        SocketAddr::new(ip, port.map_or(0, |[_, _, high, low]| u16::from_be_bytes([high, low])))
    }

    fn without_namespace<'a>(&self, topic: &'a str) -> &'a str {
        match &self.source.namespace {
            Some(namespace) => {
                topic.strip_prefix(&**namespace).and_then(|rest| rest.strip_prefix('%')).unwrap_or(topic)
            }
            None => topic,
        }
    }
}

/// The body. With it `bytes::Bytes::from_owner(view)` shares it without a copy.
impl AsRef<[u8]> for MessageView {
    fn as_ref(&self) -> &[u8] {
        self.body()
    }
}

impl fmt::Debug for MessageView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageView")
            .field("topic", &self.topic())
            .field("queue", self.queue())
            .field("queue_offset", &self.queue_offset())
            .field("message_id", &self.message_id())
            .field("tag", &self.tag())
            .field("reconsume_times", &self.reconsume_times())
            .field("body", &BodyPrefix(self.body()))
            .finish_non_exhaustive()
    }
}

/// The id of a stored message: address of the broker and place in its log, in hexadecimal.
pub(crate) fn offset_message_id(host: SocketAddr, commit_log_offset: i64) -> String {
    let mut bytes = Vec::with_capacity(28);
    match host.ip() {
        IpAddr::V4(ip) => bytes.extend_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes.extend_from_slice(&ip.octets()),
    }
    bytes.extend_from_slice(&u32::from(host.port()).to_be_bytes());
    bytes.extend_from_slice(&commit_log_offset.to_be_bytes());
    upper_hex(&bytes)
}

/// Two capital hexadecimal digits a byte.
pub(crate) fn upper_hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    let digit = |value: u8| DIGITS[usize::from(value & 0xF)];
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// Shows the size and the beginning of a body: bodies are private, and long.
pub(super) struct BodyPrefix<'a>(pub &'a [u8]);

impl fmt::Debug for BodyPrefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(16)];
        let more = if shown.len() < self.0.len() { "…" } else { "" };
        write!(f, "{} bytes \"{}{more}\"", self.0.len(), shown.escape_ascii())
    }
}

/// The epoch where the number cannot be a time.
fn time(millis: Option<[u8; 8]>) -> SystemTime {
    let millis = millis.map_or(0, i64::from_be_bytes);
    let distance = Duration::from_millis(millis.unsigned_abs());
    let time = if millis < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    time.unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_and_messages_go_to_other_threads() {
        fn shared<T: Send + Sync + Clone + 'static>() {}
        shared::<MessageView>();
        shared::<Message>();
        shared::<MessageQueue>();
        assert!(size_of::<Record>() <= 64);
    }

    #[test]
    fn times_that_cannot_be_are_the_epoch() {
        assert_eq!(time(None), UNIX_EPOCH);
        assert_eq!(time(Some((-1i64).to_be_bytes())), UNIX_EPOCH - Duration::from_millis(1));
        for millis in [i64::MIN, i64::MAX] {
            let _ = time(Some(millis.to_be_bytes()));
        }
    }

    #[test]
    fn hexadecimal_digits_are_capitals() {
        assert_eq!(upper_hex(&[0x00, 0x7f, 0xab]), "007FAB");
    }
}
