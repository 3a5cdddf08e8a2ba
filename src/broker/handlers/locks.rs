//! Queue locks of groups that consume in order.

use super::super::request::{Answer, Handled, Request};
use super::super::state::State;
use crate::protocol::body::{LockBatchAnswer, LockBatchRequest};

/// 41. Queues that somebody else holds are missing from the answer.
pub(crate) fn lock(state: &mut State, request: &Request) -> Handled {
    let LockBatchRequest { client_id, consumer_group, mq_set, .. } =
        LockBatchRequest::read(&request.command.body)?;
    let now = state.now.millis;
    let locked = mq_set.into_iter().filter(|queue| state.locks.lock(&consumer_group, queue, &client_id, now));
    Answer::body(LockBatchAnswer { lock_ok_mq_set: locked.collect() }.write())
}

/// 42. Only the client's own locks are undone.
pub(crate) fn unlock(state: &mut State, request: &Request) -> Handled {
    let LockBatchRequest { client_id, consumer_group, mq_set, .. } =
        LockBatchRequest::read(&request.command.body)?;
    mq_set.iter().for_each(|queue| state.locks.unlock(&consumer_group, queue, &client_id));
    Answer::ok()
}
