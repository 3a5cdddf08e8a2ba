//! Members that consume in order are killed: their queues come to the other member of the group when their locks expire,
//! 60 s after they were renewed last; nothing is lost, and the order holds.
//!
//! Three groups at once: one of ours, and two of ours and the official Java client, of which each dies in one.

use super::own::{self, How};
use super::peer::Peer;
use super::shared_group::{StopAtEnd, send_until};
use super::tally::Tally;
use super::{SOON, Target, client, eventually, java, member_in_order, topics};
use rocketmq_sync::{Client, PushConsumer};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TEST: &str = "slow_queues_of_killed_members_come_when_their_locks_expire";
const QUEUES: usize = 4;
const LOCK: Duration = Duration::from_secs(60);

pub fn queues_of_killed_members_come_when_their_locks_expire(target: &dyn Target) {
    let (ours, stop) = (client(target), AtomicBool::new(false));
    let groups = [Pair::new("killed-ours"), Pair::new("killed-java"), Pair::new("killed-beside-java")];
    for group in &groups {
        target.create_topic(group.name, QUEUES as u32);
    }
    let name_server = target.name_server();
    std::thread::scope(|scope| {
        let stopped = &stop;
        // A client each, since a client has no two producers of one group.
        let sending = groups.each_ref().map(|group| {
            let client = client(target);
            scope.spawn(move || send_until(stopped, PACE, &client, group.name))
        });
        let stop = StopAtEnd(&stop);
        let survivors = [
            Survivor::Ours(groups[0].of_ours(&ours)),
            Survivor::Ours(groups[1].of_ours(&ours)),
            Survivor::Java(groups[2].of_java(&name_server)),
        ];
        let killed =
            [groups[0].apart(&name_server), groups[1].of_java(&name_server), groups[2].apart(&name_server)];
        for ((group, survivor), peer) in groups.iter().zip(&survivors).zip(killed) {
            group.kill(target, survivor, peer);
        }
        for (group, survivor) in groups.iter().zip(&survivors) {
            group.goes_on(survivor);
        }
        drop(stop);
        for ((group, sending), survivor) in groups.iter().zip(sending).zip(survivors) {
            group.nothing_is_lost(sending.join().expect("it ends when told"), survivor);
        }
    });
}

/// One is killed, the other survives. Group and topic have the same name.
struct Pair {
    name: &'static str,
    tally: Arc<Tally>,
    /// When the locks of the killed one expire, and which queues it had.
    left: OnceLock<(SystemTime, BTreeSet<i32>)>,
}

enum Survivor {
    Ours(PushConsumer),
    Java(Peer),
}

impl Survivor {
    fn queues(&self, topic: &str) -> BTreeSet<i32> {
        match self {
            Survivor::Ours(consumer) => {
                let queues = consumer.assignment().into_iter().filter(|queue| queue.topic() == topic);
                queues.map(|queue| queue.queue_id()).collect()
            }
            Survivor::Java(peer) => peer.queues(),
        }
    }
}

impl Pair {
    fn new(name: &'static str) -> Self {
        Pair { name, tally: Tally::new(), left: OnceLock::new() }
    }

    fn of_ours(&self, client: &Client) -> PushConsumer {
        member_in_order(client, self.name, self.name, &self.tally)
    }

    fn apart(&self, name_server: &str) -> Peer {
        own::member(TEST, name_server, self.name, self.name, How::InOrder, &self.tally)
    }

    fn of_java(&self, name_server: &str) -> Peer {
        java::consumer_in_order(name_server, self.name, self.name, java::QUICK, &self.tally)
    }

    /// When both consume.
    fn kill(&self, target: &dyn Target, survivor: &Survivor, peer: Peer) {
        let apart = || {
            let (one, other) = (survivor.queues(self.name), peer.queues());
            one.len() == QUEUES / 2 && other.len() == QUEUES / 2 && one.is_disjoint(&other)
        };
        eventually(SOON, &format!("{}: half and half", self.name), apart);
        let its = peer.queues();
        let since = millis(SystemTime::now());
        let to = |queue: &i32| self.tally.times_of_queue(*queue).last().is_some_and(|at| *at >= since);
        eventually(SOON, &format!("{}: its queues are consumed", self.name), || its.iter().all(to));
        let renewed = topics::locks_renewed(&target.broker(), self.name, &peer.client_id());
        peer.kill();
        self.left.set((renewed + LOCK, its)).expect("it is killed once");
    }

    fn goes_on(&self, survivor: &Survivor) {
        let (expire, its) = self.left.get().expect("one was killed");
        eventually(2 * LOCK, &format!("{}: all queues", self.name), || {
            survivor.queues(self.name).len() == QUEUES
                && its.iter().all(|queue| self.resumed(*queue, *expire).is_some())
        });
        for queue in its {
            let at = self.resumed(*queue, *expire).expect("it was waited for");
            let late = at.saturating_sub(millis(*expire));
            // Java asks again when it rebalances, here every second.
            assert!(
                late < 15_000,
                "{}: queue {queue} was consumed {late} ms after its lock had expired",
                self.name
            );
            log::info!("{}: queue {queue} goes on {late} ms after its lock has expired", self.name);
        }
    }

    /// When the next message of the queue came after the long pause that the lock of the killed one made.
    fn resumed(&self, queue: i32, expire: SystemTime) -> Option<u64> {
        let expire = millis(expire);
        let times = self.tally.times_of_queue(queue);
        let (before, after) = times.split_at(times.partition_point(|at| *at < expire.saturating_sub(EARLY)));
        // None of those before came while the locks were held by nobody alive.
        let last = before.last()?;
        assert!(
            expire - last > 30_000,
            "{}: queue {queue} was consumed {} ms before its lock expired",
            self.name,
            expire - last
        );
        after.first().copied()
    }

    fn nothing_is_lost(&self, sent: u64, survivor: Survivor) {
        self.tally.wait_for(sent, SOON);
        match survivor {
            Survivor::Ours(consumer) => {
                let report = consumer.shutdown(SOON);
                assert!(report.is_clean(), "{report}");
            }
            Survivor::Java(peer) => drop(peer.stop()),
        }
        self.tally.assert_exactly(0..sent);
        self.tally.assert_in_order();
    }
}

/// An easy one: nearly all of it waits for the locks to expire.
const PACE: Duration = Duration::from_millis(20);

/// A member notes when its locks were granted, and so a moment after the broker has.
const EARLY: u64 = 1000;

fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
