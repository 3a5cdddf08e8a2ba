//! How a push consumer is described, checked and started.

mod checks;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::PushConsumer;
use super::start;
use crate::client::{Client, ClientChoice, Verdict};
use crate::consumer::allocate;
use crate::consumer::batch::Batch;
use crate::consumer::listener::{Hook, Listener, Next};
use crate::consumer::local::LocalOffsets;
use crate::consumer::settings::{MessageModel, OffsetIllegal, Settings, standard_delay_levels};
use crate::error::{Error, Result};
use crate::message::{ConsumeFrom, Filter, MessageQueue};

pub(in crate::consumer) use checks::check_topics;
use checks::no_listener;

/// The settings of a [`PushConsumer`], plain data until [`start`](Self::start).
#[derive(Clone)]
#[must_use = "a consumer exists when start() has returned"]
pub struct PushConsumerBuilder {
    pub(in crate::consumer) group: String,
    pub(in crate::consumer) choice: ClientChoice,
    pub(in crate::consumer) subscriptions: Vec<(String, Filter)>,
    listener: Option<Listener>,
    hooks: Vec<Hook>,
    /// The modes that were asked for.
    modes: usize,
    settings: Settings,
    local_offsets: Option<LocalOffsets>,
    /// Consumed in order.
    in_order: bool,
    suspend_time: Duration,
    /// As given: checked, and put into `settings`, by `start`.
    max_reconsume_times: Option<u32>,
    consume_batch_size: usize,
    pull_batch_size: usize,
    pull_batch_bytes: usize,
}

impl PushConsumerBuilder {
    pub(in crate::consumer) fn new(group: String) -> Self {
        Self {
            group,
            choice: ClientChoice::default(),
            subscriptions: Vec::new(),
            listener: None,
            hooks: Vec::new(),
            modes: 0,
            settings: Settings {
                message_model: MessageModel::Clustering,
                consume_from: ConsumeFrom::LastOffset,
                allocate: Arc::new(allocate::averagely),
                consume_threads: 20,
                consume_batch_size: 1,
                consume_timeout: Duration::from_secs(15 * 60),
                max_reconsume_times: MAX_RECONSUME_TIMES,
                order: None,
                delay_levels: standard_delay_levels(),
                pull_batch_size: 32,
                pull_batch_bytes: 256 << 10,
                pull_interval: Duration::ZERO,
                pull_threshold_messages: 1000,
                pull_threshold_bytes: 100 << 20,
                max_span: 2000,
                commit_interval: Duration::from_secs(5),
                offset_illegal: OffsetIllegal::Nearest,
            },
            local_offsets: None,
            in_order: false,
            suspend_time: Duration::from_secs(1),
            max_reconsume_times: None,
            consume_batch_size: 1,
            pull_batch_size: 32,
            pull_batch_bytes: 256 << 10,
        }
    }

    /// A client of its own, with these name servers (`host:port`, separated by `;`, `,` or spaces). Default: the
    /// environment variable `NAMESRV_ADDR`.
    pub fn name_servers(mut self, list: impl Into<String>) -> Self {
        self.choice.name_servers(list);
        self
    }

    /// A client that is shared with other consumers and producers.
    pub fn client(mut self, client: &Client) -> Self {
        self.choice.client(client);
        self
    }

    /// Subscribes a topic: tags (`"created || paid"`, `"*"` for all) or another [`Filter`]. Once for each topic.
    pub fn subscribe(mut self, topic: impl Into<String>, filter: impl Into<Filter>) -> Self {
        self.subscriptions.push((topic.into(), filter.into()));
        self
    }

    /// The listener, called by all consume threads side by side. Returning normally means success; an `Err` is logged
    /// and means "later". A panic means "later" as well.
    ///
    /// It may call everything, as may a [hook](Self::consume_hook). A shutdown of its own consumer, which waits for the
    /// call to end, goes on in the background.
    pub fn consume_concurrently<R: Into<Verdict>>(
        mut self,
        listener: impl Fn(&Batch) -> R + Send + Sync + 'static,
    ) -> Self {
        self.modes += 1;
        self.listener = Some(Listener::Shared(Arc::new(move |batch| listener(batch).into())));
        self
    }

    /// As [`consume_concurrently`](Self::consume_concurrently), with a listener that is made on each consume thread
    /// and need not be `Send`: a database loader with one connection for each thread, say. `make` gets the number of
    /// the thread, from 0 on; after a panic of its listener it is called again. When a thread has ended
    /// ([`set_consume_threads`](crate::PushConsumer::set_consume_threads)), its listener is dropped, and the next thread
    /// that starts may get its number: at one time each number belongs to one thread, over time to several.
    pub fn consume_concurrently_with<L, R>(
        mut self,
        make: impl Fn(usize) -> L + Send + Sync + 'static,
    ) -> Self
    where
        L: FnMut(&Batch) -> R + 'static,
        R: Into<Verdict>,
    {
        self.modes += 1;
        self.listener = Some(Listener::PerThread(Arc::new(move |thread| {
            let mut listener = make(thread);
            Box::new(move |batch| listener(batch).into())
        })));
        self
    }

    /// The listener, called for one batch of a queue at a time, in the order of the queue, on whichever consume thread
    /// is free. A queue is consumed only while this member has the lock of its broker, so that no two members are in
    /// one queue at once.
    ///
    /// A message that is not accepted comes again after the [`suspend_time`](Self::suspend_time), or after the time
    /// that [`ReconsumeAfter`](crate::ConsumeStatus::ReconsumeAfter) wishes; its queue waits for it, and nothing
    /// overtakes. The first message of a batch that is neither `Success` nor `DeadLetter`, and all after it, come
    /// again, whatever their answers. How often is counted by this member alone: after a restart, or in another
    /// member, the count begins anew. Order holds within a queue: messages of one key must be sent to one queue, for
    /// which [`Message::sharding_key`](crate::Message::sharding_key) is made.
    pub fn consume_orderly<R: Into<Verdict>>(
        mut self,
        listener: impl Fn(&Batch) -> R + Send + Sync + 'static,
    ) -> Self {
        self.modes += 1;
        self.in_order = true;
        self.listener = Some(Listener::Shared(Arc::new(move |batch| listener(batch).into())));
        self
    }

    /// Code around the listener: a span, a timer, a transaction. The first hook added is the outermost. A hook calls
    /// [`next.run()`](Next::run) for the rest of the chain, or answers in its place; a panic counts as "later".
    pub fn consume_hook<R: Into<Verdict>>(
        mut self,
        hook: impl Fn(&Batch, Next<'_>) -> R + Send + Sync + 'static,
    ) -> Self {
        self.hooks.push(Arc::new(move |batch, next| hook(batch, next).into()));
        self
    }

    /// Whether the members of the group share the messages, or each gets all. Default: [`MessageModel::Clustering`].
    ///
    /// A message that a listener of a broadcasting consumer did not accept is given to it again by this member alone,
    /// after 1 s, then 2 s and so on up to a minute, as often as [`max_reconsume_times`](Self::max_reconsume_times) says;
    /// then it is given up with an event. (The Java client gives it up at once: set that to 0 for the same.)
    pub fn message_model(mut self, model: MessageModel) -> Self {
        self.settings.message_model = model;
        self
    }

    /// Where a broadcasting consumer keeps its offsets; in clustering, brokers do, and this counts for nothing. Default:
    /// the directory `.rocketmq_offsets` in the home directory of the user. Java: `rocketmq.client.localOffsetStoreDir`.
    ///
    /// Two consumers of one group need a directory each, or [`LocalOffsets::Memory`].
    pub fn local_offsets(mut self, place: LocalOffsets) -> Self {
        self.local_offsets = Some(place);
        self
    }

    /// Where to begin in a queue for which the group has no stored offset. Default: [`ConsumeFrom::LastOffset`].
    ///
    /// As in the Java client, brokers answer "0" for a group without stored offset while the queue is young (its first
    /// message still in memory). Such a group begins at 0, whatever is set here: with `LastOffset` nothing sent before
    /// the first start is lost, but [`ConsumeFrom::LastMessages`] brings more than that many. Where this must not be,
    /// there is [`PullConsumer::seek`](crate::PullConsumer::seek).
    pub fn consume_from(mut self, from: impl Into<ConsumeFrom>) -> Self {
        self.settings.consume_from = from.into();
        self
    }

    /// Who gets which queue: own id, all ids and all queues, both sorted, to own queues. Every member of the group
    /// must use the same. Default: [`allocate::averagely`].
    ///
    /// It runs on `rmq-rebalance`, which all consumers of the client share, and must not block. What would wait for that
    /// thread is refused there, on whichever client: polling, committing, [`seek`](crate::PullConsumer::seek) and
    /// [`assign`](crate::PullConsumer::assign) answer `InvalidInput` at once. A shutdown goes on in the background, and
    /// a consumer that is started there does not wait for its first queues.
    ///
    /// With a [`namespace`](crate::ClientBuilder::namespace) the topics of the queues have it in front, here alone:
    /// members in other languages share by the names that servers know. What it returns may be without it.
    pub fn allocate(
        mut self,
        strategy: impl Fn(&str, &[String], &[MessageQueue]) -> Vec<MessageQueue> + Send + Sync + 'static,
    ) -> Self {
        self.settings.allocate = Arc::new(strategy);
        self
    }

    /// The number of consume threads, exactly. Default: 20. From 1 to 1000.
    pub fn consume_threads(mut self, n: usize) -> Self {
        self.settings.consume_threads = n;
        self
    }

    /// The most messages in a batch. Default: 1. From 1 to 1024. Java: `consumeMessageBatchMaxSize`.
    pub fn consume_batch_size(mut self, n: usize) -> Self {
        self.consume_batch_size = n;
        self
    }

    /// How long a listener may take for a batch; then it is told so by [`Batch::is_cancelled`], and its messages are
    /// sent back for a retry. What it accepts later than that is done only if no broker has it by then; else it comes
    /// again. In order nothing may be overtaken: there it is only told so, and its answer counts
    /// whenever it comes. Looked at once a second. Default: 15 minutes.
    pub fn consume_timeout(mut self, t: Duration) -> Self {
        self.settings.consume_timeout = t;
        self
    }

    /// How often a message is retried before it becomes a dead letter. Default: 16; in order, no limit.
    pub fn max_reconsume_times(mut self, n: u32) -> Self {
        self.max_reconsume_times = Some(n);
        self
    }

    /// In order: how long a queue waits before a message that was not accepted comes again. Default: 1 s. From 10 ms
    /// to 30 s. Java: `suspendCurrentQueueTimeMillis`.
    pub fn suspend_time(mut self, t: Duration) -> Self {
        self.suspend_time = t;
        self
    }

    /// The delay levels of the broker, for [`ConsumeStatus::ReconsumeAfter`](crate::ConsumeStatus::ReconsumeAfter).
    /// Default: the standard 18. To be set where the broker's `messageDelayLevel` was changed.
    pub fn delay_levels(mut self, table: impl IntoIterator<Item = Duration>) -> Self {
        self.settings.delay_levels = table.into_iter().collect();
        self
    }

    /// The most messages asked for in one pull. Default: 32, which is also what brokers give at most unless
    /// configured otherwise. From 1 to 1024.
    pub fn pull_batch_size(mut self, n: usize) -> Self {
        self.pull_batch_size = n;
        self
    }

    /// The most bytes asked for in one pull. Default: 256 KiB. Brokers up to 5.5 have a limit of their own instead.
    pub fn pull_batch_bytes(mut self, n: usize) -> Self {
        self.pull_batch_bytes = n;
        self
    }

    /// A pause after each pull that brought messages. Default: none. Up to 65,535 ms.
    pub fn pull_interval(mut self, t: Duration) -> Self {
        self.settings.pull_interval = t;
        self
    }

    /// A queue with so many unfinished messages stops pulling. Default: 1000. From 1 to 65,535.
    pub fn pull_threshold_messages(mut self, n: usize) -> Self {
        self.settings.pull_threshold_messages = n;
        self
    }

    /// A queue that holds so many bytes stops pulling. Default: 100 MiB. Up to 1 GiB.
    pub fn pull_threshold_bytes(mut self, n: usize) -> Self {
        self.settings.pull_threshold_bytes = n;
        self
    }

    /// A queue stops pulling when so many messages were delivered since its oldest unfinished one, itself included:
    /// at most these and one pull more are repeated after a crash. Default: 2000. From 1 to 65,535. In order it has no
    /// meaning. Java: `consumeConcurrentlyMaxSpan`, which counts cached messages only.
    pub fn max_span(mut self, n: usize) -> Self {
        self.settings.max_span = n;
        self
    }

    /// How often changed offsets are committed; also at once when nothing is left to do, when a queue is given up,
    /// and at the shutdown. Default: 5 s. At least 100 ms.
    pub fn commit_interval(mut self, t: Duration) -> Self {
        self.settings.commit_interval = t;
        self
    }

    /// What to do when the offset to go on at does not exist. Default: [`OffsetIllegal::Nearest`].
    pub fn offset_illegal(mut self, policy: OffsetIllegal) -> Self {
        self.settings.offset_illegal = policy;
        self
    }

    /// Starts the consumer. Returns when every queue of the first assignment has its start position, or a reason why
    /// not yet (see [`PushConsumer::stats`]), within the start timeout of the client.
    ///
    /// # Errors
    /// `Config` with all mistakes of the settings. `TopicNotFound` for a topic that does not exist after it was asked
    /// for again for a second (not for `%DLQ%` topics, which come with the first dead letter), `InvalidInput` for a
    /// static topic and for a filter that the broker cannot read, `Broker` if it does not filter by properties; none of
    /// these with `connect_in_background`. `Unreachable` or `Timeout` with every server that was tried. `Closed` if the
    /// shared client was shut down.
    pub fn start(self) -> Result<PushConsumer> {
        let (parsed, mistakes) = self.check();
        if !mistakes.is_empty() {
            return Err(Error::config(mistakes));
        }
        let (settings, local) = (self.settings(), self.place_of_offsets());
        let Some(listener) = self.listener else {
            return Err(Error::config(vec![no_listener()]));
        };
        let client = self.choice.start()?;
        start::start(client, self.group, settings, listener, self.hooks, local, parsed)
    }
}

impl fmt::Debug for PushConsumerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushConsumerBuilder")
            .field("group", &self.group)
            .field("choice", &self.choice)
            .field("subscriptions", &self.subscriptions)
            .field("listener", &self.listener)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Of concurrent consumption, as the Java client.
const MAX_RECONSUME_TIMES: u32 = 16;
