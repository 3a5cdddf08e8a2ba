//! Consumers.

pub mod allocate;
mod answer;
mod assignment;
mod batch;
mod budget;
mod claims;
mod classes;
mod core;
mod direct;
mod events;
mod facts;
mod failure;
mod fetch;
mod figures;
mod filters;
mod lease;
mod listener;
mod local;
mod lock_loop;
mod loops;
mod losses;
#[cfg(feature = "metrics")]
mod metrics;
mod offset;
mod order;
mod outside;
mod peers;
mod process_queue;
mod pull_consumer;
mod pull_loop;
mod pulls;
mod push;
mod rates;
mod readable;
mod ready;
mod rebalance;
mod rebalance_loop;
mod requests;
mod run;
mod running;
mod send_back;
mod settings;
mod sift;
#[cfg(all(test, not(loom)))]
mod sim;
mod slot;
mod stats;
mod subscribing;
mod timer_loop;
mod trace;
mod watch;
mod worker;

pub use batch::Batch;
pub use events::{Event, Events};
pub use listener::Next;
pub use local::LocalOffsets;
pub use pull_consumer::{PullConsumer, PullConsumerBuilder, UntilEnd};
pub use push::{PushConsumer, PushConsumerBuilder, Stopper};
pub use settings::{MessageModel, OffsetIllegal};
pub use stats::{ConsumerStats, QueueStats, StartReason, TopicRates, TopicStats, Waiting};

/// The hand-over from a pull to the consume threads, for benches and tests.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod hand_over {
    pub use super::budget::{Budget, OnRelease};
    pub use super::claims::{Claims, Finished};
    pub use super::offset::Offset;
    pub use super::process_queue::{Limits, Load, ProcessQueue, Settled, Taken};
    pub use super::run::Run;
    pub use super::sift::{Asked, Sifted, sift};
}
