//! How long it takes until consumption begins, and until queues have gone from one member to another: two members of
//! ours, and two of the official Java client, in the same scenario. Run by `tests/java/times VERSION`.
//!
//! Topics have eight queues, into which messages keep coming. Times begin with the call of `start` or `shutdown` and with
//! the kill, and end when whoever gets the queues has consumed from each of them. They are medians of three.

#[path = "../scenarios/mod.rs"]
mod scenarios;

use rocketmq_sync::Client;
use scenarios::own::{self, How};
use scenarios::peer::{Peer, into_tally};
use scenarios::shared_group::{StopAtEnd, send_until};
use scenarios::tally::{Member, Tally};
use scenarios::{SOON, eventually, java, pause, producer, send_numbers, topics};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, UNIX_EPOCH};

const ROUNDS: u64 = 3;
const QUEUES: usize = 8;
const BACKLOG: u64 = 1000;
const PACE: Duration = Duration::from_millis(2);
const LOCK: Duration = Duration::from_secs(60);

fn main() {
    if own::run_if_member() {
        return;
    }
    let version = variable("RMQ_APACHE_VERSION");
    println!("\nmilliseconds, median of {ROUNDS} (lowest to highest); broker and Java client {version}\n");
    println!("| mode | event | ours | Java |\n|---|---|---|---|");
    for (mode, how) in [("concurrent", How::Concurrently), ("orderly", How::InOrder)] {
        let [ours, java] = [Side::Ours, Side::Java].map(|side| rounds(side, how));
        for (event, of) in EVENTS {
            if let (Some(ours), Some(java)) = (of(&ours), of(&java)) {
                row(mode, event, &ours, &java);
            }
        }
    }
    let (ours, java) = killed_in_order();
    row("orderly", "SIGKILL, from when the locks expire", &ours, &java);
    let [ours, java] =
        [Side::Ours, Side::Java].map(|side| (0..ROUNDS).map(|n| broadcast(side, n)).collect::<Vec<_>>());
    row("broadcasting", FIRST, &ours, &java);
}

fn row(mode: &str, event: &str, ours: &[u64], java: &[u64]) {
    let median = |times: &[u64]| {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        format!("{} ({} to {})", sorted[sorted.len() / 2], sorted[0], sorted[sorted.len() - 1])
    };
    println!("| {mode} | {event} | {} | {} |", median(ours), median(java));
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Ours,
    Java,
}

/// In milliseconds.
#[derive(Debug)]
struct Round {
    first: u64,
    joined: u64,
    left: u64,
    /// Not of an orderly member, whose locks outlive it.
    killed: Option<u64>,
}

const FIRST: &str = "start, until the first message of a backlog";

type Times = fn(&[Round]) -> Option<Vec<u64>>;

const EVENTS: [(&str, Times); 4] = [
    (FIRST, |rounds| Some(rounds.iter().map(|round| round.first).collect())),
    ("join, until the new member consumes its half", |rounds| {
        Some(rounds.iter().map(|round| round.joined).collect())
    }),
    ("leave, until the other one consumes all", |rounds| {
        Some(rounds.iter().map(|round| round.left).collect())
    }),
    ("SIGKILL, until the other one consumes all", |rounds| rounds.iter().map(|round| round.killed).collect()),
];

fn rounds(side: Side, how: How) -> Vec<Round> {
    (0..ROUNDS).map(|n| round(side, how, n)).collect()
}

fn round(side: Side, how: How, n: u64) -> Round {
    let group = Group::new(side, how, n);
    group.sending(PACE, || {
        let one = group.member();
        let first = group.first_of(&one);
        one.owns(QUEUES);
        // Not always at the same time of a period of 20 s.
        pause(Duration::from_secs(1 + 3 * n));

        let other = group.member();
        let joined = group.share(&one, &other);
        let (its, left) = (other.peer.queues(), other.peer.stop().expect("it says so"));
        let left = one.consumes(&its, left);
        one.owns(QUEUES);
        pause(Duration::from_secs(1 + 3 * n));

        let killed = (how != How::InOrder).then(|| {
            let other = group.member();
            group.share(&one, &other);
            let (its, at) = (other.peer.queues(), now());
            other.peer.kill();
            one.consumes(&its, at)
        });
        Round { first, joined, left, killed }
    })
}

/// Of both sides at once, since it is a minute of waiting.
fn killed_in_order() -> (Vec<u64>, Vec<u64>) {
    let measure = |side| move |n| killed(&Group::new(side, How::InOrder, ROUNDS + n));
    std::thread::scope(|scope| {
        let start = |side| -> Vec<_> { (0..ROUNDS).map(|n| scope.spawn(move || measure(side)(n))).collect() };
        let (ours, java) = (start(Side::Ours), start(Side::Java));
        let ends = |side: Vec<std::thread::ScopedJoinHandle<'_, u64>>| {
            side.into_iter().map(|one| one.join().expect("it says what it missed")).collect()
        };
        (ends(ours), ends(java))
    })
}

fn killed(group: &Group) -> u64 {
    group.sending(10 * PACE, || {
        let one = group.member();
        one.owns(QUEUES);
        let other = group.member();
        group.share(&one, &other);
        let its = other.peer.queues();
        let renewed = topics::locks_renewed(&broker(), &group.name, &other.peer.client_id());
        other.peer.kill();
        let expire = (renewed + LOCK).duration_since(UNIX_EPOCH).expect("it is long past").as_millis() as u64;
        // A member notes when its locks were granted, and so a moment after the broker has.
        one.consumes(&its, expire - 100).saturating_sub(100)
    })
}

fn broadcast(side: Side, n: u64) -> u64 {
    let group = Group::new(side, How::Broadcasting, n);
    group.sending(PACE, || group.first_of(&group.member()))
}

/// A topic with a backlog, and a group of the same name.
struct Group {
    side: Side,
    how: How,
    name: String,
}

impl Group {
    fn new(side: Side, how: How, n: u64) -> Self {
        let name = format!("times-{side:?}-{how:?}-{n}");
        topics::create(&broker(), &name_server(), &name, QUEUES as u32);
        let client = client();
        send_numbers(&producer(&client), &name, 0..BACKLOG);
        Group { side, how, name }
    }

    /// Messages come while `measure` runs.
    fn sending<T>(&self, pace: Duration, measure: impl FnOnce() -> T) -> T {
        let (client, stop) = (client(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| send_until(&stop, pace, &client, &self.name));
            let _stop = StopAtEnd(&stop);
            measure()
        })
    }

    fn member(&self) -> Measured {
        let (names, tally) = (name_server(), Tally::new());
        let mut command = match (self.side, self.how) {
            (Side::Ours, how) => own::command(&names, &self.name, &self.name, how),
            (Side::Java, How::Concurrently) => {
                java::java("Peer", &["consume", &names, &self.name, &self.name], &[])
            }
            (Side::Java, How::InOrder) => {
                java::java("Peer", &["consume-in-order", &names, &self.name, &self.name], &[])
            }
            (Side::Java, How::Broadcasting) => {
                let place = format!(
                    "-Drocketmq.client.localOffsetStoreDir={}/{}",
                    variable("RMQ_APACHE_HOME"),
                    self.name
                );
                let options = ["-Dpeer.broadcasting=true", &place];
                java::java("Peer", &["consume", &names, &self.name, &self.name], &options)
            }
        };
        let peer = Peer::spawn(&mut command, into_tally(&tally, Member::Apart)).has_started();
        Measured { peer, tally }
    }

    fn first_of(&self, member: &Measured) -> u64 {
        member.tally.wait_for(1, SOON);
        let first =
            (0..QUEUES as i32).filter_map(|queue| member.tally.times_of_queue(queue).first().copied()).min();
        first.expect("it was waited for") - member.peer.start_called()
    }

    /// Both have half; returns how long it took until the new one consumed all of it.
    fn share(&self, one: &Measured, new: &Measured) -> u64 {
        let shared = || {
            let (one, other) = (one.peer.queues(), new.peer.queues());
            one.len() == QUEUES / 2 && other.len() == QUEUES / 2 && one.is_disjoint(&other)
        };
        eventually(SOON, &format!("{}: half and half", self.name), shared);
        new.consumes(&new.peer.queues(), new.peer.start_called())
    }
}

/// A member in a process of its own, and what it was given.
struct Measured {
    peer: Peer,
    tally: Arc<Tally>,
}

impl Measured {
    fn owns(&self, queues: usize) {
        eventually(SOON, "all queues", || self.peer.queues().len() == queues);
    }

    /// How long after this moment it has consumed from all these queues.
    fn consumes(&self, queues: &BTreeSet<i32>, since: u64) -> u64 {
        let first = |queue: &i32| self.tally.times_of_queue(*queue).into_iter().find(|at| *at >= since);
        eventually(2 * SOON, "all these queues are consumed", || {
            queues.iter().all(|queue| first(queue).is_some())
        });
        queues.iter().filter_map(first).max().expect("some queues") - since
    }
}

fn now() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |time| time.as_millis() as u64)
}

/// The servers that the script has started.
fn name_server() -> String {
    variable("RMQ_APACHE_NAMESRV")
}

fn broker() -> String {
    variable("RMQ_APACHE_BROKER")
}

fn client() -> Client {
    Client::builder().name_servers(name_server()).start().expect("the servers are there")
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: tests/java/times does that"))
}
