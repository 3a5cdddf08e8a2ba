//! A message that an operator wants consumed now (309). It belongs to no process queue and moves no offset.

use std::sync::Arc;
use std::time::Duration;

use crate::client::{ConsumeStatus, Verdict};
use crate::message::{MessageQueue, MessageView};
use crate::protocol::body::{ConsumeMessageDirectlyResult, DirectResult};
use crate::protocol::{RemotingCommand, ResponseCode};
use crate::remoting::Incoming;

/// One such message, and whom to answer.
#[derive(Debug)]
pub(crate) struct Direct {
    pub(crate) message: MessageView,
    pub(crate) queue: MessageQueue,
    pub(crate) incoming: Arc<Incoming>,
}

/// What came of it.
pub(super) enum Came {
    /// The listener returned; the status is that of the message.
    Back(Verdict, ConsumeStatus),
    /// The listener panicked.
    Panicked(String),
    /// The message cannot be read.
    Unreadable(String),
}

impl Direct {
    /// Tells the broker, which tells the operator.
    pub(super) fn answer(&self, came: Came, took: Duration, in_order: bool) {
        let (consume_result, remark) = match came {
            Came::Back(_, ConsumeStatus::Success) => (DirectResult::Success, None),
            Came::Back(verdict, _) => (DirectResult::Later, verdict.error().map(str::to_owned)),
            Came::Panicked(text) | Came::Unreadable(text) => (DirectResult::ThrowException, Some(text)),
        };
        let result = ConsumeMessageDirectlyResult {
            auto_commit: true,
            consume_result,
            order: in_order,
            remark,
            spent_time_mills: i64::try_from(took.as_millis()).unwrap_or(i64::MAX),
        };
        self.incoming.respond(RemotingCommand::response(ResponseCode::SUCCESS, 0).body(result.write()));
    }
}
