//! What the official `mqadmin` shows of a member of ours, and what it can have it do.

use super::scenarios::{SOON, Target, client, eventually, producer};
use super::variable;
use rocketmq_sync::{ConsumeFrom, Message, MessageView, PushConsumer, SendReceipt};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const TOPIC: &str = "tools";
const GROUP: &str = "tools-group";
const TRACES: &str = "tools-traces";

pub fn mqadmin_knows_a_member(target: &dyn Target) {
    target.create_topic(TOPIC, 2);
    target.create_topic(TRACES, 1);
    let client = client_with_traces(target);
    let (seen, consumer) = member(&client);
    let producer = producer(&client);

    let sent = mqadmin(target, "sendMessage", &["-t", TOPIC, "-p", "by mqadmin", "-k", "tool"]);
    expect(&sent, &["SEND_OK"]);
    let receipt = producer.send(&Message::new(TOPIC, "ours").tag("paid").key("order-7")).expect("it runs");
    seen.wait_for("by mqadmin", 1);
    seen.wait_for("ours", 1);

    shows_the_connection(target, client.client_id());
    shows_what_it_does(target, client.client_id());
    shows_its_progress(target);
    consumes_directly(target, &seen, client.client_id(), &receipt);
    finds_the_trace(target, &receipt);
    resets_its_offsets(target, &seen, &producer);
    assert!(consumer.shutdown(SOON).is_clean());
}

fn client_with_traces(target: &dyn Target) -> rocketmq_sync::Client {
    drop(client(target)); // It sets up the log.
    let builder = rocketmq_sync::Client::builder().name_servers(target.name_server()).trace_topic(TRACES);
    builder.start().expect("the servers are there")
}

fn shows_the_connection(target: &dyn Target, id: &str) {
    let text = mqadmin(target, "consumerConnection", &["-g", GROUP]);
    let model = ["ConsumeType: CONSUME_PASSIVELY", "MessageModel: CLUSTERING"];
    expect(&text, &[id, TOPIC, "%RETRY%tools-group", "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET"]);
    expect(&text, &model);
}

fn shows_what_it_does(target: &dyn Target, id: &str) {
    let text = mqadmin(target, "consumerStatus", &["-g", GROUP, "-i", id, "-s", "true"]);
    expect(&text, &["#Consumer Properties#", "PROP_CONSUMEORDERLY", "CONSUME_PASSIVELY", "pullBatchSize"]);
    expect(&text, &["#Consumer Subscription#", "#Consumer MQ Detail#", "#Consumer RT&TPS#"]);
    // In the place of Java's stacks.
    expect(&text, &["rmq-io", "rmq-consume-0"]);
    // Of all members: their subscriptions agree, and no queue stands still.
    let all = mqadmin(target, "consumerStatus", &["-g", GROUP]);
    expect(&all, &[id, "Same subscription in the same group of consumer"]);
}

fn shows_its_progress(target: &dyn Target) {
    // Its offsets are committed a moment after the last message.
    let mut text = String::new();
    let begun = Instant::now();
    while !text.contains("Diff Total: 0") {
        assert!(begun.elapsed() < SOON, "{text}");
        text = mqadmin(target, "consumerProgress", &["-g", GROUP]);
    }
    expect(&text, &[TOPIC, "broker-a", "Consume TPS"]);
}

fn consumes_directly(target: &dyn Target, seen: &Seen, id: &str, receipt: &SendReceipt) {
    let stored = receipt.offset_message_id();
    let mut arguments = vec!["-i", stored, "-g", GROUP, "-d", id];
    if is_5() {
        // Asked for there, and unknown before.
        arguments.extend(["-t", TOPIC]);
    }
    let text = mqadmin(target, "queryMsgById", &arguments);
    expect(&text, &["consumeResult=CR_SUCCESS", "order=false", "autoCommit=true"]);
    seen.wait_for("ours", 2);
}

fn finds_the_trace(target: &dyn Target, receipt: &SendReceipt) {
    let mut text = String::new();
    let begun = Instant::now();
    while !(text.contains("Pub") && text.contains(GROUP)) {
        assert!(begun.elapsed() < SOON, "{text}");
        text = mqadmin(target, "queryMsgTraceById", &["-i", receipt.message_id(), "-t", TRACES]);
    }
    expect(&text, &["scenario-producer", "success"]);
}

fn resets_its_offsets(target: &dyn Target, seen: &Seen, producer: &rocketmq_sync::Producer) {
    let text = mqadmin(target, "resetOffsetByTime", &["-g", GROUP, "-t", TOPIC, "-s", "0"]);
    expect(&text, &["broker-a"]);
    // A pull that the broker holds hears of it when there is something new.
    for queue in producer.queues(TOPIC).expect("the route is known") {
        producer.send(&Message::new(TOPIC, "new").queue(&queue)).expect("it runs");
    }
    seen.wait_for("ours", 3);
    seen.wait_for("by mqadmin", 2);
}

fn member(client: &rocketmq_sync::Client) -> (Seen, PushConsumer) {
    let seen = Seen::default();
    let noting = seen.clone();
    let consumer = PushConsumer::builder(GROUP)
        .client(client)
        .subscribe(TOPIC, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(move |batch| batch.each(|message| noting.note(message)))
        .start()
        .expect("the topic is there");
    (seen, consumer)
}

/// The bodies that the listener has seen.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn note(&self, message: &MessageView) {
        let body = message.body_str().expect("they are texts").to_owned();
        self.0.lock().expect("no panic under the lock").push(body);
    }

    fn wait_for(&self, body: &str, times: usize) {
        eventually(SOON, &format!("{body:?} {times} times"), || {
            let seen = self.0.lock().expect("no panic under the lock");
            seen.iter().filter(|one| *one == body).count() >= times
        });
    }
}

fn is_5() -> bool {
    let settings = Path::new(&variable("RMQ_APACHE_HOME")).join("settings");
    fs::read_to_string(settings).expect("the script has written it").contains("version=5")
}

/// What it prints. It ends with success also when the command fails.
fn mqadmin(target: &dyn Target, command: &str, arguments: &[&str]) -> String {
    let home = variable("RMQ_APACHE_HOME");
    let begun = Instant::now();
    let output = Command::new("java")
        .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"])
        .args([format!("-Drocketmq.home.dir={home}"), format!("-Duser.home={home}")])
        .args(["-cp", &variable("RMQ_JAVA_CLASS_PATH")])
        .args(["org.apache.rocketmq.tools.command.MQAdminStartup", command])
        .args(["-n", &target.name_server()])
        .args(arguments)
        // Some commands write files into the folder that they are run in.
        .current_dir(&home)
        .output()
        .expect("a JDK is installed");
    assert!(begun.elapsed() < SOON + Duration::from_secs(60), "{command} took {:?}", begun.elapsed());
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    format!("mqadmin {command} {}\n{text}", arguments.join(" "))
}

fn expect(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}
