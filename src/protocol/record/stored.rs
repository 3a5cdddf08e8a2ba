use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::walk::{body_crc, read_one};
use super::{MAGIC_V1, MAGIC_V2};
use crate::message::{Message, MessageQueue, MessageView, Source, sys_flag};
use crate::protocol::reader::Reader;
use crate::protocol::{DecodeError, EncodeError};

/// A stored message as a value.
///
/// The checksum and the bits of the system flag that tell IPv6 hosts follow from the rest: writing sees to them, and
/// reading leaves the bits as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage<'a> {
    /// Number of the queue.
    pub queue_id: i32,
    /// The user flag.
    pub flag: i32,
    /// Offset in the queue.
    pub queue_offset: i64,
    /// Place in the log of the broker.
    pub physical_offset: i64,
    /// The system flag.
    pub sys_flag: i32,
    /// When it was sent, in ms since 1970.
    pub born_timestamp: i64,
    /// Where it was sent from.
    pub born_host: SocketAddr,
    /// When it was stored, in ms since 1970.
    pub store_timestamp: i64,
    /// Where it is stored.
    pub store_host: SocketAddr,
    /// How often it was consumed before.
    pub reconsume_times: i32,
    /// Of a committed message: where the half message is.
    pub prepared_transaction_offset: i64,
    /// The body, compressed if the system flag says so.
    pub body: Cow<'a, [u8]>,
    /// The topic.
    pub topic: Cow<'a, str>,
    /// The property string.
    pub properties: Cow<'a, [u8]>,
}

impl Default for StoredMessage<'_> {
    fn default() -> Self {
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Self {
            queue_id: 0,
            flag: 0,
            queue_offset: 0,
            physical_offset: 0,
            sys_flag: 0,
            born_timestamp: 0,
            born_host: nowhere,
            store_timestamp: 0,
            store_host: nowhere,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: Cow::Borrowed(&[]),
            topic: Cow::Borrowed(""),
            properties: Cow::Borrowed(&[]),
        }
    }
}

impl<'a> StoredMessage<'a> {
    /// Reads the stored message that begins here. Inner batches stay whole.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let record = read_one(bytes)?;
        let part = |(from, to): (u32, u32)| bytes.get(from as usize..to as usize).unwrap_or_default();
        let mut reader = Reader::at(bytes, 12);
        let [queue_id, flag] = [reader.i32()?, reader.i32()?];
        let [queue_offset, physical_offset] = [reader.i64()?, reader.i64()?];
        let sys_flag = reader.i32()?;
        Ok(Self {
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag,
            born_timestamp: reader.i64()?,
            born_host: read_host(&mut reader, sys_flag & sys_flag::BORN_HOST_V6 != 0)?,
            store_timestamp: reader.i64()?,
            store_host: read_host(&mut reader, sys_flag & sys_flag::STORE_HOST_V6 != 0)?,
            reconsume_times: reader.i32()?,
            prepared_transaction_offset: reader.i64()?,
            body: part(record.body).into(),
            topic: String::from_utf8_lossy(part(record.topic)),
            properties: part(record.properties).into(),
        })
    }

    /// How many bytes it takes.
    pub fn encoded_len(&self) -> usize {
        let long_topic = usize::from(self.needs_v2());
        let hosts = [self.born_host, self.store_host].iter().filter(|host| host.is_ipv6()).count() * 12;
        91 + long_topic + hosts + self.body.len() + self.topic.len() + self.properties.len()
    }

    /// Appends it. A topic of more than 127 bytes takes the second version.
    ///
    /// # Errors
    /// When the properties are longer than 32767 bytes, or something else is longer than its length field can say.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let total = length::<i32>(self.encoded_len(), "message")?;
        let properties = length::<i16>(self.properties.len(), "property string")?;
        let topic = length::<i16>(self.topic.len(), "topic")?;
        let body = length::<i32>(self.body.len(), "body")?;

        out.reserve(self.encoded_len());
        let magic = if self.needs_v2() { MAGIC_V2 } else { MAGIC_V1 };
        for number in [total, magic, body_crc(&self.body), self.queue_id, self.flag] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&self.queue_offset.to_be_bytes());
        out.extend_from_slice(&self.physical_offset.to_be_bytes());
        out.extend_from_slice(&self.flag_of_hosts().to_be_bytes());
        out.extend_from_slice(&self.born_timestamp.to_be_bytes());
        write_host(out, self.born_host);
        out.extend_from_slice(&self.store_timestamp.to_be_bytes());
        write_host(out, self.store_host);
        out.extend_from_slice(&self.reconsume_times.to_be_bytes());
        out.extend_from_slice(&self.prepared_transaction_offset.to_be_bytes());
        out.extend_from_slice(&body.to_be_bytes());
        out.extend_from_slice(&self.body);
        match i8::try_from(topic) {
            Ok(short) => out.extend_from_slice(&short.to_be_bytes()),
            Err(_) => out.extend_from_slice(&topic.to_be_bytes()),
        }
        out.extend_from_slice(self.topic.as_bytes());
        out.extend_from_slice(&properties.to_be_bytes());
        out.extend_from_slice(&self.properties);
        Ok(())
    }

    /// The same with bytes of its own.
    pub fn into_owned(self) -> StoredMessage<'static> {
        StoredMessage {
            body: Cow::Owned(self.body.into_owned()),
            topic: Cow::Owned(self.topic.into_owned()),
            properties: Cow::Owned(self.properties.into_owned()),
            ..self
        }
    }

    fn needs_v2(&self) -> bool {
        self.topic.len() > 127
    }

    fn flag_of_hosts(&self) -> i32 {
        let bit = |host: SocketAddr, bit| if host.is_ipv6() { bit } else { 0 };
        self.sys_flag & !(sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6)
            | bit(self.born_host, sys_flag::BORN_HOST_V6)
            | bit(self.store_host, sys_flag::STORE_HOST_V6)
    }
}

/// What a consumer would see of the message, for tests of listeners: stored nowhere, at offset 0.
impl From<Message> for MessageView {
    fn from(message: Message) -> Self {
        let queue = message.target().cloned().unwrap_or_else(|| MessageQueue::new(message.topic(), "", 0));
        let mut properties = Vec::new();
        message.write_properties(&mut properties);
        // What a broker would refuse is cut, rather than failing in a conversion that cannot fail.
        properties.truncate(i16::MAX.cast_unsigned().into());
        let stored = StoredMessage {
            queue_id: queue.queue_id(),
            flag: message.flag_value(),
            body: message.body().into(),
            topic: message.topic().into(),
            properties: properties.into(),
            ..StoredMessage::default()
        };
        let mut bytes = Vec::new();
        if let Err(error) = stored.encode(&mut bytes) {
            // Only a body beyond 2 GiB or a topic beyond 32 KiB: neither can be a message.
            log::error!("a message that cannot be sent is shown as an empty one: {error}");
            StoredMessage::default().encode(&mut bytes).expect("an empty message has only short parts");
        }
        let record = read_one(&bytes).expect("what has just been written can be read");
        Self::new(std::sync::Arc::new(Source { bytes, queue, namespace: None }), record)
    }
}

fn length<T: TryFrom<usize>>(length: usize, what: &str) -> Result<T, EncodeError> {
    T::try_from(length).map_err(|_| EncodeError::new(format!("the {what} is too long: {length} bytes")))
}

fn read_host(reader: &mut Reader<'_>, is_v6: bool) -> Result<SocketAddr, DecodeError> {
    let ip: IpAddr = if is_v6 {
        Ipv6Addr::from(reader.array::<16>()?).into()
    } else {
        Ipv4Addr::from(reader.array::<4>()?).into()
    };
    // Four bytes, of which a port needs two.
    let [_, _, high, low] = reader.array()?;
    Ok(SocketAddr::new(ip, u16::from_be_bytes([high, low])))
}

fn write_host(out: &mut Vec<u8>, host: SocketAddr) {
    match host.ip() {
        IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
        IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
    }
    out.extend_from_slice(&u32::from(host.port()).to_be_bytes());
}
