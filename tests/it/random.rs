//! Members that come and go while brokers fail: with real threads and sockets, by a seed.
//!
//! `RMQ_RANDOM_SECONDS` makes it longer (default 4), `RMQ_RANDOM_SEED` repeats one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rocketmq_sync::broker::{Broker, Fault, Lose, Reaction};
use rocketmq_sync::{
    ConsumeFrom, ConsumeStatus, Message, PushConsumer, RequestCode, ResponseCode, Result, retry_topic,
};

const SOON: Duration = Duration::from_secs(60);
const GROUP: &str = "random";

/// How often each message was accepted.
type Accepted = Arc<Mutex<HashMap<String, u32>>>;

/// splitmix64: small, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

struct World {
    broker: Broker,
    random: Random,
    members: Vec<PushConsumer>,
    accepted: Accepted,
    sent: u32,
    faults: bool,
}

impl World {
    fn new(seed: u64) -> Result<Self> {
        let second = Duration::from_millis(50);
        let broker = Broker::builder().topic("orders", 8).delay_levels([second; 18]).start()?;
        Ok(Self {
            broker,
            random: Random(seed),
            members: Vec::new(),
            accepted: Accepted::default(),
            sent: 0,
            faults: false,
        })
    }

    fn join(&mut self) {
        let accepted = self.accepted.clone();
        let moody = self.random.next();
        let member = PushConsumer::builder(GROUP)
            .name_servers(self.broker.name_server())
            .subscribe("orders", "*")
            .consume_from(ConsumeFrom::FirstOffset)
            .consume_threads(4)
            .max_reconsume_times(1000)
            .consume_concurrently(move |batch| {
                let message = &batch[0];
                let text = message.body_str().unwrap().to_owned();
                let mood =
                    (moody ^ message.commit_log_offset().unsigned_abs()).wrapping_mul(0x9E37_79B9) >> 8;
                match mood % 50 {
                    0 => return ConsumeStatus::ReconsumeLater,
                    1 => panic!("a listener in a bad mood"),
                    2 => std::thread::sleep(Duration::from_millis(mood % 20)),
                    _ => {}
                }
                *accepted.lock().unwrap().entry(text).or_default() += 1;
                ConsumeStatus::Success
            })
            .start();
        // With a broker that fails just now a start may fail, too; there will be another.
        match member {
            Ok(member) => self.members.push(member),
            Err(error) => log::info!("a member could not start: {error}"),
        }
    }

    fn leave(&mut self, gracefully: bool) {
        if self.members.is_empty() {
            return;
        }
        let at = usize::try_from(self.random.below(self.members.len() as u64)).unwrap();
        let member = self.members.swap_remove(at);
        if gracefully {
            let report = member.shutdown(Duration::from_secs(10));
            // While brokers fail, an offset or a send-back may stay unconfirmed, and the report says so.
            assert!(report.is_clean() || self.faults, "{report}");
        }
    }

    fn send(&mut self, n: u64) -> Result<()> {
        for _ in 0..n {
            self.broker.put(&Message::new("orders", format!("{}", self.sent)))?;
            self.sent += 1;
        }
        Ok(())
    }

    fn fault(&mut self) -> Result<()> {
        self.faults = true;
        let codes = [
            RequestCode::PULL_MESSAGE,
            RequestCode::QUERY_CONSUMER_OFFSET,
            RequestCode::UPDATE_CONSUMER_OFFSET,
            RequestCode::CONSUMER_SEND_MSG_BACK,
            RequestCode::HEART_BEAT,
            RequestCode::GET_CONSUMER_LIST_BY_GROUP,
            RequestCode::GET_MIN_OFFSET,
        ];
        let code = codes[usize::try_from(self.random.below(codes.len() as u64)).unwrap()];
        let reaction = match self.random.below(5) {
            0 => Reaction::Reply(ResponseCode::SYSTEM_ERROR),
            1 => Reaction::Delay(Duration::from_millis(self.random.below(200))),
            2 => Reaction::Disconnect,
            3 => Reaction::DisconnectAfterwards,
            _ => Reaction::Twice,
        };
        self.broker.fault(Fault::on(code, reaction).times(1 + self.random.below(3)));
        match self.random.below(12) {
            0 => self.broker.cut_connections(),
            1 => self.broker.restart()?,
            2 => self.broker.restart_losing(Lose::Members)?,
            _ => {}
        }
        Ok(())
    }

    /// Every queue has one owner.
    fn wait_until_shared_out(&self) {
        let deadline = Instant::now() + SOON;
        loop {
            let mut owned: Vec<_> = self.members.iter().flat_map(PushConsumer::assignment).collect();
            owned.retain(|queue| queue.topic() == "orders");
            let all = owned.len();
            owned.sort();
            owned.dedup();
            if (owned.len(), all) == (8, 8) {
                return;
            }
            assert!(Instant::now() < deadline, "{all} queues are owned");
            std::thread::yield_now();
        }
    }

    /// The messages that were accepted more than once.
    fn repeated(&self) -> Vec<(String, u32)> {
        let accepted = self.accepted.lock().unwrap();
        let mut repeated: Vec<_> = accepted
            .iter()
            .filter(|(_, times)| **times > 1)
            .map(|(text, times)| (text.clone(), *times))
            .collect();
        repeated.sort();
        repeated
    }

    /// What was sent is accepted, and every queue of every member moves or says why not.
    fn settle(&mut self) -> Result<()> {
        // A start may fail for the last faults.
        while self.members.is_empty() {
            self.join();
        }
        let retries = retry_topic(GROUP);
        let settled = self.broker.wait(SOON, |state| {
            state.lag(GROUP, "orders") == 0 && state.lag(GROUP, &retries) == 0 && state.delayed() == 0
        });
        if settled.is_err() {
            self.members.iter().for_each(|member| println!("{:#?}", member.stats().queues));
        }
        settled?;
        let accepted = self.accepted.lock().unwrap();
        let lost: Vec<u32> = (0..self.sent).filter(|n| !accepted.contains_key(&n.to_string())).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        Ok(())
    }
}

pub fn seed() -> u64 {
    let given = std::env::var("RMQ_RANDOM_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| {
        u64::from(std::process::id()) ^ std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64
    })
}

pub fn time() -> Duration {
    let given = std::env::var("RMQ_RANDOM_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(4))
}

#[test]
fn nothing_is_lost_whoever_comes_goes_or_fails() -> Result<()> {
    let seed = seed();
    println!("RMQ_RANDOM_SEED={seed}");
    let mut world = World::new(seed)?;
    let end = Instant::now() + time();
    while Instant::now() < end {
        match world.random.below(10) {
            0 | 1 if world.members.len() < 4 => world.join(),
            2 => world.leave(true),
            3 => world.leave(false),
            4 | 5 => world.fault()?,
            _ => {
                let n = world.random.below(200);
                world.send(n)?;
            }
        }
    }
    world.settle()
}

#[test]
fn who_leaves_gracefully_leaves_nothing_to_be_repeated() -> Result<()> {
    let seed = seed();
    println!("RMQ_RANDOM_SEED={seed}");
    let mut world = World::new(seed)?;
    let end = Instant::now() + time() / 2;
    world.join();
    while Instant::now() < end {
        // Taking queues from a live member may repeat what its listeners had in hand at that moment.
        world.join();
        world.wait_until_shared_out();
        let repeated = world.repeated();
        world.send(300)?;
        world.leave(true);
        world.settle()?;
        world.wait_until_shared_out();
        assert_eq!(world.repeated(), repeated);
    }
    Ok(())
}
