//! One send: its attempts, until one is stored or nothing is left to try.

use std::borrow::Cow;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{
    LONGEST_PROPERTIES, MASTER, Route, Sending, Sent, failed_attempt, property_string, random_below,
};
use crate::clock::from_now;
use crate::error::{Attempt, Error, ErrorKind, Result};
use crate::message::{Message, MessageQueue, properties};
use crate::protocol::headers::SendAnswer;
use crate::protocol::{ResponseCode, compress};
use crate::remoting::CallError;

use super::core::Core;
use super::select;
use super::{Compression, SendReceipt, SendStatus};

/// What goes over the wire, the same in every attempt.
pub(super) struct Parcel<'a> {
    /// The name the program knows.
    pub(super) name: &'a str,
    /// The name on the servers.
    pub(super) topic: String,
    pub(super) body: Cow<'a, [u8]>,
    pub(super) sys_flag: i32,
    pub(super) flag: i32,
    pub(super) properties: String,
    pub(super) batch: bool,
    pub(super) target: Option<&'a MessageQueue>,
    pub(super) shard: Option<&'a str>,
    pub(super) born_millis: i64,
}

/// A parcel that arrived.
pub(super) struct Stored {
    pub(super) queue: MessageQueue,
    pub(super) status: SendStatus,
    pub(super) answer: SendAnswer,
}

/// What came of one attempt.
enum Outcome {
    Stored(Box<Stored>),
    /// Another attempt may do better.
    Again {
        attempt: Attempt,
        maybe_stored: bool,
    },
    /// Nothing was tried: the connection failed a moment ago, and the next attempt to connect is not due yet.
    BackingOff(Attempt),
    /// Another attempt would end the same way.
    Final(Attempt),
    Closed,
}

/// What has been tried so far.
struct Trials {
    failed: Vec<Attempt>,
    /// The broker of each attempt, in order.
    tried: Vec<Arc<str>>,
    last_began: Instant,
    /// How long this thread still waits for a connection to be tried again.
    patience: Duration,
    maybe_stored: bool,
    /// Stored, but less safely than wished for.
    weak: Option<Box<Stored>>,
}

impl Trials {
    fn new(patience: Duration) -> Self {
        Trials {
            failed: Vec::new(),
            tried: Vec::new(),
            last_began: Instant::now(),
            patience,
            maybe_stored: false,
            weak: None,
        }
    }
}

impl Core {
    /// Sends one message, and waits for the word of a broker.
    pub(super) fn send_one(&self, message: &Message, deadline: Instant) -> Result<SendReceipt> {
        self.check_open()?;
        super::check::check(message, self.settings.max_message_size)?;
        let (id, parcel) = self.pack(message)?;
        let (messages, ids) = (std::slice::from_ref(message), std::slice::from_ref(&id));
        let stored = self.deliver_traced(&parcel, messages, ids, deadline)?;
        let answer = stored.answer;
        Ok(SendReceipt {
            message_id: id,
            status: stored.status,
            queue: stored.queue,
            queue_offset: answer.queue_offset,
            offset_message_id: answer.msg_id,
            transaction_id: answer.transaction_id,
            recall_handle: answer.recall_handle,
        })
    }

    /// Sends one message and does not wait for a word: one attempt, no answer.
    pub(super) fn send_and_forget(&self, message: &Message, deadline: Instant) -> Result<()> {
        self.check_open()?;
        super::check::check(message, self.settings.max_message_size)?;
        let (_, parcel) = self.pack(message)?;
        let route = self.route(&parcel.topic, deadline)?;
        let queue = self.choose(&parcel, &route, &[])?;
        let began = Instant::now();
        let failed = |attempt| Err(self.failure(&parcel, vec![attempt], false));
        let Some(address) = master(&route, queue.broker_name()) else {
            return failed(no_master(&queue));
        };
        match self.instance.remoting().oneway_by(&address, self.command(&parcel, &queue), deadline) {
            Ok(()) => Ok(()),
            Err(CallError::Closed) => Err(self.closed()),
            Err(error) => failed(failed_attempt(&server(&queue, &address), &error, began.elapsed())),
        }
    }

    pub(super) fn deliver(&self, parcel: &Parcel<'_>, deadline: Instant) -> Result<Stored> {
        let most = usize::try_from(self.settings.max_attempts).unwrap_or(usize::MAX);
        let mut trials = Trials::new(self.settings.attempt_timeout);
        while trials.tried.len() < most {
            let route = match self.route(&parcel.topic, deadline) {
                Ok(route) => route,
                Err(error) if trials.tried.is_empty() => return Err(error),
                Err(_) => break,
            };
            let queue = self.choose(parcel, &route, &trials.tried)?;
            if !trials.tried.is_empty() && !self.prepare_repetition(&queue, &trials, deadline) {
                break;
            }
            trials.last_began = Instant::now();
            match self.attempt_patiently(parcel, &route, &queue, &mut trials, deadline) {
                Outcome::Stored(stored) if self.is_enough(stored.status) => return Ok(*stored),
                Outcome::Stored(stored) => trials.weak = Some(stored),
                Outcome::BackingOff(attempt) => trials.failed.push(attempt),
                Outcome::Again { attempt, maybe_stored } => {
                    trials.failed.push(attempt);
                    trials.maybe_stored |= maybe_stored;
                }
                Outcome::Final(attempt) => {
                    trials.failed.push(attempt);
                    break;
                }
                Outcome::Closed => return Err(self.closed()),
            }
            trials.tried.push(queue.broker_name().into());
        }
        match trials.weak {
            // Not as safe as wished for, but stored: an error would make the program send it again.
            Some(stored) => Ok(*stored),
            None => Err(self.failure(parcel, trials.failed, trials.maybe_stored)),
        }
    }

    /// One attempt. If the only broker was lost a moment ago and will be dialled again in a moment, that moment is
    /// waited for: in all, as long as one attempt may take.
    fn attempt_patiently(
        &self,
        parcel: &Parcel<'_>,
        route: &Route,
        queue: &MessageQueue,
        trials: &mut Trials,
        deadline: Instant,
    ) -> Outcome {
        let is_last =
            trials.tried.len() + 1 >= usize::try_from(self.settings.max_attempts).unwrap_or(usize::MAX);
        loop {
            let longest = from_now(self.settings.attempt_timeout);
            let until = if is_last { deadline } else { deadline.min(longest) };
            let outcome = self.attempt(parcel, route, queue, until);
            let left = trials.patience.min(deadline.saturating_duration_since(Instant::now()));
            let waits =
                matches!(outcome, Outcome::BackingOff(_)) && !has_other(parcel, route, queue, &trials.tried);
            if !waits || left.is_zero() {
                return outcome;
            }
            thread::sleep(left.min(BACK_OFF_PAUSE));
            trials.patience = trials.patience.saturating_sub(BACK_OFF_PAUSE);
        }
    }

    fn attempt(&self, parcel: &Parcel<'_>, route: &Route, queue: &MessageQueue, until: Instant) -> Outcome {
        let Some(address) = master(route, queue.broker_name()) else {
            self.instance.want_route(&parcel.topic);
            return Outcome::Again { attempt: no_master(queue), maybe_stored: false };
        };
        let began = Instant::now();
        let server = server(queue, &address);
        let frame = match self.instance.remoting().call(&address, self.command(parcel, queue), until) {
            Ok(frame) => frame,
            Err(CallError::Closed) => return Outcome::Closed,
            Err(error) => {
                let attempt = failed_attempt(&server, &error, began.elapsed());
                return match error {
                    CallError::Encode(_) => Outcome::Final(attempt),
                    CallError::BackingOff { .. } => Outcome::BackingOff(attempt),
                    error => Outcome::Again { attempt, maybe_stored: error.written() },
                };
            }
        };
        match Sent::read(&frame) {
            Sent::Stored(code, answer) => {
                if self.is_promised(&parcel.topic) {
                    // The broker has created the topic just now.
                    self.instance.want_route(&parcel.topic);
                }
                let queue = MessageQueue::new(parcel.name, queue.broker_name(), answer.queue_id);
                Outcome::Stored(Box::new(Stored { queue, status: SendStatus::of(code), answer }))
            }
            Sent::Refused(code, remark) => {
                let attempt = Attempt::answered(server, code, remark.as_deref(), began.elapsed());
                if code == ResponseCode::TOPIC_NOT_EXIST {
                    self.forget_promise(&parcel.topic);
                }
                if code.is_retryable_elsewhere() || self.settings.retry_codes.contains(&code) {
                    Outcome::Again { attempt, maybe_stored: false }
                } else {
                    Outcome::Final(attempt)
                }
            }
            Sent::Undecodable(error) => Outcome::Again {
                attempt: Attempt::new(server, ErrorKind::Protocol, error.to_string(), began.elapsed()),
                maybe_stored: true,
            },
        }
    }

    /// The queue of the next attempt, under the name that the program knows.
    fn choose(&self, parcel: &Parcel<'_>, route: &Route, tried: &[Arc<str>]) -> Result<MessageQueue> {
        if let Some(target) = parcel.target {
            if !route.brokers().contains_key(target.broker_name()) {
                let text = format!("topic {} has no broker {}", parcel.name, target.broker_name());
                return Err(Error::invalid_input(text).with_topic(parcel.name));
            }
            return Ok(target.clone());
        }
        let queues = route.publish();
        let queue = match parcel.shard {
            Some(key) => select::by_key(queues, key),
            None => {
                let turn = self.turns.next(&parcel.topic, || random_below(1 << 16));
                select::by_turn(queues, turn, tried)
            }
        };
        queue.cloned().ok_or_else(|| unwritable(parcel.name, route))
    }

    /// Counts an attempt after the first. A broker is not bothered again within a moment, longer each time. False if
    /// there is no time left.
    fn prepare_repetition(&self, queue: &MessageQueue, trials: &Trials, deadline: Instant) -> bool {
        let before = trials.tried.iter().filter(|broker| ***broker == *queue.broker_name()).count();
        let spacing = SAME_BROKER_SPACING * u32::try_from(before).unwrap_or(u32::MAX);
        let pause = spacing.saturating_sub(trials.last_began.elapsed());
        thread::sleep(pause.min(deadline.saturating_duration_since(Instant::now())));
        let time_is_left = Instant::now() < deadline;
        if time_is_left {
            self.recorder.retried();
        }
        time_is_left
    }

    fn is_enough(&self, status: SendStatus) -> bool {
        status == SendStatus::SendOk || !self.settings.retry_when_not_stored
    }

    fn pack<'a>(&self, message: &'a Message) -> Result<(String, Parcel<'a>)> {
        let id = match message.get(properties::UNIQ_KEY) {
            Some(id) => id.to_owned(),
            None => self.instance.new_message_id(),
        };
        let properties =
            property_string(message, Some(&id)).map_err(|_| too_many_properties(message.topic()))?;
        let (body, sys_flag) = self.compressed(message.body());
        let parcel = Parcel {
            name: message.topic(),
            topic: self.instance.namespace().topic(message.topic()),
            body,
            sys_flag,
            flag: message.flag_value(),
            properties,
            batch: false,
            target: message.target(),
            shard: message.shard(),
            born_millis: self.instance.clock().millis(),
        };
        Ok((id, parcel))
    }

    /// The body as it is sent, and the bits that say so.
    fn compressed<'a>(&self, body: &'a [u8]) -> (Cow<'a, [u8]>, i32) {
        let (kind, level) = match self.settings.compression {
            Compression::Zlib(level) => (compress::Compression::Zlib, level),
            Compression::Lz4 => (compress::Compression::Lz4, 0),
            Compression::Zstd => (compress::Compression::Zstd, 0),
            Compression::None => return (Cow::Borrowed(body), 0),
        };
        if body.len() < self.settings.compress_over {
            return (Cow::Borrowed(body), 0);
        }
        let smaller = compress::deflate(kind, level, body);
        if smaller.len() < body.len() {
            (Cow::Owned(smaller), kind.sys_flag())
        } else {
            (Cow::Borrowed(body), 0)
        }
    }

    fn command(&self, parcel: &Parcel<'_>, queue: &MessageQueue) -> crate::protocol::RemotingCommand {
        let mut sending =
            Sending::new(&self.group, &parcel.topic, queue.broker_name(), queue.queue_id(), &parcel.body);
        sending.sys_flag = parcel.sys_flag;
        sending.flag = parcel.flag;
        sending.born_millis = parcel.born_millis;
        sending.properties = &parcel.properties;
        sending.batch = parcel.batch;
        sending.template_topic = &self.settings.template_topic;
        sending.template_queues = self.settings.auto_create_queues;
        sending.command()
    }

    fn failure(&self, parcel: &Parcel<'_>, attempts: Vec<Attempt>, maybe_stored: bool) -> Error {
        let name = parcel.name;
        if attempts.is_empty() {
            let text = format!("sending to topic {name}: no time was left after looking for its brokers");
            return Error::timeout(text).with_topic(name);
        }
        let note = if maybe_stored { ", though the message may have been stored" } else { "" };
        Error::failed(format!("sending to topic {name}"), attempts).with_note(note).with_topic(name)
    }

    fn closed(&self) -> Error {
        self.check_open().err().unwrap_or_else(|| Error::closed("the client"))
    }
}

pub(super) fn too_many_properties(topic: &str) -> Error {
    let text = format!("the properties of the message take more than {LONGEST_PROPERTIES} bytes");
    Error::invalid_input(text).with_topic(topic)
}

/// Whether a broker that has not been tried could take the parcel.
fn has_other(parcel: &Parcel<'_>, route: &Route, queue: &MessageQueue, tried: &[Arc<str>]) -> bool {
    let is_other = |other: &MessageQueue| {
        other.broker_name() != queue.broker_name()
            && !tried.iter().any(|broker| **broker == *other.broker_name())
    };
    parcel.target.is_none() && parcel.shard.is_none() && route.publish().iter().any(is_other)
}

fn master(route: &Route, broker: &str) -> Option<Arc<str>> {
    route.brokers().get(broker)?.get(&MASTER).cloned()
}

fn server(queue: &MessageQueue, address: &str) -> String {
    format!("{} ({address})", queue.broker_name())
}

fn no_master(queue: &MessageQueue) -> Attempt {
    let text = "no master of this broker is known";
    Attempt::new(queue.broker_name(), ErrorKind::Unreachable, text, Duration::ZERO)
}

fn unwritable(topic: &str, route: &Route) -> Error {
    let has_master = route.brokers().values().any(|ids| ids.contains_key(&MASTER));
    let (kind, why) = match has_master {
        true => (ErrorKind::Refused, "none of its queues may be written"),
        false => (ErrorKind::Unreachable, "none of its brokers has a master"),
    };
    Error::new(kind, format!("sending to topic {topic}: {why}")).with_topic(topic)
}

const SAME_BROKER_SPACING: Duration = Duration::from_millis(100);
const BACK_OFF_PAUSE: Duration = Duration::from_millis(50);
