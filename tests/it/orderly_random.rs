//! Members of a group that consumes in order, which join, leave and are cut off while the broker forgets its locks: with
//! real threads and sockets, by a seed. All clocks run ten times as fast, so that locks expire in time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::seeded::{
    CODES, GROUP_CODES, Limits, Random, Trouble, assert_bounded, assert_healthy, seed, time,
    wait_until_pulling,
};
use crate::support::{Ticking, orders_by_hand, queue, until};
use rocketmq_sync::broker::{Broker, Lose, Reaction};
use rocketmq_sync::consumer::Events;
use rocketmq_sync::{Batch, Client, ConsumeFrom, ConsumeStatus, Message, PushConsumer, RequestCode, Result};

const SOON: Duration = Duration::from_secs(90);
const GROUP: &str = "random-order";
const QUEUES: usize = 6;
const PACE: u32 = 10;
/// A member whose connection was lost has noticed it by then.
const NOTICED: Duration = Duration::from_millis(500);

/// Sees every call of every member, and notes what must not be.
#[derive(Default)]
struct Witness {
    lanes: [Lane; QUEUES],
    /// When the broker was back without its locks.
    forgot: Vec<Instant>,
    violations: Vec<String>,
    repeated: u64,
}

#[derive(Default, Clone)]
struct Lane {
    /// Who is in the queue, and since when.
    inside: Vec<(u64, Instant)>,
    /// One past the last offset that was accepted.
    end: i64,
    accepted: i64,
}

impl Witness {
    fn enter(&mut self, member: u64, id: usize, offset: i64) {
        let lane = &mut self.lanes[id];
        for (other, since) in &lane.inside {
            let excused = self.forgot.iter().any(|forgot| *since <= *forgot + NOTICED);
            if !excused {
                let what = format!("{member} and {other} are in queue {id} at once, at {offset}");
                self.violations.push(what);
            }
        }
        if offset > lane.end {
            self.violations
                .push(format!("{member} is at {offset} of queue {id}, but {} was not accepted", lane.end));
        }
        lane.inside.push((member, Instant::now()));
    }

    fn leave(&mut self, member: u64, id: usize, offset: i64, accepts: bool) {
        let lane = &mut self.lanes[id];
        lane.inside.retain(|(inside, _)| *inside != member);
        if accepts {
            lane.accepted += 1;
            self.repeated += u64::from(offset < lane.end);
            lane.end = lane.end.max(offset + 1);
        }
    }
}

struct Member {
    consumer: PushConsumer,
    events: Events,
    limits: Limits,
    /// Its listener takes its time from now on.
    slow: Arc<AtomicBool>,
}

impl Member {
    fn check(&mut self) {
        assert_bounded(&self.consumer.stats(), self.limits);
        assert_healthy(&mut self.events);
    }
}

struct World {
    broker: Broker,
    _ticking: Ticking,
    random: Random,
    members: Vec<Member>,
    /// Cut off from the broker for ever.
    ghosts: Vec<PushConsumer>,
    witness: Arc<Mutex<Witness>>,
    joined: u64,
    trouble: Trouble,
    troubled: bool,
    sent: [i64; QUEUES],
}

impl World {
    fn new(seed: u64) -> Self {
        let broker = orders_by_hand(QUEUES as u32);
        let ticking = Ticking::faster(broker.clock(), PACE);
        Self {
            broker,
            _ticking: ticking,
            random: Random(seed),
            members: Vec::new(),
            ghosts: Vec::new(),
            witness: Arc::default(),
            joined: 0,
            trouble: Trouble::default(),
            troubled: false,
            sent: [0; QUEUES],
        }
    }

    fn join(&mut self) {
        self.joined += 1;
        let (name, moody, witness) = (self.joined, self.random.next(), self.witness.clone());
        let slow = Arc::new(AtomicBool::new(false));
        let is_slow = slow.clone();
        let listener = move |batch: &Batch| {
            let message = &batch[0];
            let id = usize::try_from(message.queue().queue_id()).unwrap();
            let offset = message.queue_offset();
            witness.lock().unwrap().enter(name, id, offset);
            let again = u64::from(message.reconsume_times());
            let mood = Random(moody ^ offset.unsigned_abs() ^ again << 40 ^ (id as u64) << 50).next();
            if is_slow.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(50));
            } else if mood.is_multiple_of(10) {
                std::thread::sleep(Duration::from_millis(mood % 7));
            }
            let accepts = !mood.is_multiple_of(23);
            witness.lock().unwrap().leave(name, id, offset, accepts);
            if accepts { ConsumeStatus::Success } else { ConsumeStatus::ReconsumeLater }
        };
        let limits = Limits::any(&mut self.random);
        let client = Client::builder()
            .name_servers(self.broker.name_server())
            .clock(self.broker.clock().clone())
            .cache_limit(limits.bytes)
            .start();
        let member = client.and_then(|client| {
            PushConsumer::builder(GROUP)
                .client(&client)
                .subscribe("orders", "*")
                .consume_from(ConsumeFrom::FirstOffset)
                .consume_threads(4)
                .suspend_time(Duration::from_millis(50))
                .pull_batch_size(limits.batch)
                .pull_threshold_messages(limits.messages)
                .consume_orderly(listener)
                .start()
        });
        // While the broker is away a start may fail; there will be another.
        match member {
            Ok(consumer) => {
                let events = consumer.events();
                self.members.push(Member { consumer, events, limits, slow });
            }
            Err(error) => log::info!("a member could not start: {error}"),
        }
    }

    fn leave(&mut self) {
        if let Some(mut member) = self.random.take(&mut self.members) {
            member.check();
            let report = member.consumer.shutdown(Duration::from_secs(10) * PACE);
            // With the broker in trouble, something may stay unconfirmed, and the report says so.
            assert!(report.is_clean() || self.troubled, "{report}");
        }
    }

    /// A member loses the broker for ever: as one that was killed, or as one whose cable was pulled, which knows nothing
    /// of it and has more to do than its locks last.
    fn cut_off(&mut self) -> Result<()> {
        let Some(Member { consumer, slow, .. }) = self.random.take(&mut self.members) else { return Ok(()) };
        let mut reaction = Reaction::Disconnect;
        if self.random.below(2) == 0 {
            reaction = Reaction::Ignore;
            slow.store(true, Ordering::SeqCst);
            self.send(150 * QUEUES as u64)?;
            self.go_on();
        }
        Trouble::cut_off(&self.broker, consumer.client().client_id(), reaction);
        self.ghosts.push(consumer);
        Ok(())
    }

    fn forget_locks(&mut self) -> Result<()> {
        self.broker.restart_losing(Lose::Locks)?;
        self.witness.lock().unwrap().forgot.push(Instant::now());
        Ok(())
    }

    fn forget_offsets(&mut self) -> Result<()> {
        let ago = Duration::from_millis(self.random.below(2000)) * PACE;
        self.broker.restart_losing(Lose::OffsetsSince(self.broker.clock().now() - ago))
    }

    fn fail(&mut self) {
        let locks = [RequestCode::LOCK_BATCH_MQ, RequestCode::UNLOCK_BATCH_MQ];
        let codes = [&CODES[..], &GROUP_CODES, &locks].concat();
        self.trouble.add(&self.broker, &mut self.random, &codes);
    }

    /// Promise 1: whoever commits has been there. Promises of each member.
    fn check(&mut self) {
        let state = self.broker.inspect();
        let witness = self.witness.lock().unwrap();
        for (id, lane) in witness.lanes.iter().enumerate() {
            let committed = state.committed(GROUP, &queue(id as i32)).unwrap_or(0);
            assert!(
                committed <= lane.end,
                "queue {id} is committed to {committed}, accepted to {}",
                lane.end
            );
        }
        assert!(witness.violations.is_empty(), "{:#?}", witness.violations);
        drop(witness);
        self.members.iter_mut().for_each(Member::check);
    }

    fn send(&mut self, n: u64) -> Result<()> {
        for _ in 0..n {
            let id = usize::try_from(self.random.below(QUEUES as u64)).unwrap();
            self.broker.put(&Message::new("orders", "x").queue(&queue(id as i32)))?;
            self.sent[id] += 1;
        }
        Ok(())
    }

    /// Some more is accepted before the next thing happens, unless nothing is.
    fn go_on(&mut self) {
        let accepted = |world: &Self| -> i64 {
            world.witness.lock().unwrap().lanes.iter().map(|lane| lane.accepted).sum()
        };
        let enough = accepted(self) + i64::try_from(self.random.below(60)).unwrap();
        let end = Instant::now() + Duration::from_millis(self.random.below(60));
        while accepted(self) < enough && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Everything is consumed, in the end by a member that is certain of its locks.
    fn settle(&mut self) -> Result<()> {
        self.trouble.mend();
        until("somebody is there", || {
            if self.members.is_empty() {
                self.join();
            }
            !self.members.is_empty()
        });
        let settled = self.broker.wait(SOON, |state| state.lag(GROUP, "orders") == 0);
        if settled.is_err() {
            self.members.iter().for_each(|member| println!("{:#?}", member.consumer.stats().queues));
        }
        settled?;
        self.check();
        self.members.iter().for_each(|member| wait_until_pulling(PACE, || member.consumer.stats()));
        for member in self.members.drain(..) {
            let report = member.consumer.shutdown(Duration::from_secs(10) * PACE);
            assert!(report.is_clean(), "{report}");
        }
        for ghost in self.ghosts.drain(..) {
            drop(ghost.shutdown(Duration::ZERO));
        }
        let witness = self.witness.lock().unwrap();
        assert!(witness.violations.is_empty(), "{:#?}", witness.violations);
        let ends: Vec<i64> = witness.lanes.iter().map(|lane| lane.end).collect();
        assert_eq!(ends, self.sent, "lost");
        Ok(())
    }
}

#[test]
fn no_two_members_are_in_a_queue_at_once_and_its_order_is_never_broken() -> Result<()> {
    let mut world = World::new(seed());
    world.troubled = true;
    let end = Instant::now() + time();
    while Instant::now() < end {
        match world.random.below(20) {
            0..=3 if world.members.len() < 3 => world.join(),
            4 | 5 => world.leave(),
            6 if world.ghosts.len() < 3 => world.cut_off()?,
            7 => world.forget_locks()?,
            8 => world.broker.cut_connections(),
            9 => world.forget_offsets()?,
            10 | 11 => world.fail(),
            12 => world.check(),
            _ => {
                let n = world.random.below(100);
                world.send(n)?;
            }
        }
        world.go_on();
    }
    world.settle()
}

#[test]
fn members_that_come_and_go_in_order_repeat_nothing() -> Result<()> {
    let mut world = World::new(seed());
    let end = Instant::now() + time();
    while Instant::now() < end {
        match world.random.below(10) {
            0..=2 if world.members.len() < 3 => world.join(),
            3 => world.leave(),
            _ => {
                let n = world.random.below(100);
                world.send(n)?;
            }
        }
        world.go_on();
    }
    world.settle()?;
    assert_eq!(world.witness.lock().unwrap().repeated, 0);
    Ok(())
}
