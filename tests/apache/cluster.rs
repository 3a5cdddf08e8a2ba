//! The servers that `run-slaves` has started, in three parts: a name server and a master each in "a" and "b", and the
//! slave of the first master in "slave".

use crate::scenarios::{SOON, eventually, topics};
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::{RequestCode, ResponseCode};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

pub const TOPIC: &str = "slaves";

pub fn name_servers() -> String {
    variable("RMQ_APACHE_NAMESRV")
}

/// The topic, with two queues at each master; every name server knows it.
pub fn create_topic() {
    for part in ["a", "b"] {
        topics::create(&setting(part, "broker"), &setting(part, "namesrv"), TOPIC, 2);
    }
    is_known();
}

pub fn kill(part: &str, server: &str) {
    servers("kill", part, server);
}

pub fn start(part: &str, server: &str) {
    servers("start", part, server);
}

/// Waits until each name server knows both masters, the slave, and the queues of both.
pub fn is_known() {
    let mut route = RemotingCommand::request(RequestCode::GET_ROUTEINFO_BY_TOPIC);
    route.fields.set("topic", TOPIC);
    for name_server in ["a", "b"] {
        eventually(SOON, &format!("name server {name_server} knows all brokers"), || {
            let answer = topics::ask(&setting(name_server, "namesrv"), &route);
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            ["a", "b", "slave"].iter().all(|part| text.contains(&format!("\"{}\"", setting(part, "broker"))))
                && text.matches("\"readQueueNums\"").count() == 2
        });
    }
}

/// It copies topics and groups from its master every 10 s (4.x), or every 60 s (5.x).
pub fn slave_knows_the_topic() -> bool {
    let request = RemotingCommand::request(RequestCode::GET_ALL_TOPIC_CONFIG);
    let answer = topics::ask(&setting("slave", "broker"), &request);
    String::from_utf8_lossy(&answer.body).contains(&format!("\"{TOPIC}\""))
}

/// How many messages were read there since it started.
pub fn read_from_the_slave() -> u64 {
    let request = RemotingCommand::request(RequestCode::GET_BROKER_RUNTIME_INFO);
    let answer = topics::ask(&setting("slave", "broker"), &request);
    let figures: Value = serde_json::from_slice(&answer.body).expect("a table of figures");
    let read = figures["table"]["msgGetTotalTodayNow"].as_str().expect("one of the figures");
    read.parse().expect("a number")
}

/// From now on the first master sends its readers to its slave whenever there is something left to read.
pub fn suggest_the_slave() {
    let request = RemotingCommand::request(RequestCode::UPDATE_BROKER_CONFIG)
        .body(b"slaveReadEnable=true\naccessMessageInMemoryMaxRatio=0\n".to_vec());
    let answer = topics::ask(&setting("a", "broker"), &request);
    assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{answer:?}");
}

/// Waits until the slave has all messages of its master.
pub fn slave_has_everything() {
    eventually(SOON, "the slave has what its master has", || ends("slave") == ends("a"));
}

/// The ends of the queues that one broker has.
pub fn ends(part: &str) -> Vec<Option<String>> {
    offsets_by(part, "any", RequestCode::GET_MAX_OFFSET)
}

/// What the group has stored there.
pub fn offsets(part: &str, group: &str) -> Vec<Option<String>> {
    offsets_by(part, group, RequestCode::QUERY_CONSUMER_OFFSET)
}

fn offsets_by(part: &str, group: &str, code: RequestCode) -> Vec<Option<String>> {
    let of_queue = |queue_id: &str| {
        let mut command = RemotingCommand::request(code);
        for (name, value) in [("topic", TOPIC), ("queueId", queue_id), ("consumerGroup", group)] {
            command.fields.set(name, value);
        }
        topics::ask(&setting(part, "broker"), &command).fields.get("offset").map(str::to_owned)
    };
    ["0", "1"].map(of_queue).into()
}

fn servers(what: &str, part: &str, server: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/apache/servers");
    let home = PathBuf::from(variable("RMQ_APACHE_HOME")).join(part);
    let status =
        Command::new(script).arg(format!("{what}-{server}")).arg(&home).status().expect("bash is there");
    assert!(status.success(), "servers {what}-{server} {part}: {status}");
}

/// A line of the settings of one part.
fn setting(part: &str, name: &str) -> String {
    let file = PathBuf::from(variable("RMQ_APACHE_HOME")).join(part).join("settings");
    let text = std::fs::read_to_string(file).expect("the script has written it");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.expect("the script has written it").to_owned()
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: tests/apache/run-slaves does that"))
}
