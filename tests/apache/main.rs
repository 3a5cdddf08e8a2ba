//! The scenarios against the NameServer and the Broker of Apache RocketMQ. Run by `tests/apache/run VERSION`, which
//! starts the servers and says where they are.

#[path = "../scenarios/mod.rs"]
mod scenarios;

use scenarios::{Target, crash, eventually, everything, resume, retries, sending, shared_group};
use std::process::Command;
use std::time::Duration;

#[test]
fn everything_sent_is_consumed_once() {
    everything::everything_sent_is_consumed_once(&Apache);
}

#[test]
fn every_way_of_sending_arrives() {
    sending::every_way_of_sending_arrives(&Apache);
}

#[test]
fn retries_end_as_a_dead_letter() {
    retries::retries_end_as_a_dead_letter(&Apache);
}

#[test]
fn ours_and_java_share_a_group() {
    shared_group::ours_and_java_share_a_group(&Apache);
}

#[test]
fn a_killed_broker_loses_nothing() {
    crash::a_killed_broker_loses_nothing(&Apache);
}

#[test]
fn a_group_resumes_from_its_committed_offsets() {
    resume::a_group_resumes_from_its_committed_offsets(&Apache);
}

/// The servers that the script has started.
struct Apache;

impl Apache {
    fn servers(&self, command: &str) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/apache/servers");
        let status = Command::new(script)
            .args([command, &variable("RMQ_APACHE_HOME")])
            .status()
            .expect("bash is there");
        assert!(status.success(), "servers {command}: {status}");
    }
}

impl Target for Apache {
    fn name_server(&self) -> String {
        variable("RMQ_APACHE_NAMESRV")
    }

    fn broker(&self) -> String {
        variable("RMQ_APACHE_BROKER")
    }

    fn pass_until(&self, limit: Duration, what: &str, done: &dyn Fn() -> bool) {
        eventually(limit, what, done);
    }

    fn kill_broker(&self) {
        self.servers("kill-broker");
    }

    fn start_broker(&self) {
        self.servers("start-broker");
    }

    fn restart_broker(&self) {
        self.servers("end-broker");
        self.servers("start-broker");
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: tests/apache/run does that"))
}
