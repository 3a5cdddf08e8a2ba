//! From what was fetched to what user code can read: bodies inflated, on the thread that the user code runs on.

use super::run::Run;
use crate::message::MessageView;
use crate::protocol::{Compression, DecodeError, Inflater, MAX_INFLATED};

/// Makes a message of a run readable.
///
/// # Errors
/// Its bytes are damaged: trying again cannot help.
pub(super) fn make_readable(
    inflater: &mut Inflater,
    run: &Run,
    index: u32,
    view: &mut MessageView,
) -> Result<(), DecodeError> {
    if run.is_unreadable(index) {
        return Err(DecodeError::new("its bytes are damaged"));
    }
    inflate(inflater, view)
}

/// Inflates its body, if that is compressed.
///
/// # Errors
/// As [`make_readable`].
pub(super) fn inflate(inflater: &mut Inflater, view: &mut MessageView) -> Result<(), DecodeError> {
    if view.is_compressed() {
        let compression = Compression::of(view.sys_flag())?;
        let inflated = inflater.inflate(compression, view.body(), MAX_INFLATED)?;
        view.set_body(inflated.into());
    }
    Ok(())
}
