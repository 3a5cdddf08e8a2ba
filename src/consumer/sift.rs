//! From the bytes of a pull answer to a run: which messages passed the filter, and what the answer covers. Pure.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::offset::Offset;
use super::run::Run;
use crate::message::{MessageQueue, Record, Source, Subscription};
use crate::protocol::{self, BadRecord};

/// What an answer with messages contained.
#[derive(Debug)]
pub struct Sifted {
    /// What is to be consumed.
    pub run: Run,
    /// Why the rest of the bytes could not be read, if so. The run ends before it.
    pub broken: Option<String>,
}

/// What was asked, and how the broker answered.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// The offset that the pull began at.
    pub from: Offset,
    /// Where the broker says to go on.
    pub next: Offset,
    /// To be added to each offset (static topics).
    pub offset_delta: i64,
}

/// Walks the messages in `bytes[body]` once.
///
/// An answer must ascend and begin where it was asked to, except that a pull into the middle of an inner batch brings its earlier
/// elements again: those are finished already.
///
/// # Errors
/// The answer makes no sense: consuming on would lose messages or never end.
pub fn sift(
    bytes: Vec<u8>,
    body: Range<usize>,
    queue: &MessageQueue,
    namespace: Option<Arc<str>>,
    subscription: &Subscription,
    asked: Asked,
    now: Instant,
) -> Result<Sifted, String> {
    let Asked { from: asked, next, offset_delta } = asked;
    let walk = protocol::records(&bytes, body);
    let mut records: Vec<Record> = Vec::with_capacity(walk.expected());
    let mut unreadable = Vec::new();
    let mut broken = None;
    let mut last: Option<i64> = None;
    for record in walk {
        let (record, readable) = match record {
            Ok(record) => (record, true),
            Err(bad) => match place_of(&bad) {
                Some(record) => (record, false),
                None => {
                    broken = Some(bad.to_string());
                    break;
                }
            },
        };
        let offset = record.queue_offset.saturating_add(offset_delta);
        if let Some(last) = last
            && offset <= last
        {
            return Err(format!("offset {offset} follows {last}"));
        }
        last = Some(offset);
        if offset >= asked.wire() && (!readable || passes(&bytes, &record, subscription)) {
            if !readable {
                unreadable.push(u32::try_from(records.len()).unwrap_or(u32::MAX));
            }
            records.push(Record { queue_offset: offset, ..record });
        }
    }
    let next = match (&broken, last) {
        // Nothing beyond what was read may count as finished.
        (Some(_), last) => {
            last.and_then(|last| Offset::new(last.saturating_add(1))).unwrap_or(asked).max(asked)
        }
        (None, Some(last)) if next.wire() <= last => {
            return Err(format!("the broker sent offset {last} and says to go on at {next}"));
        }
        (None, _) if next <= asked => {
            return Err(format!("the broker sent nothing new and says to go on at {next}"));
        }
        (None, _) => next,
    };
    let source = Arc::new(Source { bytes, queue: queue.clone(), namespace });
    let run = Run::new(source, records.into_boxed_slice(), next, now).with_unreadable(unreadable);
    Ok(Sifted { run, broken })
}

/// A message that cannot be read still has its place, if that much of it can be told: then it is one failed message.
fn place_of(bad: &BadRecord) -> Option<Record> {
    if bad.rest_lost || bad.commit_log_offset.is_none() {
        return None;
    }
    Some(Record {
        start: u32::try_from(bad.start).ok()?,
        total: 0,
        body: (0, 0),
        topic: (0, 0),
        properties: (0, 0),
        queue_offset: bad.queue_offset?,
        sys_flag: 0,
        flag: 0,
    })
}

/// The broker compares hashes of tags only; here the text decides.
fn passes(bytes: &[u8], record: &Record, subscription: &Subscription) -> bool {
    if subscription.takes_all() {
        return true;
    }
    let (start, end) = record.properties;
    subscription.matches(bytes.get(start as usize..end as usize).unwrap_or_default())
}
