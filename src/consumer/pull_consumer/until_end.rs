//! Reading up to the ends of the queues as they are at one moment.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use super::asking;
use super::poll::{self, Goal, Next, failing};
use super::seek::put_back;
use super::{PullConsumer, polling};
use crate::consumer::assignment::Ask;
use crate::consumer::core::Core;
use crate::consumer::offset::Offset;
use crate::error::{Attempt, Error, Result};
use crate::message::{MessageQueue, MessageView};

/// Messages of one queue after the other, up to the ends as they were; from [`PullConsumer::until_end`].
///
/// It waits for what is still to be fetched. An `Err` does not end it: asking on tries on.
pub struct UntilEnd<'a> {
    consumer: &'a PullConsumer,
    goal: Ends,
}

impl<'a> UntilEnd<'a> {
    pub(super) fn new(consumer: &'a PullConsumer) -> Result<Self> {
        let core = consumer.core();
        poll::allow_earlier(core);
        let asks = polling(core).held().into_keys().map(|queue| (queue, Ask::Max)).collect();
        let mut ends = BTreeMap::new();
        let mut failed: Vec<Attempt> = Vec::new();
        for (queue, end) in asking::offsets(core, asks) {
            match end {
                Ok(end) => drop(ends.insert(queue, end)),
                Err(attempt) => failed.push(attempt),
            }
        }
        if !failed.is_empty() {
            return Err(Error::failed("looking for the ends of the queues", failed));
        }
        Ok(Self { consumer, goal: Ends(ends) })
    }
}

impl Iterator for UntilEnd<'_> {
    type Item = Result<Vec<MessageView>>;

    fn next(&mut self) -> Option<Self::Item> {
        let core = self.consumer.core();
        if !self.consumer.inner.life.is_running() {
            return (!std::mem::take(&mut self.goal.0).is_empty())
                .then(|| Err(Error::closed("the consumer")));
        }
        if let Err(error) = self.consumer.check_may_wait() {
            return Some(Err(error));
        }
        poll::allow_earlier(core);
        let patience = core.instance.config().start_timeout;
        loop {
            let deadline = Instant::now().checked_add(patience);
            match poll::next(core, deadline, &mut self.goal) {
                Ok(Next::Messages(messages)) => return Some(Ok(messages)),
                Ok(Next::Reached) => return None,
                Ok(Next::TimeOver) => {
                    let stuck = self.goal.stuck(core);
                    if !stuck.is_empty() {
                        return Some(Err(Error::failed("reading to the ends of the queues", stuck)));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Drop for UntilEnd<'_> {
    /// Queues with more than was wanted stood aside.
    fn drop(&mut self) {
        put_back(self.consumer.core());
    }
}

impl fmt::Debug for UntilEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UntilEnd").field("to_do", &self.goal.0).finish_non_exhaustive()
    }
}

/// The queues that are not through, and up to where they are to be read.
struct Ends(BTreeMap<MessageQueue, Offset>);

impl Ends {
    /// What is wrong with those that do not move.
    fn stuck(&self, core: &Core) -> Vec<Attempt> {
        let held = polling(core).held();
        let failure = |queue: &MessageQueue| {
            let unresolved = held.get(queue).cloned().flatten();
            unresolved.or_else(|| failing(core, queue))
        };
        self.0.keys().filter_map(|queue| Some(failure(queue)?.attempt(queue))).collect()
    }
}

impl Goal for Ends {
    fn limit(&self, queue: &MessageQueue) -> Option<Option<Offset>> {
        self.0.get(queue).map(|end| Some(*end))
    }

    fn is_reached(&mut self, core: &Core) -> bool {
        let polling = polling(core);
        self.0.retain(|queue, end| match core.owned_queue(queue) {
            // It would never get there.
            _ if polling.is_paused(queue) => false,
            Some(process) => process.watermark() < *end,
            // Its start is not known yet, or it belongs to another member by now.
            None => polling.holds(queue),
        });
        self.0.is_empty()
    }
}
