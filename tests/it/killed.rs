//! A member that is killed: what it had finished and not committed is repeated, and no more.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{SOON, Seen, billing, body, orders, put, until};
use rocketmq_sync::broker::Broker;

/// Where the process that is to be killed finds the broker.
const NAME_SERVER: &str = "IT_KILLED_NAME_SERVER";

/// Runs the test of this name in a process of its own, which knows by the variable that it is the one to be killed.
fn child(test: &str, broker: &Broker) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(NAME_SERVER, broker.name_server())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Says on the standard output that a message was finished.
fn say(number: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nfinished {number}").and_then(|()| out.flush()).unwrap();
}

/// Reads what the child says until it has said enough, kills it, and returns all that it said.
fn kill_after(mut child: Child, enough: usize) -> BTreeSet<u32> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut finished = BTreeSet::new();
    for line in lines {
        if let Some(number) = line.strip_prefix("finished ") {
            finished.insert(number.parse().unwrap());
        }
        if finished.len() == enough {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(finished.len() >= enough, "{} of {enough}", finished.len());
    finished
}

/// Killed with SIGKILL.
#[test]
fn r16_a_killed_member_repeats_no_more_than_it_had_not_committed() {
    if let Ok(name_server) = std::env::var(NAME_SERVER) {
        let consumer = billing()
            .name_servers(name_server)
            .consume_threads(4)
            .commit_interval(Duration::from_millis(100))
            .consume_concurrently(|batch| {
                std::thread::sleep(Duration::from_millis(2));
                say(body(&batch[0]));
            })
            .start()
            .unwrap();
        return consumer.wait();
    }
    let broker = orders(4);
    put(&broker, 0..4000);
    let child = child("killed::r16_a_killed_member_repeats_no_more_than_it_had_not_committed", &broker);
    let finished = kill_after(child, 1000);
    broker.wait(SOON, |state| state.members("billing").is_empty()).unwrap();
    let state = broker.inspect();
    let committed: i64 = (0..4).filter_map(|id| state.committed("billing", &crate::support::queue(id))).sum();
    assert!(committed > 0, "it committed several times a second");
    let again = Seen::default();
    let consumer =
        billing().name_servers(broker.name_server()).consume_concurrently(again.listener()).start().unwrap();
    again.wait(4000 - usize::try_from(committed).unwrap());
    assert!(consumer.shutdown(SOON).is_clean());
    let again: BTreeSet<u32> = again.counts().keys().map(|number| number.parse().unwrap()).collect();
    let all: BTreeSet<u32> = finished.union(&again).copied().collect();
    assert_eq!(all.len(), 4000, "nothing is lost");
    let repeated = finished.intersection(&again).count();
    // Four threads finish at most 2000 messages a second; two intervals are 400 of them.
    assert!(repeated <= 1000 - usize::try_from(committed).unwrap().min(1000) + 400, "{repeated}");
}

/// Killed with SIGKILL: however far the others ran ahead of one that is stuck, the span bounds what is repeated.
#[test]
fn o9_what_a_crash_repeats_stays_under_the_span() {
    const SPAN: usize = 200;
    if let Ok(name_server) = std::env::var(NAME_SERVER) {
        let consumer = billing()
            .name_servers(name_server)
            .max_span(SPAN)
            .commit_interval(Duration::from_millis(100))
            .consume_concurrently(|batch| {
                if body(&batch[0]) == "10" {
                    loop {
                        std::thread::park();
                    }
                }
                say(body(&batch[0]));
            })
            .start()
            .unwrap();
        return consumer.wait();
    }
    let broker = orders(1);
    put(&broker, 0..2000);
    let child = child("killed::o9_what_a_crash_repeats_stays_under_the_span", &broker);
    let queue = crate::support::queue(0);
    let finished = std::thread::scope(|scope| {
        // Killed when it can go no further, and has committed what it may.
        let reader = scope.spawn(|| kill_after(child, SPAN + 9));
        until("everything before the stuck one is committed", || {
            broker.inspect().committed("billing", &queue) == Some(10) || reader.is_finished()
        });
        reader.join().unwrap()
    });
    assert!(finished.len() <= 10 + SPAN + 32, "{} messages ran ahead", finished.len());
    let again = Seen::default();
    let consumer =
        billing().name_servers(broker.name_server()).consume_concurrently(again.listener()).start().unwrap();
    broker.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
    assert!(consumer.shutdown(SOON).is_clean());
    let again: BTreeSet<u32> = again.counts().keys().map(|number| number.parse().unwrap()).collect();
    let repeated = finished.intersection(&again).count();
    assert!(repeated <= SPAN + 32, "{repeated}");
    assert_eq!(finished.union(&again).count(), 2000, "nothing is lost");
}
