//! `rmq-trace`: takes the records out of the queue now and then and stores them. It may wait for brokers; nobody waits
//! for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, MessageQueue, properties};
use crate::protocol::compress;

use super::super::call::call_error;
use super::super::instance::Instance;
use super::super::random;
use super::super::routes::{Role, Route};
use super::super::send::{Sending, Sent, TEMPLATE_TOPIC, property_string};
use super::super::threads::panic_text;
use super::Tracer;
use super::parcel::{Parcel, parcels};

/// Why it wakes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// There is a first record.
    Begun,
    /// The queue fills up.
    Hurry,
    /// The client ends; until then there is time to store what is left.
    End(Instant),
}

pub(super) struct TraceLoop {
    instance: Arc<Instance>,
    tracer: Arc<Tracer>,
    /// Storing failed, and that was said.
    failing: bool,
}

impl TraceLoop {
    pub(super) fn new(instance: Arc<Instance>, tracer: Arc<Tracer>) -> Self {
        TraceLoop { instance, tracer, failing: false }
    }

    pub(super) fn run(mut self, wakes: &Receiver<Wake>) {
        let waiter = self.instance.clock().waiter();
        let mut due = None;
        loop {
            match waiter.recv_deadline(wakes, due) {
                Ok(Wake::Begun) => {
                    due.get_or_insert(waiter.clock().instant() + GATHER);
                }
                Ok(Wake::Hurry) | Err(RecvTimeoutError::Timeout) => {
                    due = None;
                    self.store_guarded(None);
                }
                Ok(Wake::End(until)) => return self.store_guarded(Some(until)),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// A panic in here is a bug, ours or that of the program's logger; it costs the traces that were being stored.
    fn store_guarded(&mut self, end: Option<Instant>) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.store_all(end))) {
            log::error!("rmq-trace panicked and goes on: {}", panic_text(&*panic));
        }
    }

    fn store_all(&mut self, end: Option<Instant>) {
        for parcel in parcels(self.tracer.take()) {
            let longest = Instant::now() + STORE_TIMEOUT;
            let result = self.store(&parcel, end.map_or(longest, |end| end.min(longest)));
            match result {
                Ok(()) if self.failing => {
                    self.failing = false;
                    log::info!(
                        "traces are stored again; {} are missing so far",
                        self.tracer.lost.load(Ordering::Relaxed)
                    );
                }
                Ok(()) => {}
                Err(error) => {
                    self.tracer.lose(parcel.records);
                    if !std::mem::replace(&mut self.failing, true) {
                        log::warn!("traces cannot be stored and are dropped: {error}");
                    }
                }
            }
        }
    }

    /// Stores one message, at the next broker if one fails.
    fn store(&self, parcel: &Parcel, deadline: Instant) -> Result<()> {
        let topic = &self.tracer.topic;
        let route = self.route(deadline)?;
        let mut queues: Vec<&MessageQueue> = route.publish().iter().collect();
        if queues.is_empty() {
            return Err(Error::new(ErrorKind::Refused, format!("topic {topic} cannot be written")));
        }
        let first = random::below(queues.len());
        queues.rotate_left(first);
        // Another queue of a broker that has just failed would do no better.
        let mut tried: Vec<&str> = Vec::new();
        let mut failure = Error::timeout("no time was left to store traces");
        for queue in queues {
            if tried.contains(&queue.broker_name()) || Instant::now() >= deadline {
                continue;
            }
            tried.push(queue.broker_name());
            match self.store_in(queue, parcel, deadline) {
                Ok(()) => return Ok(()),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Of a topic that does not exist, where brokers would create it.
    fn route(&self, deadline: Instant) -> Result<Arc<Route>> {
        let topic = &self.tracer.topic;
        match self.instance.route_or_fetch(topic, deadline) {
            Err(error) if error.kind() == ErrorKind::TopicNotFound => {
                let template = self.instance.route_or_fetch(TEMPLATE_TOPIC, deadline).map_err(|_| error)?;
                Ok(Arc::new(Route::new(topic.as_str().into(), template.data().clone())))
            }
            route => route,
        }
    }

    fn store_in(&self, queue: &MessageQueue, parcel: &Parcel, deadline: Instant) -> Result<()> {
        let operation = "storing traces";
        let Some((address, _)) = self.instance.broker_address(queue.broker_name(), Role::Master) else {
            let text = format!("{operation}: no master of {} is known", queue.broker_name());
            return Err(Error::new(ErrorKind::Unreachable, text));
        };
        let mut message = Message::new(self.tracer.topic.as_str(), "");
        message.set(properties::KEYS, parcel.keys.clone());
        let id = self.instance.new_message_id();
        let properties = property_string(&message, Some(&id))
            .map_err(|kind| Error::new(kind, format!("{operation}: the keys take too much room")))?;
        let zlib = compress::Compression::Zlib;
        let deflated = compress::deflate(zlib, ZLIB_LEVEL, parcel.body.as_bytes());
        let is_smaller = deflated.len() < parcel.body.len();
        let body = if is_smaller { &*deflated } else { parcel.body.as_bytes() };
        let (broker, topic) = (queue.broker_name(), &self.tracer.topic);
        let mut sending = Sending::new(GROUP, topic, broker, queue.queue_id(), body);
        sending.sys_flag = if is_smaller { zlib.sys_flag() } else { 0 };
        sending.born_millis = self.instance.clock().millis();
        sending.properties = &properties;
        let left = deadline.saturating_duration_since(Instant::now());
        let answer = self.instance.call(&address, sending.command(), left);
        match Sent::read(&answer.map_err(|error| call_error(operation, &address, error))?) {
            Sent::Stored(..) => Ok(()),
            Sent::Refused(code, remark) => Err(Error::answer(operation, &address, code, remark.as_deref())),
            Sent::Undecodable(error) => Err(Error::protocol(format!("{operation}: {address}"), error)),
        }
    }
}

/// How long records are gathered.
const GATHER: Duration = Duration::from_secs(1);
const STORE_TIMEOUT: Duration = Duration::from_secs(5);
/// What Java's producers of traces are called begins so; brokers need nothing of it.
const GROUP: &str = "_INNER_TRACE_PRODUCER";
const ZLIB_LEVEL: u32 = 5;
