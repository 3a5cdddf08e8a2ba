//! A group of two, one member ours and one the official Java client: whoever comes or goes, each queue has one owner,
//! and nothing is lost.

use super::java;
use super::peer::Peer;
use super::poller::Poller;
use super::tally::{Member, Tally};
use super::{SOON, Target, client, eventually, member, member_in_order, pause, producer, until_acknowledged};
use rocketmq_sync::{Client, Message, PushConsumer, ShutdownReport};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How the group consumes.
struct Group {
    topic: &'static str,
    group: &'static str,
    how: How,
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    Concurrently,
    InOrder,
    /// Each member commits what a poll has brought before the next.
    Polling,
}

const CONCURRENT: Group = Group { topic: "shared", group: "shared-group", how: How::Concurrently };
const IN_ORDER: Group = Group { topic: "shared-in-order", group: "shared-in-order-group", how: How::InOrder };
const POLLING: Group = Group { topic: "shared-polling", group: "shared-polling-group", how: How::Polling };
const QUEUES: usize = 8;

/// An easy one.
pub const PACE: Duration = Duration::from_millis(2);

/// How long the owners must stay the same to count as settled.
const SETTLED: Duration = Duration::from_secs(5);

pub fn ours_and_java_share_a_group(target: &dyn Target) {
    share(target, &CONCURRENT);
}

pub fn ours_and_java_share_a_group_in_order(target: &dyn Target) {
    share(target, &IN_ORDER);
}

pub fn ours_and_java_poll_in_one_group(target: &dyn Target) {
    share(target, &POLLING);
}

/// A member of ours.
enum Ours {
    Pushed(PushConsumer),
    Polling(Poller),
}

impl Ours {
    fn queues(&self, topic: &str) -> BTreeSet<i32> {
        let queues = match self {
            Ours::Pushed(consumer) => consumer.assignment(),
            Ours::Polling(poller) => poller.consumer().assignment(),
        };
        queues.iter().filter(|queue| queue.topic() == topic).map(|queue| queue.queue_id()).collect()
    }

    fn shutdown(self) -> ShutdownReport {
        match self {
            Ours::Pushed(consumer) => consumer.shutdown(SOON),
            Ours::Polling(poller) => poller.stop(),
        }
    }
}

fn share(target: &dyn Target, group: &Group) {
    target.create_topic(group.topic, QUEUES as u32);
    let (client, tally, stop) = (client(target), Tally::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send_until(&stop, PACE, &client, group.topic));
        // Also when a check fails: the scope waits for its threads.
        let stop = StopAtEnd(&stop);
        let last = come_and_go(target, &client, &tally, group);
        drop(stop);
        let sent = sending.join().expect("it ends when told");
        tally.wait_for(sent, SOON);
        let report = last.shutdown();
        assert!(report.is_clean(), "{report}");
        tally.assert_exactly(0..sent);
        if group.how == How::InOrder {
            tally.assert_in_order();
        }
    });
}

/// Returns the member that is left.
fn come_and_go(target: &dyn Target, client: &Client, tally: &Arc<Tally>, group: &Group) -> Ours {
    let Group { topic, group, how } = *group;
    let name_server = target.name_server();
    let java = || match how {
        How::Concurrently => java::consumer(&name_server, group, topic, &[], tally),
        How::InOrder => java::consumer_in_order(&name_server, group, topic, &[], tally),
        How::Polling => java::poller(&name_server, group, topic, tally),
    };
    let ours = || match how {
        How::Concurrently => Ours::Pushed(member(client, group, topic, tally)),
        How::InOrder => Ours::Pushed(member_in_order(client, group, topic, tally)),
        How::Polling => Ours::Polling(Poller::start(client, group, topic, tally)),
    };
    let settles = |when: &str, ours: Option<(&Ours, usize)>, java: Option<(&Peer, usize)>| {
        settles(topic, when, ours, java);
    };

    let first = ours();
    let peer = java();
    settles("Java has come", Some((&first, QUEUES / 2)), Some((&peer, QUEUES / 2)));
    peer.stop();
    let left = Instant::now();
    settles("Java has left", Some((&first, QUEUES)), None);
    if how == How::Polling {
        // It had committed all that it had been given.
        nothing_comes_again(tally, Member::Java, left);
    }

    let peer = java();
    settles("Java has come again", Some((&first, QUEUES / 2)), Some((&peer, QUEUES / 2)));
    let report = first.shutdown();
    assert!(report.is_clean(), "{report}");
    let left = Instant::now();
    settles("ours has left", None, Some((&peer, QUEUES)));
    nothing_comes_again(tally, Member::Ours, left);

    let second = ours();
    settles("ours has come again", Some((&second, QUEUES / 2)), Some((&peer, QUEUES / 2)));
    if how == How::InOrder {
        // The locks of one that is killed would have to expire first.
        peer.stop();
    } else {
        peer.kill();
    }
    settles("Java has gone", Some((&second, QUEUES)), None);
    second
}

/// Of what one had been given before it had left in order, the other was given nothing after that.
fn nothing_comes_again(tally: &Tally, gone: Member, left: Instant) {
    let twice = tally.numbers(|deliveries| {
        let before = deliveries.iter().any(|d| d.to == gone && d.at < left);
        before && deliveries.iter().any(|d| d.to != gone && d.at >= left)
    });
    assert!(twice.is_empty(), "{twice:?} came again though {gone:?} had left in order");
}

/// The members come to own so many queues each, every queue has one owner, and it stays so.
fn settles(topic: &str, when: &str, ours: Option<(&Ours, usize)>, java: Option<(&Peer, usize)>) {
    let owners = || {
        (
            ours.map_or_else(BTreeSet::new, |(c, _)| c.queues(topic)),
            java.map_or_else(BTreeSet::new, |(p, _)| p.queues()),
        )
    };
    let shares = (ours.map_or(0, |(_, n)| n), java.map_or(0, |(_, n)| n));
    let settled = |(ours, java): &(BTreeSet<i32>, BTreeSet<i32>)| {
        (ours.len(), java.len()) == shares && ours.union(java).count() == QUEUES
    };
    eventually(SOON, when, || settled(&owners()));
    let since = Instant::now();
    while since.elapsed() < SETTLED {
        let now = owners();
        assert!(settled(&now), "{when}, and {:?} later ours and Java's are {now:?}", since.elapsed());
        pause(Duration::from_millis(20));
    }
}

/// Sends numbers with a pause after each; returns how many.
pub fn send_until(stop: &AtomicBool, pace: Duration, client: &Client, topic: &str) -> u64 {
    let (producer, mut number) = (producer(client), 0u64);
    while !stop.load(Ordering::Relaxed) {
        let message = Message::new(topic, number.to_string());
        until_acknowledged(|| producer.send(&message).map(drop));
        number += 1;
        pause(pace);
    }
    number
}

pub struct StopAtEnd<'a>(pub &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
