//! Consumers.

pub mod allocate;
mod assignment;
mod budget;
mod claims;
mod events;
mod facts;
mod fetch;
mod offset;
mod process_queue;
mod ready;
mod rebalance;
mod run;
mod stats;

pub use events::{Event, Events};
pub use stats::{ConsumerStats, QueueStats, StartReason, Waiting};
