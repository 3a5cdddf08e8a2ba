//! What producer, consumer and admin share: addresses, routes, heartbeats, the life of a client.
//!
//! This room knows topics, groups and brokers, but neither pulls nor sends: what an upper room needs from the
//! control loop it registers as a `Member` and hears of as a `Notice`.
#![allow(
    dead_code,
    unused_imports,
    reason = "which of these are used depends on the features and on who is testing"
)]

mod report;
mod time_stats;
mod verdict;

pub use report::ShutdownReport;
pub use time_stats::TimeStats;
pub use verdict::{ConsumeStatus, TransactionStatus, Verdict};

pub(crate) use time_stats::TimeRecorder;
