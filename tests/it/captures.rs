//! Recorded traffic of the real servers and clients: every frame decodes, says what the recording says it says, and is
//! written again as the same value; binary headers and stored messages as the same bytes.

use std::path::Path;

use rocketmq_sync::testing::protocol::json::{self, Key, Value};
use rocketmq_sync::testing::protocol::record::{batch_elements, verify_body, write_batch_element};
use rocketmq_sync::testing::protocol::{
    Compression, Encoding, Fields, Frame, FrameDecoder, Header, Language, MAX_FRAME, MAX_INFLATED,
    RequestCode, ResponseCode, StoredMessage, body::*, encode, headers::*, inflate, records,
};
use serde_json::Value as Recorded;

/// One recorded frame.
pub struct Capture {
    /// The file it is in, and its number there.
    pub place: String,
    /// The line, as far as it is not the frame itself.
    pub line: Recorded,
    /// The frame.
    pub frame: Frame,
}

impl Capture {
    /// The request, or what a response answers.
    pub fn request(&self) -> &str {
        let of_response = self.line["request"].as_str();
        of_response.or(self.line["name"].as_str()).unwrap_or("unknown")
    }

    pub fn is_response(&self) -> bool {
        self.line["kind"] == "response"
    }
}

/// All recorded frames, cut by our own decoder.
pub fn all() -> Vec<Capture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    assert_eq!(files.len(), 6);
    files.iter().flat_map(|file| read(file)).collect()
}

fn read(file: &Path) -> Vec<Capture> {
    let name = file.file_name().unwrap().to_string_lossy();
    let lines = std::fs::read_to_string(file).unwrap();
    let mut decoder = FrameDecoder::new(MAX_FRAME);
    let captures: Vec<Capture> = lines
        .lines()
        .map(|line| {
            let mut line: Recorded = serde_json::from_str(line).unwrap();
            let bytes = hex(line["frame"].take().as_str().unwrap());
            decoder.feed(&bytes);
            let frame = decoder.next_frame().unwrap().unwrap();
            assert_eq!(frame.bytes(), bytes);
            Capture { place: format!("{name} #{}", line["n"]), line, frame }
        })
        .collect();
    assert!(captures.len() > 15, "{name}");
    captures
}

pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn headers_say_what_was_recorded() {
    for capture in all() {
        let (place, header) = (&capture.place, &capture.line["header"]);
        let number = |name: &str| i32::try_from(header[name].as_i64().unwrap_or(0)).unwrap();
        let command = capture.frame.command().unwrap();
        let head = capture.frame.head().unwrap();
        assert_eq!(
            (head.code, head.opaque, head.flag),
            (number("code"), number("opaque"), number("flag")),
            "{place}"
        );
        assert_eq!(
            (command.code, command.opaque, command.flag),
            (head.code, head.opaque, head.flag),
            "{place}"
        );
        assert_eq!(command.version, number("version"), "{place}");
        assert_eq!(command.language, Language::JAVA, "{place}");
        assert_eq!(
            command.remark.as_deref(),
            header["remark"].as_str().filter(|remark| !remark.is_empty()),
            "{place}"
        );
        let fields: Fields = match header["extFields"].as_object() {
            Some(fields) => {
                fields.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap_or(""))).collect()
            }
            None => Fields::default(),
        };
        assert_eq!(command.fields, fields, "{place}");
        assert_eq!(command.body.len(), capture.line["body_len"].as_u64().unwrap() as usize, "{place}");
        assert_eq!(command.is_response(), capture.is_response(), "{place}");
        assert_eq!(command.is_oneway(), capture.line["kind"] == "oneway", "{place}");
    }
}

#[test]
fn codes_have_the_recorded_names() {
    for capture in all() {
        let Some(name) = capture.line["name"].as_str() else { continue };
        let code = capture.frame.head().unwrap().code;
        let ours = if capture.is_response() { ResponseCode(code).name() } else { RequestCode(code).name() };
        assert_eq!(ours, Some(name), "{}", capture.place);
    }
}

#[test]
fn frames_are_written_again() {
    let (mut binary, mut twice) = (0, 0);
    for capture in all() {
        let command = capture.frame.command().unwrap();
        for encoding in [Encoding::Json, Encoding::Binary] {
            let mut bytes = Vec::new();
            encode(&command, encoding, &mut bytes).unwrap();
            let again = Frame::parse(bytes).unwrap();
            assert_eq!(again.command().unwrap(), command, "{}", capture.place);
            if capture.frame.encoding() == Encoding::Json || encoding == Encoding::Json {
                continue;
            }
            // Java writes the fields of a signed send twice.
            if command.fields.get("Signature").is_some() && again.bytes().len() < capture.frame.bytes().len()
            {
                twice += 1;
            } else {
                assert_eq!(again.bytes(), capture.frame.bytes(), "{}", capture.place);
                binary += 1;
            }
        }
    }
    assert!(binary > 700 && twice < 20, "{binary} {twice}");
}

/// Reads the fields as this header and writes them again.
fn through<H: Header>(fields: &Fields) -> Fields {
    let mut written = Fields::default();
    H::read(fields).unwrap_or_else(|error| panic!("{fields:?}: {error}")).write(&mut written);
    written
}

fn request_header(code: RequestCode) -> Option<fn(&Fields) -> Fields> {
    Some(match code {
        RequestCode::PULL_MESSAGE | RequestCode::LITE_PULL_MESSAGE => through::<PullMessage>,
        RequestCode::QUERY_MESSAGE => through::<QueryMessage>,
        RequestCode::QUERY_CONSUMER_OFFSET => through::<QueryConsumerOffset>,
        RequestCode::UPDATE_CONSUMER_OFFSET => through::<UpdateConsumerOffset>,
        RequestCode::UPDATE_AND_CREATE_TOPIC => through::<CreateTopic>,
        RequestCode::GET_ALL_TOPIC_CONFIG => through::<GetAllTopicConfig>,
        RequestCode::SEARCH_OFFSET_BY_TIMESTAMP => through::<SearchOffset>,
        RequestCode::GET_MAX_OFFSET => through::<GetMaxOffset>,
        RequestCode::GET_MIN_OFFSET | RequestCode::GET_EARLIEST_MSG_STORETIME => through::<QueueStart>,
        RequestCode::VIEW_MESSAGE_BY_ID => through::<ViewMessage>,
        RequestCode::UNREGISTER_CLIENT => through::<UnregisterClient>,
        RequestCode::CONSUMER_SEND_MSG_BACK => through::<ConsumerSendBack>,
        RequestCode::END_TRANSACTION => through::<EndTransaction>,
        RequestCode::CHECK_TRANSACTION_STATE => through::<CheckTransactionState>,
        RequestCode::GET_CONSUMER_LIST_BY_GROUP
        | RequestCode::NOTIFY_CONSUMER_IDS_CHANGED
        | RequestCode::GET_CONSUMER_CONNECTION_LIST => through::<ConsumerGroup>,
        RequestCode::GET_PRODUCER_CONNECTION_LIST => through::<ProducerGroup>,
        RequestCode::PUT_KV_CONFIG => through::<PutKvConfig>,
        RequestCode::GET_KV_CONFIG | RequestCode::DELETE_KV_CONFIG => through::<KvConfig>,
        RequestCode::GET_KVLIST_BY_NAMESPACE => through::<KvNamespace>,
        RequestCode::GET_ROUTEINFO_BY_TOPIC => through::<GetRoute>,
        RequestCode::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => through::<GetAllGroupConfig>,
        RequestCode::GET_TOPIC_STATS_INFO
        | RequestCode::DELETE_TOPIC_IN_BROKER
        | RequestCode::QUERY_TOPIC_CONSUME_BY_WHO => through::<Topic>,
        RequestCode::WIPE_WRITE_PERM_OF_BROKER | RequestCode::ADD_WRITE_PERM_OF_BROKER => {
            through::<WritePermission>
        }
        RequestCode::DELETE_SUBSCRIPTIONGROUP => through::<DeleteGroup>,
        RequestCode::GET_CONSUME_STATS => through::<GetConsumeStats>,
        RequestCode::DELETE_TOPIC_IN_NAMESRV => through::<DeleteTopicInNameServer>,
        RequestCode::RESET_CONSUMER_CLIENT_OFFSET | RequestCode::INVOKE_BROKER_TO_RESET_OFFSET => {
            through::<ResetOffset>
        }
        RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT | RequestCode::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => {
            through::<GetConsumerStatus>
        }
        RequestCode::QUERY_CONSUME_TIME_SPAN => through::<GroupTopic>,
        RequestCode::GET_CONSUMER_RUNNING_INFO => through::<GetConsumerRunningInfo>,
        RequestCode::CONSUME_MESSAGE_DIRECTLY => through::<ConsumeMessageDirectly>,
        RequestCode::SEND_MESSAGE_V2
        | RequestCode::SEND_BATCH_MESSAGE
        | RequestCode::SEND_REPLY_MESSAGE_V2 => through::<SendMessage>,
        RequestCode::PUSH_REPLY_MESSAGE_TO_CLIENT => through::<PushReply>,
        RequestCode::CLONE_GROUP_OFFSET => through::<CloneGroupOffset>,
        RequestCode::VIEW_BROKER_STATS_DATA => through::<ViewBrokerStats>,
        RequestCode::GET_BROKER_CONSUME_STATS => through::<GetBrokerConsumeStats>,
        RequestCode::QUERY_CONSUME_QUEUE => through::<QueryConsumeQueue>,
        RequestCode::GET_TOPIC_CONFIG => through::<GetTopicConfig>,
        RequestCode::RECALL_MESSAGE => through::<RecallMessage>,
        RequestCode::POP_MESSAGE => through::<PopMessage>,
        RequestCode::ACK_MESSAGE => through::<AckMessage>,
        RequestCode::CHANGE_MESSAGE_INVISIBLETIME => through::<ChangeInvisibleTime>,
        // The binary encoding has 16 bits for the code: this is a pop of a Java client that does not know better.
        RequestCode(3442) => through::<PopMessage>,
        _ => return None,
    })
}

fn answer_header(request: &str, code: ResponseCode) -> Option<fn(&Fields) -> Fields> {
    Some(match (request, code) {
        ("PULL_MESSAGE" | "LITE_PULL_MESSAGE", ResponseCode(0 | 19 | 21)) => through::<PullMessageAnswer>,
        ("SEND_MESSAGE_V2" | "SEND_BATCH_MESSAGE" | "SEND_REPLY_MESSAGE_V2", ResponseCode(0)) => {
            through::<SendAnswer>
        }
        ("SEND_MESSAGE_V2", _) => through::<SendRefusal>,
        ("QUERY_MESSAGE", _) => through::<QueryMessageAnswer>,
        (_, ResponseCode(22)) => return None,
        ("QUERY_CONSUMER_OFFSET" | "GET_MAX_OFFSET" | "GET_MIN_OFFSET" | "SEARCH_OFFSET_BY_TIMESTAMP", _) => {
            through::<OffsetAnswer>
        }
        ("GET_EARLIEST_MSG_STORETIME", _) => through::<TimestampAnswer>,
        ("HEART_BEAT", _) => through::<HeartbeatAnswer>,
        ("GET_KV_CONFIG", _) => through::<KvConfigAnswer>,
        ("WIPE_WRITE_PERM_OF_BROKER", _) => through::<WipeWritePermissionAnswer>,
        ("ADD_WRITE_PERM_OF_BROKER", _) => through::<AddWritePermissionAnswer>,
        ("GET_ALL_TOPIC_CONFIG", _) => through::<GetAllTopicConfigAnswer>,
        ("GET_ALL_SUBSCRIPTIONGROUP_CONFIG", _) => through::<GetAllGroupConfigAnswer>,
        ("GET_BROKER_CONFIG", _) => through::<BrokerConfigAnswer>,
        ("RECALL_MESSAGE", _) => through::<RecallMessageAnswer>,
        ("POP_MESSAGE", _) => through::<PopMessageAnswer>,
        ("CHANGE_MESSAGE_INVISIBLETIME", _) => through::<ChangeInvisibleTimeAnswer>,
        _ => return None,
    })
}

#[test]
fn headers_carry_every_recorded_field() {
    for capture in all() {
        let command = capture.frame.command().unwrap();
        let mut fields = command.fields.clone();
        // Added to any request, by signing and by pull consumers.
        for common in ["AccessKey", "Signature", "ReqT"] {
            fields.remove(common);
        }
        // Empty texts of the binary encoding are nothing.
        let empty: Vec<String> =
            fields.iter().filter(|(_, value)| value.is_empty()).map(|(name, _)| name.to_owned()).collect();
        for name in empty {
            fields.remove(&name);
        }
        let header = if capture.is_response() {
            answer_header(capture.request(), command.response_code())
        } else {
            request_header(command.request_code())
        };
        match header {
            Some(through) => assert_eq!(through(&fields), fields, "{}", capture.place),
            None => assert!(fields.is_empty(), "{}: {fields:?}", capture.place),
        }
    }
}

#[test]
fn answered_pulls_are_read_in_one_pass() {
    let mut found = 0;
    for capture in
        all().iter().filter(|capture| capture.is_response() && capture.request().ends_with("PULL_MESSAGE"))
    {
        let answer = capture.frame.pull_answer().unwrap();
        let command = capture.frame.command().unwrap();
        assert_eq!(answer.code, command.response_code());
        let Some(offsets) = answer.offsets else {
            assert_eq!(answer.remark, command.remark, "{}", capture.place);
            continue;
        };
        let header: PullMessageAnswer = command.header().unwrap();
        assert_eq!(offsets.next_begin_offset, header.next_begin_offset, "{}", capture.place);
        assert_eq!(
            (offsets.min_offset, offsets.max_offset),
            (header.min_offset, header.max_offset),
            "{}",
            capture.place
        );
        assert_eq!(
            (offsets.suggest_which_broker_id, offsets.offset_delta),
            (header.suggest_which_broker_id, 0)
        );
        found += 1;
    }
    assert!(found > 100, "{found}");
}

/// Reads a body, writes it, and gives back what has been written.
fn rewrite(request: &str, is_response: bool, body: &[u8]) -> Option<Vec<u8>> {
    macro_rules! through {
        ($type:ty) => {{
            let value = <$type>::read(body).unwrap();
            let written = value.write();
            assert_eq!(<$type>::read(&written).unwrap(), value);
            written
        }};
    }
    Some(match (request, is_response) {
        ("HEART_BEAT", false) => through!(HeartbeatData),
        ("CHECK_CLIENT_CONFIG", false) => through!(CheckClientConfig),
        ("LOCK_BATCH_MQ" | "UNLOCK_BATCH_MQ", false) => through!(LockBatchRequest),
        ("LOCK_BATCH_MQ", true) => through!(LockBatchAnswer),
        ("QUERY_ASSIGNMENT", false) => through!(QueryAssignment),
        ("QUERY_ASSIGNMENT", true) => through!(QueryAssignmentAnswer),
        ("SET_MESSAGE_REQUEST_MODE", false) => through!(SetMessageRequestMode),
        ("RESET_CONSUMER_CLIENT_OFFSET", false) | ("INVOKE_BROKER_TO_RESET_OFFSET", true) => {
            through!(ResetOffsetBody)
        }
        ("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", false) => through!(SubscriptionGroupConfig),
        ("CONSUME_MESSAGE_DIRECTLY", true) => through!(ConsumeMessageDirectlyResult),
        ("GET_ALL_PRODUCER_INFO", true) => through!(ProducerTable),
        ("GET_ALL_SUBSCRIPTIONGROUP_CONFIG", true) => through!(SubscriptionGroupTable),
        ("GET_ALL_TOPIC_CONFIG", true) => through!(TopicConfigTable),
        ("GET_ALL_TOPIC_LIST_FROM_NAMESERVER" | "GET_SYSTEM_TOPIC_LIST_FROM_BROKER", true) => {
            through!(TopicList)
        }
        ("GET_BROKER_CLUSTER_INFO", true) => through!(ClusterInfo),
        ("GET_BROKER_CONSUME_STATS", true) => through!(BrokerConsumeStats),
        ("GET_BROKER_HA_STATUS", true) => through!(BrokerHaStatus),
        ("GET_BROKER_RUNTIME_INFO" | "GET_KVLIST_BY_NAMESPACE", true) => through!(KvTable),
        ("GET_CONSUMER_CONNECTION_LIST", true) => through!(ConsumerConnection),
        ("GET_CONSUMER_LIST_BY_GROUP", true) => through!(ConsumerIdList),
        ("GET_CONSUMER_RUNNING_INFO", true) => through!(ConsumerRunningInfo),
        ("GET_CONSUMER_STATUS_FROM_CLIENT" | "INVOKE_BROKER_TO_GET_CONSUMER_STATUS", true) => {
            through!(GetConsumerStatusBody)
        }
        ("GET_CONSUME_STATS", true) => through!(ConsumeStats),
        ("GET_PRODUCER_CONNECTION_LIST", true) => through!(ProducerConnection),
        ("GET_ROUTEINFO_BY_TOPIC", true) => through!(TopicRouteData),
        ("GET_TOPIC_CONFIG", true) => through!(TopicConfig),
        ("GET_TOPIC_STATS_INFO", true) => through!(TopicStatsTable),
        ("QUERY_CONSUME_QUEUE", true) => through!(QueryConsumeQueueAnswer),
        ("QUERY_CONSUME_TIME_SPAN", true) => through!(ConsumeTimeSpans),
        ("QUERY_TOPIC_CONSUME_BY_WHO", true) => through!(GroupList),
        ("VIEW_BROKER_STATS_DATA", true) => through!(BrokerStats),
        _ => return None,
    })
}

/// The same value in one form: members sorted by name, numbers as numbers, empty texts and nulls left out.
fn normal(value: &Value<'_>) -> Recorded {
    match value {
        Value::Null => Recorded::Null,
        Value::Bool(value) => Recorded::Bool(*value),
        Value::Number(text) => match text.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => text.parse::<f64>().unwrap().into(),
        },
        Value::String(text) => Recorded::String(text.to_string()),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(members) => {
            let name = |key: &Key<'_>| match key {
                Key::Object(value) => normal(value).to_string(),
                key => key.to_text().unwrap().into_owned(),
            };
            members
                .iter()
                .map(|(key, value)| (name(key), normal(value)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
    }
}

#[test]
fn x1_bodies_keep_every_recorded_member() {
    let mut seen = 0;
    for capture in all() {
        let body = capture.frame.body();
        if body.first() != Some(&b'{') {
            continue;
        }
        let value = json::parse(body).unwrap_or_else(|error| panic!("{}: {error}", capture.place));
        let written = rewrite(capture.request(), capture.is_response(), body)
            .unwrap_or_else(|| panic!("{}: {} has no type", capture.place, capture.request()));
        let (mut recorded, ours) = (normal(&value), normal(&json::parse(&written).unwrap()));
        // Of static topics, which are not supported; there were none.
        for name in ["topicQueueMappingDetailMap", "topicQueueMappingInfoMap"] {
            let dropped = recorded.as_object_mut().unwrap().remove(name);
            assert!(dropped.is_none_or(|dropped| dropped.as_object().unwrap().is_empty()));
        }
        assert_eq!(ours, recorded, "{}", capture.place);
        seen += 1;
    }
    assert!(seen > 400, "{seen}");
}

/// The bodies that consist of stored messages.
fn stored_bodies() -> Vec<Capture> {
    let mut captures = all();
    captures.retain(|capture| {
        let code = capture.frame.head().unwrap().code;
        !capture.frame.body().is_empty()
            && match (capture.request(), capture.is_response()) {
                (
                    "PULL_MESSAGE" | "LITE_PULL_MESSAGE" | "POP_MESSAGE" | "QUERY_MESSAGE"
                    | "VIEW_MESSAGE_BY_ID",
                    true,
                ) => code == 0,
                ("CHECK_TRANSACTION_STATE" | "CONSUME_MESSAGE_DIRECTLY", false) => true,
                _ => false,
            }
    });
    assert!(captures.len() > 80, "{}", captures.len());
    captures
}

#[test]
fn stored_messages_are_written_again() {
    let (mut messages, mut v6) = (0, 0);
    for capture in stored_bodies() {
        let mut rest = capture.frame.body();
        while !rest.is_empty() {
            let message =
                StoredMessage::decode(rest).unwrap_or_else(|error| panic!("{}: {error}", capture.place));
            let mut written = Vec::new();
            message.encode(&mut written).unwrap();
            assert_eq!(written, rest[..written.len()], "{}", capture.place);
            rest = &rest[written.len()..];
            messages += 1;
            v6 += usize::from(message.born_host.is_ipv6() && message.store_host.is_ipv6());
        }
    }
    assert!(messages > 150 && v6 >= 2, "{messages} {v6}");
}

#[test]
fn every_recorded_message_can_be_read() {
    let mut compressed = [0; 3];
    let mut elements = 0;
    for capture in stored_bodies() {
        let bytes = capture.frame.bytes();
        let mut walk = records(bytes, capture.frame.body_range());
        for record in walk.by_ref() {
            let record = record.unwrap_or_else(|error| panic!("{}: {error}", capture.place));
            verify_body(bytes, &record).unwrap();
            let body = &bytes[record.body.0 as usize..record.body.1 as usize];
            if record.sys_flag & 1 != 0 {
                let compression = Compression::of(record.sys_flag).unwrap();
                let plain = inflate(compression, body, MAX_INFLATED).unwrap();
                assert!(plain.len() >= 4096, "{}", capture.place);
                compressed[compression as usize] += 1;
            }
            // An element of an inner batch is shorter than its message by more than the fixed parts.
            let parts = record.body.1 - record.body.0 + record.properties.1 - record.properties.0;
            elements += usize::from(record.total - parts > 91 + 24 + 40 + (record.topic.1 - record.topic.0));
        }
        assert_eq!(walk.stopped_at(), None);
    }
    assert!(compressed.iter().all(|count| *count > 0), "{compressed:?}");
    assert!(elements >= 3, "{elements}");
}

#[test]
fn batches_are_written_again() {
    let mut elements = 0;
    for capture in
        all().iter().filter(|capture| capture.request() == "SEND_BATCH_MESSAGE" && !capture.is_response())
    {
        let mut written = Vec::new();
        for element in batch_elements(capture.frame.body()) {
            write_batch_element(&element.unwrap(), &mut written).unwrap();
            elements += 1;
        }
        assert_eq!(written, capture.frame.body(), "{}", capture.place);
    }
    assert!(elements >= 15, "{elements}");
}
