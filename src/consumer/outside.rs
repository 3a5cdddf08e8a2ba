//! What the deciding parts of a consumer see of the world outside them, and what they ask of it.
//!
//! Fetching, rebalancing and sending back decide by this trait alone: no socket, thread, channel or clock.
//! [`Core`](super::core::Core) is what runs; the simulator stands in for it where the promises are tested.

mod real;
#[cfg(test)]
pub(super) mod stub;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::budget::Budget;
use super::core::Totals;
use super::events::Event;
use super::lease::Asked;
use super::local::LocalStore;
use super::losses::Losses;
use super::process_queue::{ProcessQueue, Settled};
use super::pull_consumer::{Assigned, Standing};
use super::pull_loop::PullEvent;
use super::rebalance_loop::RebalanceEvent;
use super::settings::Settings;
use super::stats::Waiting;
use super::timer_loop::TimerEvent;
use crate::client::{Namespace, Role};
use crate::message::{MessageQueue, Subscription};
use crate::protocol::body::LockBatchRequest;
use crate::protocol::headers::{
    ConsumerGroup, ConsumerSendBack, GetConsumerRunningInfo, GetMaxOffset, PullMessage, QueryConsumerOffset,
    QueueStart, SearchOffset, SendMessage, UpdateConsumerOffset,
};

/// By topic, as the wire has it.
pub(crate) type Subscriptions = BTreeMap<Arc<str>, Arc<Subscription>>;

/// A request to a broker.
#[derive(Debug)]
pub(crate) enum Request {
    /// Messages of one queue, on this connection and no other. It is on its way only after a flush.
    Pull(u64, Box<PullMessage>),
    /// A message is to be held for a retry, or as a dead letter.
    SendBack(ConsumerSendBack),
    /// The same as a new message, with its body.
    Send(Box<SendMessage>, Vec<u8>),
    /// The members of a group.
    Members(ConsumerGroup),
    /// The members of a group, and what a broker holds of its subscriptions.
    Connections(ConsumerGroup),
    /// What a member is doing; the broker passes the question on to it.
    RunningInfo(GetConsumerRunningInfo),
    /// What the group has stored.
    Stored(QueryConsumerOffset),
    /// The end of a queue.
    Max(GetMaxOffset),
    /// Its beginning.
    Min(QueueStart),
    /// Its first message from a time on.
    Time(SearchOffset),
    /// An offset to be stored.
    Commit(UpdateConsumerOffset),
    /// Queues to be had by this member alone.
    Lock(LockBatchRequest),
    /// Queues that others may have.
    Unlock(LockBatchRequest),
}

/// Everything outside of the deciding parts of one consumer.
pub(crate) trait Outside: Sized {
    /// Where the answers to requests go.
    type Sink;

    /// Sends a request. Its one outcome comes through `sink` with `tag`, never before this returns.
    fn send(&self, address: &str, request: Request, sink: &Self::Sink, tag: u64);
    /// One heartbeat as soon as possible, to one broker or to all.
    fn heartbeat_now(&self, address: Option<&str>);
    /// The route of this topic is asked for.
    fn want_route(&self, topic: &str);

    /// The queues to be read, if the route of the topic is known.
    fn queues_of(&self, topic: &str) -> Option<Vec<MessageQueue>>;
    /// Some broker of the topic.
    fn any_broker_of(&self, topic: &str) -> Option<Arc<str>>;
    /// The address of a broker, and the id there.
    fn broker_address(&self, name: &str, role: Role) -> Option<(Arc<str>, u64)>;
    /// Which broker that is.
    fn broker_name(&self, address: &str) -> Option<Arc<str>>;
    /// Name and address of every master.
    fn masters(&self) -> Vec<(Arc<str>, Arc<str>)>;
    /// The connection on which the broker has acknowledged this version of the subscription.
    fn told_on(&self, address: &str, topic: &str, version: i64) -> Option<u64>;

    /// Our own address on the connection to this one.
    fn own_address(&self, address: &str) -> Option<SocketAddr>;
    /// The time between two heartbeats.
    fn heartbeat_interval(&self) -> Duration;

    /// One of the filter servers of a broker, for class filters.
    fn filter_server(&self, _topic: &str, _address: &str) -> Option<Arc<str>> {
        None
    }
    /// The filter servers of this broker are given the classes of this member again.
    fn upload_classes(&self, _address: &str) {}

    /// The id of this member.
    fn client_id(&self) -> &str;
    /// The group as the wire has it.
    fn group(&self) -> &Arc<str>;
    /// The group as the program named it.
    fn plain_group(&self) -> &str;
    /// What names have on the wire and not in the program.
    fn namespace(&self) -> &Namespace;
    /// The settings.
    fn settings(&self) -> &Settings;
    /// Where this member keeps its offsets itself; `None` where brokers do.
    fn local_store(&self) -> Option<&Arc<LocalStore>> {
        None
    }
    /// What is subscribed.
    fn subscriptions(&self) -> Arc<Subscriptions>;
    /// Whether the user has stopped the pulling.
    fn is_suspended(&self) -> bool;
    /// The bytes that may be cached.
    fn budget(&self) -> &Arc<Budget>;
    /// What is counted.
    fn totals(&self) -> &Totals;

    /// The present moment.
    fn now(&self) -> Instant;
    /// The time of day.
    fn time(&self) -> SystemTime;
    /// The moment by the machine's clock, whoever moves the other one: for what is measured.
    fn measured_now(&self) -> Instant;
    /// Whether a test moves the time, maybe past what a broker holds in real time.
    fn is_moved_by_hand(&self) -> bool;
    /// Chance: between 0 and 1.
    fn jitter(&self) -> f64;

    /// Something for `rmq-pull`.
    fn post_pull(&self, event: PullEvent<Self>);
    /// Something for `rmq-rebalance`.
    fn post_rebalance(&self, event: RebalanceEvent<Self>);
    /// Something for `rmq-timer`.
    fn post_timer(&self, event: TimerEvent<Self>);
    /// Something for the user.
    fn emit(&self, event: Event);

    /// The queue has messages to take.
    fn ready(&self, queue: &Arc<ProcessQueue>, oldest: Instant);
    /// So many messages came.
    fn came(&self, messages: usize);
    /// So many are out of what waits.
    fn went(&self, messages: usize);
    /// Wakes a consume thread if the work is worth it. Whether to look again soon.
    fn wake(&self) -> bool;
    /// Listeners are told that their results may come to nothing.
    fn cancel_listeners(&self);
    /// This generation is what is owned.
    fn own(&self, queue: &Arc<ProcessQueue>);
    /// Not any more, unless a newer one has taken its place.
    fn disown(&self, queue: &ProcessQueue);
    /// What is owned.
    fn owned(&self) -> Vec<Arc<ProcessQueue>>;
    /// Why a queue that is to be consumed has no process queue yet; `None` when it has, or is given up.
    fn wait_for_start(&self, queue: &MessageQueue, waiting: Option<Waiting>);
    /// Whether a listener of this consumer is at work on the queue, be it of a generation that was given up.
    fn is_listening_to(&self, queue: &MessageQueue) -> bool;
    /// The locks of this broker are renewed now.
    fn renew_locks(&self, broker: &Arc<str>);
    /// How often the connection to this broker was lost.
    fn losses(&self, broker: &Arc<str>) -> Losses;

    /// A lock of this broker is asked for now.
    fn asking(&self, broker: &Arc<str>) -> Asked {
        let losses = self.losses(broker).count();
        Asked { at: self.now(), by_wall: self.time(), losses }
    }

    /// `Some` if threads of the program poll the messages: whether what they got is committed without their word.
    fn polled(&self) -> Option<bool> {
        None
    }

    /// The queues to be read whatever other members do; `None` for a member of the group.
    fn assigned(&self) -> Option<Assigned> {
        None
    }

    /// Whether it shares queues with others of its group.
    fn is_member(&self) -> bool {
        true
    }

    /// Whether the program keeps offsets itself.
    fn has_own_offsets(&self) -> bool {
        false
    }

    /// The program is asked for the start of this queue, the next time that it polls.
    fn ask_program(&self, _: &MessageQueue, _epoch: u64) {}

    /// Whether the program has paused this queue.
    fn is_paused(&self, _: &MessageQueue) -> bool {
        false
    }

    /// How it stands with a queue that is, or was, wanted.
    fn note(&self, _: &MessageQueue, _: Standing) {}

    /// A queue has moved without a message for anybody.
    fn passed(&self) {}

    /// Whether the broker has acknowledged this version of the subscription.
    fn is_told(&self, address: &str, topic: &str, version: i64) -> bool {
        self.told_on(address, topic, version).is_some()
    }

    /// The subscription of one topic.
    fn subscription(&self, topic: &str) -> Option<Arc<Subscription>> {
        self.subscriptions().get(topic).cloned()
    }

    /// Milliseconds since 1970.
    fn millis(&self) -> i64 {
        crate::clock::millis_of(self.time())
    }

    /// Passes on what a look at a process queue found.
    fn settled(&self, queue: &ProcessQueue, settled: Settled) {
        if settled.relieved {
            self.post_pull(PullEvent::Nudge(queue.id()));
        }
        if settled.drained {
            self.post_rebalance(RebalanceEvent::Drained(queue.id()));
        }
        if settled.idle && queue.facts.report_idle() {
            self.post_rebalance(RebalanceEvent::Idle(queue.id()));
        }
    }
}
