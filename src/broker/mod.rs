//! An embedded name server and broker: for tests, for development, and for a single machine.
//!
//! Whoever outgrows one machine points the same client at an Apache RocketMQ cluster and changes one address.
//!
//! ```text
//! Broker, Cluster ──▶ Shared ── one lock ──▶ State ──▶ effects ──▶ peers
//!  (any thread)         ▲                      │
//! rmq-broker ───────────┘                      ├─ store     a log of records, an index for each queue
//!  frames in, deadlines                        ├─ delays, holds, locks, offsets, members, faults
//!                                              └─ handlers  what each request does
//! ```
//!
//! `State` is plain data: requests and the time go in, what is to be done on connections comes out. It
//! knows nothing of the client library: both meet on the wire, so that each tests the other.
//!
//! # Not there
//! What a [`Broker`] answers with "not supported" (code 3), or refuses: transactions, pop consumption, batch consume queues, static topics, files. Nothing is ever deleted but by hand: messages take
//! memory until the broker is dropped.

mod builder;
mod by_hand;
mod classes;
mod cluster;
mod delay;
mod faults;
mod filters;
mod follow;
mod handle;
mod handlers;
mod hold;
mod keys;
mod locks;
mod look;
mod members;
mod names;
mod offsets;
mod pull_answer;
mod pulse;
mod put;
mod record;
mod relay;
mod request;
mod requests;
#[cfg(feature = "acl")]
mod rights;
mod runtime;
mod settings;
mod snapshot;
mod sql;
mod state;
mod store;
mod tls;
mod topics;
mod wanted;

pub use crate::clock::Clock;
pub use builder::BrokerBuilder;
pub use cluster::{Cluster, ClusterBuilder};
pub use faults::{Fault, FaultHandle, Reaction};
pub use handle::{Broker, Lose};
pub use requests::RequestRecord;
#[cfg(feature = "acl")]
pub use rights::{Permission, Rights};
pub use settings::Version;
pub use snapshot::Snapshot;

/// The number of a connection.
type PeerId = u64;
