//! The integration tests, one program. Each test has its own embedded broker and waits for conditions, never for a
//! fixed time.

#![allow(clippy::unwrap_used, reason = "a helper that unwraps has failed its test, and says where")]

mod api;
mod between;
mod binary;
mod broadcast;
mod broadcast_random;
mod broker;
mod captures;
mod client;
mod consumer;
mod corpus;
mod embedded;
mod errors;
mod faults;
mod filters;
mod flow;
mod group;
mod guests;
mod hooks;
mod identity;
mod inside;
mod ipv6;
mod killed;
mod leaks;
mod life;
mod listeners;
#[cfg(feature = "metrics")]
mod metrics;
mod name_servers;
mod namespace;
mod network;
mod offsets;
mod operations;
mod orderly;
mod orderly_random;
mod pains;
mod producer;
mod programs;
mod programs_run;
mod pull;
mod pull_random;
mod quiet;
mod random;
mod rebalance;
mod replay;
mod retry;
mod rooms;
#[cfg(all(feature = "acl", feature = "tls"))]
mod secrets;
mod seeded;
mod slaves;
mod start;
mod subscribing;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod trace;
mod vectors;
mod wire;

#[path = "../scenarios/mod.rs"]
mod scenarios;
