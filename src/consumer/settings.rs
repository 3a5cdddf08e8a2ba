//! The checked settings of a push consumer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::message::{ConsumeFrom, MessageQueue};

/// Who gets which queue: own id, all ids, all queues → own queues.
pub(crate) type Allocate = Arc<dyn Fn(&str, &[String], &[MessageQueue]) -> Vec<MessageQueue> + Send + Sync>;

/// Whether the members of a group share the messages of a topic, or each gets all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MessageModel {
    /// Each message goes to one member; brokers keep the offsets.
    #[default]
    Clustering,
    /// Each message goes to every member, and each keeps its own offsets: see
    /// [`LocalOffsets`](super::LocalOffsets). No broker takes a failed message back.
    Broadcasting,
}

/// What to do when the offset to go on at does not exist on the broker (any more).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OffsetIllegal {
    /// Go on at the nearest one that does: the end of the queue if the offset lies beyond it, else the beginning.
    #[default]
    Nearest,
    /// Go on at the beginning of the queue.
    FirstOffset,
    /// Go on at the end of the queue.
    LastOffset,
    /// Do not go on. The queue is shown in `stats()` as failing until somebody resets the offset.
    Suspend,
}

/// What is particular to consumption in order.
#[derive(Clone, Debug)]
pub(crate) struct InOrder {
    /// How long a queue waits after a message that was not accepted.
    pub(crate) suspend_time: Duration,
    /// Whether a queue is consumed only with its broker's lock. Not needed where every member has all queues.
    pub(crate) locks: bool,
}

/// See the methods of [`PushConsumerBuilder`](super::PushConsumerBuilder).
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) message_model: MessageModel,
    pub(crate) consume_from: ConsumeFrom,
    pub(crate) allocate: Allocate,
    pub(crate) consume_threads: usize,
    pub(crate) consume_batch_size: u32,
    pub(crate) consume_timeout: Duration,
    pub(crate) max_reconsume_times: u32,
    /// `None`: concurrently.
    pub(crate) order: Option<InOrder>,
    pub(crate) delay_levels: Vec<Duration>,
    pub(crate) pull_batch_size: i32,
    pub(crate) pull_batch_bytes: i32,
    pub(crate) pull_interval: Duration,
    pub(crate) pull_threshold_messages: usize,
    pub(crate) pull_threshold_bytes: usize,
    pub(crate) max_span: usize,
    pub(crate) commit_interval: Duration,
    pub(crate) offset_illegal: OffsetIllegal,
}

impl Settings {
    pub(crate) fn is_broadcasting(&self) -> bool {
        self.message_model == MessageModel::Broadcasting
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("message_model", &self.message_model)
            .field("consume_from", &self.consume_from)
            .field("consume_threads", &self.consume_threads)
            .field("consume_batch_size", &self.consume_batch_size)
            .field("consume_timeout", &self.consume_timeout)
            .field("max_reconsume_times", &self.max_reconsume_times)
            .field("order", &self.order)
            .field("pull_batch_size", &self.pull_batch_size)
            .field("pull_batch_bytes", &self.pull_batch_bytes)
            .field("pull_interval", &self.pull_interval)
            .field("pull_threshold_messages", &self.pull_threshold_messages)
            .field("pull_threshold_bytes", &self.pull_threshold_bytes)
            .field("max_span", &self.max_span)
            .field("commit_interval", &self.commit_interval)
            .field("offset_illegal", &self.offset_illegal)
            .finish_non_exhaustive()
    }
}

/// The delay levels of a broker that was not told otherwise.
pub(crate) fn standard_delay_levels() -> Vec<Duration> {
    [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
        .map(Duration::from_secs)
        .to_vec()
}
