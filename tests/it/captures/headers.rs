//! Frames and headers.

use super::all;
use rocketmq_sync::testing::protocol::headers::*;
use rocketmq_sync::testing::protocol::{
    Encoding, Fields, Frame, Header, Language, RequestCode, ResponseCode, encode,
};

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
