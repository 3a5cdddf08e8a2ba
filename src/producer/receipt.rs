//! What a broker said about a message it has stored.

use crate::message::MessageQueue;
use crate::protocol::ResponseCode;

/// A message is stored: where, and under which ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendReceipt {
    pub(super) message_id: String,
    pub(super) status: SendStatus,
    pub(super) queue: MessageQueue,
    pub(super) queue_offset: i64,
    pub(super) offset_message_id: String,
    pub(super) transaction_id: Option<String>,
    pub(super) recall_handle: Option<String>,
}

impl SendReceipt {
    /// The id that this client gave the message. Consumers see it as `message_id()`, on retries too.
    pub fn message_id(&self) -> &str {
        &self.message_id
    }

    /// How safely it is stored.
    pub fn status(&self) -> SendStatus {
        self.status
    }

    /// The queue it is in.
    pub fn queue(&self) -> &MessageQueue {
        &self.queue
    }

    /// Its place in that queue. Of a delayed message: its place among the delayed ones.
    pub fn queue_offset(&self) -> i64 {
        self.queue_offset
    }

    /// The id that the broker gave it: its address and the place in its log. Java: `offsetMsgId`.
    pub fn offset_message_id(&self) -> &str {
        &self.offset_message_id
    }

    /// What the broker calls the transaction, if it named one. Brokers 5.x name one for every message.
    pub fn transaction_id(&self) -> Option<&str> {
        self.transaction_id.as_deref()
    }

    /// With which a message for a later time can be recalled (brokers from 5.3.2 on).
    pub fn recall_handle(&self) -> Option<&str> {
        self.recall_handle.as_deref()
    }
}

/// How safely a message is stored. All of these mean: it is stored, and will be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendStatus {
    /// As safely as the broker is set up to.
    SendOk,
    /// It did not reach the disk in time (brokers that flush synchronously).
    FlushDiskTimeout,
    /// It did not reach a slave in time (brokers that replicate synchronously).
    FlushSlaveTimeout,
    /// There is no slave that it could reach (brokers that replicate synchronously).
    SlaveNotAvailable,
}

impl SendStatus {
    pub(super) fn of(code: ResponseCode) -> Self {
        match code {
            ResponseCode::FLUSH_DISK_TIMEOUT => SendStatus::FlushDiskTimeout,
            ResponseCode::FLUSH_SLAVE_TIMEOUT => SendStatus::FlushSlaveTimeout,
            ResponseCode::SLAVE_NOT_AVAILABLE => SendStatus::SlaveNotAvailable,
            _ => SendStatus::SendOk,
        }
    }
}
