//! Members of a group that consumes in order, which join, leave and are cut off while the broker forgets its locks: with
//! real threads and sockets, by a seed. All clocks run ten times as fast, so that locks expire in time.
//!
//! `RMQ_RANDOM_SECONDS` makes it longer (default 4), `RMQ_RANDOM_SEED` repeats one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::random::{Random, seed, time};
use crate::support::{Ticking, orders_by_hand, queue};
use rocketmq_sync::broker::{Broker, Fault, Lose, Reaction};
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
    /// Its listener takes its time from now on.
    slow: Arc<AtomicBool>,
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
        let client = Client::builder()
            .name_servers(self.broker.name_server())
            .clock(self.broker.clock().clone())
            .start();
        let member = client.and_then(|client| {
            PushConsumer::builder(GROUP)
                .client(&client)
                .subscribe("orders", "*")
                .consume_from(ConsumeFrom::FirstOffset)
                .consume_threads(4)
                .suspend_time(Duration::from_millis(50))
                .consume_orderly(listener)
                .start()
        });
        // While the broker is away a start may fail; there will be another.
        match member {
            Ok(consumer) => self.members.push(Member { consumer, slow }),
            Err(error) => log::info!("a member could not start: {error}"),
        }
    }

    fn take_member(&mut self) -> Option<Member> {
        let at = self.random.below(self.members.len().max(1) as u64);
        (!self.members.is_empty()).then(|| self.members.swap_remove(usize::try_from(at).unwrap()))
    }

    fn leave(&mut self) {
        if let Some(member) = self.take_member() {
            let report = member.consumer.shutdown(Duration::from_secs(10) * PACE);
            // With the broker in trouble, something may stay unconfirmed, and the report says so.
            assert!(report.is_clean() || self.troubled, "{report}");
        }
    }

    /// A member loses the broker for ever: as one that was killed, or as one whose cable was pulled, which knows nothing
    /// of it and has more to do than its locks last.
    fn cut_off(&mut self) -> Result<()> {
        let Some(Member { consumer, slow }) = self.take_member() else { return Ok(()) };
        let mut reaction = Reaction::Disconnect;
        if self.random.below(2) == 0 {
            reaction = Reaction::Ignore;
            slow.store(true, Ordering::SeqCst);
            self.send(150 * QUEUES as u64)?;
            self.go_on();
        }
        let id = consumer.client().client_id().to_owned();
        self.broker.fault(Fault::on_any(reaction).client_id(id).forever());
        self.ghosts.push(consumer);
        Ok(())
    }

    fn forget_locks(&mut self) -> Result<()> {
        self.broker.restart_losing(Lose::Locks)?;
        self.witness.lock().unwrap().forgot.push(Instant::now());
        Ok(())
    }

    fn trouble(&mut self) {
        let codes = [
            RequestCode::LOCK_BATCH_MQ,
            RequestCode::UNLOCK_BATCH_MQ,
            RequestCode::UPDATE_CONSUMER_OFFSET,
            RequestCode::QUERY_CONSUMER_OFFSET,
            RequestCode::PULL_MESSAGE,
            RequestCode::HEART_BEAT,
        ];
        let code = codes[usize::try_from(self.random.below(codes.len() as u64)).unwrap()];
        let reaction = match self.random.below(4) {
            0 => Reaction::Reply(rocketmq_sync::ResponseCode::SYSTEM_ERROR),
            1 => Reaction::Delay(Duration::from_millis(self.random.below(100))),
            2 => Reaction::DisconnectAfterwards,
            _ => Reaction::Twice,
        };
        self.broker.fault(Fault::on(code, reaction).times(1 + self.random.below(3)));
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
        while self.members.is_empty() {
            self.join();
        }
        self.broker.wait(SOON, |state| state.lag(GROUP, "orders") == 0)?;
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
    let seed = seed();
    println!("RMQ_RANDOM_SEED={seed}");
    let mut world = World::new(seed);
    world.troubled = true;
    let end = Instant::now() + time();
    while Instant::now() < end {
        match world.random.below(20) {
            0..=3 if world.members.len() < 3 => world.join(),
            4 | 5 => world.leave(),
            6 if world.ghosts.len() < 3 => world.cut_off()?,
            7 => world.forget_locks()?,
            8 => world.broker.cut_connections(),
            9 | 10 => world.trouble(),
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
    let seed = seed();
    println!("RMQ_RANDOM_SEED={seed}");
    let mut world = World::new(seed);
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
