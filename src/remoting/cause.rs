use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::error::ErrorKind;

/// Why there is no connection, in words, and what that is to a caller. Reads like the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    text: Arc<str>,
    kind: ErrorKind,
}

impl Cause {
    /// Anything but the network's doing, such as a certificate that is not accepted: trying again does not help.
    pub(crate) fn new(kind: ErrorKind, text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), kind }
    }

    /// `Unreachable`, unless the network has nothing to do with it.
    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The same of another text.
    pub(super) fn with_text(&self, text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), kind: self.kind }
    }
}

impl<T: Into<Arc<str>>> From<T> for Cause {
    fn from(text: T) -> Self {
        Self::new(ErrorKind::Unreachable, text)
    }
}

impl Deref for Cause {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
