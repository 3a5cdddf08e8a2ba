//! From what went wrong with a call to what a user is told.

use std::time::Duration;

use crate::error::{Attempt, Error, ErrorKind, Result};
use crate::protocol::{Frame, RemotingCommand, ResponseCode};
use crate::remoting::CallError;

use super::instance::Instance;

/// The kind of a failed call.
pub(crate) fn kind_of(error: &CallError) -> ErrorKind {
    match error {
        CallError::Unreachable { cause }
        | CallError::BackingOff { cause }
        | CallError::Lost { cause, .. } => cause.kind(),
        CallError::Timeout { .. } => ErrorKind::Timeout,
        CallError::Full => ErrorKind::Busy,
        CallError::Closed => ErrorKind::Closed,
        CallError::Encode(_) => ErrorKind::InvalidInput,
        CallError::Decode(_) => ErrorKind::Protocol,
    }
}

pub(crate) fn failed_attempt(server: &str, error: &CallError, elapsed: Duration) -> Attempt {
    Attempt::new(server, kind_of(error), error.to_string(), elapsed)
}

/// The error of one call to one server.
pub(crate) fn call_error(operation: &str, server: &str, error: CallError) -> Error {
    match error {
        CallError::Closed => Error::closed("the client"),
        error => Error::new(kind_of(&error), format!("{operation}: {server}: {error}")).with_source(error),
    }
}

impl Instance {
    /// Asks one server and waits: the answer if it is success, else an error that says who answered what.
    pub(crate) fn ask(
        &self,
        operation: &str,
        address: &str,
        command: RemotingCommand,
        timeout: Duration,
    ) -> Result<RemotingCommand> {
        let frame =
            self.call(address, command, timeout).map_err(|error| call_error(operation, address, error))?;
        success(operation, address, &frame)
    }
}

/// The answer, if it is success.
pub(crate) fn success(operation: &str, address: &str, frame: &Frame) -> Result<RemotingCommand> {
    let answer =
        frame.command().map_err(|error| Error::protocol(format!("{operation}: {address}"), error))?;
    match answer.response_code() {
        ResponseCode::SUCCESS => Ok(answer),
        code => Err(Error::answer(operation, address, code, answer.remark.as_deref())),
    }
}
