//! What may go wrong, in one type: a kind to act on, and who answered what.
//!
//! `Display` is one line and names every server tried; the cause stays in `source()`, and `Debug` prints the
//! whole chain, since that is what `fn main() -> Result<…>` shows.
#![allow(dead_code, reason = "which constructors are used depends on the features")]

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::protocol::ResponseCode;

/// The result of nearly every call of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// [`kind`](Error::kind) is what a program acts on; the text is for people and says which servers were tried and
/// what each of them answered.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    text: String,
    code: Option<ResponseCode>,
    topic: Option<String>,
    attempts: Vec<Attempt>,
    mistakes: Vec<Mistake>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// The kind of trouble. Kinds carry no data, so they can be matched and compared.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What a server answered, if one did; of several attempts, the last answer.
    pub fn code(&self) -> Option<ResponseCode> {
        self.0.code
    }

    /// The topic this is about, if it is about one.
    pub fn topic(&self) -> Option<&str> {
        self.0.topic.as_deref()
    }

    /// Whether trying again later may help. The library has used up its own attempts when it returns an error.
    pub fn is_retryable(&self) -> bool {
        match self.0.kind {
            ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Busy => true,
            ErrorKind::Broker => self.0.code.is_some_and(|code| code.is_retryable()),
            _ => false,
        }
    }

    /// Each server that was tried, in order, with its own cause.
    pub fn attempts(&self) -> &[Attempt] {
        &self.0.attempts
    }

    /// All mistakes of a configuration; empty unless the kind is [`ErrorKind::Config`].
    pub fn mistakes(&self) -> &[Mistake] {
        &self.0.mistakes
    }
}

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The settings are wrong: fix the program. See [`Error::mistakes`].
    Config,
    /// This argument or message cannot be used: too large, a foreign queue, an offset out of range.
    InvalidInput,
    /// A server answered that there is no such topic.
    TopicNotFound,
    /// A broker answered that there is no such group.
    GroupNotFound,
    /// No server could be connected to.
    Unreachable,
    /// Connected, but no answer in time; also a request that nobody replied to.
    Timeout,
    /// A broker wants less traffic, or our own limit of calls in flight is reached: slow down.
    Busy,
    /// Credentials, permissions, or a certificate, ours or the server's.
    Refused,
    /// Any other answer of a server, see [`Error::code`].
    Broker,
    /// An answer that cannot be decoded.
    Protocol,
    /// A local file or socket.
    Io,
    /// The handle has been shut down.
    Closed,
}

/// One server that was tried, and what came of it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Attempt {
    /// The address, with the broker's name where it is known.
    pub server: String,
    /// What went wrong there.
    pub kind: ErrorKind,
    /// What the server answered, if it did.
    pub code: Option<ResponseCode>,
    /// The same in words: the remark of the answer, or the cause of the lost connection.
    pub detail: String,
    /// How long this attempt took.
    pub elapsed: Duration,
}

/// One wrong setting of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mistake {
    /// The name of the builder method, such as `consume_threads`; `group` for what `builder` was given.
    pub setting: &'static str,
    /// What is wrong with its value.
    pub problem: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            text: text.into(),
            code: None,
            topic: None,
            attempts: Vec::new(),
            mistakes: Vec::new(),
            source: None,
        }))
    }

    /// All mistakes of a configuration at once. Builders call it only when there is at least one.
    pub(crate) fn config(mistakes: Vec<Mistake>) -> Self {
        let mut error = Error::new(ErrorKind::Config, "wrong settings");
        error.0.mistakes = mistakes;
        error
    }

    pub(crate) fn invalid_input(text: impl Into<String>) -> Self {
        Error::new(ErrorKind::InvalidInput, text)
    }

    pub(crate) fn topic_not_found(topic: &str, attempts: Vec<Attempt>) -> Self {
        Error::new(ErrorKind::TopicNotFound, format!("there is no topic {topic}"))
            .with_topic(topic)
            .with_attempts(attempts)
    }

    /// `what` could not be done, since no server could be connected to.
    pub(crate) fn unreachable(what: impl fmt::Display, attempts: Vec<Attempt>) -> Self {
        Error::new(ErrorKind::Unreachable, format!("{what}: no server could be reached"))
            .with_attempts(attempts)
    }

    pub(crate) fn timeout(text: impl Into<String>) -> Self {
        Error::new(ErrorKind::Timeout, text)
    }

    /// `what` (a handle: "the client", "producer billing") has been shut down.
    pub(crate) fn closed(what: impl fmt::Display) -> Self {
        Error::new(ErrorKind::Closed, format!("{what} has been shut down"))
    }

    pub(crate) fn protocol(what: impl fmt::Display, cause: impl StdError + Send + Sync + 'static) -> Self {
        Error::new(ErrorKind::Protocol, format!("{what}: an answer that cannot be decoded: {cause}"))
            .with_source(cause)
    }

    pub(crate) fn io(what: impl fmt::Display, cause: std::io::Error) -> Self {
        Error::new(ErrorKind::Io, what.to_string()).with_source(cause)
    }

    /// `operation` ("commit offsets") was answered by the server at `address` with something other than success.
    pub(crate) fn answer(operation: &str, address: &str, code: ResponseCode, remark: Option<&str>) -> Self {
        let remark = remark.unwrap_or("").trim();
        let kind = ErrorKind::of_answer(code, remark);
        let mut error =
            Error::new(kind, format!("{operation}: {address} answered {}", in_words(code, remark)));
        error.0.code = Some(code);
        error
    }

    /// `operation` was tried at these servers, and none of them did it. What a connected server did says more than
    /// that another one could not be reached; else the last attempt counts.
    pub(crate) fn failed(operation: impl fmt::Display, attempts: Vec<Attempt>) -> Self {
        let telling = attempts.iter().rev().find(|attempt| attempt.kind != ErrorKind::Unreachable);
        let kind = telling.map_or(ErrorKind::Unreachable, |attempt| attempt.kind);
        Error::new(kind, format!("{operation} failed")).with_attempts(attempts)
    }

    pub(crate) fn with_topic(mut self, topic: &str) -> Self {
        self.0.topic = Some(topic.to_owned());
        self
    }

    /// Goes on with the sentence, before what each server said.
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        self.0.text.push_str(note);
        self
    }

    pub(crate) fn with_attempts(mut self, attempts: Vec<Attempt>) -> Self {
        let answered = attempts.iter().rev().find_map(|attempt| attempt.code);
        self.0.code = self.0.code.or(answered);
        self.0.attempts = attempts;
        self
    }

    pub(crate) fn with_source(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(cause.into());
        self
    }
}

impl ErrorKind {
    /// The kind of an answer that is not success.
    pub(crate) fn of_answer(code: ResponseCode, remark: &str) -> Self {
        match code {
            ResponseCode::TOPIC_NOT_EXIST => ErrorKind::TopicNotFound,
            ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST => ErrorKind::GroupNotFound,
            ResponseCode::SYSTEM_BUSY | ResponseCode::FLOW_CONTROL => ErrorKind::Busy,
            ResponseCode::NO_PERMISSION => ErrorKind::Refused,
            ResponseCode::SUBSCRIPTION_PARSE_FAILED => ErrorKind::InvalidInput,
            ResponseCode::USER_NOT_EXIST | ResponseCode::POLICY_NOT_EXIST => ErrorKind::Refused,
            // Brokers 4.9 report a failed signature check (AclException) as code 1 with the exception's text.
            ResponseCode::SYSTEM_ERROR if is_acl_text(remark) => ErrorKind::Refused,
            _ => ErrorKind::Broker,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Config => "wrong settings",
            ErrorKind::InvalidInput => "invalid input",
            ErrorKind::TopicNotFound => "topic not found",
            ErrorKind::GroupNotFound => "group not found",
            ErrorKind::Unreachable => "unreachable",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Busy => "busy",
            ErrorKind::Refused => "refused",
            ErrorKind::Broker => "answered with an error",
            ErrorKind::Protocol => "undecodable answer",
            ErrorKind::Io => "i/o error",
            ErrorKind::Closed => "shut down",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Attempt {
    pub(crate) fn new(
        server: impl Into<String>,
        kind: ErrorKind,
        detail: impl Into<String>,
        elapsed: Duration,
    ) -> Self {
        Attempt { server: server.into(), kind, code: None, detail: detail.into(), elapsed }
    }

    /// The server answered, but not with success.
    pub(crate) fn answered(
        server: impl Into<String>,
        code: ResponseCode,
        remark: Option<&str>,
        elapsed: Duration,
    ) -> Self {
        let remark = remark.unwrap_or("").trim();
        Attempt {
            server: server.into(),
            kind: ErrorKind::of_answer(code, remark),
            code: Some(code),
            detail: in_words(code, remark),
            elapsed,
        }
    }
}

impl Mistake {
    pub(crate) fn new(setting: &'static str, problem: impl Into<String>) -> Self {
        Mistake { setting, problem: problem.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)?;
        for (at, mistake) in self.0.mistakes.iter().enumerate() {
            write!(f, "{}{mistake}", if at == 0 { ": " } else { "; " })?;
        }
        for (at, attempt) in self.0.attempts.iter().enumerate() {
            write!(f, "{}{attempt}", if at == 0 { ": " } else { "; " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = if self.detail.is_empty() { self.kind.as_str() } else { &self.detail };
        write!(f, "{}: {detail}", self.server)?;
        // Of what was known beforehand there is no time to tell.
        if self.elapsed.is_zero() { Ok(()) } else { write!(f, " (after {:.1?})", self.elapsed) }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.problem)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, "; caused by: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}

/// A remark goes into one line of an error, whatever the server put into it (name servers answer with a line
/// break and a link, brokers sometimes with a Java stack trace).
fn in_words(code: ResponseCode, remark: &str) -> String {
    let first_line = remark.lines().next().unwrap_or("");
    let mut shown: String = first_line.chars().take(300).collect();
    if shown.len() < first_line.len() {
        shown.push('…');
    }
    if shown.is_empty() { format!("{code}") } else { format!("{code}: {shown}") }
}

fn is_acl_text(remark: &str) -> bool {
    ["AclException", "Check signature failed", "No acl config", "No accessKey"]
        .iter()
        .any(|part| remark.contains(part))
}

#[cfg(test)]
mod tests;
