//! What `stats()` shows.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use crate::client::TimeStats;
use crate::message::{ConsumeFrom, MessageQueue};

/// Why a queue starts at the offset it starts at.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StartReason {
    /// The group has consumed it before: the offset stored by the broker.
    Stored,
    /// The group has no stored offset: the setting of the consumer.
    ConsumeFrom(ConsumeFrom),
    /// A retry topic without stored offset starts at its beginning, so that no retry is lost.
    RetryTopic,
    /// The program keeps its offsets itself, and gave this one.
    StartOffset,
    /// The program went there.
    Seek,
    /// An operator's reset.
    Reset,
    /// The broker said that the former offset does not exist.
    Corrected,
    /// The queue went on after its process queue was rebuilt.
    Rebuilt,
}

impl StartReason {
    /// In words, for a line about a start at this offset.
    pub(crate) fn explain(&self, offset: i64) -> Cow<'static, str> {
        match self {
            Self::Stored if offset == 0 => {
                "the stored offset of the group, or it has none: while a queue is young, brokers say 0 for both".into()
            }
            reason => reason.to_string().into(),
        }
    }
}

impl fmt::Display for StartReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored => f.write_str("the stored offset of the group"),
            Self::ConsumeFrom(from) => {
                write!(f, "the group has no stored offset, and the setting is {from:?}")
            }
            Self::RetryTopic => f.write_str("a retry topic without stored offset"),
            Self::StartOffset => f.write_str("the program's own offset"),
            Self::Seek => f.write_str("the program went there"),
            Self::Reset => f.write_str("reset by an operator"),
            Self::Corrected => f.write_str("corrected by the broker"),
            Self::Rebuilt => f.write_str("where it was before it was rebuilt"),
        }
    }
}

/// Why a queue that is owned is not pulling.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// It holds as many unfinished messages, bytes, or messages since the oldest unfinished one as it may.
    FlowControl,
    /// All queues of the client together hold as many bytes as they may.
    CacheLimit,
    /// The consumer is suspended.
    Suspended,
    /// It is consumed in order, and the lock of its broker is another member's, or not certain.
    NoLock,
    /// The program has paused it.
    Paused,
    /// No route to its broker is known.
    NoRoute,
    /// Its broker has not confirmed the subscription yet.
    NoHeartbeat,
    /// It is given up: running listeners finish.
    Revoking,
    /// Its start position is not known yet.
    Resolving,
    /// Until then, as the pull interval or the back-off says.
    Until(SystemTime),
    /// The last attempts failed.
    Failing(String),
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FlowControl => f.write_str("as many unfinished messages as it may hold"),
            Self::CacheLimit => f.write_str("the client's cache is full"),
            Self::Suspended => f.write_str("suspended"),
            Self::NoLock => f.write_str("the lock of its broker is not certain"),
            Self::Paused => f.write_str("paused by the program"),
            Self::NoRoute => f.write_str("no route to its broker"),
            Self::NoHeartbeat => f.write_str("its broker has not confirmed the subscription yet"),
            Self::Revoking => f.write_str("given up, running listeners finish"),
            Self::Resolving => f.write_str("its start position is not known yet"),
            Self::Until(time) => match time.duration_since(SystemTime::now()) {
                Ok(left) => write!(f, "waiting for another {left:.1?}"),
                Err(_) => f.write_str("about to pull"),
            },
            Self::Failing(why) => f.write_str(why),
        }
    }
}

/// A moment of a consumer. Counts are since its start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConsumerStats {
    /// The queues it owns, in order, those included that wait for their lock or their start position.
    pub queues: Vec<QueueStats>,
    /// Consume threads.
    pub threads: usize,
    /// Those inside a listener.
    pub busy_threads: usize,
    /// Messages that pulls brought, without those that the filter dropped.
    pub pulled: u64,
    /// Messages that listeners accepted, or that were handed to threads that poll.
    pub succeeded: u64,
    /// Messages that listeners did not accept.
    pub failed: u64,
    /// Failed messages that a broker holds for a retry.
    pub reconsumed: u64,
    /// Messages that became dead letters.
    pub dead_letters: u64,
    /// Messages that a broadcasting consumer gave up after their retries: nobody keeps them.
    pub given_up: u64,
    /// Messages fetched and not finished.
    pub cached_messages: usize,
    /// Bytes of the answers that they came in.
    pub cached_bytes: usize,
    /// How long listener calls took.
    pub listener_time: TimeStats,
    /// How long messages waited here for a consume thread.
    pub wait_time: TimeStats,
    /// The topics that are or were subscribed, the retry topic included.
    pub topics: Vec<TopicStats>,
}

/// A moment of one topic. Counts are since the start of the consumer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TopicStats {
    /// The topic.
    pub topic: String,
    /// Messages that pulls brought, without those that the filter dropped.
    pub pulled: u64,
    /// Messages that listeners accepted.
    pub succeeded: u64,
    /// Messages that listeners did not accept.
    pub failed: u64,
    /// Over the last minute.
    pub minute: TopicRates,
    /// Over the last hour.
    pub hour: TopicRates,
    /// Over the last day.
    pub day: TopicRates,
}

/// How fast a topic is consumed, over some time: the figures that the Java client shows to operators, from samples
/// taken as often as there. A time that is not over yet counts as far as it goes, but at least as one sixth of a
/// minute or hour, or as one hour of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TopicRates {
    /// Messages that listeners accepted, per second. Java: `consumeOKTPS`.
    pub succeeded_per_second: f64,
    /// Messages that listeners did not accept. Java: `consumeFailedMsgs`, of the hour.
    pub failed: u64,
    /// The same per second. Java: `consumeFailedTPS`.
    pub failed_per_second: f64,
    /// The mean time of a listener call. Java: `consumeRT`.
    pub listener_time: Duration,
    /// Messages that pulls brought, per second. Java: `pullTPS`.
    pub pulled_per_second: f64,
    /// The mean time of a pull that found something; brokers hold one until there is something. Java: `pullRT`.
    pub pull_time: Duration,
}

/// A moment of one owned queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueStats {
    /// The queue.
    pub queue: MessageQueue,
    /// Unlike that of every other assignment of this process.
    pub generation: u64,
    /// The offset of the next pull.
    pub position: i64,
    /// What the broker has confirmed.
    pub committed: Option<i64>,
    /// The end of the queue as of the last answer.
    pub max_offset: Option<i64>,
    /// From the oldest unfinished message to the end of the queue.
    pub lag: Option<u64>,
    /// Messages fetched and not finished.
    pub cached_messages: usize,
    /// Bytes of the answers that they came in.
    pub cached_bytes: usize,
    /// Messages inside a listener.
    pub in_flight: usize,
    /// How long the oldest of them has been there.
    pub oldest_in_flight: Option<Duration>,
    /// How long ago the last pull was sent.
    pub last_pull: Option<Duration>,
    /// Whether this member has the lock of the broker, and is certain of it. Always `false` where none is needed.
    pub locked: bool,
    /// Why it is not pulling, or not consumed.
    pub waiting: Option<Waiting>,
    /// The last trouble with it.
    pub last_error: Option<String>,
}
