//! Commands over TCP: connections, requests that wait for their answer, and the listening side.
//!
//! This room knows addresses and numbers of requests, never topics or groups. Its client side is [`Remoting`], with one
//! thread that owns the sockets; its listening side is [`server::Server`], used by the embedded broker.
//!
//! ```text
//! call, invoke ──▶ Shared.endpoints ──▶ Conn ──┬─ pending: opaque → waiter, deadline
//!   (any thread)        one per address        └─ outbox ──▶ socket, written by the caller itself
//!
//! Reactor (rmq-io) ── connects, reads, takes from `pending`, completes; flushes an outbox that was blocked
//! Aux (rmq-aux)    ── looks up hosts, reads certificates
//! ```
//!
//! With TLS a caller leaves its bytes in the outbox, and the io thread alone encrypts and writes.
//!
//! Locks are held one at a time, for one operation on a map or one round of non-blocking writes.
#![allow(dead_code, unused_imports, reason = "which of these are used depends on the features")]

#[cfg(feature = "acl")]
pub(crate) mod acl;
mod address;
mod alarm;
mod attempt;
mod auxiliary;
mod call;
mod cause;
mod client;
mod config;
mod connection;
mod credentials;
mod endpoint;
mod incoming;
mod jitter;
mod outbox;
mod pending;
mod reactor;
mod resolve;
pub(crate) mod server;
mod shared;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(not(feature = "tls"))]
#[path = "tls_off.rs"]
pub(crate) mod tls;

pub(crate) use auxiliary::Aux;
pub(crate) use call::{CallError, Reply, ReplySink};
pub(crate) use cause::Cause;
pub(crate) use client::{Remoting, RemotingStats, Suspects};
pub(crate) use config::{LinkEvent, RemotingConfig};
pub use credentials::Credentials;
pub(crate) use incoming::Incoming;
#[cfg(feature = "tls")]
pub use tls::Tls;
#[cfg(not(feature = "tls"))]
pub(crate) use tls::Tls;
