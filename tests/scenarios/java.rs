//! The official Java client in a process of its own: `tests/java/Peer.java`, and what it reports.

use super::tally::{Member, Place, Tally};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Ended by kill when dropped.
#[derive(Debug)]
pub struct JavaPeer {
    process: Child,
    reader: Option<JoinHandle<()>>,
    seen: Arc<Seen>,
}

/// What the peer has reported so far.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub started: bool,
    pub stopped: bool,
    /// The ids of the topic's queues that it owns.
    pub queues: BTreeSet<i32>,
    /// How many messages a producer has sent.
    pub produced: Option<u64>,
    /// Its output has ended.
    pub ended: bool,
}

#[derive(Debug, Default)]
struct Seen {
    report: Mutex<Report>,
    changed: Condvar,
}

/// Java looks for a new route, for instance that of a retry topic, every 30 s, and rebalances every 20 s. With this it
/// does both every second.
pub const QUICK: &[&str] = &["-Dpeer.route.interval=1000", "-Drocketmq.client.rebalance.waitInterval=1000"];

impl JavaPeer {
    /// A push consumer; returns when it has started. What it is given goes to `tally`.
    pub fn consumer(
        name_server: &str,
        group: &str,
        topic: &str,
        options: &[&str],
        tally: &Arc<Tally>,
    ) -> JavaPeer {
        JavaPeer::started("consume", name_server, group, topic, options, tally)
    }

    /// The same, in order.
    pub fn consumer_in_order(
        name_server: &str,
        group: &str,
        topic: &str,
        options: &[&str],
        tally: &Arc<Tally>,
    ) -> JavaPeer {
        JavaPeer::started("consume-in-order", name_server, group, topic, options, tally)
    }

    /// A lite pull consumer, which commits after each poll.
    pub fn poller(name_server: &str, group: &str, topic: &str, tally: &Arc<Tally>) -> JavaPeer {
        JavaPeer::started("poll", name_server, group, topic, &[], tally)
    }

    /// Members of several groups, as `tests/java/Members.java` has them; every event goes to `take`.
    pub fn members(arguments: &[&str], options: &[&str], take: impl Fn(&Value) + Send + 'static) -> JavaPeer {
        let peer = JavaPeer::spawn("Members", arguments, options, take);
        peer.wait(START, "the start of the Java members", |report| report.started);
        peer
    }

    fn started(
        how: &str,
        name_server: &str,
        group: &str,
        topic: &str,
        options: &[&str],
        tally: &Arc<Tally>,
    ) -> JavaPeer {
        let tally = tally.clone();
        let peer = JavaPeer::spawn("Peer", &[how, name_server, group, topic], options, move |event| {
            note(event, &tally)
        });
        peer.wait(START, "the start of the Java consumer", |report| report.started);
        peer
    }

    /// Sends the numbers of this range, in all ways; returns when it is done.
    pub fn produce(name_server: &str, topic: &str, numbers: std::ops::Range<u64>) -> u64 {
        let (first, count) = (numbers.start.to_string(), (numbers.end - numbers.start).to_string());
        let peer = JavaPeer::spawn("Peer", &["produce", name_server, topic, &first, &count], &[], |_| ());
        let report = peer.wait(2 * START, "the end of the Java producer", |report| report.produced.is_some());
        report.produced.expect("it was waited for")
    }

    pub fn queues(&self) -> BTreeSet<i32> {
        self.wait(Duration::ZERO, "nothing", |_| true).queues
    }

    /// Leaves the group in order.
    pub fn stop(mut self) {
        self.tell("stop");
        self.wait(START, "the shutdown of the Java peer", |report| report.stopped);
    }

    /// A line on its standard input.
    pub fn tell(&mut self, line: &str) {
        let stdin = self.process.stdin.as_mut().expect("it is piped");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("the Java peer runs");
    }

    /// SIGKILL. What it has been given until then is in the tally when this returns.
    pub fn kill(mut self) {
        self.end();
    }

    fn spawn(
        program: &str,
        arguments: &[&str],
        options: &[&str],
        take: impl Fn(&Value) + Send + 'static,
    ) -> JavaPeer {
        let class_path =
            std::env::var("RMQ_JAVA_CLASS_PATH").expect("set by tests/apache/run and tests/java/run");
        let logs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/java/logback.xml");
        let mut process = Command::new("java")
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"])
            .arg(format!("-Drmq.logback.configurationFile={logs}"))
            .arg(format!("-Duser.home={}", std::env::temp_dir().display()))
            .args(options)
            .args(["-cp", &class_path, program])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a JDK is installed");
        let seen = Arc::new(Seen::default());
        let output = process.stdout.take().expect("it is piped");
        let reader = std::thread::spawn({
            let seen = seen.clone();
            move || read(output, &seen, take)
        });
        JavaPeer { process, reader: Some(reader), seen }
    }

    fn wait(&self, limit: Duration, what: &str, done: impl Fn(&Report) -> bool) -> Report {
        let deadline = Instant::now() + limit;
        let mut report = self.seen.report.lock().expect("no panic under the lock");
        while !done(&report) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !report.ended, "{what} within {limit:?}: {report:?}");
            report = self.seen.changed.wait_timeout(report, left).expect("no panic under the lock").0;
        }
        report.clone()
    }

    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for JavaPeer {
    fn drop(&mut self) {
        self.end();
    }
}

/// A JVM on a busy machine takes its time.
const START: Duration = Duration::from_secs(120);

fn read(output: ChildStdout, seen: &Seen, also: impl Fn(&Value)) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        // What libraries print there is something else.
        if let Ok(event) = serde_json::from_str(&line) {
            also(&event);
            take(&event, seen);
        }
    }
    seen.report.lock().expect("no panic under the lock").ended = true;
    seen.changed.notify_all();
}

fn take(event: &Value, seen: &Seen) {
    let mut report = seen.report.lock().expect("no panic under the lock");
    match event["event"].as_str() {
        Some("started") => report.started = true,
        Some("stopped") => report.stopped = true,
        Some("produced") => report.produced = event["sent"].as_u64(),
        Some("queues") => report.queues = ids(&event["ids"]),
        _ => {}
    }
    drop(report);
    seen.changed.notify_all();
}

/// Queue ids, as an event has them.
pub fn ids(list: &Value) -> BTreeSet<i32> {
    let list = list.as_array().expect("an array of queue ids").iter();
    list.filter_map(Value::as_i64).map(|id| id as i32).collect()
}

fn note(event: &Value, tally: &Tally) {
    if event["event"] == "message" {
        let body = event["body"].as_str().expect("a body");
        let number = |name: &str| event[name].as_i64().expect("a number");
        let place = Place {
            queue: number("queue") as i32,
            at_millis: number("t_ms") as u64,
            offset: number("offset"),
        };
        tally.record(body, Member::Java, number("reconsumed") as u32, place);
    }
}
