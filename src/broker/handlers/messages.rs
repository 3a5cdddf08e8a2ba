//! Single messages.

use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::state::State;
use crate::protocol::headers::ViewMessage;

/// 33: by position in the log.
pub(crate) fn view(state: &State, request: &Request) -> Handled {
    let offset = request.header::<ViewMessage>()?.offset;
    let record = u64::try_from(offset).ok().and_then(|position| state.store.record_at(position));
    match record {
        Some(record) => Answer::body(record),
        None => Err(Refusal::error(format_args!("can not find message by the offset, {offset}"))),
    }
}
