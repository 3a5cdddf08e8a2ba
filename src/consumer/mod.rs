//! Consumers.

pub mod allocate;
mod assignment;
mod batch;
mod budget;
mod claims;
mod core;
mod direct;
mod events;
mod facts;
mod fetch;
mod listener;
mod loops;
mod offset;
mod process_queue;
mod pull_loop;
mod push;
mod ready;
mod rebalance;
mod rebalance_loop;
mod requests;
mod run;
mod send_back;
mod settings;
mod sift;
mod slot;
mod stats;
mod timer_loop;
mod worker;

pub use batch::Batch;
pub use events::{Event, Events};
pub use push::{PushConsumer, PushConsumerBuilder, Stopper};
pub use settings::OffsetIllegal;
pub use stats::{ConsumerStats, QueueStats, StartReason, Waiting};
