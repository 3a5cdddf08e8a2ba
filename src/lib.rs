//! A client for Apache RocketMQ for programs that use plain threads.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "broker")]
pub mod broker;
mod client;
mod clock;
pub mod consumer;
mod error;
mod message;
pub mod producer;
mod protocol;
mod remoting;
mod sync;

pub use client::{
    Client, ClientBuilder, ClientStats, ConsumeStatus, ShutdownReport, TimeStats, TransactionStatus, Verdict,
};
pub use consumer::{
    Batch, ConsumerStats, Event, Events, PushConsumer, PushConsumerBuilder, QueueStats, StartReason, Stopper,
    allocate,
};
pub use error::{Attempt, Error, ErrorKind, Mistake, Result};
pub use message::{
    ConsumeFrom, Filter, Message, MessageQueue, MessageView, TOOLS_GROUP, dead_letter_topic, retry_topic,
};
pub use producer::{Producer, SendReceipt, SendStatus};
pub use protocol::{RequestCode, ResponseCode};
pub use remoting::Credentials;

/// What `tests/`, `benches/` and `fuzz/` need of the private rooms. No promise of any kind is made about it.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing {
    /// How many pulls a consumer has sent.
    pub fn pulls_sent(consumer: &crate::PushConsumer) -> u64 {
        consumer.pulls_sent()
    }

    pub mod message {
        pub use crate::message::*;
    }
    pub mod protocol {
        pub use crate::protocol::*;
    }
}
