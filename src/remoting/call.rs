//! One request as its sender sees it: who is told of the outcome, and what went wrong.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::Cause;
use crate::protocol::{DecodeError, EncodeError, Frame};

/// Where the outcomes of asynchronous requests go. Made once per receiving loop; it maps `(tag, outcome)` to what that
/// loop's channel carries and sends it there.
///
/// It runs on the io thread, or on the thread that asks when the request fails at once. So it must not block and must
/// not run user code.
#[derive(Clone)]
pub(crate) struct ReplySink(Arc<dyn Fn(u64, Result<Frame, CallError>) + Send + Sync>);

impl ReplySink {
    pub(crate) fn new(sink: impl Fn(u64, Result<Frame, CallError>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// The place of one outcome; the loop recognises it by the tag.
    pub(crate) fn reply(&self, tag: u64) -> Reply {
        Reply { sink: self.clone(), tag }
    }
}

impl fmt::Debug for ReplySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplySink")
    }
}

/// Where the one outcome of a request goes.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) sink: ReplySink,
    pub(crate) tag: u64,
}

impl Reply {
    pub(crate) fn send(self, outcome: Result<Frame, CallError>) {
        guard("a reply sink", || (self.sink.0)(self.tag, outcome));
    }
}

/// Runs a closure of an upper room. A panic in it is logged and costs what it was about to do; the thread that called
/// has other connections to look after. False if it panicked.
pub(super) fn guard(what: &str, call: impl FnOnce()) -> bool {
    let done = catch_unwind(AssertUnwindSafe(call)).is_ok();
    if !done {
        log::error!("{what} panicked");
    }
    done
}

/// Who waits for an answer.
#[derive(Debug)]
pub(super) enum Waiter {
    /// A thread that is blocked in `call`; the channel has room for the one outcome.
    Thread(Sender<Result<Frame, CallError>>),
    Loop(Reply),
}

impl Waiter {
    pub(super) fn complete(self, outcome: Result<Frame, CallError>) {
        match self {
            // A thread that has stopped waiting has taken its entry out first, so it cannot be missing here.
            Self::Thread(sender) => drop(sender.try_send(outcome)),
            Self::Loop(reply) => reply.send(outcome),
        }
    }
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallError {
    /// The server could not be connected to.
    Unreachable { cause: Cause },
    /// The last attempt to connect failed a moment ago; the next one is not due yet.
    BackingOff { cause: Cause },
    /// No answer by the deadline.
    Timeout { written: bool },
    /// The connection was lost before the answer came.
    Lost { written: bool, cause: Cause },
    /// Too many bytes wait to be sent on this connection.
    Full,
    /// This client has been shut down.
    Closed,
    /// The request cannot be written.
    Encode(EncodeError),
    /// The server sent bytes that are no frame, and the connection was closed for that.
    Decode(DecodeError),
}

impl CallError {
    /// Whether the server may have seen the request: if so, a repetition may do its work twice.
    pub(crate) fn written(&self) -> bool {
        match self {
            Self::Timeout { written } | Self::Lost { written, .. } => *written,
            Self::Decode(_) => true,
            Self::Unreachable { .. }
            | Self::BackingOff { .. }
            | Self::Full
            | Self::Closed
            | Self::Encode(_) => false,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { cause } => write!(f, "cannot connect: {cause}"),
            Self::BackingOff { cause } => write!(f, "cannot connect, next attempt soon: {cause}"),
            Self::Timeout { written: true } => f.write_str("no answer in time"),
            Self::Timeout { written: false } => f.write_str("could not be sent in time"),
            Self::Lost { written: true, cause } => {
                write!(f, "connection lost before the answer came: {cause}")
            }
            Self::Lost { written: false, cause } => write!(f, "connection lost before sending: {cause}"),
            Self::Full => f.write_str("too many bytes wait to be sent"),
            Self::Closed => f.write_str("the client has been shut down"),
            Self::Encode(error) => write!(f, "cannot be encoded: {error}"),
            Self::Decode(error) => write!(f, "the server sent what is no frame: {error}"),
        }
    }
}

impl std::error::Error for CallError {}
