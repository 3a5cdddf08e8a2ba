//! Two masters, a slave of the first, and two name servers of Apache RocketMQ, each killed and started in turn while
//! messages are sent and consumed. Run by `tests/apache/run-slaves VERSION`, which starts the servers and says where
//! they are.

#[path = "../scenarios/mod.rs"]
mod scenarios;

use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::{Client, ConsumeFrom, Message, PushConsumer, RequestCode, ResponseCode};
use scenarios::java::{JavaPeer, QUICK};
use scenarios::{SOON, eventually, pause, producer, start, tally::Tally, topics, until_acknowledged};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const TOPIC: &str = "slaves";
/// Two members of ours; one of ours and one official Java consumer; one that begins while the first master is away.
const OURS: &str = "slaves-ours";
const MIXED: &str = "slaves-mixed";
const LATE: &str = "slaves-late";

#[test]
fn servers_killed_in_turn_lose_nothing() {
    let _ = env_logger::builder().is_test(true).try_init();
    let names = variable("RMQ_APACHE_NAMESRV");
    for part in ["a", "b"] {
        topics::create(&setting(part, "broker"), &setting(part, "namesrv"), TOPIC, 2);
    }
    for name_server in ["a", "b"] {
        knows_everything(name_server);
    }
    let clients: [Client; 2] = std::array::from_fn(|_| {
        Client::builder().name_servers(&*names).start().expect("the servers are there")
    });
    let (ours, mixed) = (Tally::new(), Tally::new());
    let members = clients.each_ref().map(|client| member(client, OURS, &ours));
    let beside_java = member(&clients[0], MIXED, &mixed);
    let java = JavaPeer::consumer(&names, MIXED, TOPIC, QUICK, &mixed);
    eventually(SOON, "the groups have shared the queues out", || {
        members.iter().all(|member| member.assignment().iter().filter(|q| q.topic() == TOPIC).count() == 2)
            && !java.queues().is_empty()
    });

    let traffic = Traffic::default();
    std::thread::scope(|scope| {
        let _end = traffic.ends_with_this();
        scope.spawn(|| traffic.run(&clients[0]));
        let tallies = [&ours, &mixed];
        let outage = |part: &str, server: &str| {
            let begun = Instant::now();
            servers("kill", part, server);
            // What was on its way at the kill may be with the one that was killed.
            let first = traffic.sent() + 1;
            traffic.wait_for(first + 100);
            tallies.iter().for_each(|tally| all_came(tally, first..first + 100));
            let without = begun.elapsed();
            servers("start", part, server);
            let (started, sent) = (begun.elapsed(), traffic.sent());
            tallies.iter().for_each(|tally| all_came(tally, 0..sent));
            let caught_up = begun.elapsed();
            ["a", "b"].into_iter().for_each(knows_everything);
            let known = begun.elapsed();
            eprintln!("{server} {part}: {without:.1?} {started:.1?} {caught_up:.1?} {known:.1?}");
        };
        outage("a", "namesrv");
        outage("b", "namesrv");
        outage("b", "broker");

        // With the first master away, what only that and its slave have is read from the slave, and the slave is told
        // how far it was read.
        let begun = Instant::now();
        eventually(SOON, "the slave knows the topic", slave_knows_the_topic);
        eprintln!("the slave has copied the topic after another {:.1?}", begun.elapsed());
        members.iter().for_each(PushConsumer::suspend);
        let sent = traffic.pause_after(400);
        all_came(&mixed, 0..sent);
        eventually(SOON, "the slave has what its master has", || ends("slave") == ends("a"));
        let (begun, read) = (Instant::now(), read_from_the_slave());
        servers("kill", "a", "broker");
        members.iter().for_each(PushConsumer::resume);
        all_came(&ours, 0..sent);
        assert!(read_from_the_slave() > read);
        let late = Tally::new();
        let newcomer = member(&clients[0], LATE, &late);
        all_came(&late, 0..sent);
        for group in [OURS, LATE] {
            eventually(SOON, "the slave knows the progress", || offsets("slave", group) == ends("slave"));
        }
        eprintln!("read from the slave and told to it: {:.1?}", begun.elapsed());
        traffic.resume();
        traffic.wait_for(sent + 100);
        all_came(&ours, 0..sent + 100);
        servers("start", "a", "broker");
        ["a", "b"].into_iter().for_each(knows_everything);
        let sent = traffic.pause_after(100);
        let tallies = [&ours, &mixed, &late];
        tallies.iter().for_each(|tally| all_came(tally, 0..sent));
        the_masters_know_the_progress();
        eprintln!("back to the master: {:.1?}", begun.elapsed());

        // From now on the master sends its readers to the slave whenever there is something left to read.
        suggest_the_slave();
        eventually(SOON, "the slave has what its master has", || ends("slave") == ends("a"));
        members.iter().for_each(PushConsumer::suspend);
        let sent = traffic.pause_after(400);
        eventually(SOON, "the slave has that, too", || ends("slave") == ends("a"));
        let read = read_from_the_slave();
        members.iter().for_each(PushConsumer::resume);
        all_came(&ours, 0..sent);
        assert!(read_from_the_slave() > read);
        the_masters_know_the_progress();
        traffic.resume();
        outage("slave", "broker");

        let sent = traffic.pause_after(100);
        tallies.iter().for_each(|tally| all_came(tally, 0..sent));
        the_masters_know_the_progress();
        java.stop();
        for member in members.iter().chain([&beside_java, &newcomer]) {
            let report = member.shutdown(SOON);
            assert!(report.is_clean(), "{report}");
        }
        the_masters_know_the_progress();
        tallies.iter().for_each(|tally| tally.assert_exactly(0..sent));
        let twice = tallies.map(|tally| tally.duplicates());
        eprintln!("{sent} messages; given more than once, in each group: {twice:?}");
    });
}

fn member(client: &Client, group: &str, tally: &Arc<Tally>) -> PushConsumer {
    let tally = tally.clone();
    let builder = PushConsumer::builder(group)
        .client(client)
        .subscribe(TOPIC, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(move |batch| batch.each(|message| tally.take(message)));
    start(&builder)
}

fn all_came(tally: &Tally, numbers: std::ops::Range<u64>) {
    let begun = Instant::now();
    for number in numbers.clone() {
        let what = format!("{number} of {numbers:?} comes");
        eventually(SOON.saturating_sub(begun.elapsed()), &what, || !tally.of(number).is_empty());
    }
}

/// Every group has told both masters that everything is consumed.
fn the_masters_know_the_progress() {
    for (part, group) in ["a", "b"].into_iter().flat_map(|part| [(part, OURS), (part, MIXED), (part, LATE)]) {
        eventually(SOON, "the master knows the progress", || offsets(part, group) == ends(part));
    }
}

/// A producer that never rests for long: the numbers from 0 on.
#[derive(Default)]
struct Traffic {
    state: Mutex<Sending>,
    changed: Condvar,
}

#[derive(Default)]
struct Sending {
    /// How many were acknowledged.
    sent: u64,
    /// It pauses when that many are.
    limit: Option<u64>,
    ended: bool,
}

impl Traffic {
    fn run(&self, client: &Client) {
        let producer = producer(client);
        while let Some(number) = self.next() {
            let message = Message::new(TOPIC, number.to_string());
            until_acknowledged(|| producer.send(&message).map(drop));
            self.change(|sending| sending.sent = number + 1);
            pause(Duration::from_millis(2));
        }
    }

    fn sent(&self) -> u64 {
        self.state.lock().expect("no panic under the lock").sent
    }

    fn wait_for(&self, sent: u64) {
        eventually(SOON, "sending goes on", || self.sent() >= sent);
    }

    /// Sends so many more, and then nothing until it is resumed; returns how many were sent in all.
    fn pause_after(&self, more: u64) -> u64 {
        // One more may be on its way.
        let limit = self.sent() + 1 + more;
        self.change(|sending| sending.limit = Some(limit));
        self.wait_for(limit);
        limit
    }

    fn resume(&self) {
        self.change(|sending| sending.limit = None);
    }

    fn ends_with_this(&self) -> EndOfTraffic<'_> {
        EndOfTraffic(self)
    }

    /// The next number, when it is time for it.
    fn next(&self) -> Option<u64> {
        let state = self.state.lock().expect("no panic under the lock");
        let paused = |state: &mut Sending| !state.ended && state.limit.is_some_and(|limit| state.sent >= limit);
        let state = self.changed.wait_while(state, paused).expect("no panic under the lock");
        (!state.ended).then_some(state.sent)
    }

    fn change(&self, change: impl FnOnce(&mut Sending)) {
        change(&mut self.state.lock().expect("no panic under the lock"));
        self.changed.notify_all();
    }
}

/// Also when a check fails: the scope waits for its threads.
struct EndOfTraffic<'a>(&'a Traffic);

impl Drop for EndOfTraffic<'_> {
    fn drop(&mut self) {
        self.0.change(|sending| sending.ended = true);
    }
}

/// One name server knows both masters and the slave.
fn knows_everything(name_server: &str) {
    let mut route = RemotingCommand::request(RequestCode::GET_ROUTEINFO_BY_TOPIC);
    route.fields.set("topic", TOPIC);
    let what = format!("name server {name_server} knows all brokers");
    eventually(SOON, &what, || {
        let answer = topics::ask(&setting(name_server, "namesrv"), &route);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        ["a", "b", "slave"].iter().all(|part| text.contains(&format!("\"{}\"", setting(part, "broker"))))
            && text.matches("\"readQueueNums\"").count() == 2
    });
}

/// It copies topics and groups from its master every 10 s (4.x), or every 60 s (5.x).
fn slave_knows_the_topic() -> bool {
    let answer = topics::ask(
        &setting("slave", "broker"),
        &RemotingCommand::request(RequestCode::GET_ALL_TOPIC_CONFIG),
    );
    String::from_utf8_lossy(&answer.body).contains(&format!("\"{TOPIC}\""))
}

/// How many messages were read there since it started.
fn read_from_the_slave() -> u64 {
    let answer = topics::ask(
        &setting("slave", "broker"),
        &RemotingCommand::request(RequestCode::GET_BROKER_RUNTIME_INFO),
    );
    let figures: Value = serde_json::from_slice(&answer.body).expect("a table of figures");
    let read = figures["table"]["msgGetTotalTodayNow"].as_str().expect("one of the figures");
    read.parse().expect("a number")
}

fn suggest_the_slave() {
    let request = RemotingCommand::request(RequestCode::UPDATE_BROKER_CONFIG)
        .body(b"slaveReadEnable=true\naccessMessageInMemoryMaxRatio=0\n".to_vec());
    let answer = topics::ask(&setting("a", "broker"), &request);
    assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{answer:?}");
}

/// The ends of the queues that one broker has.
fn ends(part: &str) -> Vec<Option<String>> {
    offsets_by(part, OURS, RequestCode::GET_MAX_OFFSET)
}

/// What the group has stored there.
fn offsets(part: &str, group: &str) -> Vec<Option<String>> {
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
