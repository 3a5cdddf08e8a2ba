//! What producer, consumer and admin share: addresses, routes, heartbeats, the life of a client.
//!
//! This room knows topics, groups and brokers, but neither pulls nor sends: what an upper room needs from the
//! control loop it registers as a [`Member`] and hears of as a [`Notice`].
#![allow(
    dead_code,
    unused_imports,
    reason = "which of these are used depends on the features and on who is testing"
)]

mod call;
mod choice;
mod config;
mod control;
#[cfg(test)]
mod fake;
mod fetch;
mod handle;
mod heartbeat;
mod instance;
mod life;
mod member;
pub(crate) mod metrics;
mod name_server;
mod namespace;
pub(crate) mod random;
mod report;
mod routes;
mod send;
mod start;
#[cfg(test)]
mod tests;
mod threads;
mod time_stats;
mod timers;
pub(crate) mod trace;
mod verdict;
mod wakes;

pub use config::ClientBuilder;
pub use handle::{Client, ClientStats};
pub use report::ShutdownReport;
pub use time_stats::TimeStats;
pub use verdict::{ConsumeStatus, TransactionStatus, Verdict};

pub(crate) use call::{call_error, failed_attempt, kind_of, success};
pub(crate) use choice::ClientChoice;
pub(crate) use config::ClientConfig;
/// For the simulator of consumers, which has a control loop of its own.
#[cfg(all(test, not(loom)))]
pub(crate) use heartbeat::{Beaten, Beats, Content, Told};
pub(crate) use instance::Instance;
pub(crate) use life::{Life, bounded_grace};
pub(crate) use member::{Member, MemberKind, Notice};
pub(crate) use namespace::Namespace;
pub(crate) use random::below as random_below;
pub(crate) use routes::{MASTER, Role, Route};
pub(crate) use send::{LONGEST_PROPERTIES, Sending, Sent, property_string};
pub(crate) use threads::{on_library_thread, panic_text};
pub(crate) use time_stats::TimeRecorder;
pub(crate) use timers::Timers;
pub(crate) use verdict::Outcome;
