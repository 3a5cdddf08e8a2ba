//! The push consumer: its handle, its builder, its start and its end.

pub(super) mod builder;
pub(super) mod end;
pub(super) mod member;
pub(super) mod snapshot;
pub(super) mod start;

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::core::Core;
use super::events::Events;
use super::pull_loop::PullEvent;
use super::stats::ConsumerStats;
use super::subscribing;
use crate::client::{Client, ShutdownReport};
use crate::error::{Error, Mistake, Result};
use crate::message::{Filter, MessageQueue};

pub use builder::PushConsumerBuilder;
use end::Inner;

/// Consumes topics as a member of a group: fetches messages by itself and gives them to a listener on its consume
/// threads. Members of a group, whatever language they are written in, share the queues of a topic.
///
/// `Send` and `Sync`, but not `Clone`: share it by `Arc`. After the shutdown its methods answer `Closed`. Dropping it
/// shuts it down within 2 s. A listener that captures the consumer's own handle keeps it from ever being dropped;
/// [`stopper`](Self::stopper) is for that.
#[derive(Debug)]
#[must_use = "a consumer ends when its handle is dropped"]
pub struct PushConsumer {
    inner: Arc<Inner>,
}

impl PushConsumer {
    /// The settings of a consumer of this group.
    pub fn builder(group: impl Into<String>) -> PushConsumerBuilder {
        PushConsumerBuilder::new(group.into())
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

    /// Stops pulling. Queues stay owned, and what has been fetched is consumed.
    pub fn suspend(&self) {
        self.core().suspended.store(true, std::sync::atomic::Ordering::Release);
        // So that `stats()` shows the reason at once.
        self.core().post_pull(PullEvent::NudgeAll);
    }

    /// Goes on pulling.
    pub fn resume(&self) {
        self.core().suspended.store(false, std::sync::atomic::Ordering::Release);
        self.core().post_pull(PullEvent::NudgeAll);
    }

    /// Subscribes a topic, or changes its filter, while the consumer runs. Returns at once, with an SQL92 filter when a
    /// broker has accepted it; its queues follow, after 2.5 s if other members of the group must notice it first. The
    /// queues of other topics are not disturbed.
    ///
    /// Members of a group should subscribe the same: brokers keep one set of subscriptions for all of them. What differs
    /// is told by [`Event::SubscriptionMismatch`](super::Event::SubscriptionMismatch).
    ///
    /// # Errors
    /// `InvalidInput` for a bad topic or filter, `Closed` after the shutdown. With an SQL92 filter also `Broker` if the
    /// broker does not filter by properties, and what went wrong if none could be asked. Nothing has changed then.
    pub fn subscribe(&self, topic: impl Into<String>, filter: impl Into<Filter>) -> Result<()> {
        self.inner.check_open()?;
        subscribing::subscribe(self.core(), &topic.into(), &filter.into())
    }

    /// Gives a topic up while the consumer runs: its queues are committed and released. Returns at once.
    ///
    /// In a group of up to 16 members that are all of this library, the others take its queues over. Clients in other
    /// languages go on counting this member, as long as it is in the group, and so does everybody beside them: the
    /// queues that would be this member's then stay alone.
    ///
    /// # Errors
    /// `InvalidInput` if it is not subscribed, `Closed` after the shutdown.
    pub fn unsubscribe(&self, topic: &str) -> Result<()> {
        self.inner.check_open()?;
        subscribing::unsubscribe(self.core(), topic)
    }

    /// Changes the number of consume threads: exactly this many, from 1 to 1000. Running listener calls end first.
    ///
    /// # Errors
    /// `Config` for another number, `Io` if a thread cannot be started, `Closed` after the shutdown.
    pub fn set_consume_threads(&self, n: usize) -> Result<()> {
        self.inner.check_open()?;
        if !(1..=1000).contains(&n) {
            let problem = format!("{n} is not between 1 and 1000");
            return Err(Error::config(vec![Mistake::new("consume_threads", problem)]));
        }
        self.inner.set_threads(n)
    }

    /// The queues it owns now, in order.
    pub fn assignment(&self) -> Vec<MessageQueue> {
        let namespace = self.core().instance.namespace();
        let owned = self.core().owned();
        owned.iter().map(|process| namespace.strip_queue(process.queue()).into_owned()).collect()
    }

    /// Figures about it at this moment, with the reason for each queue that is not pulling.
    pub fn stats(&self) -> ConsumerStats {
        snapshot::take(self.core())
    }

    /// A subscription of its own to what happens. The first one also gets what happened since the start.
    pub fn events(&self) -> Events {
        self.core().events.subscribe()
    }

    /// Ends it: stops pulling, lets running listeners finish, commits and waits for the brokers' word, says goodbye,
    /// joins its threads. Returns by the end of the grace (and a moment), with a report; a second call gets the same
    /// one. If the report is clean, the next owner of the queues sees no duplicate.
    ///
    /// From its own listener or hook it returns at once, and the rest happens when that has returned. So it does from an
    /// allocation strategy and any other code that runs on a thread which shutdowns need.
    pub fn shutdown(&self, grace: Duration) -> ShutdownReport {
        Inner::shutdown(&self.inner, grace)
    }

    /// A handle that only stops this consumer, for signal handlers and listeners. It does not keep it alive.
    pub fn stopper(&self) -> Stopper {
        Stopper { inner: Arc::downgrade(&self.inner) }
    }

    /// Waits until somebody has called [`shutdown`](Self::shutdown), or [`stop`](Stopper::stop) on a stopper.
    pub fn wait(&self) {
        self.inner.wait();
    }

    /// For benchmarks: pulls since the start.
    #[cfg(feature = "testing")]
    pub(crate) fn pulls_sent(&self) -> u64 {
        self.core().totals.pulls.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn core(&self) -> &Arc<Core> {
        &self.inner.core
    }
}

impl Drop for PushConsumer {
    fn drop(&mut self) {
        Inner::dropped(&self.inner);
    }
}

/// Stops a consumer from anywhere. See [`PushConsumer::stopper`].
#[derive(Clone, Debug)]
pub struct Stopper {
    inner: Weak<Inner>,
}

impl Stopper {
    /// Begins the shutdown and returns at once. Listeners have 10 s to end. [`PushConsumer::wait`] returns, and
    /// [`PushConsumer::shutdown`] gets the report.
    pub fn stop(&self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.stop(STOP_GRACE);
        }
    }
}

const STOP_GRACE: Duration = Duration::from_secs(10);
