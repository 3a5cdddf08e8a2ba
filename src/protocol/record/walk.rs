use std::fmt;
use std::ops::Range;

use super::{MAGIC_V1, MAGIC_V2, batch};
use crate::message::{Record, sys_flag};
use crate::protocol::reader::Reader;
use crate::protocol::{Compression, DecodeError, inflate};

/// The shortest stored message: no body, no topic, no properties, both hosts IPv4.
const SHORTEST: usize = 91;

/// Walks over the stored messages in a part of some bytes, usually the body of a frame. Inner batches come out as their
/// elements, unless they are compressed (see [`inflate_batch`]).
///
/// A message that cannot be read costs that message only, as long as its length still leads to the next one.
pub fn records(bytes: &[u8], range: Range<usize>) -> Records<'_> {
    let end = range.end.min(bytes.len());
    Records {
        bytes: bytes.get(..end).unwrap_or_default(),
        at: range.start.min(end),
        inner: None,
        stopped: None,
    }
}

/// See [`records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    inner: Option<Inner>,
    stopped: Option<usize>,
}

/// What is left of an inner batch.
#[derive(Clone, Debug)]
struct Inner {
    outer: Record,
    at: usize,
    end: usize,
    index: i64,
}

/// A message that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// What is wrong with it.
    pub error: DecodeError,
    /// Where it begins, in the bytes that are walked over.
    pub start: usize,
    /// Its offset in the queue, as far as that can be told.
    pub queue_offset: Option<i64>,
    /// Its place in the log of the broker, as far as that can be told.
    pub commit_log_offset: Option<i64>,
    /// Whether its length is wrong too, so that nothing behind it can be found.
    pub rest_lost: bool,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.queue_offset {
            Some(offset) => write!(f, "message at offset {offset}: {}", self.error)?,
            None => write!(f, "message at byte {}: {}", self.start, self.error)?,
        }
        f.write_str(if self.rest_lost { ", and nothing behind it can be read" } else { "" })
    }
}

impl std::error::Error for BadRecord {}

impl Records<'_> {
    /// Where the walk could not go on, if that is so.
    pub fn stopped_at(&self) -> Option<usize> {
        self.stopped
    }

    /// How many messages there are if all are as long as the next one, so that a list of them need not grow. Never
    /// more than there is room for.
    pub fn expected(&self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        cut(rest).map_or(0, |first| rest.len() / first.len())
    }

    fn next_stored(&mut self) -> Option<Result<Record, BadRecord>> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let start = self.at;
        let Some((message, start_number)) = cut(rest).zip(u32::try_from(start).ok()) else {
            self.at = self.bytes.len();
            self.stopped = Some(start);
            let error = DecodeError::new("the length of the message is wrong").at(start);
            return Some(Err(BadRecord {
                error,
                start,
                queue_offset: None,
                commit_log_offset: None,
                rest_lost: true,
            }));
        };
        self.at += message.len();
        match read(message, start_number) {
            Ok(record) if is_open_batch(&record) => {
                self.inner = Some(Inner {
                    outer: record,
                    at: record.body.0 as usize,
                    end: record.body.1 as usize,
                    index: 0,
                });
                self.next()
            }
            Ok(record) => Some(Ok(record)),
            Err(error) => Some(Err(bad_message(message, start, error))),
        }
    }

    fn next_element(&mut self, mut inner: Inner) -> Option<Result<Record, BadRecord>> {
        let body = self.bytes.get(..inner.end).unwrap_or_default();
        if inner.at >= body.len() {
            return None;
        }
        let queue_offset = inner.outer.queue_offset.saturating_add(inner.index);
        match batch::element(body, inner.at) {
            Ok(element) => {
                let record = Record {
                    body: element.body,
                    properties: element.properties,
                    flag: element.flag,
                    queue_offset,
                    sys_flag: inner.outer.sys_flag & !(sys_flag::NEED_UNWRAP | sys_flag::INNER_BATCH),
                    ..inner.outer
                };
                inner.at = element.end;
                inner.index += 1;
                self.inner = Some(inner);
                Some(Ok(record))
            }
            Err(error) => {
                let start = inner.outer.start as usize;
                let message = self.bytes.get(start..).unwrap_or_default();
                let bad = bad_message(message, start, error.within("inner batch"));
                Some(Err(BadRecord { queue_offset: Some(queue_offset), ..bad }))
            }
        }
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, BadRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(inner) = self.inner.take()
            && let Some(element) = self.next_element(inner)
        {
            return Some(element);
        }
        self.next_stored()
    }
}

/// What a broker writes as the checksum of a body.
pub fn body_crc(body: &[u8]) -> i32 {
    (crc32fast::hash(body) & 0x7FFF_FFFF).cast_signed()
}

/// Compares the body of a stored message with its checksum. That of an element of an inner batch cannot be compared
/// alone: it passes.
///
/// # Errors
/// When they differ.
pub fn verify_body(bytes: &[u8], record: &Record) -> Result<(), DecodeError> {
    let start = record.start as usize;
    let stored = Reader::at(bytes, start + 8).i32()?;
    let whole = read(Reader::at(bytes, start).take(record.total as usize)?, record.start)?;
    let body = bytes.get(record.body.0 as usize..record.body.1 as usize).unwrap_or_default();
    if whole.body != record.body || body_crc(body) == stored {
        return Ok(());
    }
    Err(DecodeError::new("the body does not agree with its checksum").at(record.body.0 as usize))
}

/// The stored message with its body inflated: [`records`] takes an inner batch apart then.
///
/// # Errors
/// When the body cannot be inflated, or is longer than the limit.
pub fn inflate_batch(bytes: &[u8], record: &Record, limit: usize) -> Result<Vec<u8>, DecodeError> {
    let start = record.start as usize;
    let part = |from: u32, to: u32| {
        bytes
            .get(from as usize..to as usize)
            .ok_or_else(|| DecodeError::new("ends too early").at(bytes.len()))
    };
    let body = inflate(Compression::of(record.sys_flag)?, part(record.body.0, record.body.1)?, limit)?;
    let mut out = part(record.start, record.body.0)?.to_vec();
    out.extend_from_slice(&body);
    out.extend_from_slice(part(record.body.1, record.start.saturating_add(record.total))?);
    let sys_flag = record.sys_flag & !(sys_flag::COMPRESSED | sys_flag::COMPRESSION_TYPE);
    for (at, number) in [
        (0, length(out.len())?),
        (8, body_crc(&body)),
        (36, sys_flag),
        ((record.body.0 as usize).saturating_sub(start + 4), length(body.len())?),
    ] {
        if let Some(slot) = out.get_mut(at..at + 4) {
            slot.copy_from_slice(&number.to_be_bytes());
        }
    }
    Ok(out)
}

fn length(length: usize) -> Result<i32, DecodeError> {
    i32::try_from(length).map_err(|_| DecodeError::new("too long"))
}

/// The parts of the stored message that begins here.
pub(super) fn read_one(bytes: &[u8]) -> Result<Record, DecodeError> {
    read(cut(bytes).ok_or_else(|| DecodeError::new("the length of the message is wrong").at(0))?, 0)
}

/// The first of some stored messages, if its length can be right.
fn cut(rest: &[u8]) -> Option<&[u8]> {
    let total = usize::try_from(i32::from_be_bytes(*rest.first_chunk()?)).ok()?;
    if total < SHORTEST { None } else { rest.get(..total) }
}

/// Finds the parts of one stored message. This is the inner loop of consuming: what has a fixed place is read from a
/// piece of known size, so that the bounds are checked once.
fn read(message: &[u8], start: u32) -> Result<Record, DecodeError> {
    let fixed: &[u8; 40] = message.first_chunk().ok_or_else(|| ends_early(start, message))?;
    if u32::try_from(message.len()).ok().and_then(|length| start.checked_add(length)).is_none() {
        return Err(DecodeError::new("lies beyond 4 GiB").at(start as usize));
    }
    let magic = i32_at(fixed, 4);
    if magic != MAGIC_V1 && magic != MAGIC_V2 {
        return Err(unknown_version(magic, start));
    }
    let sys_flag = i32_at(fixed, 36);
    let host = |v6: i32| if sys_flag & v6 != 0 { 20 } else { 8 };
    // Two times, two hosts, the count of retries, the place of a half message.
    let body_length = 40 + 8 + host(sys_flag::BORN_HOST_V6) + 8 + host(sys_flag::STORE_HOST_V6) + 4 + 8;

    let mut parts = Parts { message, at: body_length, start };
    let length = i32::from_be_bytes(parts.array()?);
    let body = parts.range(length)?;
    let length = if magic == MAGIC_V1 {
        u8::from_be_bytes(parts.array()?).into()
    } else {
        i16::from_be_bytes(parts.array()?).into()
    };
    let topic = parts.range(length)?;
    let length = i16::from_be_bytes(parts.array()?);
    let properties = parts.range(length.into())?;

    let text = message.get((topic.0 - start) as usize..(topic.1 - start) as usize).unwrap_or_default();
    if !text.is_ascii() && std::str::from_utf8(text).is_err() {
        return Err(DecodeError::new("the topic is not UTF-8").at(topic.0 as usize));
    }
    Ok(Record {
        start,
        total: i32_at(fixed, 0).cast_unsigned(),
        body,
        topic,
        properties,
        queue_offset: i64::from(i32_at(fixed, 20)) << 32 | i64::from(i32_at(fixed, 24).cast_unsigned()),
        sys_flag,
        flag: i32_at(fixed, 16),
    })
}

/// The parts of a message whose place depends on those before.
struct Parts<'a> {
    message: &'a [u8],
    at: usize,
    start: u32,
}

impl Parts<'_> {
    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let rest = self.message.get(self.at..).unwrap_or_default();
        let array = *rest.first_chunk().ok_or_else(|| ends_early(self.start, self.message))?;
        self.at += N;
        Ok(array)
    }

    /// So many bytes, as a range in the bytes that the message is in.
    #[inline]
    fn range(&mut self, length: i32) -> Result<(u32, u32), DecodeError> {
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let end = end.filter(|end| *end <= self.message.len()).ok_or_else(|| self.wrong_length(length))?;
        let from = std::mem::replace(&mut self.at, end);
        // Both are within the message, whose end has been checked to be a `u32`.
        Ok((self.start.wrapping_add(from as u32), self.start.wrapping_add(end as u32)))
    }

    #[cold]
    fn wrong_length(&self, length: i32) -> DecodeError {
        DecodeError::new(format!("a part of {length} bytes does not fit into the message"))
            .at(self.start as usize + self.at)
    }
}

#[inline]
fn i32_at(fixed: &[u8; 40], at: usize) -> i32 {
    fixed.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| i32::from_be_bytes(*bytes))
}

#[cold]
fn ends_early(start: u32, message: &[u8]) -> DecodeError {
    DecodeError::new("ends too early").at(start as usize + message.len())
}

#[cold]
fn unknown_version(magic: i32, start: u32) -> DecodeError {
    DecodeError::new(format!("unknown version mark {magic:#x}")).at(start as usize + 4)
}

fn is_open_batch(record: &Record) -> bool {
    const BATCH: i32 = sys_flag::NEED_UNWRAP | sys_flag::INNER_BATCH;
    record.sys_flag & BATCH == BATCH && record.sys_flag & sys_flag::COMPRESSED == 0
}

/// Version marks other than the known two say nothing about where the offsets are.
fn bad_message(message: &[u8], start: usize, error: DecodeError) -> BadRecord {
    let known = matches!(Reader::at(message, 4).i32(), Ok(MAGIC_V1 | MAGIC_V2));
    let offset = |at| if known { Reader::at(message, at).i64().ok() } else { None };
    BadRecord { error, start, queue_offset: offset(20), commit_log_offset: offset(28), rest_lost: false }
}
