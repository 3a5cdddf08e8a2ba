//! Messages: what a program sends ([`Message`]), what it receives ([`MessageView`]), and where both live ([`MessageQueue`]).
//!
//! The lowest room but for `clock` and `sync`. It knows how the parts of a message are named and where they lie in the
//! bytes of a stored message, but does not take a stored message apart: `protocol::record` does that, and hands over a
//! [`Record`].
#![allow(
    dead_code,
    unused_imports,
    reason = "which items are used depends on the features, and on who is testing"
)]

mod filter;
mod names;
mod outgoing;
pub mod properties;
mod queue;
mod source;
pub mod tags;
mod view;

pub use filter::{ConsumeFrom, Filter};
pub use names::{
    DLQ_PREFIX, RETRY_PREFIX, TOOLS_GROUP, dead_letter_topic, group_problem, is_reserved_group,
    is_system_topic, is_unsendable_topic, retry_topic, topic_problem,
};
pub use outgoing::Message;
pub use queue::MessageQueue;
pub use source::{Record, Source};
pub use tags::{Subscription, SubscriptionKind};
pub use view::MessageView;
pub(crate) use view::{offset_message_id, upper_hex};

/// Bits of a message's system flag.
pub mod sys_flag {
    /// The body is compressed.
    pub const COMPRESSED: i32 = 0x001;
    /// The message has several tags (obsolete).
    pub const MULTI_TAGS: i32 = 0x002;
    /// The two bits of a transaction's state.
    pub const TRANSACTION: i32 = 0x00C;
    /// State: a half message, not yet visible.
    pub const TRANSACTION_PREPARED: i32 = 0x004;
    /// State: committed.
    pub const TRANSACTION_COMMIT: i32 = 0x008;
    /// State: rolled back.
    pub const TRANSACTION_ROLLBACK: i32 = 0x00C;
    /// The address of the sender is IPv6.
    pub const BORN_HOST_V6: i32 = 0x010;
    /// The address of the storing broker is IPv6.
    pub const STORE_HOST_V6: i32 = 0x020;
    /// The body is a batch that the client takes apart.
    pub const NEED_UNWRAP: i32 = 0x040;
    /// The message stands for a range of offsets of a batch queue.
    pub const INNER_BATCH: i32 = 0x080;
    /// The three bits that name the compression.
    pub const COMPRESSION_TYPE: i32 = 0x700;
}
