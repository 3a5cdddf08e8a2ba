//! Two masters, a slave of the first, and two name servers of Apache RocketMQ, each killed and started in turn. Run by
//! `tests/apache/run-slaves VERSION`, which starts the servers and says where they are.

#[path = "../scenarios/mod.rs"]
mod scenarios;

use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::{Client, ConsumeFrom, Message, PushConsumer, RequestCode};
use scenarios::{SOON, eventually, producer, tally::Tally, topics, until_acknowledged};
use std::path::PathBuf;
use std::process::Command;

const TOPIC: &str = "slaves";
const GROUP: &str = "slaves-group";

#[test]
fn servers_killed_in_turn_lose_nothing() {
    let _ = env_logger::builder().is_test(true).try_init();
    let names = variable("RMQ_APACHE_NAMESRV");
    for part in ["a", "b"] {
        topics::create(&setting(part, "broker"), &setting(part, "namesrv"), TOPIC, 2);
    }
    let client = Client::builder().name_servers(&*names).start().expect("the servers are there");
    let producer = producer(&client);
    let tally = Tally::new();
    let seen = tally.clone();
    let consumer = PushConsumer::builder(GROUP)
        .client(&client)
        .subscribe(TOPIC, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(move |batch| batch.each(|message| seen.take(message)))
        .start()
        .expect("the topic is there");
    let mut sent = 0;
    let send_some = |sent: &mut u64| {
        for number in *sent..*sent + 100 {
            until_acknowledged(|| producer.send(&Message::new(TOPIC, number.to_string())).map(drop));
        }
        *sent += 100;
    };
    let send = |sent: &mut u64| {
        send_some(sent);
        tally.wait_for(*sent, SOON);
    };
    send(&mut sent);
    let brokers = [("a", "broker"), ("slave", "broker"), ("b", "broker")];
    for (part, server) in brokers.into_iter().chain([("a", "namesrv"), ("b", "namesrv")]) {
        servers("kill", part, server);
        send(&mut sent);
        servers("start", part, server);
        send(&mut sent);
    }

    // What only the first master and its slave have is read from the slave.
    eventually(SOON, "the slave has what its master has", || ends("slave") == ends("a"));
    consumer.suspend();
    let before = ends("a");
    send_some(&mut sent);
    assert_ne!(ends("a"), before);
    eventually(SOON, "the slave has that, too", || ends("slave") == ends("a"));
    servers("kill", "a", "broker");
    consumer.resume();
    tally.wait_for(sent, SOON);
    servers("start", "a", "broker");
    eventually(SOON, "the master has the offsets again", || {
        let stats = consumer.stats();
        stats.queues.iter().all(|queue| queue.lag == Some(0)) && offsets("a") == ends("a")
    });
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    tally.assert_exactly(0..sent);
}

/// The ends of the queues that one broker has.
fn ends(part: &str) -> Vec<Option<String>> {
    offsets_by(part, RequestCode::GET_MAX_OFFSET)
}

/// What the group has stored there.
fn offsets(part: &str) -> Vec<Option<String>> {
    offsets_by(part, RequestCode::QUERY_CONSUMER_OFFSET)
}

fn offsets_by(part: &str, code: RequestCode) -> Vec<Option<String>> {
    let of_queue = |queue_id: &str| {
        let mut command = RemotingCommand::request(code);
        for (name, value) in [("topic", TOPIC), ("queueId", queue_id), ("consumerGroup", GROUP)] {
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

/// A line of the settings of one server.
fn setting(part: &str, name: &str) -> String {
    let file = PathBuf::from(variable("RMQ_APACHE_HOME")).join(part).join("settings");
    let text = std::fs::read_to_string(file).expect("the script has written it");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.expect("the script has written it").to_owned()
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: tests/apache/run-slaves does that"))
}
