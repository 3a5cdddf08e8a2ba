//! The official Java client in a process of its own: `tests/java/Peer.java` and `tests/java/Members.java`.

use super::peer::{Peer, START, into_tally};
use super::tally::{Member, Tally};
use serde_json::Value;
use std::process::Command;
use std::sync::Arc;

/// Java looks for a new route, for instance that of a retry topic, every 30 s, and rebalances every 20 s. With this it
/// does both every second.
pub const QUICK: &[&str] = &["-Dpeer.route.interval=1000", "-Drocketmq.client.rebalance.waitInterval=1000"];

/// A push consumer; returns when it has started. What it is given goes to `tally`.
pub fn consumer(name_server: &str, group: &str, topic: &str, options: &[&str], tally: &Arc<Tally>) -> Peer {
    started("consume", name_server, group, topic, options, tally)
}

/// The same, in order.
pub fn consumer_in_order(
    name_server: &str,
    group: &str,
    topic: &str,
    options: &[&str],
    tally: &Arc<Tally>,
) -> Peer {
    started("consume-in-order", name_server, group, topic, options, tally)
}

/// A lite pull consumer, which commits after each poll.
pub fn poller(name_server: &str, group: &str, topic: &str, tally: &Arc<Tally>) -> Peer {
    started("poll", name_server, group, topic, &[], tally)
}

/// Members of several groups, as `tests/java/Members.java` has them; every event goes to `take`.
pub fn members(arguments: &[&str], options: &[&str], take: impl Fn(&Value) + Send + 'static) -> Peer {
    Peer::spawn(&mut java("Members", arguments, options), take).has_started()
}

/// Sends the numbers of this range, in all ways; returns how many were stored.
pub fn produce(name_server: &str, topic: &str, numbers: std::ops::Range<u64>, options: &[&str]) -> u64 {
    let (first, count) = (numbers.start.to_string(), (numbers.end - numbers.start).to_string());
    let mut command = java("Peer", &["produce", name_server, topic, &first, &count], options);
    let peer = Peer::spawn(&mut command, |_| ());
    let report = peer.wait(2 * START, "the end of the Java producer", |report| report.produced.is_some());
    report.produced.expect("it was waited for")
}

fn started(
    how: &str,
    name_server: &str,
    group: &str,
    topic: &str,
    options: &[&str],
    tally: &Arc<Tally>,
) -> Peer {
    let mut command = java("Peer", &[how, name_server, group, topic], options);
    Peer::spawn(&mut command, into_tally(tally, Member::Java)).has_started()
}

/// The program of this name, with options for the JVM.
pub fn java(program: &str, arguments: &[&str], options: &[&str]) -> Command {
    let class_path =
        std::env::var("RMQ_JAVA_CLASS_PATH").expect("set by tests/apache/run and tests/java/run");
    let logs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/java/logback.xml");
    let mut command = Command::new("java");
    command
        .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"])
        .arg(format!("-Drmq.logback.configurationFile={logs}"))
        .arg(format!("-Duser.home={}", std::env::temp_dir().display()))
        .args(options)
        .args(["-cp", &class_path, program])
        .args(arguments);
    command
}
