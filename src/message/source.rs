use std::sync::Arc;

use super::MessageQueue;

/// Where the parts of one stored message lie in the bytes of its [`Source`]. Ranges are (first, one past the last).
///
/// For an element of an inner batch `start` and `total` are those of the outer message; body, properties and flag are
/// the element's, and the topic, hosts and times are the outer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where the stored message begins.
    pub start: u32,
    /// How long it is.
    pub total: u32,
    /// Its body.
    pub body: (u32, u32),
    /// Its topic.
    pub topic: (u32, u32),
    /// Its property string.
    pub properties: (u32, u32),
    /// Its offset in the queue.
    pub queue_offset: i64,
    /// Its system flag.
    pub sys_flag: i32,
    /// Its user flag.
    pub flag: i32,
}

#[cfg(test)]
impl Record {
    /// A message of nothing but its offset and length.
    pub(crate) fn empty(queue_offset: i64, total: u32) -> Self {
        Self {
            start: 0,
            total,
            body: (0, 0),
            topic: (0, 0),
            properties: (0, 0),
            queue_offset,
            sys_flag: 0,
            flag: 0,
        }
    }
}

/// The bytes that messages live in (a whole answer, or one encoded message). Their views keep it alive.
#[derive(Debug)]
pub struct Source {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The queue that the messages came from, as the program knows it.
    pub queue: MessageQueue,
    /// The namespace to take off topics (the old kind, `namespace%topic`).
    pub namespace: Option<Arc<str>>,
}
