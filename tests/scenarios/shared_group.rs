//! A group of two, one member ours and one the official Java client: whoever comes or goes, each queue has one owner,
//! and nothing is lost.

use super::java::JavaPeer;
use super::tally::{Member, Tally};
use super::{SOON, Target, client, eventually, member, member_in_order, pause, producer, until_acknowledged};
use rocketmq_sync::{Client, Message, PushConsumer};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How the group consumes.
struct Group {
    topic: &'static str,
    group: &'static str,
    in_order: bool,
}

const CONCURRENT: Group = Group { topic: "shared", group: "shared-group", in_order: false };
const IN_ORDER: Group = Group { topic: "shared-in-order", group: "shared-in-order-group", in_order: true };
const QUEUES: usize = 8;

/// How long the owners must stay the same to count as settled.
const SETTLED: Duration = Duration::from_secs(5);

pub fn ours_and_java_share_a_group(target: &dyn Target) {
    share(target, &CONCURRENT);
}

pub fn ours_and_java_share_a_group_in_order(target: &dyn Target) {
    share(target, &IN_ORDER);
}

fn share(target: &dyn Target, group: &Group) {
    target.create_topic(group.topic, QUEUES as u32);
    let (client, tally, stop) = (client(target), Tally::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send_until(&stop, &client, group.topic));
        // Also when a check fails: the scope waits for its threads.
        let stop = StopAtEnd(&stop);
        let last = come_and_go(target, &client, &tally, group);
        drop(stop);
        let sent = sending.join().expect("it ends when told");
        tally.wait_for(sent, SOON);
        let report = last.shutdown(SOON);
        assert!(report.is_clean(), "{report}");
        tally.assert_exactly(0..sent);
        if group.in_order {
            tally.assert_in_order();
        }
    });
}

/// Returns the member that is left.
fn come_and_go(target: &dyn Target, client: &Client, tally: &Arc<Tally>, group: &Group) -> PushConsumer {
    let Group { topic, group, in_order } = *group;
    let name_server = target.name_server();
    let java = || match in_order {
        false => JavaPeer::consumer(&name_server, group, topic, &[], tally),
        true => JavaPeer::consumer_in_order(&name_server, group, topic, tally),
    };
    let ours = || match in_order {
        false => member(client, group, topic, tally),
        true => member_in_order(client, group, topic, tally),
    };
    let settles = |when: &str, ours: Option<(&PushConsumer, usize)>, java: Option<(&JavaPeer, usize)>| {
        settles(topic, when, ours, java);
    };

    let first = ours();
    let peer = java();
    settles("Java has come", Some((&first, QUEUES / 2)), Some((&peer, QUEUES / 2)));
    peer.stop();
    settles("Java has left", Some((&first, QUEUES)), None);

    let peer = java();
    settles("Java has come again", Some((&first, QUEUES / 2)), Some((&peer, QUEUES / 2)));
    let report = first.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    let left = Instant::now();
    settles("ours has left", None, Some((&peer, QUEUES)));
    let twice = tally.numbers(|deliveries| {
        let to = |member, after: bool| deliveries.iter().any(|d| d.to == member && (d.at >= left) == after);
        to(Member::Ours, false) && to(Member::Java, true)
    });
    assert!(twice.is_empty(), "{twice:?} came again though ours had left with a clean report");

    let second = ours();
    settles("ours has come again", Some((&second, QUEUES / 2)), Some((&peer, QUEUES / 2)));
    if in_order {
        // The locks of one that is killed would have to expire first.
        peer.stop();
    } else {
        peer.kill();
    }
    settles("Java has gone", Some((&second, QUEUES)), None);
    second
}

/// The members come to own so many queues each, every queue has one owner, and it stays so.
fn settles(topic: &str, when: &str, ours: Option<(&PushConsumer, usize)>, java: Option<(&JavaPeer, usize)>) {
    let owners = || {
        (
            ours.map_or_else(BTreeSet::new, |(c, _)| owned(c, topic)),
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

fn owned(consumer: &PushConsumer, topic: &str) -> BTreeSet<i32> {
    consumer
        .assignment()
        .iter()
        .filter(|queue| queue.topic() == topic)
        .map(|queue| queue.queue_id())
        .collect()
}

/// Sends numbers at an easy pace; returns how many.
pub(super) fn send_until(stop: &AtomicBool, client: &Client, topic: &str) -> u64 {
    let (producer, mut number) = (producer(client), 0u64);
    while !stop.load(Ordering::Relaxed) {
        let message = Message::new(topic, number.to_string());
        until_acknowledged(|| producer.send(&message).map(drop));
        number += 1;
        pause(Duration::from_millis(2));
    }
    number
}

pub(super) struct StopAtEnd<'a>(pub(super) &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
