//! Members that come, go and are cut off while brokers fail: with real threads and sockets, by a seed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use rocketmq_sync::broker::{Broker, Lose, Reaction};
use rocketmq_sync::consumer::Events;
use rocketmq_sync::{
    Client, ConsumeFrom, ConsumeStatus, Message, PushConsumer, RequestCode, Result, retry_topic,
};

use crate::seeded::{
    CODES, GROUP_CODES, Limits, Pace, Random, Trouble, assert_bounded, assert_healthy, seed, time,
    wait_until_pulling,
};
use crate::support::{queue, until};

const SOON: Duration = Duration::from_secs(60);
const GROUP: &str = "random";
const QUEUES: usize = 8;

/// What listeners made of the messages.
#[derive(Default)]
struct Verdicts {
    /// How often each was accepted.
    accepted: HashMap<String, u32>,
    /// Those that were refused at least once.
    refused: HashSet<String>,
}

struct Member {
    consumer: PushConsumer,
    events: Events,
    limits: Limits,
}

impl Member {
    fn check(&mut self) {
        assert_bounded(&self.consumer.stats(), self.limits);
        assert_healthy(&mut self.events);
    }
}

struct World {
    broker: Broker,
    random: Random,
    members: Vec<Member>,
    /// Cut off from the broker for ever, as if they had been killed.
    ghosts: Vec<PushConsumer>,
    verdicts: Arc<Mutex<Verdicts>>,
    /// What each queue holds, in its order.
    stored: Vec<Vec<String>>,
    sent: u32,
    trouble: Trouble,
    troubled: bool,
    /// Whether its broker comes back with older offsets, or none. Where it does, what was lost comes again, too.
    forgetful: bool,
}

impl World {
    fn new(seed: u64) -> Result<Self> {
        let second = Duration::from_millis(50);
        let broker = Broker::builder().topic("orders", QUEUES as u32).delay_levels([second; 18]).start()?;
        let mut random = Random(seed);
        Ok(Self {
            broker,
            forgetful: random.below(3) == 0,
            random,
            members: Vec::new(),
            ghosts: Vec::new(),
            verdicts: Arc::default(),
            stored: vec![Vec::new(); QUEUES],
            sent: 0,
            trouble: Trouble::default(),
            troubled: false,
        })
    }

    fn join(&mut self) {
        let (verdicts, moody) = (self.verdicts.clone(), self.random.next());
        let limits = Limits::any(&mut self.random);
        let client =
            Client::builder().name_servers(self.broker.name_server()).cache_limit(limits.bytes).start();
        let member = client.and_then(|client| {
            PushConsumer::builder(GROUP)
                .client(&client)
                .subscribe("orders", "*")
                .consume_from(ConsumeFrom::FirstOffset)
                .consume_threads(4)
                .max_reconsume_times(1000)
                .pull_batch_size(limits.batch)
                .pull_threshold_messages(limits.messages)
                .consume_concurrently(move |batch| {
                    let message = &batch[0];
                    let text = message.body_str().unwrap().to_owned();
                    let mood =
                        (moody ^ message.commit_log_offset().unsigned_abs()).wrapping_mul(0x9E37_79B9) >> 8;
                    if mood % 50 < 2 {
                        verdicts.lock().unwrap().refused.insert(text);
                        if mood % 50 == 0 {
                            return ConsumeStatus::ReconsumeLater;
                        }
                        // A panic that is not told on the screen.
                        std::panic::resume_unwind(Box::new("a listener in a bad mood"));
                    }
                    if mood % 50 == 2 {
                        std::thread::sleep(Duration::from_millis(mood % 20));
                    }
                    *verdicts.lock().unwrap().accepted.entry(text).or_default() += 1;
                    ConsumeStatus::Success
                })
                .start()
        });
        // With a broker that fails just now a start may fail, too; there will be another.
        match member {
            Ok(consumer) => self.members.push(Member { events: consumer.events(), consumer, limits }),
            Err(error) => log::info!("a member could not start: {error}"),
        }
    }

    fn leave(&mut self, gracefully: bool) {
        let Some(mut member) = self.random.take(&mut self.members) else { return };
        member.check();
        if gracefully {
            let report = member.consumer.shutdown(Duration::from_secs(10));
            // While brokers fail, an offset or a send-back may stay unconfirmed, and the report says so.
            assert!(report.is_clean() || self.troubled, "{report}");
        }
    }

    fn cut_off(&mut self) {
        let Some(member) = self.random.take(&mut self.members) else { return };
        self.troubled = true;
        let consumer = member.consumer;
        Trouble::cut_off(&self.broker, consumer.client().client_id(), Reaction::Disconnect);
        self.ghosts.push(consumer);
    }

    fn send(&mut self, n: u64) -> Result<()> {
        for _ in 0..n {
            let text = self.sent.to_string();
            let message = self.broker.put(&Message::new("orders", text.clone()))?;
            let id = usize::try_from(message.queue().queue_id()).unwrap();
            assert_eq!(message.queue_offset(), self.stored[id].len() as i64);
            self.stored[id].push(text);
            self.sent += 1;
        }
        Ok(())
    }

    fn fail(&mut self) -> Result<()> {
        self.troubled = true;
        // What goes wrong with these loses messages, if it is taken for well.
        let backs = [RequestCode::CONSUMER_SEND_MSG_BACK; 4];
        let codes = [&CODES[..], &GROUP_CODES, &backs].concat();
        self.trouble.add(&self.broker, &mut self.random, &codes);
        match self.random.below(15) {
            0 => self.broker.cut_connections(),
            1 => self.broker.restart()?,
            2 => self.broker.restart_losing(Lose::Members)?,
            3 if self.forgetful => self.broker.restart_losing(Lose::Offsets)?,
            4 if self.forgetful => {
                let ago = Duration::from_millis(self.random.below(6000));
                self.broker.restart_losing(Lose::OffsetsSince(SystemTime::now() - ago))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Promise 1: what is committed has been through a listener. Promises of each member.
    fn check(&mut self) {
        let state = self.broker.inspect();
        let verdicts = self.verdicts.lock().unwrap();
        for (id, stored) in self.stored.iter().enumerate() {
            let committed = state.committed(GROUP, &queue(id as i32)).unwrap_or(0);
            let passed = &stored[..usize::try_from(committed).unwrap()];
            let unfinished =
                |text: &&String| !verdicts.accepted.contains_key(*text) && !verdicts.refused.contains(*text);
            let unfinished: Vec<_> = passed.iter().filter(unfinished).collect();
            assert!(unfinished.is_empty(), "queue {id} is committed to {committed}, past {unfinished:?}");
        }
        drop(verdicts);
        self.members.iter_mut().for_each(Member::check);
    }

    /// Every queue has one owner.
    fn wait_until_shared_out(&self) {
        let deadline = Instant::now() + SOON;
        loop {
            let mut owned: Vec<_> =
                self.members.iter().flat_map(|member| member.consumer.assignment()).collect();
            owned.retain(|queue| queue.topic() == "orders");
            let all = owned.len();
            owned.sort();
            owned.dedup();
            if (owned.len(), all) == (QUEUES, QUEUES) {
                return;
            }
            assert!(Instant::now() < deadline, "{all} queues are owned");
            std::thread::yield_now();
        }
    }

    /// The messages that were accepted more than once.
    fn repeated(&self) -> Vec<(String, u32)> {
        let verdicts = self.verdicts.lock().unwrap();
        let mut repeated: Vec<_> = verdicts
            .accepted
            .iter()
            .filter(|(_, times)| **times > 1)
            .map(|(text, times)| (text.clone(), *times))
            .collect();
        repeated.sort();
        repeated
    }

    /// What was sent is accepted, and every queue of every member moves or says why not.
    fn settle(&mut self) -> Result<()> {
        self.trouble.mend();
        until("somebody is there", || {
            if self.members.is_empty() {
                self.join();
            }
            !self.members.is_empty()
        });
        let retries = retry_topic(GROUP);
        let settled = self.broker.wait(SOON, |state| {
            state.lag(GROUP, "orders") == 0 && state.lag(GROUP, &retries) == 0 && state.delayed() == 0
        });
        if settled.is_err() {
            self.members.iter().for_each(|member| println!("{:#?}", member.consumer.stats().queues));
        }
        settled?;
        let verdicts = self.verdicts.lock().unwrap();
        let lost: Vec<u32> =
            (0..self.sent).filter(|n| !verdicts.accepted.contains_key(&n.to_string())).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        drop(verdicts);
        self.check();
        self.members.iter().for_each(|member| wait_until_pulling(1, || member.consumer.stats()));
        Ok(())
    }

    /// Whoever is cut off ends by his deadline all the same.
    fn end_ghosts(&mut self) {
        for ghost in self.ghosts.drain(..) {
            let report = ghost.shutdown(Duration::from_millis(500));
            assert!(report.elapsed < Duration::from_secs(5), "{report}");
        }
    }
}

#[test]
fn nothing_is_lost_whoever_comes_goes_or_fails() -> Result<()> {
    let mut world = World::new(seed())?;
    let end = Instant::now() + time();
    let mut pace = Pace::new(3000);
    while Instant::now() < end {
        match world.random.below(20) {
            0..=3 if world.members.len() < 4 => world.join(),
            4 | 5 => world.leave(true),
            6 => world.leave(false),
            7 if world.ghosts.len() < 3 => world.cut_off(),
            8..=11 => world.fail()?,
            12 => world.check(),
            _ => {
                let n = pace.of(world.random.below(200));
                world.send(n)?;
            }
        }
    }
    world.settle()?;
    // One more for each queue, now that nothing fails: each of them moves.
    let count = 4 * QUEUES as u64;
    world.send(count)?;
    world.settle()?;
    world.end_ghosts();
    Ok(())
}

#[test]
fn who_leaves_gracefully_leaves_nothing_to_be_repeated() -> Result<()> {
    let mut world = World::new(seed())?;
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
