//! The pull consumer: its handle, its builder, its start.
//!
//! It is a consumer like the push consumer, with the same loops; in the place of the consume threads are the threads of
//! the program that poll. What a poll hands out is out of the cache; how far the group is committed is another matter.

mod asking;
mod builder;
mod commit;
mod poll;
mod polling;
mod seek;
mod start;
mod until_end;

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::events::Events;
use super::push::end::Inner;
use super::push::snapshot;
use super::rebalance_loop;
use super::stats::ConsumerStats;
use super::subscribing;
use crate::client::{Client, ShutdownReport};
use crate::error::{Error, Result};
use crate::message::{Filter, MessageQueue, MessageView};

pub use builder::PullConsumerBuilder;
pub(super) use polling::{Assigned, Polling, Question, Standing};
pub use until_end::UntilEnd;

/// Reads queues at the pace of the program, which calls [`poll`](Self::poll): as a member of a group whose members share
/// the queues ([`subscribe`](PullConsumerBuilder::subscribe)), or on its own
/// ([`assign_topic`](PullConsumerBuilder::assign_topic), [`assign`](PullConsumerBuilder::assign)).
///
/// Messages are fetched ahead, up to the thresholds. `Send` and `Sync`, but not `Clone`: share it by `Arc`. It is made
/// for one thread that polls; several may, if they commit with [`commit_offsets`](Self::commit_offsets) or not at all,
/// since what one of them was given is taken for done when another polls. After the shutdown its methods answer
/// `Closed`. Dropping it shuts it down within 2 s. Inside an [allocation strategy](PullConsumerBuilder::allocate), `poll`,
/// `until_end`, `commit`, `commit_offsets`, `seek` and `assign` answer `InvalidInput`, since they would wait for the
/// thread that it runs on. Java: `DefaultLitePullConsumer`.
#[derive(Debug)]
#[must_use = "a consumer ends when its handle is dropped"]
pub struct PullConsumer {
    inner: Arc<Inner>,
}

impl PullConsumer {
    /// The settings of a consumer of this group. For reading without a group of one's own there is
    /// [`TOOLS_GROUP`](crate::TOOLS_GROUP).
    pub fn builder(group: impl Into<String>) -> PullConsumerBuilder {
        PullConsumerBuilder::new(group.into())
    }

    /// The group.
    #[allow(clippy::misnamed_getters, reason = "users see the name without the namespace")]
    pub fn group(&self) -> &str {
        &self.core().plain_group
    }

    /// The client it works on.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The next messages of one queue, in its order; none if there are none within the timeout. With a timeout of zero
    /// it does not wait. With automatic commits, what earlier polls handed out counts as done.
    ///
    /// # Errors
    /// When there are no messages and every queue fails: what each of them met; trying again may help. `Protocol` for a
    /// message whose bytes are damaged, once: the next call goes on after it. `Closed` after the shutdown, also while it
    /// waits.
    pub fn poll(&self, timeout: Duration) -> Result<Vec<MessageView>> {
        self.check_may_wait()?;
        poll::poll(self.core(), timeout)
    }

    /// Everything up to the ends of the queues as they are now, then nothing: an iterator over what
    /// [`poll`](Self::poll) would return. Queues that go to another member meanwhile are left to that one, and paused ones
    /// are left alone.
    ///
    /// # Errors
    /// When the end of a queue cannot be found out. `Closed` after the shutdown.
    pub fn until_end(&self) -> Result<UntilEnd<'_>> {
        self.check_may_wait()?;
        UntilEnd::new(self)
    }

    /// Commits everything that was handed out so far, and returns when the brokers have confirmed it.
    ///
    /// # Errors
    /// What the brokers answered, if not that; `InvalidInput` if a queue went to another member, which gets again what
    /// this one had not committed. All other queues are committed then. `Closed` after the shutdown.
    pub fn commit(&self) -> Result<()> {
        self.check_may_wait()?;
        commit::everything(self.core())
    }

    /// Commits these offsets, each being the one after the last message that is done, and returns when the brokers have
    /// confirmed them. Smaller offsets than before are committed, too.
    ///
    /// # Errors
    /// `InvalidInput` for a negative offset and for a queue that this consumer does not have. Else as
    /// [`commit`](Self::commit).
    pub fn commit_offsets(&self, offsets: impl IntoIterator<Item = (MessageQueue, i64)>) -> Result<()> {
        self.check_may_wait()?;
        commit::offsets(self.core(), offsets)
    }

    /// What the group has stored for this queue; `None` if nothing. Brokers answer 0 for a group that has nothing stored
    /// while the queue is young.
    ///
    /// # Errors
    /// When no broker tells. `Closed` after the shutdown.
    pub fn committed(&self, queue: &MessageQueue) -> Result<Option<i64>> {
        self.inner.check_open()?;
        asking::committed(self.core(), &self.on_wire(queue))
    }

    /// The offset of the next message to be handed out. `None` while the queue is not ours, or its start is not known.
    pub fn position(&self, queue: &MessageQueue) -> Option<i64> {
        self.core().owned_queue(&self.on_wire(queue)).map(|process| process.watermark().wire())
    }

    /// Goes on there in this queue. What was fetched of it is dropped; nothing is committed by that alone, unless commits
    /// are automatic.
    ///
    /// # Errors
    /// `InvalidInput` for an offset that the queue does not have, and for a queue that this consumer does not have; else
    /// when no broker tells the offset. `Closed` after the shutdown.
    pub fn seek(&self, queue: &MessageQueue, to: impl Into<crate::ConsumeFrom>) -> Result<()> {
        self.check_may_wait()?;
        seek::seek(self.core(), &self.on_wire(queue), to.into())
    }

    /// Which offset that is in this queue, as a broker tells it now.
    ///
    /// # Errors
    /// `InvalidInput` for an offset that the queue does not have. When no broker tells. `Closed` after the shutdown.
    pub fn offset_at(&self, queue: &MessageQueue, at: impl Into<crate::ConsumeFrom>) -> Result<i64> {
        self.inner.check_open()?;
        seek::resolve(self.core(), &self.on_wire(queue), at.into()).map(|offset| offset.wire())
    }

    /// Fetches nothing more of these queues, and hands out nothing of them, until [`resume`](Self::resume). They stay
    /// owned. (Java's client hands out what it had fetched before.)
    pub fn pause<'a>(&self, queues: impl IntoIterator<Item = &'a MessageQueue>) {
        seek::pause(self.core(), queues.into_iter().map(|queue| self.on_wire(queue)));
    }

    /// Goes on with these queues.
    pub fn resume<'a>(&self, queues: impl IntoIterator<Item = &'a MessageQueue>) {
        seek::resume(self.core(), queues.into_iter().map(|queue| self.on_wire(queue)));
    }

    /// Reads these queues from now on, and no others: it replaces whatever was assigned before. Queues that stay go on
    /// where they are; of those that go nothing more can be committed.
    ///
    /// # Errors
    /// `InvalidInput` if topics are subscribed. `TopicNotFound`. `Closed` after the shutdown.
    pub fn assign(&self, queues: impl IntoIterator<Item = MessageQueue>) -> Result<()> {
        self.check_may_wait()?;
        let queues = queues.into_iter().map(|queue| self.on_wire(&queue)).collect();
        seek::assign(self.core(), queues)
    }

    /// The queues of a topic that can be read, by broker name and number.
    ///
    /// # Errors
    /// `TopicNotFound`; `Unreachable` or `Timeout` if no name server tells. `Closed` after the shutdown.
    pub fn queues(&self, topic: &str) -> Result<Vec<MessageQueue>> {
        self.inner.check_open()?;
        asking::queues(self.core(), topic)
    }

    /// Subscribes a topic, or changes its filter. Returns at once, with an SQL92 filter when a broker has accepted it; its
    /// queues follow.
    ///
    /// # Errors
    /// `InvalidInput` for a bad topic or filter, and if queues are assigned; with an SQL92 filter as
    /// [`PushConsumer::subscribe`](crate::PushConsumer::subscribe); `Closed` after the shutdown.
    pub fn subscribe(&self, topic: impl Into<String>, filter: impl Into<Filter>) -> Result<()> {
        self.inner.check_open()?;
        self.check_member()?;
        subscribing::subscribe(self.core(), &topic.into(), &filter.into())
    }

    /// Gives a topic up. Returns at once. If the program commits, it has a moment left to do so.
    ///
    /// # Errors
    /// `InvalidInput` if it is not subscribed; `Closed` after the shutdown.
    pub fn unsubscribe(&self, topic: &str) -> Result<()> {
        self.inner.check_open()?;
        self.check_member()?;
        subscribing::unsubscribe(self.core(), topic)
    }

    /// The queues it has now, in order, also those whose start position is not known yet.
    pub fn assignment(&self) -> Vec<MessageQueue> {
        let namespace = self.core().instance.namespace();
        polling(self.core()).held().keys().map(|queue| namespace.strip_queue(queue).into_owned()).collect()
    }

    /// Figures about it at this moment, with the reason for each queue that is not pulling.
    pub fn stats(&self) -> ConsumerStats {
        snapshot::take(self.core())
    }

    /// A subscription of its own to what happens. The first one also gets what happened since the start.
    pub fn events(&self) -> Events {
        self.core().events.subscribe()
    }

    /// Ends it: with automatic commits, everything that was handed out is committed; what was fetched and not handed out
    /// is left to the next owner. Returns by the end of the grace (and a moment), with a report; a second call gets the
    /// same one. Threads that poll get `Closed`.
    pub fn shutdown(&self, grace: Duration) -> ShutdownReport {
        Inner::shutdown(&self.inner, grace)
    }

    /// For benchmarks: pulls since the start.
    #[cfg(feature = "testing")]
    pub(crate) fn pulls_sent(&self) -> u64 {
        self.core().totals.pulls.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn core(&self) -> &Arc<Core> {
        &self.inner.core
    }

    fn on_wire(&self, queue: &MessageQueue) -> MessageQueue {
        self.core().instance.namespace().queue(queue).into_owned()
    }

    /// Whether it is open, and the calling thread may wait for `rmq-rebalance`.
    fn check_may_wait(&self) -> Result<()> {
        self.inner.check_open()?;
        if rebalance_loop::is_here() {
            let text = "an allocation strategy cannot do this: it would wait for the thread that it runs on";
            return Err(Error::invalid_input(text));
        }
        Ok(())
    }

    fn check_member(&self) -> Result<()> {
        if self.core().is_member() {
            return Ok(());
        }
        Err(Error::invalid_input("queues are assigned to this consumer: it cannot subscribe as well"))
    }
}

impl Drop for PullConsumer {
    fn drop(&mut self) {
        Inner::dropped(&self.inner);
    }
}

/// What this core has beside others.
fn polling(core: &Core) -> &Polling {
    core.polling.as_ref().expect("a pull consumer was made with it")
}
