//! The handle of a producer.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, ShutdownReport, on_library_thread};
use crate::clock::from_now;
use crate::error::Result;
use crate::message::{Message, MessageQueue};

use super::core::{Core, Settings};
use super::{ProducerBuilder, ProducerStats, SendReceipt};

/// Sends messages. Cheap to clone: all clones are one producer, usable from any number of threads.
///
/// `send` waits for the broker's answer on the calling thread; no thread belongs to the producer. When the last
/// handle is dropped, it shuts down as [`shutdown`](Producer::shutdown) does, within 2 s.
///
/// ```no_run
/// use rocketmq_sync::{Message, Producer, Result};
///
/// fn main() -> Result<()> {
///     let producer = Producer::builder("shop").name_servers("127.0.0.1:9876").start()?;
///     let receipt = producer.send(&Message::new("orders", "paid 42 EUR").tag("paid").key("order-7"))?;
///     println!("{} is at {}", receipt.message_id(), receipt.queue());
///     Ok(())
/// }
/// ```
#[derive(Clone)]
#[must_use = "a producer ends when its last handle is dropped"]
pub struct Producer {
    shared: Arc<Shared>,
    send_timeout: Duration,
}

impl Producer {
    /// The settings of a new producer of this group. The group matters to brokers for transactions; else any name
    /// will do.
    pub fn builder(group: impl Into<String>) -> ProducerBuilder {
        ProducerBuilder::new(group.into())
    }

    pub(super) fn start(client: Client, settings: Settings) -> Result<Self> {
        let instance = client.instance().clone();
        let (send_timeout, preload) = (settings.send_timeout, settings.preload.clone());
        let core = Arc::new(Core::new(instance.clone(), settings, instance.tracer()?));
        instance.register(core.clone())?;
        let producer = Producer { shared: Arc::new(Shared { core, client }), send_timeout };
        if !instance.config().in_background {
            let deadline = Instant::now() + instance.config().start_timeout;
            for topic in &preload {
                producer.core().route(&instance.namespace().topic(topic), deadline)?;
            }
        }
        Ok(producer)
    }

    /// Sends a message, and returns when a broker has stored it. What fails is tried again on another broker, within
    /// the send timeout.
    ///
    /// A broker that did not answer in time, or said that it is busy, may have stored the message all the same: what was
    /// tried again may be there twice, with one [`message_id`](SendReceipt::message_id).
    ///
    /// # Errors
    /// `InvalidInput` for a message that no broker would take; `TopicNotFound` if the topic is missing and is not
    /// created; else what came of each attempt. The text says so if the message may have been stored all the same.
    pub fn send(&self, message: &Message) -> Result<SendReceipt> {
        let deadline = self.deadline();
        self.around(message, |message| self.core().send_one(message, deadline))
    }

    /// Sends a message without waiting for an answer: one attempt, and nobody hears if it is lost on the way. Waits
    /// for a connection, and for room in it.
    ///
    /// # Errors
    /// As [`send`](Self::send), as far as it is known at once.
    pub fn send_oneway(&self, message: &Message) -> Result<()> {
        let deadline = self.deadline();
        let core = self.core();
        let mut copy = message.clone();
        if let Some(hook) = &core.settings.before_send {
            hook(&mut copy);
        }
        self.measured(std::slice::from_ref(&copy), || core.send_and_forget(&copy, deadline))
    }

    /// Sends several messages of one topic in one frame: all are stored, or none. They have their queue,
    /// `wait_store_ok`, and a sharding key, if any, in common, and none is for a later time. Not compressed.
    ///
    /// # Errors
    /// As [`send`](Self::send); `InvalidInput` also for messages that cannot be together, and if they are larger than
    /// `max_message_size` together.
    pub fn send_batch(&self, messages: &[Message]) -> Result<Vec<SendReceipt>> {
        let deadline = self.deadline();
        let core = self.core();
        let mut copies = messages.to_vec();
        if let Some(hook) = &core.settings.before_send {
            copies.iter_mut().for_each(|message| hook(message));
        }
        let result = self.measured(&copies, || core.send_many(&copies, deadline));
        let Some(hook) = &core.settings.after_send else { return result };
        match result {
            Ok(receipts) => {
                copies
                    .iter()
                    .zip(&receipts)
                    .for_each(|(message, receipt)| hook(message, &Ok(receipt.clone())));
                Ok(receipts)
            }
            Err(error) => {
                let failed = Err(error);
                copies.iter().for_each(|message| hook(message, &failed));
                failed.map(|receipt| vec![receipt])
            }
        }
    }

    /// The queues of a topic that can be written, by broker and number.
    ///
    /// # Errors
    /// `TopicNotFound`, or what came of asking each name server.
    pub fn queues(&self, topic: &str) -> Result<Vec<MessageQueue>> {
        let core = self.core();
        core.check_open()?;
        let namespace = core.instance.namespace();
        let route = core.instance.route_or_fetch(&namespace.topic(topic), self.deadline())?;
        Ok(route.publish().iter().map(|queue| namespace.strip_queue(queue).into_owned()).collect())
    }

    /// The same producer with another send timeout.
    pub fn with_timeout(&self, timeout: Duration) -> Producer {
        Producer { shared: self.shared.clone(), send_timeout: timeout }
    }

    /// The client it works on.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Figures since the start.
    pub fn stats(&self) -> ProducerStats {
        self.core().recorder.snapshot()
    }

    /// Ends the producer: no new sends, those under way may end, brokers are told. Returns by the end of the grace,
    /// with a report; a second call gets the same one. A client that was started for this producer ends with it,
    /// unless others use it.
    pub fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.shared.end(grace)
    }

    fn core(&self) -> &Core {
        &self.shared.core
    }

    fn deadline(&self) -> Instant {
        from_now(self.send_timeout)
    }

    /// The hooks around one message.
    fn around(
        &self,
        message: &Message,
        send: impl FnOnce(&Message) -> Result<SendReceipt>,
    ) -> Result<SendReceipt> {
        let settings = &self.core().settings;
        let mut changed = None;
        if let Some(hook) = &settings.before_send {
            hook(changed.insert(message.clone()));
        }
        let message = changed.as_ref().unwrap_or(message);
        let result = self.measured(std::slice::from_ref(message), || send(message));
        if let Some(hook) = &settings.after_send {
            hook(message, &result);
        }
        result
    }

    fn measured<T>(&self, messages: &[Message], send: impl FnOnce() -> Result<T>) -> Result<T> {
        let under_way = UnderWay::begin(self.core(), messages);
        let result = send();
        under_way.end(result.is_ok());
        result
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("group", &self.core().settings.group)
            .field("client", &self.shared.client)
            .field("send_timeout", &self.send_timeout)
            .finish()
    }
}

/// Goes with the last handle.
struct Shared {
    core: Arc<Core>,
    client: Client,
}

impl Shared {
    fn end(&self, grace: Duration) -> ShutdownReport {
        let began = Instant::now();
        let report = self.core.end(grace);
        self.client.release(grace.saturating_sub(began.elapsed()));
        report
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.core.life.is_running() {
            return;
        }
        // Where nobody may wait, the goodbye is sent and its answer not awaited.
        let grace = if thread::panicking() || on_library_thread() { Duration::ZERO } else { DROP_GRACE };
        let report = self.end(grace);
        if !report.is_clean() {
            log::warn!("producer {} was dropped: {report}", self.core.settings.group);
        }
    }
}

/// One send in the figures, also if it ends by a panic.
struct UnderWay<'a> {
    core: &'a Core,
    messages: usize,
    bytes: usize,
    began: Instant,
    stored: bool,
}

impl<'a> UnderWay<'a> {
    fn begin(core: &'a Core, messages: &[Message]) -> Self {
        let bytes = messages.iter().map(|message| message.body().len()).sum();
        core.recorder.begin(messages.len(), bytes);
        UnderWay { core, messages: messages.len(), bytes, began: Instant::now(), stored: false }
    }

    fn end(mut self, stored: bool) {
        self.stored = stored;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        self.core.recorder.end(self.messages, self.bytes, took, self.stored);
        self.core.timing.took(took);
        self.core.send_ended();
    }
}

const DROP_GRACE: Duration = Duration::from_secs(2);
