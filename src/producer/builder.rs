//! The settings of a producer.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::{Client, ClientChoice};
use crate::error::{Error, Mistake, Result};
use crate::message::{Message, group_problem, is_reserved_group, topic_problem};
use crate::protocol::ResponseCode;

use super::core::Settings;
use super::{Producer, SendReceipt};

/// How bodies are compressed. Every consumer of RocketMQ understands zlib; those older than 4.9.4 nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    None,
    /// With this level, 0 to 9.
    Zlib(u32),
    /// Fast.
    Lz4,
    /// Small.
    Zstd,
}

pub(super) type BeforeSend = Arc<dyn Fn(&mut Message) + Send + Sync>;
pub(super) type AfterSend = Arc<dyn Fn(&Message, &Result<SendReceipt>) + Send + Sync>;

/// The settings of a [`Producer`], plain data until [`start`](ProducerBuilder::start).
#[derive(Clone)]
#[must_use = "a producer exists when start() has returned"]
pub struct ProducerBuilder {
    group: String,
    client: ClientChoice,
    send_timeout: Duration,
    attempt_timeout: Duration,
    max_attempts: u32,
    retry_codes: HashSet<ResponseCode>,
    retry_when_not_stored: bool,
    max_message_size: usize,
    compression: Compression,
    compress_over: usize,
    template_topic: String,
    auto_create_queues: u32,
    preload: Vec<String>,
    before_send: Option<BeforeSend>,
    after_send: Option<AfterSend>,
}

impl ProducerBuilder {
    pub(super) fn new(group: String) -> Self {
        ProducerBuilder {
            group,
            client: ClientChoice::default(),
            send_timeout: Duration::from_secs(3),
            attempt_timeout: Duration::from_secs(1),
            max_attempts: 3,
            retry_codes: HashSet::new(),
            retry_when_not_stored: false,
            max_message_size: 4 << 20,
            compression: Compression::Zlib(5),
            compress_over: 4096,
            template_topic: "TBW102".into(),
            auto_create_queues: 4,
            preload: Vec::new(),
            before_send: None,
            after_send: None,
        }
    }

    /// The name servers, for a client of its own, which ends with this producer: `host:port`, separated by `;`, `,`
    /// or spaces. Default: the environment variable `NAMESRV_ADDR`.
    pub fn name_servers(mut self, list: impl Into<String>) -> Self {
        self.client.name_servers(list);
        self
    }

    /// A client to share. Default: one of its own.
    pub fn client(mut self, client: &Client) -> Self {
        self.client.client(client);
        self
    }

    /// How long a send may take, with all its attempts. Default: 3 s. Java: `sendMsgTimeout`.
    pub fn send_timeout(mut self, timeout: Duration) -> Self {
        self.send_timeout = timeout;
        self
    }

    /// How long one attempt may take while another one is possible, so that a broker that hangs leaves time for
    /// the others. Default: 1 s. Java: `sendMsgMaxTimeoutPerRequest`.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// How often a send is tried, each time on another broker while there is one. Default: 3. Java:
    /// `retryTimesWhenSendFailed` + 1.
    ///
    /// An attempt without an answer may have been stored all the same: then the message is there twice.
    pub fn max_attempts(mut self, n: u32) -> Self {
        self.max_attempts = n;
        self
    }

    /// Adds an answer after which another broker is tried. Default: `TOPIC_NOT_EXIST`, `SERVICE_NOT_AVAILABLE`,
    /// `SYSTEM_ERROR`, `SYSTEM_BUSY`, `NO_PERMISSION`, `NO_BUYER_ID`, `NOT_IN_CURRENT_UNIT`, `GO_AWAY`.
    pub fn retry_code(mut self, code: ResponseCode) -> Self {
        self.retry_codes.insert(code);
        self
    }

    /// Whether another broker is tried when the status is not `SendOk`. Default: no, the message is stored. Java:
    /// `retryAnotherBrokerWhenNotStoreOK`.
    pub fn retry_when_not_stored(mut self, yes: bool) -> Self {
        self.retry_when_not_stored = yes;
        self
    }

    /// The largest body, or batch, in bytes, before compression. Default: 4 MiB, which is what brokers take.
    /// Java: `maxMessageSize`.
    pub fn max_message_size(mut self, bytes: usize) -> Self {
        self.max_message_size = bytes;
        self
    }

    /// How large bodies are compressed. Default: `Zlib(5)`. The result is used only if it is smaller.
    /// Java: `compressType`, `compressLevel`.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// From how many bytes on. Default: 4096. Java: `compressMsgBodyOverHowmuch`.
    pub fn compress_over(mut self, bytes: usize) -> Self {
        self.compress_over = bytes;
        self
    }

    /// The topic that brokers copy when they create a missing topic at its first message. Default: `"TBW102"`, which
    /// exists on brokers that create topics. Java: `createTopicKey`.
    pub fn template_topic(mut self, topic: impl Into<String>) -> Self {
        self.template_topic = topic.into();
        self
    }

    /// How many queues such a topic gets on each broker. Default: 4. Java: `defaultTopicQueueNums`.
    pub fn auto_create_queues(mut self, n: u32) -> Self {
        self.auto_create_queues = n;
        self
    }

    /// Fetches the route of this topic in `start()` already, and fails there if it is missing. Default: none; once
    /// per topic.
    pub fn preload(mut self, topic: impl Into<String>) -> Self {
        self.preload.push(topic.into());
        self
    }

    /// Runs for each message on the sending thread, before it is checked and gets its id. A panic goes to the
    /// caller of `send`. Default: none. Java: `SendMessageHook`.
    pub fn before_send(mut self, hook: impl Fn(&mut Message) + Send + Sync + 'static) -> Self {
        self.before_send = Some(Arc::new(hook));
        self
    }

    /// Runs once for each message, with the final result, on the sending thread; not for one-way sends, of which
    /// nobody knows the result. A panic goes to the caller of `send`. Default: none. Java: `SendMessageHook`.
    pub fn after_send(
        mut self,
        hook: impl Fn(&Message, &Result<SendReceipt>) + Send + Sync + 'static,
    ) -> Self {
        self.after_send = Some(Arc::new(hook));
        self
    }

    /// Starts the producer.
    ///
    /// # Errors
    /// `Config` with all mistakes; what [`ClientBuilder::start`](crate::ClientBuilder::start) fails with, if it has a
    /// client of its own; `TopicNotFound` and the like for a topic to preload; `Closed` if the client has been shut
    /// down.
    pub fn start(self) -> Result<Producer> {
        let mistakes = self.mistakes();
        if !mistakes.is_empty() {
            return Err(Error::config(mistakes));
        }
        let client = self.client.clone().start()?;
        Producer::start(client, self.settings())
    }

    fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = self.client.mistakes();
        let mut wrong = |setting, problem: String| mistakes.push(Mistake::new(setting, problem));
        if let Some(problem) = group_problem(&self.group) {
            wrong("group", problem);
        } else if is_reserved_group(&self.group) {
            wrong("group", format!("the group {} is reserved", self.group));
        }
        for (setting, timeout) in
            [("send_timeout", self.send_timeout), ("attempt_timeout", self.attempt_timeout)]
        {
            if timeout.is_zero() {
                wrong(setting, "nothing can be sent in no time".into());
            }
        }
        if self.max_attempts == 0 {
            wrong("max_attempts", "0, but at least 1 is needed".into());
        }
        if self.max_message_size == 0 {
            wrong("max_message_size", "0, but at least 1 is needed".into());
        }
        if let Compression::Zlib(level) = self.compression
            && level > 9
        {
            wrong("compression", format!("zlib level {level}: only 0 to 9 exist"));
        }
        if !(1..=MOST_AUTO_QUEUES).contains(&self.auto_create_queues) {
            wrong(
                "auto_create_queues",
                format!("{}: 1 to {MOST_AUTO_QUEUES} are possible", self.auto_create_queues),
            );
        }
        for (setting, topic) in self
            .preload
            .iter()
            .map(|topic| ("preload", topic))
            .chain([("template_topic", &self.template_topic)])
        {
            if let Some(problem) = topic_problem(topic) {
                wrong(setting, problem);
            }
        }
        mistakes
    }

    fn settings(self) -> Settings {
        Settings {
            group: self.group,
            send_timeout: self.send_timeout,
            attempt_timeout: self.attempt_timeout,
            max_attempts: self.max_attempts,
            retry_codes: self.retry_codes,
            retry_when_not_stored: self.retry_when_not_stored,
            max_message_size: self.max_message_size,
            compression: self.compression,
            compress_over: self.compress_over,
            template_topic: self.template_topic,
            auto_create_queues: self.auto_create_queues.try_into().unwrap_or(i32::MAX),
            preload: self.preload,
            before_send: self.before_send,
            after_send: self.after_send,
        }
    }
}

impl fmt::Debug for ProducerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerBuilder")
            .field("group", &self.group)
            .field("client", &self.client)
            .field("send_timeout", &self.send_timeout)
            .field("attempt_timeout", &self.attempt_timeout)
            .field("max_attempts", &self.max_attempts)
            .field("retry_codes", &self.retry_codes)
            .field("retry_when_not_stored", &self.retry_when_not_stored)
            .field("max_message_size", &self.max_message_size)
            .field("compression", &self.compression)
            .field("compress_over", &self.compress_over)
            .field("template_topic", &self.template_topic)
            .field("auto_create_queues", &self.auto_create_queues)
            .field("preload", &self.preload)
            .field("before_send", &self.before_send.is_some())
            .field("after_send", &self.after_send.is_some())
            .finish()
    }
}

const MOST_AUTO_QUEUES: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mistakes_come_at_once() {
        let error = ProducerBuilder::new("b illing".into())
            .name_servers("localhost")
            .send_timeout(Duration::ZERO)
            .attempt_timeout(Duration::ZERO)
            .max_attempts(0)
            .max_message_size(0)
            .compression(Compression::Zlib(10))
            .auto_create_queues(0)
            .template_topic("")
            .preload("a b")
            .start()
            .unwrap_err();
        let settings: Vec<&str> = error.mistakes().iter().map(|mistake| mistake.setting).collect();
        let expected = [
            "name_servers",
            "group",
            "send_timeout",
            "attempt_timeout",
            "max_attempts",
            "max_message_size",
            "compression",
            "auto_create_queues",
            "preload",
            "template_topic",
        ];
        assert_eq!(settings, expected, "{error}");
    }

    #[test]
    fn groups_that_rocketmq_uses_itself_are_refused() {
        let builder = ProducerBuilder::new("DEFAULT_PRODUCER".into()).name_servers("127.0.0.1:9876");
        assert_eq!(builder.mistakes().len(), 1);
        assert!(ProducerBuilder::new("shop".into()).name_servers("127.0.0.1:9876").mistakes().is_empty());
    }
}
