use std::sync::Arc;

use super::connection::Conn;
use crate::protocol::{DecodeError, Frame, Head, RemotingCommand, RequestCode, encode};

/// A request that a server has sent to us.
#[derive(Debug)]
pub(crate) struct Incoming {
    conn: Arc<Conn>,
    frame: Frame,
    head: Head,
}

impl Incoming {
    pub(super) fn new(conn: Arc<Conn>, frame: Frame, head: Head) -> Self {
        Self { conn, frame, head }
    }

    /// Who sent it: the address under which the server is known here.
    pub(crate) fn address(&self) -> &Arc<str> {
        &self.conn.address
    }

    pub(crate) fn code(&self) -> RequestCode {
        RequestCode(self.head.code)
    }

    pub(crate) fn is_oneway(&self) -> bool {
        self.head.is_oneway()
    }

    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    pub(crate) fn command(&self) -> Result<RemotingCommand, DecodeError> {
        self.frame.command()
    }

    /// Answers in the encoding of the request. Never blocks; a one-way request gets no answer.
    pub(crate) fn respond(&self, mut answer: RemotingCommand) {
        if self.is_oneway() {
            return;
        }
        answer.opaque = self.head.opaque;
        answer.flag |= RemotingCommand::RESPONSE;
        let mut bytes = Vec::with_capacity(256 + answer.body.len());
        if let Err(e) = encode(&answer, self.frame.encoding(), &mut bytes) {
            log::error!("the answer to request {} cannot be encoded: {e}", self.head.code);
            return;
        }
        match self.conn.send(&bytes, None, None) {
            Ok(taken) => self.conn.settle(taken),
            // The server asked, and then does not read: it will ask again.
            Err(refused) => {
                log::debug!("no answer to request {} of {}: {refused:?}", self.head.code, self.address())
            }
        }
    }
}
