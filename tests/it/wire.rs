//! A client of the embedded broker that is nothing but the codec and a blocking socket.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rocketmq_sync::testing::protocol::body::{ConsumerData, HeartbeatData, SubscriptionData};
use rocketmq_sync::testing::protocol::headers::{PullMessage, SendAnswer, SendMessage, pull_flag};
use rocketmq_sync::testing::protocol::{
    Encoding, Frame, FrameDecoder, Header, MAX_FRAME, RemotingCommand, StoredMessage, encode,
};
use rocketmq_sync::{Filter, RequestCode, ResponseCode};

/// Longer than anything here takes on a loaded machine.
pub const SOON: Duration = Duration::from_secs(20);

pub struct Wire {
    stream: TcpStream,
    decoder: FrameDecoder,
    frames: VecDeque<Frame>,
    next_opaque: i32,
    pub encoding: Encoding,
    /// Requests of the broker that came while something else was waited for.
    pub requests: Vec<RemotingCommand>,
}

impl Wire {
    pub fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            decoder: FrameDecoder::new(MAX_FRAME),
            frames: VecDeque::new(),
            next_opaque: 100,
            encoding: Encoding::Json,
            requests: Vec::new(),
        }
    }

    /// Sends a request and returns its opaque.
    pub fn send(&mut self, mut command: RemotingCommand) -> i32 {
        self.next_opaque += 1;
        command.opaque = self.next_opaque;
        self.send_as_is(&command);
        command.opaque
    }

    pub fn send_as_is(&mut self, command: &RemotingCommand) {
        let mut bytes = Vec::new();
        encode(command, self.encoding, &mut bytes).unwrap();
        self.write(&bytes);
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends a request and waits for its answer.
    pub fn call(&mut self, command: RemotingCommand) -> RemotingCommand {
        let opaque = self.send(command);
        self.answer(opaque)
    }

    pub fn ask(&mut self, code: RequestCode, header: &impl Header) -> RemotingCommand {
        self.call(RemotingCommand::with_header(code, header))
    }

    pub fn answer(&mut self, opaque: i32) -> RemotingCommand {
        let answer = self.next(SOON, |command| command.is_response()).expect("an answer");
        assert_eq!(answer.opaque, opaque);
        answer
    }

    /// The next answer, if one comes in time.
    pub fn answer_within(&mut self, time: Duration) -> Option<RemotingCommand> {
        self.next(time, |command| command.is_response())
    }

    /// The next request of the broker.
    pub fn request(&mut self) -> RemotingCommand {
        if !self.requests.is_empty() {
            return self.requests.remove(0);
        }
        self.next(SOON, |command| !command.is_response()).expect("a request")
    }

    /// Whether the broker closes the connection, without a further answer.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.frame(SOON), Err(End::Closed))
    }

    fn next(&mut self, time: Duration, wanted: impl Fn(&RemotingCommand) -> bool) -> Option<RemotingCommand> {
        let deadline = Instant::now() + time;
        loop {
            match self.frame(deadline.saturating_duration_since(Instant::now())) {
                Ok(frame) => {
                    let command = frame.command().unwrap();
                    if wanted(&command) {
                        return Some(command);
                    }
                    assert!(!command.is_response(), "an answer that nobody waits for: {command:?}");
                    self.requests.push(command);
                }
                Err(_) => return None,
            }
        }
    }

    pub fn frame(&mut self, time: Duration) -> Result<Frame, End> {
        let deadline = Instant::now() + time;
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Ok(frame);
            }
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.stream.set_read_timeout(Some(left)).unwrap();
            let mut buffer = [0; 64 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(End::Closed),
                Ok(n) => self.decoder.feed(&buffer[..n]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(End::TooLate);
                }
                Err(_) => return Err(End::Closed),
            }
            while let Some(frame) = self.decoder.next_frame().unwrap() {
                self.frames.push_back(frame);
            }
        }
    }

    pub fn publish(&mut self, message: &SendMessage, body: &[u8]) -> SendAnswer {
        let command = RemotingCommand::with_header(RequestCode::SEND_MESSAGE_V2, message).body(body.to_vec());
        let answer = self.call(command);
        assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{answer:?}");
        answer.header().unwrap()
    }

    pub fn heartbeat(&mut self, client_id: &str, group: &str, topic: &str, tags: &[&str]) {
        let answer = self.call(heartbeat(client_id, group, topic, tags, 1));
        assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{answer:?}");
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Closed,
    TooLate,
}

pub fn message(topic: &str, queue_id: i32) -> SendMessage {
    SendMessage {
        producer_group: "producers".into(),
        topic: topic.into(),
        default_topic: "TBW102".into(),
        default_topic_queue_nums: 4,
        queue_id,
        born_timestamp: 1_700_000_000_000,
        properties: Some("UNIQ_KEY\u{1}0123\u{2}TAGS\u{1}a\u{2}".into()),
        ..SendMessage::default()
    }
}

pub fn pull(group: &str, topic: &str, queue_id: i32, offset: i64) -> PullMessage {
    PullMessage {
        consumer_group: group.into(),
        topic: topic.into(),
        queue_id,
        queue_offset: offset,
        max_msg_nums: 32,
        sys_flag: pull_flag::SUSPEND,
        suspend_timeout_millis: 15_000,
        sub_version: 1,
        ..PullMessage::default()
    }
}

/// A heartbeat of a clustering push consumer.
pub fn heartbeat(client_id: &str, group: &str, topic: &str, tags: &[&str], version: i64) -> RemotingCommand {
    heartbeat_with(client_id, group, topic, &Filter::tags(tags.join("||")), version)
}

/// The same with any filter.
pub fn heartbeat_with(
    client_id: &str,
    group: &str,
    topic: &str,
    filter: &Filter,
    version: i64,
) -> RemotingCommand {
    use rocketmq_sync::testing::message::Subscription;
    use rocketmq_sync::testing::protocol::body::{ConsumeFromWhere, ConsumeType, MessageModel};
    let subscription = |topic: &str, filter: &Filter| {
        SubscriptionData::from(&Subscription::parse(topic, filter, version).unwrap())
    };
    let retry = rocketmq_sync::retry_topic(group);
    let consumer = ConsumerData {
        group_name: group.into(),
        consume_type: ConsumeType::Passively,
        message_model: MessageModel::Clustering,
        consume_from_where: ConsumeFromWhere::LastOffset,
        subscription_data_set: vec![subscription(topic, filter), subscription(&retry, &Filter::all())],
        unit_mode: false,
    };
    let body = HeartbeatData {
        client_id: client_id.into(),
        consumer_data_set: vec![consumer],
        ..HeartbeatData::default()
    };
    RemotingCommand::request(RequestCode::HEART_BEAT).body(body.write())
}

/// The messages in the body of an answer.
pub fn messages(body: &[u8]) -> Vec<StoredMessage<'static>> {
    let mut at = 0;
    let mut all = Vec::new();
    while at < body.len() {
        all.push(StoredMessage::decode(&body[at..]).unwrap().into_owned());
        at += all[all.len() - 1].encoded_len();
    }
    all
}
