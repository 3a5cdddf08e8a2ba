//! A client for Apache RocketMQ for programs that use plain threads.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "broker")]
pub mod broker;
mod client;
mod clock;
pub mod consumer;
mod error;
mod message;
pub mod producer;
mod protocol;
mod remoting;
mod sync;
