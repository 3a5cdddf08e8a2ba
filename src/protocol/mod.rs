//! Bytes ⇄ values: commands, their headers and bodies, and stored messages.
//!
//! This room has no socket, thread, clock or lock. What comes in may be hostile: lengths are checked before anything is
//! allocated or sliced, and every failure is a [`DecodeError`]. Encoders append to a `Vec<u8>` they are given.
//!
//! ```text
//! bytes ── FrameDecoder ──▶ Frame ──┬─ head()         code, opaque, flag: to find the waiting call
//!                                   ├─ pull_answer()  the header of an answered pull
//!                                   ├─ command() ──▶ RemotingCommand ── header::<H>() ──▶ a header of `headers`
//!                                   └─ body() ──┬─▶ records()  stored messages
//!                                               └─▶ body::*    JSON
//! ```
#![allow(
    dead_code,
    unused_imports,
    reason = "which items are used depends on the features, and on who is testing"
)]

pub mod body;
pub mod codes;
pub mod command;
pub mod compress;
pub mod error;
pub mod frame;
pub mod headers;
pub mod ids;
pub mod json;
pub mod reader;
pub mod record;

pub use codes::{RequestCode, ResponseCode};
pub use command::{Fields, Language, RemotingCommand, VERSION};
pub use compress::{Compression, Inflater, MAX_INFLATED, deflate, inflate};
pub use error::{DecodeError, EncodeError};
pub use frame::{Encoding, Frame, FrameDecoder, Head, MAX_FRAME, PullAnswer, PullOffsets, encode};
pub use headers::Header;
pub use ids::{OffsetId, UniqueIds};
pub use record::{BadRecord, Records, StoredMessage, records};
