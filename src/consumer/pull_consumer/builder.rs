//! How a pull consumer is described, checked and started.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::polling::StartOffset;
use super::{PullConsumer, start};
use crate::client::Client;
use crate::consumer::local::LocalOffsets;
use crate::consumer::push::PushConsumerBuilder;
use crate::consumer::push::builder::check_topics;
use crate::consumer::settings::{MessageModel, OffsetIllegal};
use crate::error::{Error, Mistake, Result};
use crate::message::{
    ConsumeFrom, Filter, MessageQueue, TOOLS_GROUP, group_problem, is_reserved_group, topic_problem,
};

/// The settings of a [`PullConsumer`], plain data until [`start`](Self::start).
#[derive(Clone)]
#[must_use = "a consumer exists when start() has returned"]
pub struct PullConsumerBuilder {
    /// What both kinds of consumers have.
    shared: PushConsumerBuilder,
    /// `None` unless something was assigned, be it nothing.
    queues: Option<BTreeSet<MessageQueue>>,
    topics: Vec<(String, Filter)>,
    start_offset: Option<StartOffset>,
    auto_commit: Option<bool>,
}

impl PullConsumerBuilder {
    pub(super) fn new(group: String) -> Self {
        Self {
            shared: PushConsumerBuilder::new(group),
            queues: None,
            topics: Vec::new(),
            start_offset: None,
            auto_commit: None,
        }
    }

    /// A client of its own, with these name servers (`host:port`, separated by `;`, `,` or spaces). Default: the
    /// environment variable `NAMESRV_ADDR`.
    pub fn name_servers(self, list: impl Into<String>) -> Self {
        Self { shared: self.shared.name_servers(list), ..self }
    }

    /// A client that is shared with other consumers and producers.
    pub fn client(self, client: &Client) -> Self {
        Self { shared: self.shared.client(client), ..self }
    }

    /// Subscribes a topic: tags (`"created || paid"`, `"*"` for all) or another [`Filter`]. The consumer is a member of
    /// its group, whose members share the queues. Once for each topic.
    pub fn subscribe(self, topic: impl Into<String>, filter: impl Into<Filter>) -> Self {
        Self { shared: self.shared.subscribe(topic, filter), ..self }
    }

    /// Reads these queues, whatever others do: no member of the group, which is then only the name under which offsets
    /// are stored. Not together with [`subscribe`](Self::subscribe). With no queue at all, they can be assigned later.
    pub fn assign(mut self, queues: impl IntoIterator<Item = MessageQueue>) -> Self {
        self.queues.get_or_insert_default().extend(queues);
        self
    }

    /// As [`assign`](Self::assign), all queues of a topic, those that come later too; of their messages those that pass
    /// the filter.
    pub fn assign_topic(mut self, topic: impl Into<String>, filter: impl Into<Filter>) -> Self {
        self.topics.push((topic.into(), filter.into()));
        self
    }

    /// For programs that keep their offsets themselves: where to begin in a queue, asked once each time that the queue
    /// is assigned. `Ok(None)`: as if this was not set. It runs on the thread that polls, when it polls, and may block;
    /// as long as it fails or panics the queue is not read, and it is asked again.
    pub fn start_offset<E: fmt::Display>(
        mut self,
        look_up: impl Fn(&MessageQueue) -> Result<Option<i64>, E> + Send + Sync + 'static,
    ) -> Self {
        self.start_offset = Some(Arc::new(move |queue| look_up(queue).map_err(|error| format!("{error:#}"))));
        self
    }

    /// Whether what a poll has handed out counts as done, and is committed, once the next poll begins; also at a
    /// shutdown, and when the queue goes to another member. Default: `true` with [`subscribe`](Self::subscribe), `false`
    /// otherwise. Without it nothing is committed but by [`commit`](PullConsumer::commit) and
    /// [`commit_offsets`](PullConsumer::commit_offsets).
    pub fn auto_commit(mut self, on: bool) -> Self {
        self.auto_commit = Some(on);
        self
    }

    /// Where to begin in a queue for which the group has no stored offset. Default: [`ConsumeFrom::LastOffset`]. See
    /// [`PushConsumerBuilder::consume_from`].
    pub fn consume_from(self, from: impl Into<ConsumeFrom>) -> Self {
        Self { shared: self.shared.consume_from(from), ..self }
    }

    /// Whether the members of the group share the messages or each gets all. Default: [`MessageModel::Clustering`].
    /// In broadcasting, offsets are kept where [`local_offsets`](Self::local_offsets) says, and not by brokers.
    pub fn message_model(self, model: MessageModel) -> Self {
        Self { shared: self.shared.message_model(model), ..self }
    }

    /// Where a broadcasting consumer keeps its offsets. See [`PushConsumerBuilder::local_offsets`].
    pub fn local_offsets(self, place: LocalOffsets) -> Self {
        Self { shared: self.shared.local_offsets(place), ..self }
    }

    /// Who of the group gets which queue. Default: [`averagely`](crate::allocate::averagely). See
    /// [`PushConsumerBuilder::allocate`].
    pub fn allocate(
        self,
        strategy: impl Fn(&str, &[String], &[MessageQueue]) -> Vec<MessageQueue> + Send + Sync + 'static,
    ) -> Self {
        Self { shared: self.shared.allocate(strategy), ..self }
    }

    /// How often automatic commits are sent; also when nothing more is fetched, when a queue is given up and at the
    /// shutdown. Default: 5 s. At least 100 ms. Java: `autoCommitIntervalMillis`.
    pub fn commit_interval(self, t: Duration) -> Self {
        Self { shared: self.shared.commit_interval(t), ..self }
    }

    /// The most messages asked for in one pull, and so the most that a poll returns. Default: 32, which is also what
    /// brokers give at most unless configured otherwise. From 1 to 1024.
    pub fn pull_batch_size(self, n: usize) -> Self {
        Self { shared: self.shared.pull_batch_size(n), ..self }
    }

    /// The most bytes asked for in one pull. Default: 256 KiB. Brokers up to 5.5 have a limit of their own instead.
    pub fn pull_batch_bytes(self, n: usize) -> Self {
        Self { shared: self.shared.pull_batch_bytes(n), ..self }
    }

    /// A pause after each pull that brought messages. Default: none. Up to 65,535 ms.
    pub fn pull_interval(self, t: Duration) -> Self {
        Self { shared: self.shared.pull_interval(t), ..self }
    }

    /// A queue of which so many messages were fetched ahead stops pulling. Default: 1000. From 1 to 65,535.
    pub fn pull_threshold_messages(self, n: usize) -> Self {
        Self { shared: self.shared.pull_threshold_messages(n), ..self }
    }

    /// A queue of which so many bytes were fetched ahead stops pulling. Default: 100 MiB. Up to 1 GiB.
    pub fn pull_threshold_bytes(self, n: usize) -> Self {
        Self { shared: self.shared.pull_threshold_bytes(n), ..self }
    }

    /// What to do when the offset to go on at does not exist. Default: [`OffsetIllegal::Nearest`].
    pub fn offset_illegal(self, policy: OffsetIllegal) -> Self {
        Self { shared: self.shared.offset_illegal(policy), ..self }
    }

    /// Starts the consumer. Returns when every queue of the first assignment has its start position, or a reason why
    /// not yet (see [`PullConsumer::stats`]), within the start timeout of the client. With
    /// [`start_offset`](Self::start_offset) the start positions are looked for when it is polled.
    ///
    /// # Errors
    /// `Config` with all mistakes of the settings. `TopicNotFound` for a topic that does not exist after it was asked
    /// for again for a second (not with `connect_in_background`; `%DLQ%` topics come with the first dead letter).
    /// `Unreachable` or `Timeout` with every server that was tried. `Closed` if the shared client was shut down.
    pub fn start(self) -> Result<PullConsumer> {
        let (subscribed, topics, mistakes) = self.check();
        if !mistakes.is_empty() {
            return Err(Error::config(mistakes));
        }
        let assigning = self.is_assigning();
        let plan = start::Plan {
            settings: start::Plan::without_span(self.shared.settings()),
            local: self.shared.place_of_offsets(),
            topics: if assigning { topics } else { subscribed },
            queues: assigning.then(|| self.queues.unwrap_or_default()),
            auto_commit: self.auto_commit.unwrap_or(!assigning),
            start_offset: self.start_offset,
            group: self.shared.group,
        };
        start::start(self.shared.choice.start()?, plan)
    }

    fn is_assigning(&self) -> bool {
        self.queues.is_some() || !self.topics.is_empty()
    }

    /// The subscribed topics, the assigned ones, and all mistakes.
    fn check(&self) -> (BTreeMap<String, Filter>, BTreeMap<String, Filter>, Vec<Mistake>) {
        let mut mistakes = self.shared.choice.mistakes();
        let group = &self.shared.group;
        if let Some(problem) = group_problem(group) {
            mistakes.push(Mistake::new("group", problem));
        } else if is_reserved_group(group) && !(self.is_assigning() && group == TOOLS_GROUP) {
            let problem = format!("{group} is reserved for RocketMQ itself: choose another name");
            mistakes.push(Mistake::new("group", problem));
        }
        let subscribed = check_topics("subscribe", &self.shared.subscriptions, &mut mistakes);
        let topics = check_topics("assign_topic", &self.topics, &mut mistakes);
        match (self.is_assigning(), subscribed.is_empty()) {
            (true, false) => {
                let problem =
                    "topics are subscribed as well: members of a group have their queues shared out";
                mistakes.push(Mistake::new("assign", problem));
            }
            (false, true) => {
                let problem = "no topic is subscribed, and none assigned (assign_topic, assign)";
                mistakes.push(Mistake::new("subscribe", problem));
            }
            _ => {}
        }
        for queue in self.queues.iter().flatten() {
            if let Some(problem) = topic_problem(queue.topic()) {
                mistakes.push(Mistake::new("assign", problem));
            }
            if queue.queue_id() < 0 {
                mistakes.push(Mistake::new("assign", format!("{queue} has a negative number")));
            }
        }
        self.shared.check_offsets(&mut mistakes);
        self.shared.check_numbers(&mut mistakes);
        (subscribed, topics, mistakes)
    }
}

impl fmt::Debug for PullConsumerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullConsumerBuilder")
            .field("shared", &self.shared)
            .field("queues", &self.queues)
            .field("topics", &self.topics)
            .field("auto_commit", &self.auto_commit)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid() -> PullConsumerBuilder {
        PullConsumerBuilder::new("billing".into()).name_servers("127.0.0.1:9876")
    }

    fn mistakes(builder: PullConsumerBuilder) -> Vec<&'static str> {
        builder.check().2.iter().map(|mistake| mistake.setting).collect()
    }

    fn of_group(group: &str) -> PullConsumerBuilder {
        PullConsumerBuilder::new(group.into()).name_servers("127.0.0.1:9876")
    }

    #[test]
    fn each_bad_setting_is_named() {
        let negative = MessageQueue::new("orders", "broker-a", -1);
        let table = [
            ("subscribe", valid()),
            ("assign", valid().subscribe("orders", "*").assign([])),
            ("assign", valid().subscribe("orders", "*").assign_topic("stock", "*")),
            ("assign", valid().assign([negative])),
            ("assign_topic", valid().assign_topic("orders", "*").assign_topic("orders", "a")),
            ("subscribe", valid().subscribe("bad topic", "*")),
            ("group", of_group(TOOLS_GROUP).subscribe("orders", "*")),
            ("group", of_group("DEFAULT_CONSUMER").assign_topic("orders", "*")),
            ("pull_batch_size", valid().subscribe("orders", "*").pull_batch_size(0)),
            ("consume_from", valid().subscribe("orders", "*").consume_from(-1)),
        ];
        for (setting, builder) in table {
            assert_eq!(mistakes(builder), [setting]);
        }
        for right in [
            valid().subscribe("orders", "*"),
            valid().assign([]),
            of_group(TOOLS_GROUP).assign_topic("orders", "a || b"),
        ] {
            assert!(mistakes(right).is_empty());
        }
    }
}
