//! What the control loop has asked, and what it does with the answers.

use std::sync::Arc;
use std::time::Instant;

use crate::protocol::Frame;
use crate::remoting::CallError;

use super::super::heartbeat::Content;
use super::Control;

/// What came of a question to the name servers that were asked already.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub(super) asked: Vec<Arc<str>>,
    /// One of them said that there is no such topic.
    pub(super) missing: bool,
}

#[derive(Debug)]
pub(super) enum Question {
    Route {
        topic: Arc<str>,
        server: Arc<str>,
        before: Before,
    },
    Heartbeat {
        address: Arc<str>,
        connection: u64,
        content: Arc<Content>,
    },
    Goodbye {
        address: Arc<str>,
        id: u64,
    },
    /// To hear whether anybody is there. The answer does not matter, the bytes do.
    Probe,
}

impl Control {
    pub(super) fn answered(&mut self, tag: u64, outcome: Result<Frame, CallError>, now: Instant) {
        match self.questions.remove(&tag) {
            Some(Question::Route { topic, server, before }) => {
                self.route_answered(topic, server, before, outcome, now);
            }
            Some(Question::Heartbeat { address, connection, content }) => {
                self.heartbeat_answered(&address, connection, &content, outcome, now);
            }
            Some(Question::Goodbye { address, id }) => self.goodbye_answered(&address, id, outcome, now),
            Some(Question::Probe) => {}
            None => log::error!("an answer to question {tag}, which was not asked"),
        }
    }
}
