//! Topics, created the way an administrator's tool does it, and what such a tool is told of a member.

use super::{SOON, eventually};
use rocketmq_sync::testing::protocol::body::ConsumerRunningInfo;
use rocketmq_sync::testing::protocol::{Encoding, Frame, RemotingCommand, encode};
use rocketmq_sync::{RequestCode, ResponseCode};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Creates it at the broker; returns when the name server knows it, too.
pub fn create(broker: &str, name_server: &str, topic: &str, queues: u32) {
    let mut create = RemotingCommand::request(RequestCode::UPDATE_AND_CREATE_TOPIC);
    let queues = queues.to_string();
    for (name, value) in [
        ("topic", topic),
        ("defaultTopic", "TBW102"),
        ("readQueueNums", &queues),
        ("writeQueueNums", &queues),
        ("perm", "6"),
        ("topicFilterType", "SINGLE_TAG"),
        ("topicSysFlag", "0"),
        ("order", "false"),
    ] {
        create.fields.set(name, value);
    }
    let answer = ask(broker, &create);
    assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{answer:?}");
    let mut route = RemotingCommand::request(RequestCode::GET_ROUTEINFO_BY_TOPIC);
    route.fields.set("topic", topic);
    eventually(SOON, "the route of a new topic", || {
        ask(name_server, &route).response_code() == ResponseCode::SUCCESS
    });
}

/// When the locks of a member that consumes in order were renewed last, as it says itself.
pub fn locks_renewed(broker: &str, group: &str, client_id: &str) -> SystemTime {
    let mut request = RemotingCommand::request(RequestCode::GET_CONSUMER_RUNNING_INFO);
    for (name, value) in [("consumerGroup", group), ("clientId", client_id), ("jstackEnable", "false")] {
        request.fields.set(name, value);
    }
    let answer = ask(broker, &request);
    assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{answer:?}");
    let info = ConsumerRunningInfo::read(&answer.body).expect("it says what it is doing");
    let renewed = info.mq_table.values().map(|queue| queue.last_lock_timestamp).max();
    let renewed = renewed.and_then(|millis| u64::try_from(millis).ok()).filter(|millis| *millis > 0);
    UNIX_EPOCH + Duration::from_millis(renewed.expect("it has locks"))
}

/// One request on a connection of its own.
pub fn ask(address: &str, request: &RemotingCommand) -> RemotingCommand {
    let mut bytes = Vec::new();
    encode(request, Encoding::Json, &mut bytes).expect("the request fits into a frame");
    let mut stream = TcpStream::connect(address).expect("the servers are there");
    stream.set_read_timeout(Some(SOON)).expect("a time limit is allowed");
    stream.write_all(&bytes).expect("the server reads");
    let mut answer = vec![0; 4];
    stream.read_exact(&mut answer).expect("the server answers");
    let length = u32::from_be_bytes(answer[..].try_into().expect("four bytes"));
    answer.resize(4 + length as usize, 0);
    stream.read_exact(&mut answer[4..]).expect("the server answers");
    Frame::parse(answer).and_then(|frame| frame.command()).expect("the answer is a frame")
}
