//! Names of message properties, and the string that carries them: `name 0x01 value 0x02 name 0x01 value 0x02 …`.
//!
//! Brokers disagree about the last 0x02, so it may be missing. An entry with an empty name or value does not count. Of
//! two entries with one name the last one counts, since brokers append to strings they have not taken apart.

/// Ends a name.
pub const NAME_END: u8 = 1;
/// Ends a value.
pub const VALUE_END: u8 = 2;

macro_rules! names {
    ($($(#[$meta:meta])* $constant:ident = $name:literal),* $(,)?) => {
        $($(#[$meta])* pub const $constant: &str = $name;)*

        /// Whether RocketMQ itself uses this name, so that it is not for programs to choose.
        pub fn is_reserved(name: &str) -> bool {
            name.starts_with("__RMQ.TRANSIENT.") || matches!(name, $($name)|*)
        }
    };
}

names! {
    /// Index keys, separated by spaces.
    KEYS = "KEYS",
    /// The tag.
    TAGS = "TAGS",
    /// Whether the broker answers only when the message is stored as safely as it is set up to.
    WAIT = "WAIT",
    /// Delay level, 1 to 18.
    DELAY = "DELAY",
    /// The topic that a message in a retry topic was sent to.
    RETRY_TOPIC = "RETRY_TOPIC",
    /// The topic that a delayed or half message is for.
    REAL_TOPIC = "REAL_TOPIC",
    /// The queue that a delayed or half message is for.
    REAL_QID = "REAL_QID",
    /// `true` on a half message.
    TRAN_MSG = "TRAN_MSG",
    /// The group of the producer of a transaction.
    PGROUP = "PGROUP",
    /// First offset of the queue when the message was pulled; set by Java clients.
    MIN_OFFSET = "MIN_OFFSET",
    /// End of the queue when the message was pulled; set by Java clients.
    MAX_OFFSET = "MAX_OFFSET",
    /// Obsolete.
    BUYER_ID = "BUYER_ID",
    /// Broker id of the first delivery; stays the same over retries.
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID",
    /// Obsolete.
    TRANSFER_FLAG = "TRANSFER_FLAG",
    /// Obsolete.
    CORRECTION_FLAG = "CORRECTION_FLAG",
    /// Obsolete.
    MQ2_FLAG = "MQ2_FLAG",
    /// How often the message was consumed before, on retries that a client sent itself.
    RECONSUME_TIME = "RECONSUME_TIME",
    /// The most retries, on retries that a client sent itself.
    MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES",
    /// Region of the broker.
    MSG_REGION = "MSG_REGION",
    /// Whether the broker wants traces.
    TRACE_ON = "TRACE_ON",
    /// The producer's message id.
    UNIQ_KEY = "UNIQ_KEY",
    /// More for the producer's message id.
    EXTEND_UNIQ_INFO = "EXTEND_UNIQ_INFO",
    /// When the listener began, in ms; set by Java clients.
    CONSUME_START_TIME = "CONSUME_START_TIME",
    /// How many messages an inner batch has.
    INNER_NUM = "INNER_NUM",
    /// The first offset of an inner batch.
    INNER_BASE = "INNER_BASE",
    /// Reserved.
    DUP_INFO = "DUP_INFO",
    /// Seconds before a half message is first asked about.
    CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS",
    /// Offset of the original half message.
    TRAN_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET",
    /// Id of the transaction (brokers 5.x).
    TRANSACTION_ID = "__transactionId__",
    /// How often the producer was asked about a half message.
    TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES",
    /// Namespace of cloud clients.
    INSTANCE_ID = "INSTANCE_ID",
    /// Joins a reply to its request.
    CORRELATION_ID = "CORRELATION_ID",
    /// Client id of the requester.
    REPLY_TO_CLIENT = "REPLY_TO_CLIENT",
    /// How long the requester waits, in ms.
    TTL = "TTL",
    /// When a reply came; set by Java clients.
    ARRIVE_TIME = "ARRIVE_TIME",
    /// When the broker passed a reply on.
    PUSH_REPLY_TIME = "PUSH_REPLY_TIME",
    /// Name of the cluster.
    CLUSTER = "CLUSTER",
    /// `reply` on replies.
    MSG_TYPE = "MSG_TYPE",
    /// Receipt handle of a popped message.
    POP_CK = "POP_CK",
    /// Offset to acknowledge a popped message with.
    POP_CK_OFFSET = "POP_CK_OFFSET",
    /// When the message was first popped.
    FIRST_POP_TIME = "1ST_POP_TIME",
    /// Key of ordered sending: the same key, the same queue.
    SHARDING_KEY = "__SHARDINGKEY",
    /// Forwarding.
    FORWARD_QUEUE_ID = "PROPERTY_FORWARD_QUEUE_ID",
    /// Forwarding.
    REDIRECT = "REDIRECT",
    /// Light queues: their names.
    INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH",
    /// Light queues: their offsets.
    INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET",
    /// Reserved.
    TRACE_CONTEXT = "TRACE_CONTEXT",
    /// Deliver after so many seconds (brokers 5.x).
    TIMER_DELAY_SEC = "TIMER_DELAY_SEC",
    /// Deliver after so many ms (brokers 5.x).
    TIMER_DELAY_MS = "TIMER_DELAY_MS",
    /// Deliver at this time, in ms since 1970 (brokers 5.x).
    TIMER_DELIVER_MS = "TIMER_DELIVER_MS",
    /// Timers of the broker.
    TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS",
    /// Timers of the broker.
    TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS",
    /// Timers of the broker.
    TIMER_OUT_MS = "TIMER_OUT_MS",
    /// Timers of the broker.
    TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES",
    /// Timers of the broker.
    TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY",
    /// Timers of the broker.
    TIMER_DELAY_LEVEL = "TIMER_DELAY_LEVEL",
    /// Timers of the broker.
    TIMER_ROLL_LABEL = "TIMER_ROLL_LABEL",
    /// Real sender, set by proxies.
    BORN_HOST = "__BORNHOST",
    /// Real sending time, set by proxies.
    BORN_TIMESTAMP = "BORN_TIMESTAMP",
    /// Checksum of a whole message.
    CRC32 = "__CRC32#",
    /// Group of a popped message in its retry topic.
    ORIGIN_GROUP = "ORIGIN_GROUP",
    /// Light topics.
    LITE_TOPIC = "__LITE_TOPIC",
    /// Priorities.
    PRIORITY = "_SYS_MSG_PRIORITY_",
    /// Transactions of 5.5.
    TRANS_OFFSET = "TRANS_OFFSET",
    /// Timer engine.
    TIMER_ENGINE = "E_T",
    /// Topic that a dead letter was sent to.
    DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC",
    /// Id that a dead letter was sent with.
    DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID",
}

/// The value of a property, without allocation. Searches from the end, since the last of two entries counts.
pub fn find<'a>(bytes: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut rest = bytes;
    loop {
        rest = rest.strip_suffix(&[VALUE_END]).unwrap_or(rest);
        if rest.is_empty() {
            return None;
        }
        let start = rfind(rest, VALUE_END).map_or(0, |end| end + 1);
        let (before, entry) = rest.split_at(start);
        match entry.strip_prefix(name.as_bytes()) {
            Some([NAME_END, value @ ..]) if !value.is_empty() => return Some(value),
            _ => rest = before,
        }
    }
}

/// As [`find`], for a value that is text; `None` also when it is not UTF-8.
pub fn find_str<'a>(bytes: &'a [u8], name: &str) -> Option<&'a str> {
    find(bytes, name).and_then(|value| std::str::from_utf8(value).ok())
}

/// All entries in the order of the wire, duplicates included, names and values as bytes.
pub fn entries(bytes: &[u8]) -> Entries<'_> {
    Entries { rest: bytes }
}

/// See [`entries`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let (entry, rest) = split(self.rest, VALUE_END).unwrap_or((self.rest, &[]));
            self.rest = rest;
            match split(entry, NAME_END) {
                Some((name, value)) if !name.is_empty() && !value.is_empty() => return Some((name, value)),
                _ => {}
            }
        }
        None
    }
}

/// Every property once, with the value that counts; entries that are not UTF-8 are left out.
pub fn parse(bytes: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let mut entries = entries(bytes);
    std::iter::from_fn(move || {
        loop {
            let (name, value) = entries.next()?;
            if entries.clone().any(|(later, _)| later == name) {
                continue;
            }
            if let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) {
                return Some((name, value));
            }
        }
    })
}

/// Appends one entry, with its closing 0x02.
pub fn push(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.push(NAME_END);
    out.extend_from_slice(value.as_bytes());
    out.push(VALUE_END);
}

/// Appends entries to a string that may lack its last 0x02.
pub fn append<'a>(out: &mut Vec<u8>, entries: impl IntoIterator<Item = (&'a str, &'a str)>) {
    if out.last().is_some_and(|&last| last != VALUE_END) {
        out.push(VALUE_END);
    }
    for (name, value) in entries {
        push(out, name, value);
    }
}

/// What comes before and after the first such byte.
fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let position = bytes.iter().position(|&byte| byte == at)?;
    let (before, after) = bytes.split_at(position);
    Some((before, after.get(1..)?))
}

/// Where the last such byte is; eight bytes at a time, since every message of a filtered topic passes here.
fn rfind(bytes: &[u8], wanted: u8) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let pattern = LOW * u64::from(wanted);
    let mut end = bytes.len();
    while let Some(word) = bytes.get(..end).and_then(<[u8]>::last_chunk::<8>) {
        let differs = u64::from_be_bytes(*word) ^ pattern;
        // A byte that is zero borrows into its top bit. Borrows from below may mark the byte above a true hit as well,
        // so the byte is looked for again; without any mark there is none.
        if differs.wrapping_sub(LOW) & !differs & (LOW << 7) != 0 {
            break;
        }
        end -= 8;
    }
    bytes.get(..end)?.iter().rposition(|&byte| byte == wanted)
}

#[cfg(test)]
mod tests;
