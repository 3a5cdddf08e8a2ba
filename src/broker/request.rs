//! A request on its way through the broker, and its answer.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use super::PeerId;
use super::faults::Reaction;
use crate::protocol::{DecodeError, EncodeError, Encoding, Header, RemotingCommand, ResponseCode};

/// A request with where it came from.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) remote: SocketAddr,
    pub(crate) command: RemotingCommand,
    pub(crate) reply: ReplyTo,
}

impl Request {
    pub(crate) fn peer(&self) -> PeerId {
        self.reply.peer
    }

    pub(crate) fn header<H: Header>(&self) -> Result<H, DecodeError> {
        self.command.header()
    }
}

/// All that is needed to answer, now or much later.
#[derive(Clone, Debug)]
pub(crate) struct ReplyTo {
    pub(crate) peer: PeerId,
    pub(crate) opaque: i32,
    pub(crate) encoding: Encoding,
    pub(crate) oneway: bool,
    /// What a fault does to the answer.
    pub(crate) twist: Option<Reaction>,
    /// The number of the request in the log.
    pub(crate) number: u64,
}

impl ReplyTo {
    /// The opaque that is written, which is not the request's if a fault wants that.
    pub(crate) fn wire_opaque(&self) -> i32 {
        if self.twist == Some(Reaction::WrongOpaque) { self.opaque ^ 0x4000_0000 } else { self.opaque }
    }
}

/// What a handler leaves to be sent.
#[derive(Debug)]
pub(crate) enum Answer {
    Now(RemotingCommand),
    /// It was answered already, or will be.
    Later,
}

/// What a handler returns.
pub(crate) type Handled = Result<Answer, Refusal>;

impl Answer {
    /// Success, without anything.
    pub(crate) fn ok() -> Handled {
        Ok(Self::Now(RemotingCommand::response(ResponseCode::SUCCESS, 0)))
    }

    /// Success, with fields.
    pub(crate) fn header(header: &impl Header) -> Handled {
        Ok(Self::Now(RemotingCommand::response(ResponseCode::SUCCESS, 0).header_fields(header)))
    }

    /// Success, with a body.
    pub(crate) fn body(body: Vec<u8>) -> Handled {
        Ok(Self::Now(RemotingCommand::response(ResponseCode::SUCCESS, 0).body(body)))
    }
}

/// Any answer but the wanted one.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: ResponseCode,
    pub(crate) remark: String,
}

impl Refusal {
    pub(crate) fn new(code: ResponseCode, remark: impl fmt::Display) -> Self {
        Self { code, remark: remark.to_string() }
    }

    /// The answer to nearly everything that a real broker did not expect.
    pub(crate) fn error(remark: impl fmt::Display) -> Self {
        Self::new(ResponseCode::SYSTEM_ERROR, remark)
    }

    pub(crate) fn no_topic(topic: &str) -> Self {
        Self::new(
            ResponseCode::TOPIC_NOT_EXIST,
            format_args!("topic[{topic}] not exist, apply first please!"),
        )
    }

    pub(crate) fn no_group(group: &str) -> Self {
        let remark = format!("subscription group not exist, {group}");
        Self::new(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    }

    pub(crate) fn into_command(self) -> RemotingCommand {
        RemotingCommand::response(self.code, 0).remark(self.remark)
    }
}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        Self::error(error)
    }
}

impl From<EncodeError> for Refusal {
    fn from(error: EncodeError) -> Self {
        Self::new(ResponseCode::MESSAGE_ILLEGAL, error)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        log::error!("the broker's store failed: {error}");
        Self::error(format_args!("the store failed: {error}"))
    }
}

/// What is to be done on a connection.
#[derive(Debug)]
pub(crate) enum Effect {
    Send {
        peer: PeerId,
        bytes: Vec<u8>,
    },
    /// Sent in pieces; whatever follows on that connection waits.
    Trickle {
        peer: PeerId,
        bytes: Vec<u8>,
        size: usize,
        every: std::time::Duration,
    },
    /// Closed once everything before it was sent.
    Close {
        peer: PeerId,
    },
}
