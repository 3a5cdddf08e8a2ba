//! A client for Apache RocketMQ for programs that use plain threads.
//!
//! Send:
//!
//! ```no_run
//! use rocketmq_sync::{Message, Producer};
//!
//! # fn main() -> rocketmq_sync::Result<()> {
//! let producer = Producer::builder("shop").name_servers("127.0.0.1:9876").start()?;
//! producer.send(&Message::new("orders", "paid 42 EUR").tag("paid").key("order-7"))?;
//! # Ok(())
//! # }
//! ```
//!
//! Consume:
//!
//! ```no_run
//! use rocketmq_sync::PushConsumer;
//! use std::time::Duration;
//!
//! # fn main() -> rocketmq_sync::Result<()> {
//! let consumer = PushConsumer::builder("billing")
//!     .name_servers("127.0.0.1:9876")
//!     .subscribe("orders", "created || paid")
//!     .consume_concurrently(|batch| {
//!         for message in batch {
//!             println!("{}", message.message_id());
//!         }
//!     })
//!     .start()?;
//! // … until the program is to end:
//! println!("{}", consumer.shutdown(Duration::from_secs(10)));
//! # Ok(())
//! # }
//! ```
//!
//! # Threads
//!
//! A [`Client`] has `rmq-io` (all sockets) and `rmq-control` (routes, heartbeats, requests from brokers), and `rmq-aux`
//! while something may hang (DNS, the file of local offsets); with a [`trace_topic`](ClientBuilder::trace_topic),
//! `rmq-trace`. Its first consumer adds `rmq-pull`, `rmq-timer` and `rmq-rebalance`, which all consumers on it share; each
//! consumer has its own `rmq-consume-N`, 20 unless told otherwise, and an orderly one, unless it is broadcasting, `rmq-lock`. Listeners run on
//! `rmq-consume-N` only, and may block until the consume timeout; an allocation strategy runs on `rmq-rebalance` and must
//! not. All threads have names and are joined by a shutdown.
//!
//! # Shutdown
//!
//! `shutdown(grace)` stops pulling, lets running listeners finish, commits and waits for the brokers' word, says goodbye,
//! and returns by its deadline with a [`ShutdownReport`]. If that is clean, the next owner of the queues sees no
//! duplicate. Dropping a handle does the same within two seconds. A process that ends without it repeats what it had
//! fetched and not committed: up to the commit interval.
//!
//! # Errors
//!
//! One type, [`Error`]: [`kind`](Error::kind) to act on, [`attempts`](Error::attempts) with every server that was tried
//! and what each answered, [`is_retryable`](Error::is_retryable). A consumer that runs does not fail: it tries again, and
//! tells of it in [`stats`](PushConsumer::stats) and [`events`](PushConsumer::events).
//!
//! # Logging
//!
//! Through the `log` facade only. `error`: a bug, ours or a panic in a listener. `warn`: something that an operator can
//! mend, or data at risk. `info`: starts, stops, changes of assignment. `debug`: connections, retries, routes. `trace`:
//! every command, never the body of a message.
//!
//! # Not supported
//!
//! Sending with a callback, transactions, request and reply, and administration are not there yet. POP consumption and
//! static topics are not planned for now; a static topic is refused by its name. The README lists whatever else the Java
//! client has, with the reason.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "broker")]
pub mod broker;
mod client;
mod clock;
pub mod consumer;
mod error;
#[cfg(doc)]
pub mod guide;
mod message;
pub mod producer;
mod protocol;
mod remoting;
mod sync;

pub use client::{
    Client, ClientBuilder, ClientStats, ConsumeStatus, ShutdownReport, TimeStats, TransactionStatus, Verdict,
};
pub use consumer::{Batch, MessageModel, PullConsumer, PushConsumer, Stopper, allocate};
pub use error::{Attempt, Error, ErrorKind, Mistake, Result};
pub use message::{
    ConsumeFrom, Filter, Message, MessageQueue, MessageView, TOOLS_GROUP, dead_letter_topic, retry_topic,
};
pub use producer::{Producer, SendReceipt, SendStatus};
pub use protocol::{RequestCode, ResponseCode};
pub use remoting::Credentials;
#[cfg(feature = "tls")]
pub use remoting::Tls;

/// What `tests/`, `benches/` and `fuzz/` need of the private rooms. No promise of any kind is made about it.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing {
    /// How many pulls a consumer has sent.
    pub fn pulls_sent(consumer: &crate::PushConsumer) -> u64 {
        consumer.pulls_sent()
    }

    /// The same of one that is polled.
    pub fn pulls_sent_for_polls(consumer: &crate::PullConsumer) -> u64 {
        consumer.pulls_sent()
    }

    pub use crate::consumer::hand_over;

    pub mod message {
        pub use crate::message::*;
    }
    pub mod protocol {
        pub use crate::protocol::*;
    }
}

#[cfg(all(doctest, feature = "broker"))]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
