//! What a consumer tells of itself while it runs.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::stats::{StartReason, Waiting};
use crate::client::Namespace;
use crate::message::{MessageQueue, MessageView};

/// Something that happened to a consumer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Every queue of the first assignment has its start position, or a reason why not yet.
    Ready,
    /// A queue is consumed from here on.
    #[non_exhaustive]
    Assigned {
        /// The queue.
        queue: MessageQueue,
        /// Where it starts.
        offset: i64,
        /// Why there.
        reason: StartReason,
    },
    /// A queue was given up.
    #[non_exhaustive]
    Revoked {
        /// The queue.
        queue: MessageQueue,
        /// The offset that the broker has confirmed; `None` when it confirmed none.
        committed: Option<i64>,
        /// Messages still in a listener, whose results come to nothing.
        abandoned: usize,
    },
    /// The broker said that the offset that was asked for does not exist.
    #[non_exhaustive]
    OffsetCorrected {
        /// The queue.
        queue: MessageQueue,
        /// What was asked for.
        from: i64,
        /// Where it goes on.
        to: i64,
    },
    /// An operator has reset the offset of the group.
    #[non_exhaustive]
    OffsetReset {
        /// The queue.
        queue: MessageQueue,
        /// Where it goes on.
        to: i64,
    },
    /// Another member of the group subscribes something else: brokers keep one set of subscriptions for a group, so that
    /// messages are left out and queues left alone. Members of a group must subscribe the same topics with the same
    /// filters. Told again after ten minutes, if it is still so.
    #[non_exhaustive]
    SubscriptionMismatch {
        /// The topic.
        topic: String,
        /// The filter of this member; empty if it does not subscribe the topic.
        ours: String,
        /// That of the other one; empty if that one does not subscribe it.
        theirs: String,
    },
    /// Another client in the group has the id of this one, so that both take the same queues. Leave
    /// [`instance_name`](crate::ClientBuilder::instance_name) alone, or give each client its own.
    #[non_exhaustive]
    DuplicateClientId {
        /// The id.
        client_id: String,
    },
    /// A subscribed topic does not exist any more, or not yet.
    #[non_exhaustive]
    TopicMissing {
        /// The topic.
        topic: String,
    },
    /// A subscribed topic is there, and cannot be consumed by this library: it is a static one, whose logical queues
    /// move between brokers.
    #[non_exhaustive]
    TopicUnusable {
        /// The topic.
        topic: String,
        /// Why.
        reason: String,
    },
    /// A queue does not move.
    #[non_exhaustive]
    QueueStalled {
        /// The queue.
        queue: MessageQueue,
        /// Why.
        reason: Waiting,
        /// For how long.
        since: Duration,
    },
    /// A listener has run past the consume timeout; the message was sent back.
    #[non_exhaustive]
    ListenerLate {
        /// The first message of its batch.
        message: MessageView,
        /// The consume thread.
        thread: String,
        /// For how long it has run.
        running: Duration,
    },
    /// A listener panicked; its messages without an answer come again.
    #[non_exhaustive]
    ListenerPanicked {
        /// The first message of its batch.
        message: MessageView,
        /// What it said.
        panic: String,
    },
    /// No broker takes a failed message at the moment; it stays here.
    #[non_exhaustive]
    SendBackFailed {
        /// The message.
        message: MessageView,
        /// What the last attempt met.
        error: String,
        /// When the next one comes.
        next_try: Duration,
    },
    /// A message became a dead letter.
    #[non_exhaustive]
    DeadLetter {
        /// The message.
        message: MessageView,
    },
    /// A broadcasting consumer has given a message up: its listener did not accept it, as often as it was asked, and in
    /// this mode nobody keeps it.
    #[non_exhaustive]
    GivenUp {
        /// The message.
        message: MessageView,
    },
    /// A broker's connection was lost.
    #[non_exhaustive]
    Disconnected {
        /// Its address.
        server: String,
        /// Why.
        error: String,
    },
    /// A thread of the library met a bug of its own; what it was working on was rebuilt.
    #[non_exhaustive]
    ThreadRestarted {
        /// The thread.
        thread: String,
        /// What it said.
        panic: String,
    },
    /// This subscription was not read in time.
    #[non_exhaustive]
    Missed {
        /// How many events were dropped.
        events: u64,
    },
}

impl Event {
    /// With queues as the program knows them. Messages have theirs like that already.
    pub(crate) fn without(mut self, namespace: &Namespace) -> Self {
        if let Self::Assigned { queue, .. }
        | Self::Revoked { queue, .. }
        | Self::OffsetCorrected { queue, .. }
        | Self::OffsetReset { queue, .. }
        | Self::QueueStalled { queue, .. } = &mut self
        {
            namespace.strip_from(queue);
        }
        self
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Assigned { queue, offset, reason } => {
                write!(f, "{queue} starts at {offset}: {}", reason.explain(*offset))
            }
            Self::Revoked { queue, committed, abandoned } => {
                write!(f, "{queue} given up, ")?;
                match committed {
                    Some(offset) => write!(f, "committed {offset}")?,
                    None => f.write_str("nothing committed")?,
                }
                if *abandoned > 0 { write!(f, ", {abandoned} messages still in a listener") } else { Ok(()) }
            }
            Self::OffsetCorrected { queue, from, to } => {
                write!(f, "{queue}: offset {from} does not exist, going on at {to}")
            }
            Self::OffsetReset { queue, to } => write!(f, "{queue} was reset to {to}"),
            Self::SubscriptionMismatch { topic, ours, theirs } => {
                let text = |filter: &str| {
                    if filter.is_empty() { "not at all".to_owned() } else { format!("with {filter:?}") }
                };
                write!(
                    f,
                    "topic {topic} is subscribed {} here and {} by another member of the group",
                    text(ours),
                    text(theirs)
                )
            }
            Self::DuplicateClientId { client_id } => {
                write!(f, "another client in the group has the id {client_id} too")
            }
            Self::TopicMissing { topic } => write!(f, "topic {topic} does not exist"),
            Self::TopicUnusable { topic, reason } => write!(f, "topic {topic} cannot be used: {reason}"),
            Self::QueueStalled { queue, reason, since } => {
                write!(f, "{queue} has not moved for {since:.1?}: {reason}")
            }
            Self::ListenerLate { message, thread, running } => write!(
                f,
                "message {} of {} has been in its listener on {thread} for {running:.1?}",
                message.message_id(),
                message.queue()
            ),
            Self::ListenerPanicked { message, panic } => {
                write!(f, "the listener panicked on message {}: {panic}", message.message_id())
            }
            Self::SendBackFailed { message, error, next_try } => write!(
                f,
                "message {} could not be sent back: {error}; next try in {next_try:.1?}",
                message.message_id()
            ),
            Self::DeadLetter { message } => write!(
                f,
                "message {} of {} became a dead letter after {} retries",
                message.message_id(),
                message.topic(),
                message.reconsume_times()
            ),
            Self::GivenUp { message } => write!(
                f,
                "message {} of {} was given up after {} retries",
                message.message_id(),
                message.topic(),
                message.reconsume_times()
            ),
            Self::Disconnected { server, error } => write!(f, "{server} disconnected: {error}"),
            Self::ThreadRestarted { thread, panic } => write!(f, "{thread} panicked and goes on: {panic}"),
            Self::Missed { events } => write!(f, "{events} events were not read in time"),
        }
    }
}

/// A subscription to the events of one consumer. As an iterator it blocks, and ends after the shutdown.
///
/// It holds 1024 events; then the oldest goes, and an [`Event::Missed`] says how many went.
#[derive(Debug)]
pub struct Events(Arc<Ring>);

impl Events {
    /// The next event if there is one already.
    pub fn try_next(&mut self) -> Option<Event> {
        self.0.state.lock().pop()
    }

    /// The next event, waiting up to `timeout`.
    pub fn next_timeout(&mut self, timeout: Duration) -> Option<Event> {
        // A time too far ahead to be expressed is as good as for ever.
        self.wait(Instant::now().checked_add(timeout))
    }

    /// Whether the consumer was shut down and everything was read.
    pub fn is_closed(&self) -> bool {
        let state = self.0.state.lock();
        state.closed && state.events.is_empty() && state.missed == 0
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Option<Event> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(event) = state.pop() {
                return Some(event);
            }
            if state.closed {
                return None;
            }
            match deadline {
                None => self.0.changed.wait(&mut state),
                Some(deadline) => {
                    if self.0.changed.wait_until(&mut state, deadline).timed_out() {
                        return state.pop();
                    }
                }
            }
        }
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.wait(None)
    }
}

/// Where a consumer puts its events.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    state: Mutex<HubState>,
}

#[derive(Debug, Default)]
struct HubState {
    /// What happened before the first subscription; taken by it.
    backlog: Option<Arc<Ring>>,
    subscribed: bool,
    rings: Vec<std::sync::Weak<Ring>>,
    closed: bool,
}

impl Hub {
    /// Messages in it should have bytes of their own ([`MessageView::detached`]): events may lie here for long.
    pub(crate) fn emit(&self, event: Event) {
        let rings: Vec<Arc<Ring>> = {
            let mut state = self.state.lock();
            if state.closed {
                return;
            }
            if !state.subscribed {
                let ring = state.backlog.get_or_insert_default().clone();
                vec![ring]
            } else {
                state.rings.retain(|ring| ring.strong_count() > 0);
                state.rings.iter().filter_map(std::sync::Weak::upgrade).collect()
            }
        };
        for ring in rings {
            ring.push(event.clone());
        }
    }

    pub(crate) fn subscribe(&self) -> Events {
        let mut state = self.state.lock();
        let ring = state.backlog.take().unwrap_or_default();
        state.subscribed = true;
        if state.closed {
            ring.close();
        }
        state.rings.push(Arc::downgrade(&ring));
        Events(ring)
    }

    pub(crate) fn close(&self) {
        let rings = {
            let mut state = self.state.lock();
            state.closed = true;
            std::mem::take(&mut state.rings)
        };
        for ring in rings.iter().filter_map(std::sync::Weak::upgrade) {
            ring.close();
        }
    }
}

#[derive(Debug, Default)]
struct Ring {
    state: Mutex<RingState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct RingState {
    events: VecDeque<Event>,
    missed: u64,
    closed: bool,
}

impl Ring {
    fn push(&self, event: Event) {
        let mut state = self.state.lock();
        if state.events.len() >= CAPACITY {
            state.events.pop_front();
            state.missed += 1;
        }
        state.events.push_back(event);
        drop(state);
        self.changed.notify_all();
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}

impl RingState {
    fn pop(&mut self) -> Option<Event> {
        if self.missed > 0 {
            let events = std::mem::take(&mut self.missed);
            return Some(Event::Missed { events });
        }
        self.events.pop_front()
    }
}

const CAPACITY: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(topic: &str) -> Event {
        Event::TopicMissing { topic: topic.into() }
    }

    fn text(event: Option<Event>) -> Option<String> {
        event.map(|event| event.to_string())
    }

    #[test]
    fn the_first_subscription_gets_what_happened_before_it_and_the_second_does_not() {
        let hub = Hub::default();
        hub.emit(Event::Ready);
        let (mut first, mut second) = (hub.subscribe(), hub.subscribe());
        hub.emit(missing("a"));
        assert_eq!(text(first.try_next()).as_deref(), Some("ready"));
        assert_eq!(text(first.try_next()).as_deref(), Some("topic a does not exist"));
        assert_eq!(text(second.try_next()).as_deref(), Some("topic a does not exist"));
        assert!(second.try_next().is_none() && !second.is_closed());
    }

    #[test]
    fn a_full_subscription_drops_the_oldest_and_says_so() {
        let hub = Hub::default();
        let mut events = hub.subscribe();
        for n in 0..CAPACITY + 3 {
            hub.emit(missing(&n.to_string()));
        }
        assert!(matches!(events.next(), Some(Event::Missed { events: 3 })));
        assert_eq!(text(events.next()).as_deref(), Some("topic 3 does not exist"));
    }

    #[test]
    fn the_iterator_ends_after_the_shutdown() {
        let hub = Hub::default();
        let mut events = hub.subscribe();
        assert!(events.next_timeout(Duration::ZERO).is_none());
        let reader = std::thread::spawn(move || events.by_ref().count());
        hub.emit(Event::Ready);
        hub.close();
        assert_eq!(reader.join().unwrap(), 1);
        assert!(hub.subscribe().is_closed());
    }
}
