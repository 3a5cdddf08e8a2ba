//! What is wrong with bytes that cannot be read, or with a value that cannot be written.

use std::borrow::Cow;
use std::fmt;

/// Bytes that do not mean anything: what is wrong with them, and where. One word wide, as it is part of the result of
/// every step of decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    what: Cow<'static, str>,
    at: Option<usize>,
}

impl DecodeError {
    /// Says what is wrong.
    #[cold]
    pub fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner { what: what.into(), at: None }))
    }

    /// Says where, in bytes from the beginning of what was decoded.
    pub fn at(mut self, position: usize) -> Self {
        self.0.at = Some(position);
        self
    }

    /// Where, if it is known.
    pub fn position(&self) -> Option<usize> {
        self.0.at
    }

    /// The same in a wider context: `header: no such number`.
    #[cold]
    pub fn within(mut self, context: &str) -> Self {
        self.0.what = format!("{context}: {}", self.0.what).into();
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.what)?;
        match self.0.at {
            Some(position) => write!(f, " (at byte {position})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for DecodeError {}

/// A value that the wire cannot carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError {
    what: Cow<'static, str>,
    too_large: bool,
}

impl EncodeError {
    /// Says why.
    pub fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self { what: what.into(), too_large: false }
    }

    /// A frame of so many bytes is more than servers take.
    pub fn too_large(bytes: usize) -> Self {
        Self { what: format!("a frame of {bytes} bytes is more than 16 MiB").into(), too_large: true }
    }

    /// Whether the value is too large.
    pub fn is_too_large(&self) -> bool {
        self.too_large
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for EncodeError {}
