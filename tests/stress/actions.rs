//! What threads do to the clients and consumers of each other, and an operator to their broker.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use rocketmq_sync::broker::{Broker, Lose};
use rocketmq_sync::consumer::LocalOffsets;
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::headers::ResetOffset;
use rocketmq_sync::{
    Batch, Client, ConsumeFrom, ConsumeStatus, ErrorKind, Message, MessageModel, Producer, PullConsumer,
    PushConsumer, RequestCode, Result,
};

use crate::pool::Pool;
use crate::seeded::{CODES, GROUP_CODES, Random, Trouble};
use crate::watch::Watched;
use crate::wire::Wire;

const TOPICS: [&str; 3] = ["orders", "mails", "bills"];
const SHORT: Duration = Duration::from_millis(200);

/// How a consumer consumes.
const MODES: [&str; 4] = ["concurrent", "orderly", "broadcasting", "polling"];

pub struct World {
    broker: Broker,
    clients: Pool<Client>,
    consumers: Pool<PushConsumer>,
    readers: Pool<PullConsumer>,
    producers: Pool<Producer>,
    pub watched: Watched,
    /// Messages, by mode.
    consumed: [AtomicU64; 4],
    /// Consumers that were dropped or stopped by a listener.
    ended_within: AtomicU64,
    /// Why something did not start, and how often.
    refused: Mutex<HashMap<ErrorKind, u64>>,
}

impl World {
    pub fn new() -> Self {
        let mut builder = Broker::builder().delay_levels([Duration::from_millis(20); 18]);
        for topic in TOPICS {
            builder = builder.topic(topic, 4);
        }
        Self {
            broker: builder.start().unwrap(),
            clients: Pool::default(),
            consumers: Pool::default(),
            readers: Pool::default(),
            producers: Pool::default(),
            watched: Watched::default(),
            consumed: Default::default(),
            ended_within: AtomicU64::new(0),
            refused: Mutex::default(),
        }
    }

    /// One thing, on whatever is there.
    pub fn act(self: &Arc<Self>, random: &mut Random) {
        let watched = &self.watched;
        match random.below(40) {
            0 | 1 if self.clients.len() < 5 => watched.call("a client's start", || self.start_client()),
            2 => watched.call("a client's shutdown", || {
                if let Some(client) = self.clients.take(random) {
                    drop(client.shutdown(SHORT));
                }
            }),
            3..=7 if self.consumers.len() < 12 => {
                watched.call("a consumer's start", || self.start_consumer(random));
            }
            8 => watched.call("a consumer's shutdown", || {
                if let Some(consumer) = self.consumers.take(random) {
                    drop(consumer.shutdown(SHORT));
                }
            }),
            9 => watched.call("a consumer's drop", || drop(self.consumers.take(random))),
            10 | 11 if self.readers.len() < 4 => {
                watched.call("a reader's start", || self.start_reader(random));
            }
            12 => watched.call("a reader's end", || drop(self.readers.take(random))),
            13..=18 => watched.call("reading", || self.read(random)),
            19 if self.producers.len() < 4 => watched.call("a producer's start", || {
                let Some(client) = self.clients.any(random) else { return };
                let group = format!("producer-{}", random.below(3));
                let producer = Producer::builder(group).client(&client).send_timeout(SHORT).start();
                self.add(&self.producers, producer);
            }),
            20 => watched.call("a producer's end", || drop(self.producers.take(random))),
            21..=26 => watched.call("sending", || self.send(random)),
            _ => self.change(random),
        }
    }

    fn start_client(&self) {
        let client = Client::builder()
            .name_servers(self.broker.name_server())
            .request_timeout(Duration::from_secs(1))
            .start_timeout(Duration::from_secs(2))
            .cache_limit(64 << 10)
            .start();
        self.add(&self.clients, client);
    }

    fn start_consumer(self: &Arc<Self>, random: &mut Random) {
        let Some(client) = self.clients.any(random) else { return };
        let mode = random.index(3);
        let builder = PushConsumer::builder(format!("{}-{}", MODES[mode], random.below(3)))
            .client(&client)
            .subscribe(TOPICS[random.index(TOPICS.len())], "*")
            .consume_from(ConsumeFrom::FirstOffset)
            .consume_threads(1 + random.index(4))
            .suspend_time(Duration::from_millis(10))
            .commit_interval(Duration::from_millis(100))
            .pull_threshold_messages(50);
        let listener = self.listener(mode, random.next());
        let consumer = match mode {
            0 => builder.consume_concurrently(listener).start(),
            1 => builder.consume_orderly(listener).start(),
            _ => builder
                .message_model(MessageModel::Broadcasting)
                .local_offsets(LocalOffsets::Memory)
                .consume_concurrently(listener)
                .start(),
        };
        // Of one group there is one consumer on a client, and the client may have been shut down meanwhile.
        self.add(&self.consumers, consumer);
    }

    fn listener(
        self: &Arc<Self>,
        mode: usize,
        moody: u64,
    ) -> impl Fn(&Batch) -> ConsumeStatus + Send + Sync + 'static {
        let world: Weak<Self> = Arc::downgrade(self);
        let calls = AtomicU64::new(0);
        move |batch| {
            let Some(world) = world.upgrade() else { return ConsumeStatus::ReconsumeLater };
            world.consumed[mode].fetch_add(batch.len() as u64, Ordering::Relaxed);
            let mut random = Random(moody ^ calls.fetch_add(1, Ordering::Relaxed));
            match random.below(400) {
                0 => world.end_one(&mut random, "a drop in a listener", drop),
                1 => world.end_one(&mut random, "a shutdown in a listener", |one| drop(one.shutdown(SHORT))),
                2 => world.end_one(&mut random, "a stop in a listener", |one| one.stopper().stop()),
                3 => world.watched.call("a client's shutdown in a listener", || {
                    drop(world.clients.take(&mut random).map(|client| client.shutdown(SHORT)));
                }),
                4..=6 => world.watched.call("sending in a listener", || world.send(&mut random)),
                7..=12 => world.change(&mut random),
                // A panic that is not told on the screen.
                13 => std::panic::resume_unwind(Box::new("a listener in a bad mood")),
                14..=20 => return ConsumeStatus::ReconsumeLater,
                _ => {}
            }
            ConsumeStatus::Success
        }
    }

    /// By a listener, perhaps its own consumer.
    fn end_one(&self, random: &mut Random, what: &'static str, end: impl FnOnce(Arc<PushConsumer>)) {
        if let Some(consumer) = self.consumers.take(random) {
            self.ended_within.fetch_add(1, Ordering::Relaxed);
            self.watched.call(what, || end(consumer));
        }
    }

    /// One of the calls that change or show a running consumer.
    fn change(&self, random: &mut Random) {
        let Some(consumer) = self.consumers.any(random) else { return };
        let topic = TOPICS[random.index(TOPICS.len())];
        match random.below(8) {
            0 => self.watched.call("set_consume_threads", || {
                drop(consumer.set_consume_threads(1 + random.index(6)));
            }),
            1 => self.watched.call("suspend", || consumer.suspend()),
            2 | 3 => self.watched.call("resume", || consumer.resume()),
            4 => self.watched.call("subscribe", || {
                drop(consumer.subscribe(topic, ["*", "a", "a || b"][random.index(3)]));
            }),
            5 => self.watched.call("unsubscribe", || drop(consumer.unsubscribe(topic))),
            6 => self.watched.call("stats", || {
                drop((consumer.stats(), consumer.assignment(), consumer.client().stats()));
            }),
            _ => self.watched.call("events", || {
                let mut events = consumer.events();
                while events.try_next().is_some() {}
            }),
        }
    }

    fn start_reader(&self, random: &mut Random) {
        let Some(client) = self.clients.any(random) else { return };
        let reader = PullConsumer::builder(format!("polling-{}", random.below(2)))
            .client(&client)
            .subscribe("orders", "*")
            .consume_from(ConsumeFrom::FirstOffset)
            .auto_commit(random.below(2) == 0)
            .start();
        self.add(&self.readers, reader);
    }

    fn add<T>(&self, pool: &Pool<T>, started: Result<T>) {
        match started {
            Ok(one) => pool.add(one),
            Err(error) => *self.refused.lock().unwrap().entry(error.kind()).or_default() += 1,
        }
    }

    /// Several threads may poll one reader. What fails, fails.
    fn read(&self, random: &mut Random) {
        let Some(reader) = self.readers.any(random) else { return };
        let queues = reader.assignment();
        match random.below(10) {
            0 => drop(reader.commit()),
            1 => reader.pause(queues.first()),
            2 | 3 => reader.resume(&queues),
            4 => drop(queues.first().map(|queue| reader.seek(queue, ConsumeFrom::FirstOffset))),
            5 => drop(queues.first().map(|queue| reader.committed(queue))),
            6 => drop(reader.stats()),
            _ => {
                let read = reader.poll(Duration::from_millis(10)).unwrap_or_default();
                self.consumed[3].fetch_add(read.len() as u64, Ordering::Relaxed);
            }
        }
    }

    fn send(&self, random: &mut Random) {
        let Some(producer) = self.producers.any(random) else { return };
        let message = Message::new(TOPICS[random.index(TOPICS.len())], "x").tag(["a", "b"][random.index(2)]);
        match random.below(4) {
            0 => drop(producer.send_oneway(&message)),
            1 => drop(producer.send_batch(&[message.clone(), message])),
            _ => drop(producer.send(&message)),
        }
    }

    /// What happens to the broker. One thread does it.
    pub fn operate(self: &Arc<Self>, random: &mut Random) {
        let topic = TOPICS[random.index(TOPICS.len())];
        self.watched.call("the operator's turn", || match random.below(150) {
            0 => self.broker.cut_connections(),
            1 => self.broker.restart().unwrap(),
            2 => self.broker.restart_losing(Lose::Locks).unwrap(),
            3 => self.broker.restart_losing(Lose::Offsets).unwrap(),
            4 => self.broker.hide_route(topic),
            5..=7 => self.broker.show_route(topic),
            8 => self.broker.set_queues(topic, 1 + random.index(6) as u32),
            9 | 10 => self.reset(topic, random),
            11..=13 => Trouble::default().add(&self.broker, random, &[&CODES[..], &GROUP_CODES].concat()),
            _ => (0..10).for_each(|_| drop(self.broker.put(&Message::new(topic, "x").tag("a")))),
        });
        std::thread::sleep(Duration::from_millis(random.below(20)));
    }

    /// Sets the offsets of a group back to the beginning; who is in it hears of it.
    fn reset(&self, topic: &str, random: &mut Random) {
        let group = format!("{}-{}", MODES[random.index(2)], random.below(3));
        let header = ResetOffset {
            topic: topic.to_owned(),
            group,
            timestamp: 0,
            is_force: true,
            ..ResetOffset::default()
        };
        // Groups that nobody was in are refused, and a fault may be meant for this one.
        let mut tool = Wire::connect(&self.broker.name_server());
        tool.send(RemotingCommand::with_header(RequestCode::INVOKE_BROKER_TO_RESET_OFFSET, &header));
        drop(tool.answer_within(Duration::from_secs(1)));
    }

    /// Everything is shut down at once, and nothing of the library is left but the broker.
    pub fn end(&self) {
        std::thread::scope(|scope| {
            for client in self.clients.take_all() {
                scope.spawn(move || {
                    self.watched.call("the last shutdown", || drop(client.shutdown(Duration::from_secs(2))));
                });
            }
            for consumer in self.consumers.take_all() {
                scope.spawn(move || self.watched.call("the last drop", || drop(consumer)));
            }
        });
        drop((self.readers.take_all(), self.producers.take_all()));
        let deadline = Instant::now() + Duration::from_secs(30);
        while library_threads() != ["rmq-broker"] {
            assert!(Instant::now() < deadline, "left behind: {:?}", library_threads());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn assert_all_was_tried(&self) {
        let ended = self.ended_within.load(Ordering::Relaxed);
        let consumed: Vec<u64> = self.consumed.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        println!("consumed {MODES:?} {consumed:?}, {ended} consumers ended by listeners");
        println!("starts that failed: {:?}", self.refused.lock().unwrap());
        assert!(consumed.iter().all(|count| *count > 0) && ended > 0);
    }
}

fn library_threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with("rmq-")).collect()
}
