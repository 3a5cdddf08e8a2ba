//! One pull answer, from decoding to commit.

use std::sync::Arc;
use std::time::Instant;

use super::claims::Claims;
use super::offset::Offset;
use crate::message::{MessageView, Record, Source};

/// What one pull brought: the messages that passed the filter, and the range of offsets that the answer covers. It is
/// one object for consume threads to claim from, so that nothing is allocated, sent or locked per message.
#[derive(Debug)]
pub struct Run {
    source: Arc<Source>,
    records: Box<[Record]>,
    /// Places of messages whose bytes cannot be read.
    unreadable: Box<[u32]>,
    next: Offset,
    /// When it arrived.
    born: Instant,
    /// Who takes which message, and which are done.
    pub claims: Claims,
}

impl Run {
    /// `records` are in ascending order of offset, all below `next`.
    pub fn new(source: Arc<Source>, records: Box<[Record]>, next: Offset, born: Instant) -> Self {
        let len = u32::try_from(records.len()).unwrap_or(u32::MAX);
        Self { source, claims: Claims::new(len), records, unreadable: Box::default(), next, born }
    }

    /// The same, with these places taken by messages whose bytes cannot be read: only their place is known.
    pub fn with_unreadable(self, unreadable: Vec<u32>) -> Self {
        Self { unreadable: unreadable.into_boxed_slice(), ..self }
    }

    /// Whether the bytes of this one cannot be read.
    pub fn is_unreadable(&self, index: u32) -> bool {
        self.unreadable.contains(&index)
    }

    /// One past the last offset it covers, filtered ones included.
    pub fn next(&self) -> Offset {
        self.next
    }

    /// When it arrived.
    pub fn born(&self) -> Instant {
        self.born
    }

    /// How many messages passed the filter.
    pub fn len(&self) -> u32 {
        self.claims.len()
    }

    /// Whether none did.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The memory it holds: the whole frame.
    pub fn bytes(&self) -> usize {
        if self.records.is_empty() { 0 } else { self.source.bytes.len() }
    }

    /// The view of one message.
    pub fn view(&self, index: u32) -> Option<MessageView> {
        self.records.get(index as usize).map(|record| MessageView::new(self.source.clone(), *record))
    }

    /// Makes a view of another message of this run one of that message. Whether it could.
    pub fn turn(&self, view: &mut MessageView, index: u32) -> bool {
        let record = self.records.get(index as usize).filter(|_| Arc::ptr_eq(view.source(), &self.source));
        record.map(|record| view.turn_to(*record)).is_some()
    }

    /// The offset of one message.
    pub fn offset_of(&self, index: u32) -> Offset {
        // The pull thread has checked that no offset lies below the one it asked for.
        self.records
            .get(index as usize)
            .and_then(|record| Offset::new(record.queue_offset))
            .unwrap_or(self.next)
    }
}
