//! The scenarios against the NameServer and the Broker of Apache RocketMQ. Run by `tests/apache/run VERSION`, which
//! starts the servers and says where they are.

#[cfg(all(feature = "acl", feature = "tls"))]
mod guarded;
#[path = "../scenarios/mod.rs"]
mod scenarios;
mod tools;

use scenarios::{
    Target, broadcast, crash, eventually, everything, filters, in_order, killed_in_order, own, pause,
    pulling, resume, retries, sending, shared_group, strategies, subscriptions,
};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

#[test]
fn everything_sent_is_consumed_once() {
    everything::everything_sent_is_consumed_once(&Apache);
}

#[test]
fn order_holds_through_failures_members_and_a_restart() {
    in_order::order_holds_through_failures_members_and_a_restart(&Apache);
}

#[test]
fn mqadmin_knows_a_member() {
    tools::mqadmin_knows_a_member(&Apache);
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
fn ours_and_java_share_a_group_in_order() {
    shared_group::ours_and_java_share_a_group_in_order(&Apache);
}

#[test]
fn ours_and_java_share_a_group() {
    shared_group::ours_and_java_share_a_group(&Apache);
}

#[test]
fn ours_and_java_poll_in_one_group() {
    shared_group::ours_and_java_poll_in_one_group(&Apache);
}

#[test]
fn every_strategy_shares_as_java_does() {
    strategies::every_strategy_shares_as_java_does(&Apache);
}

#[test]
fn slow_queues_of_killed_members_come_when_their_locks_expire() {
    if !own::run_if_member() {
        killed_in_order::queues_of_killed_members_come_when_their_locks_expire(&Apache);
    }
}

#[test]
fn a_killed_broker_loses_nothing() {
    crash::a_killed_broker_loses_nothing(&Apache);
}

#[test]
fn a_group_resumes_from_its_committed_offsets() {
    resume::a_group_resumes_from_its_committed_offsets(&Apache);
}

#[test]
fn a_topic_is_read_to_its_end() {
    pulling::a_topic_is_read_to_its_end(&Apache);
}

#[test]
fn a_reader_on_its_own_goes_where_it_likes() {
    pulling::a_reader_on_its_own_goes_where_it_likes(&Apache);
}

#[test]
fn a_filter_lets_the_same_messages_through_everywhere() {
    filters::a_filter_lets_the_same_messages_through_everywhere(&Apache);
}

#[test]
fn every_member_gets_everything() {
    broadcast::every_member_gets_everything(&Apache);
}

#[test]
fn a_topic_given_up_by_one_member_is_read_by_the_other() {
    subscriptions::a_topic_given_up_by_one_member_is_read_by_the_other(&Apache);
}

#[test]
fn ours_takes_the_place_of_a_java_member() {
    broadcast::ours_takes_the_place_of_a_java_member(&Apache);
}

#[cfg(all(feature = "acl", feature = "tls"))]
#[test]
fn only_who_proves_who_he_is_is_served() {
    let authority = scenarios::guarded::certificates();
    let servers = guarded::GuardedApache::start(&authority);
    scenarios::guarded::only_who_proves_who_he_is_is_served(&servers, &authority);
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
        wait_until_saved(&Path::new(&variable("RMQ_APACHE_HOME")).join("store/config"));
        self.servers("end-broker");
        self.servers("start-broker");
    }
}

/// A broker that ends saves the offsets while its timer may be saving them too, and the two writers can leave the older
/// of its two files behind. Once the timer has written both anew, they say the same: twice, since what it writes first
/// may have been put together before the last commit.
fn wait_until_saved(folder: &Path) {
    // A broker that has nothing new to save may leave its files alone.
    let end = Instant::now() + Duration::from_secs(20);
    for _ in 0..2 {
        let asked = SystemTime::now();
        let is_new = |name: &str| {
            let written = fs::metadata(folder.join(name)).and_then(|file| file.modified());
            written.is_ok_and(|written| written > asked)
        };
        while !(is_new("consumerOffset.json") && is_new("consumerOffset.json.bak")) && Instant::now() < end {
            pause(Duration::from_millis(50));
        }
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: tests/apache/run does that"))
}
