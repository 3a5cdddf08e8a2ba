//! Whatever comes from outside is answered, or ends its connection, and nothing else.

use super::{broker, code, connect, put, route};
use crate::wire::{SOON, pull};
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::headers::PullMessage;
use rocketmq_sync::{RequestCode, ResponseCode};

#[test]
fn x10_what_is_unknown_is_answered_and_what_is_broken_ends_the_connection() {
    let broker = broker();
    let mut wire = connect(&broker);
    let answer = wire.call(RemotingCommand::request(RequestCode(4711)));
    assert_eq!(code(&answer), ResponseCode::REQUEST_CODE_NOT_SUPPORTED);
    assert_eq!(answer.remark.as_deref(), Some(" request type 4711 not supported"));
    for known in [10, 11, 14, 15, 29, 30, 31, 32, 33, 34, 35, 36, 38, 105, 310, 320] {
        let answer = wire.call(RemotingCommand::request(RequestCode(known)).body(b"{]".to_vec()));
        assert_ne!(code(&answer), ResponseCode::SUCCESS, "{known} without fields");
    }
    wire.send_as_is(&RemotingCommand::response(ResponseCode::SUCCESS, 77));
    assert_eq!(code(&wire.ask(RequestCode::GET_ROUTEINFO_BY_TOPIC, &route("t"))), ResponseCode::SUCCESS);
    for broken in
        [&b"\xff\xff\xff\xff\xff\xff\xff\xff"[..], b"\0\0\0\x08\0\0\0\x04nope", b"GET / HTTP/1.1\r\n\r\n"]
    {
        let mut wire = connect(&broker);
        wire.write(broken);
        assert!(wire.is_closed());
    }
}

#[test]
fn nonsense_is_answered_whatever_it_is() {
    let broker = broker();
    let mut wire = connect(&broker);
    put(&broker, 0, "x");
    let mut seed = 1u64;
    let mut random = move |n: usize| {
        // xorshift: any will do, as long as a failure can be repeated.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % n as u64).unwrap()
    };
    for round in 0..4000 {
        if round == 2000 {
            wire.heartbeat("c", "g", "t", &["*"]);
        }
        let mut request = RemotingCommand::request(RequestCode(CODES[random(CODES.len())]));
        if round >= 2000 && request.request_code() == RequestCode::INVOKE_BROKER_TO_GET_CONSUMER_STATUS {
            // This member would have to answer.
            continue;
        }
        for &field in NUMBER_FIELDS {
            request.fields.set(field, NUMBERS[random(NUMBERS.len())]);
        }
        for &field in NAME_FIELDS {
            request.fields.set(field, NAMES[random(NAMES.len())]);
        }
        request.body = BODIES[random(BODIES.len())].to_vec();
        // A pull that is rightly held would be waited for.
        request.fields.set("suspendTimeoutMillis", "0");
        let asked = format!("{round}: {request:?}");
        let opaque = wire.send(request);
        let answer = wire.answer_within(SOON).unwrap_or_else(|| panic!("no answer to {asked}"));
        assert_eq!(answer.opaque, opaque, "{asked}");
        wire.requests.clear();
    }
    let asked = PullMessage { suspend_timeout_millis: 0, ..pull("g", "t", 0, 0) };
    wire.heartbeat("c", "g", "t", &["*"]);
    wire.ask(RequestCode::PULL_MESSAGE, &asked);
}

const NUMBERS: &[&str] =
    &["-9223372036854775808", "9223372036854775807", "-1", "0", "1", "2147483647", "", "x", "1e9"];

const NAMES: &[&str] =
    &["t", "g", "", "%RETRY%g", "TBW102", "no good", "SCHEDULE_TOPIC_XXXX", "\u{1}\u{2}\u{0}"];

const NUMBER_FIELDS: &[&str] = &[
    "queueId",
    "queueOffset",
    "commitOffset",
    "offset",
    "maxMsgNums",
    "sysFlag",
    "timestamp",
    "delayLevel",
    "suspendTimeoutMillis",
    "subVersion",
    "e",
    "f",
    "g",
    "h",
    "d",
    "j",
    "l",
    "readQueueNums",
    "writeQueueNums",
    "perm",
    "maxNum",
    "beginTimestamp",
    "endTimestamp",
    "index",
    "count",
    "maxReconsumeTimes",
];

const NAME_FIELDS: &[&str] = &[
    "topic",
    "consumerGroup",
    "producerGroup",
    "group",
    "a",
    "b",
    "c",
    "i",
    "clientID",
    "clientId",
    "key",
    "msgId",
    "namespace",
    "value",
    "subscription",
    "brokerName",
    "groupName",
    "isForce",
    "topicFilterType",
    "cluster",
];

const BODIES: &[&[u8]] = &[b"", b"{}", b"{\"clientID\":[1],\"mqSet\":{}}", b"null", &[0xff; 40]];

const CODES: &[i32] = &[
    10, 11, 12, 14, 15, 17, 18, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 43, 45, 46,
    100, 101, 102, 105, 106, 200, 201, 202, 203, 204, 205, 206, 207, 208, 215, 216, 219, 222, 223, 224, 225,
    300, 305, 307, 309, 310, 320, 321, 324, 325, 327, 328, 343, 351, 352, 361, 370,
];
