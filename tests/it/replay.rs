//! The requests of recorded Java clients, made once more to the embedded broker: where it comes to the same result as
//! the real broker did, its answer has the same fields.

use std::collections::{BTreeMap, BTreeSet};

use crate::captures::{self, Capture};
use crate::wire::{SOON, Wire};
use rocketmq_sync::broker::{Broker, Version};
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::{RequestCode as Code, ResponseCode};

/// What the embedded broker does not know. Everything else that Java clients and tools ask is answered.
const UNKNOWN: &[Code] = &[
    Code::SET_MESSAGE_REQUEST_MODE,
    Code::QUERY_ASSIGNMENT,
    Code::GET_NAMESRV_CONFIG,
    Code::VIEW_BROKER_STATS_DATA,
    Code::GET_BROKER_HA_STATUS,
    Code(9999),
    // Pop consumption, cut to 16 bits in a binary header.
    Code(3442),
    Code(3443),
    Code(3445),
];

/// Fields of real brokers that say they can do more: heartbeats by fingerprint, inner batches; and the handle of a
/// message whose delivery time has long passed.
const MORE: &[&str] = &["IS_SUPPORT_HEART_BEAT_V2", "IS_SUB_CHANGE", "recallHandle", "batchUniqId"];

/// These are passed on to other clients of the recording, which are not here to answer.
const RELAYED: &[Code] = &[
    Code::GET_CONSUMER_RUNNING_INFO,
    Code::CONSUME_MESSAGE_DIRECTLY,
    Code::INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    Code::SEND_REPLY_MESSAGE_V2,
];

#[test]
fn recorded_java_clients_get_the_answers_they_know() {
    let mut files: BTreeMap<String, Vec<Capture>> = BTreeMap::new();
    for capture in captures::all() {
        let file = capture.place.split(' ').next().unwrap().to_owned();
        files.entry(file).or_default().push(capture);
    }
    for (file, captures) in files {
        let (same, all) = replay(&file, &captures);
        // The recordings are thinned out and the held pulls are not held here, so that not all can be alike.
        assert!(same * 10 >= all * 7 && same >= 8, "{file}: {same} of {all} answers are as recorded");
    }
}

/// How many answers are as recorded, of how many.
fn replay(file: &str, captures: &[Capture]) -> (usize, usize) {
    let version = match file {
        _ if file.contains("4.9") => Version::V4_9,
        _ if file.contains("5.3") => Version::V5_3,
        _ => Version::V5_5,
    };
    let broker = Broker::builder().version(version).start().unwrap();
    let mut wires: BTreeMap<i64, Wire> = BTreeMap::new();
    let (mut same, mut all) = (0, 0);
    for capture in captures.iter().filter(|capture| is_request(capture)) {
        let command = capture.frame.command().unwrap();
        if RELAYED.contains(&command.request_code()) || command.code >= Code::POP_MESSAGE.0 {
            continue;
        }
        let wire = wires.entry(capture.line["conn"].as_i64().unwrap());
        let wire = wire.or_insert_with(|| Wire::connect(&broker.name_server()));
        wire.encoding = capture.frame.encoding();
        let Some(answer) = ask(wire, command.clone()) else { continue };
        if answer.response_code() == ResponseCode::REQUEST_CODE_NOT_SUPPORTED {
            assert!(UNKNOWN.contains(&command.request_code()), "{}: {answer:?}", capture.place);
            continue;
        }
        let recorded = captures.iter().find(|other| other.line["answers"] == capture.line["n"]);
        let Some(recorded) = recorded.map(|recorded| recorded.frame.command().unwrap()) else { continue };
        all += 1;
        if answer.code == recorded.code {
            assert_eq!(fields(&answer), fields(&recorded), "{}: {answer:?}", capture.place);
            same += 1;
        }
    }
    (same, all)
}

fn is_request(capture: &Capture) -> bool {
    capture.line["sender"] == "client" && capture.line["kind"] != "response"
}

/// The answer, if the request is one that gets one.
fn ask(wire: &mut Wire, mut command: RemotingCommand) -> Option<RemotingCommand> {
    if command.fields.get("suspendTimeoutMillis").is_some() {
        command.fields.set("suspendTimeoutMillis", "0");
    }
    wire.send_as_is(&command);
    if command.is_oneway() {
        return None;
    }
    let answer = wire.answer_within(SOON).unwrap_or_else(|| panic!("no answer to {command:?}"));
    assert_eq!(answer.opaque, command.opaque);
    Some(answer)
}

fn fields(command: &RemotingCommand) -> BTreeSet<&str> {
    command.fields.iter().map(|(name, _)| name).filter(|name| !MORE.contains(name)).collect()
}
