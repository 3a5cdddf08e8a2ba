//! Why a request failed, for those who tell the user: what the user can act on, beside the text.

use std::fmt;

use crate::client::kind_of;
use crate::error::{Attempt, ErrorKind};
use crate::protocol::{Frame, ResponseCode};
use crate::remoting::CallError;

/// One failed request.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    pub(super) code: Option<ResponseCode>,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, code: None, text: text.into() }
    }

    /// `None` if the answer is success.
    pub(super) fn of(answer: &Result<Frame, CallError>) -> Option<Self> {
        let frame = match answer {
            Ok(frame) => frame,
            Err(error) => return Some(Self::new(kind_of(error), error.to_string())),
        };
        match frame.command_without_body() {
            Ok(command) => Self::of_answer(command.response_code(), command.remark.as_deref()),
            Err(error) => Some(Self::new(ErrorKind::Protocol, error.to_string())),
        }
    }

    /// `None` if the code is success.
    pub(super) fn of_answer(code: ResponseCode, remark: Option<&str>) -> Option<Self> {
        if code == ResponseCode::SUCCESS {
            return None;
        }
        let remark = remark.unwrap_or_default();
        let kind = ErrorKind::of_answer(code, remark);
        Some(Self { kind, code: Some(code), text: format!("answered {code} {remark}").trim_end().to_owned() })
    }

    /// As one of the things that were tried.
    pub(super) fn attempt(&self, server: impl fmt::Display) -> Attempt {
        let mut attempt = Attempt::new(server.to_string(), self.kind, &self.text, Default::default());
        attempt.code = self.code;
        attempt
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
