//! A member of a group in a process of its own, which can be killed, and what it reports: one JSON object a line.

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
pub struct Peer {
    process: Child,
    reader: Option<JoinHandle<()>>,
    seen: Arc<Seen>,
}

/// What the peer has reported so far.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// When its start was called, in milliseconds of the clock that all look at.
    pub start: Option<u64>,
    /// The id of its client, when it has started.
    pub started: Option<String>,
    /// When its shutdown was called.
    pub stop: Option<u64>,
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

impl Peer {
    /// Shows every event to `also`.
    pub fn spawn(command: &mut Command, also: impl Fn(&Value) + Send + 'static) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("a program that is installed");
        let seen = Arc::new(Seen::default());
        let output = process.stdout.take().expect("it is piped");
        let reader = std::thread::spawn({
            let seen = seen.clone();
            move || read(output, &seen, also)
        });
        Peer { process, reader: Some(reader), seen }
    }

    /// Waits until it is a member of its group.
    pub fn has_started(self) -> Self {
        self.wait(START, "its start", |report| report.started.is_some());
        self
    }

    pub fn client_id(&self) -> String {
        self.report().started.expect("it was waited for")
    }

    pub fn queues(&self) -> BTreeSet<i32> {
        self.report().queues
    }

    /// When its start was called, in milliseconds.
    pub fn start_called(&self) -> u64 {
        self.report().start.expect("it has started")
    }

    /// Leaves the group in order; returns when its shutdown was called, in milliseconds.
    pub fn stop(mut self) -> Option<u64> {
        self.tell("stop");
        self.wait(START, "its shutdown", |report| report.stopped).stop
    }

    /// A line on its standard input.
    pub fn tell(&mut self, line: &str) {
        let stdin = self.process.stdin.as_mut().expect("it is piped");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("it runs");
    }

    /// SIGKILL. What it has been given until then is in the tally when this returns.
    pub fn kill(mut self) {
        self.end();
    }

    pub fn wait(&self, limit: Duration, what: &str, done: impl Fn(&Report) -> bool) -> Report {
        let deadline = Instant::now() + limit;
        let mut report = self.seen.report.lock().expect("no panic under the lock");
        while !done(&report) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !report.ended, "{what} within {limit:?}: {report:?}");
            report = self.seen.changed.wait_timeout(report, left).expect("no panic under the lock").0;
        }
        report.clone()
    }

    fn report(&self) -> Report {
        self.seen.report.lock().expect("no panic under the lock").clone()
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

impl Drop for Peer {
    fn drop(&mut self) {
        self.end();
    }
}

/// A JVM on a busy machine takes its time.
pub const START: Duration = Duration::from_secs(120);

fn read(output: ChildStdout, seen: &Seen, also: impl Fn(&Value)) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        // What libraries and the test harness print there is something else.
        if let Ok(event @ Value::Object(_)) = serde_json::from_str(&line) {
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
        Some("started") => report.started = Some(event["client_id"].as_str().unwrap_or_default().to_owned()),
        Some("start") => report.start = event["t_ms"].as_u64(),
        Some("stop") => report.stop = event["t_ms"].as_u64(),
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

/// Notes in `tally` what the peer is given.
pub fn into_tally(tally: &Arc<Tally>, member: Member) -> impl Fn(&Value) + Send + 'static {
    let tally = tally.clone();
    move |event| {
        if event["event"] == "message" {
            let body = event["body"].as_str().expect("a body");
            let number = |name: &str| event[name].as_i64().expect("a number");
            let place = Place {
                queue: number("queue") as i32,
                at_millis: number("t_ms") as u64,
                offset: number("offset"),
            };
            tally.record(body, member, number("reconsumed") as u32, place);
        }
    }
}
