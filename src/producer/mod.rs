//! Sending messages.
//!
//! A [`Producer`] has no thread of its own: `send` runs on the calling thread, from the choice of a
//! queue to the answer of the broker. What decides is pure (`select`: which queue next); what acts is `send`.

mod batch;
mod builder;
mod check;
mod core;
mod handle;
#[cfg(feature = "metrics")]
mod metrics;
mod receipt;
mod select;
mod send;
mod stats;
mod trace;

pub use builder::{Compression, ProducerBuilder};
pub use stats::ProducerStats;

pub use handle::Producer;
pub use receipt::{SendReceipt, SendStatus};
