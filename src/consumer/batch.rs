//! What a listener gets: messages of one queue, and a place for the answer to each.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::run::Run;
use super::slot::Slot;
use crate::client::{ConsumeStatus, Verdict};
use crate::clock::later;
use crate::message::{Message, MessageQueue, MessageView};

/// Messages of one queue, in its order, that a listener handles together. With the default batch size it is one.
///
/// Messages get their answers one by one with [`answer`](Self::answer) or [`each`](Self::each); what the listener
/// returns holds for those without one.
pub struct Batch {
    messages: Vec<MessageView>,
    queue: MessageQueue,
    answers: Mutex<Vec<Option<ConsumeStatus>>>,
    control: Option<Control>,
}

/// What ties a batch to the consumer that it comes from.
struct Control {
    slot: Arc<Slot>,
    /// The consume timeout.
    timeout: Duration,
}

impl Batch {
    /// Answers one message. The last answer wins; a message of another batch is refused with a warning.
    ///
    /// An `Err` is logged with the id of the message, and means [`ConsumeStatus::ReconsumeLater`].
    pub fn answer(&self, message: &MessageView, verdict: impl Into<Verdict>) {
        let verdict = verdict.into();
        let Some(index) = self.index_of(message) else {
            log::warn!(
                "a listener for {} answered message {}, which is not in its batch; the answer was ignored",
                self.queue,
                message.message_id()
            );
            return;
        };
        if let Some(error) = verdict.error() {
            log::warn!("message {} of {} failed: {error}", message.message_id(), self.queue);
        }
        let mut answers = self.answers.lock();
        answers.resize(self.messages.len(), None);
        if let Some(answer) = answers.get_mut(index) {
            *answer = Some(verdict.status());
        }
    }

    /// The answer of one message so far.
    pub fn status_of(&self, message: &MessageView) -> Option<ConsumeStatus> {
        let index = self.index_of(message)?;
        self.answers.lock().get(index).copied().flatten()
    }

    /// Calls `f` for every message, its result being the answer of that message. An `Err` does not end the loop.
    pub fn each<R: Into<Verdict>>(&self, mut f: impl FnMut(&MessageView) -> R) {
        for message in &self.messages {
            self.answer(message, f(message));
        }
    }

    /// Whether the results may come to nothing: the queue was revoked, the batch is late, or the grace of a shutdown
    /// is over. A long listener that looks at it can stop early.
    pub fn is_cancelled(&self) -> bool {
        self.control.as_ref().is_some_and(|control| control.slot.is_cancelled())
    }

    /// The queue that the messages come from; for a retry that of the retry topic.
    pub fn queue(&self) -> &MessageQueue {
        &self.queue
    }

    /// When the consume timeout is over.
    pub fn deadline(&self) -> Instant {
        match &self.control {
            Some(control) => later(control.slot.begun(), control.timeout),
            None => Instant::now() + Duration::from_secs(15 * 60),
        }
    }

    /// A batch of these messages, for the test of a listener. They come from a queue of the first one's topic.
    pub fn for_test(messages: impl IntoIterator<Item = Message>) -> Batch {
        let messages: Vec<MessageView> = messages.into_iter().map(MessageView::from).collect();
        let queue = messages
            .first()
            .map_or_else(|| MessageQueue::new("test", "test", 0), |message| message.queue().clone());
        Self { messages, queue, answers: Mutex::default(), control: None }
    }

    /// For one consume thread, to be filled again for each call.
    pub(super) fn of(slot: Arc<Slot>, timeout: Duration) -> Self {
        Self {
            messages: Vec::new(),
            queue: MessageQueue::new("", "", 0),
            answers: Mutex::default(),
            control: Some(Control { slot, timeout }),
        }
    }

    /// Holds nothing any more.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.answers.get_mut().clear();
    }

    pub(super) fn set_queue(&mut self, queue: &MessageQueue) {
        self.queue = queue.clone();
    }

    /// Puts a message of this run into a place, the ones before it being taken. The view that is there already serves
    /// again where it can.
    pub(super) fn put(&mut self, place: usize, run: &Run, index: u32) -> Option<&mut MessageView> {
        if !self.messages.get_mut(place).is_some_and(|view| run.turn(view, index)) {
            let view = run.view(index)?;
            self.messages.truncate(place);
            self.messages.push(view);
        }
        self.messages.get_mut(place)
    }

    /// Only so many are there, without answers.
    pub(super) fn keep(&mut self, messages: usize) {
        self.messages.truncate(messages);
        self.answers.get_mut().clear();
    }

    pub(super) fn messages_mut(&mut self) -> &mut Vec<MessageView> {
        &mut self.messages
    }

    /// The explicit answer of one message.
    pub(super) fn answer_at(&mut self, index: usize) -> Option<ConsumeStatus> {
        self.answers.get_mut().get(index).copied().flatten()
    }

    /// By address, which is how listeners pass it on; else by place, for a clone.
    fn index_of(&self, message: &MessageView) -> Option<usize> {
        let same = |known: &MessageView| {
            known.queue_offset() == message.queue_offset()
                && known.commit_log_offset() == message.commit_log_offset()
                && Arc::ptr_eq(known.source(), message.source())
        };
        let place = self.messages.iter().position(|known| std::ptr::eq(known, message));
        place.or_else(|| self.messages.iter().position(same))
    }
}

impl Deref for Batch {
    type Target = [MessageView];

    fn deref(&self) -> &[MessageView] {
        &self.messages
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = &'a MessageView;
    type IntoIter = std::slice::Iter<'a, MessageView>;

    fn into_iter(self) -> Self::IntoIter {
        self.messages.iter()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("queue", &self.queue).field("messages", &self.messages).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Batch {
        Batch::for_test(["a", "b", "c"].map(|body| Message::new("orders", body)))
    }

    #[test]
    fn the_last_answer_wins_and_others_have_none() {
        let batch = batch();
        batch.answer(&batch[1], ConsumeStatus::ReconsumeLater);
        batch.answer(&batch[1], ());
        assert_eq!(batch.status_of(&batch[1]), Some(ConsumeStatus::Success));
        assert_eq!(batch.status_of(&batch[0]), None);
    }

    #[test]
    fn each_answers_all_and_goes_on_after_an_error() {
        let batch = batch();
        batch.each(|message| if message.body() == b"b" { Err("no") } else { Ok(()) });
        let statuses: Vec<_> = batch.iter().map(|message| batch.status_of(message)).collect();
        let (done, later) = (Some(ConsumeStatus::Success), Some(ConsumeStatus::ReconsumeLater));
        assert_eq!(statuses, [done, later, done]);
    }

    #[test]
    fn a_clone_is_the_same_message_and_that_of_another_batch_is_not() {
        let (batch, other) = (batch(), batch());
        batch.answer(&batch[2].clone(), ());
        assert_eq!(batch.status_of(&batch[2]), Some(ConsumeStatus::Success));
        batch.answer(&other[0], ());
        assert_eq!(batch.status_of(&batch[0]), None);
    }
}
