//! What a pull finds in a queue.

use std::io;
use std::ops::Range;

use super::Store;
use super::index::{Entry, Index};

/// From the log's memory a real broker hands out at most this much at once, whatever was asked for
/// (`MessageStoreConfig`): 32 messages, 256 KiB.
const MAX_MESSAGES: usize = 32;
const MAX_BYTES: usize = 256 * 1024;
/// How many offsets one pull looks at, at least, when a filter passes few of them.
const SCAN: usize = 800;
/// Offsets are read from the index in steps, so that a pull without a filter reads what it needs.
const STEP: usize = 64;

/// The outcome of a look-up, by the names of Java's `GetMessageStatus`, which are also the remarks of the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Found,
    NoMatchedMessage,
    NoMatchedLogicQueue,
    NoMessageInQueue,
    OffsetTooSmall,
    OffsetOverflowOne,
    OffsetOverflowBadly,
    OffsetReset,
}

/// Where to go on, and the bounds of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) status: Status,
    pub(crate) next: i64,
    pub(crate) min: i64,
    pub(crate) max: i64,
}

impl Status {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Found => "FOUND",
            Self::NoMatchedMessage => "NO_MATCHED_MESSAGE",
            Self::NoMatchedLogicQueue => "NO_MATCHED_LOGIC_QUEUE",
            Self::NoMessageInQueue => "NO_MESSAGE_IN_QUEUE",
            Self::OffsetTooSmall => "OFFSET_TOO_SMALL",
            Self::OffsetOverflowOne => "OFFSET_OVERFLOW_ONE",
            Self::OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY",
            Self::OffsetReset => "OFFSET_RESET",
        }
    }
}

impl Store {
    /// Collects the entries of the messages from `offset` on that `matches` lets through, up to
    /// `max_messages` of them, in `entries`; their bytes are read by [`Store::read_all`].
    pub(crate) fn look_up(
        &self,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_messages: usize,
        matches: impl Fn(Entry) -> bool,
        entries: &mut Vec<Entry>,
    ) -> io::Result<Found> {
        entries.clear();
        let (min, max) = self.range(topic, queue_id);
        let found = |status, next| Ok(Found { status, next, min, max });
        let Some(index) = self.queue(topic, queue_id) else { return found(Status::NoMatchedLogicQueue, 0) };
        if max == 0 {
            return found(Status::NoMessageInQueue, 0);
        }
        if offset < min {
            return found(Status::OffsetTooSmall, min);
        }
        if offset >= max {
            let by_one = offset == max;
            return found(if by_one { Status::OffsetOverflowOne } else { Status::OffsetOverflowBadly }, max);
        }
        let last = offset.saturating_add_unsigned(SCAN.max(max_messages) as u64).min(max);
        let next = collect(index, offset..last, max_messages.clamp(1, MAX_MESSAGES), matches, entries)?;
        found(if entries.is_empty() { Status::NoMatchedMessage } else { Status::Found }, next)
    }

    /// Appends the records of several entries to `out`, those that lie one after the other with one read.
    pub(crate) fn read_all(&self, entries: &[Entry], out: &mut Vec<u8>) -> io::Result<()> {
        let mut entries = entries.iter().copied().peekable();
        while let Some(first) = entries.next() {
            let mut end = first.position + u64::from(first.size);
            while let Some(next) = entries.next_if(|next| next.position == end) {
                end += u64::from(next.size);
            }
            self.log.read(first.position, (end - first.position) as usize, out)?;
        }
        Ok(())
    }
}

/// Returns the offset to go on at.
fn collect(
    index: &Index,
    offsets: Range<i64>,
    limit: usize,
    matches: impl Fn(Entry) -> bool,
    entries: &mut Vec<Entry>,
) -> io::Result<i64> {
    let (mut next, mut bytes) = (offsets.start, 0);
    while next < offsets.end && entries.len() < limit {
        let left = usize::try_from(offsets.end - next).unwrap_or(STEP);
        for entry in index.scan(next, left.min(STEP).min(limit))? {
            if matches(entry) {
                bytes += entry.size as usize;
                if entries.len() >= limit || (!entries.is_empty() && bytes > MAX_BYTES) {
                    return Ok(next);
                }
                entries.push(entry);
            }
            next += 1;
        }
    }
    Ok(next)
}
