//! What is read is exactly what was stored: by a seed, for a reader that goes to and fro, and for members that come and
//! go, also while brokers fail.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use crate::seeded::{
    CODES, GROUP_CODES, Limits, Pace, Random, Trouble, assert_bounded, assert_healthy, time, variable,
    wait_until_pulling,
};
use crate::support::{SOON, body, orders, put, queue, until};
use rocketmq_sync::broker::{Broker, Lose, Reaction};
use rocketmq_sync::consumer::Events;
use rocketmq_sync::{
    Client, ConsumeFrom, ErrorKind, Message, MessageQueue, MessageView, PullConsumer, RequestCode, Result,
};

/// Runs seed after seed, at least one.
fn seeds(run: impl Fn(u64)) {
    let begun = Instant::now();
    let mut seed = variable("RMQ_RANDOM_SEED").unwrap_or(1);
    loop {
        println!("RMQ_RANDOM_SEED={seed}");
        run(seed);
        seed += 1;
        if begun.elapsed() > time() {
            return;
        }
    }
}

const QUEUES: i32 = 3;
const TAGS: [&str; 3] = ["a", "b", "c"];

/// What is stored, and where the reader should be.
struct Model {
    broker: Broker,
    random: Random,
    /// By queue: whether each message passes the filter.
    stored: BTreeMap<MessageQueue, Vec<bool>>,
    places: BTreeMap<MessageQueue, usize>,
}

impl Model {
    fn put(&mut self) {
        for _ in 0..self.random.below(60) {
            let tag = TAGS[self.random.below(3) as usize];
            let stored = self.broker.put(&Message::new("orders", tag).tag(tag)).unwrap();
            let queue = self.stored.get_mut(stored.queue()).unwrap();
            assert_eq!(queue.len() as i64, stored.queue_offset());
            queue.push(tag != "b");
        }
    }

    /// These messages come next, and nothing between them was left out but what the filter does not want.
    fn comes(&mut self, messages: &[MessageView]) {
        for message in messages {
            let place = self.places.get_mut(message.queue()).unwrap();
            let stored = &self.stored[message.queue()];
            while !stored[*place] {
                *place += 1;
            }
            assert_eq!(message.queue_offset(), *place as i64, "{}", message.queue());
            assert_eq!(Some(body(message)), message.tag());
            *place += 1;
        }
        let one = messages.iter().all(|message| message.queue() == messages[0].queue());
        assert!(one, "messages of one queue");
    }

    /// Nothing that the filter wants is left before the ends.
    fn is_read(&self) {
        for (queue, stored) in &self.stored {
            let place = self.places[queue];
            let left = stored[place..].iter().filter(|wanted| **wanted).count();
            assert_eq!(left, 0, "{queue}: {left} messages from {place} on were not read");
        }
    }

    fn seek(&mut self, reader: &PullConsumer) {
        let queue = queue(self.random.below(QUEUES as u64) as i32);
        let end = self.stored[&queue].len();
        let n = self.random.below(end as u64 + 1);
        let (to, place) = match self.random.below(4) {
            0 => (ConsumeFrom::FirstOffset, 0),
            1 => (ConsumeFrom::LastOffset, end),
            2 => (ConsumeFrom::LastMessages(n), end - n as usize),
            _ => (ConsumeFrom::Offset(n as i64), n as usize),
        };
        reader.seek(&queue, to).unwrap();
        // What the filter does not want may have been passed already.
        let wanted = self.stored[&queue][place..].iter().position(|wanted| *wanted);
        let next = wanted.map_or(end, |after| place + after);
        let position = reader.position(&queue).unwrap();
        assert!((place as i64..=next as i64).contains(&position), "{position}, not {place} to {next}");
        self.places.insert(queue, place);
    }
}

#[test]
fn a_reader_that_goes_to_and_fro_gets_exactly_what_is_stored() {
    seeds(|seed| {
        let queues = || (0..QUEUES).map(queue);
        let mut model = Model {
            broker: orders(QUEUES as u32),
            random: Random(seed),
            stored: queues().map(|queue| (queue, Vec::new())).collect(),
            places: queues().map(|queue| (queue, 0)).collect(),
        };
        let reader = PullConsumer::builder("reader")
            .name_servers(model.broker.name_server())
            .assign_topic("orders", "a || c")
            .consume_from(ConsumeFrom::FirstOffset)
            .pull_batch_size(7)
            .pull_threshold_messages(20)
            .start()
            .unwrap();
        for _ in 0..60 {
            match model.random.below(5) {
                0 | 1 => model.put(),
                2 => model.seek(&reader),
                3 => {
                    let messages = reader.poll(Duration::ZERO).unwrap();
                    model.comes(&messages);
                }
                _ => {
                    for messages in reader.until_end().unwrap() {
                        model.comes(&messages.unwrap());
                    }
                    model.is_read();
                }
            }
        }
        assert!(reader.shutdown(SOON).is_clean());
    });
}

#[test]
fn members_that_come_and_go_read_everything_once() {
    seeds(|seed| {
        let mut random = Random(seed);
        let broker = orders(4);
        let mut members: Vec<PullConsumer> = Vec::new();
        let (mut sent, mut read) = (0, BTreeMap::<u32, u32>::new());
        for _ in 0..6 {
            match random.below(3) {
                0 if members.len() > 1 => {
                    let gone = members.swap_remove(random.below(members.len() as u64) as usize);
                    assert!(gone.shutdown(SOON).is_clean());
                }
                _ if members.len() < 4 => {
                    let member = PullConsumer::builder("billing")
                        .name_servers(broker.name_server())
                        .subscribe("orders", "*")
                        .consume_from(ConsumeFrom::FirstOffset)
                        .auto_commit(random.below(2) == 0)
                        .start();
                    members.push(member.unwrap());
                }
                _ => {}
            }
            let more = random.below(200) as u32;
            put(&broker, sent..sent + more);
            sent += more;
            // Each queue has one owner: then nobody reads what another one has.
            until("the queues are shared out", || {
                let mut all: Vec<MessageQueue> = members.iter().flat_map(PullConsumer::assignment).collect();
                all.sort();
                let known = |queue: &MessageQueue| members.iter().any(|one| one.position(queue).is_some());
                all == (0..4).map(queue).collect::<Vec<_>>() && all.iter().all(known)
            });
            for member in &members {
                for messages in member.until_end().unwrap() {
                    for message in messages.unwrap() {
                        *read.entry(body(&message).parse().unwrap()).or_default() += 1;
                    }
                }
                member.commit().unwrap();
            }
            assert_eq!(read.len() as u32, sent, "nothing is left out");
            assert!(read.values().all(|times| *times == 1), "nothing comes twice");
            assert_eq!(broker.inspect().lag("billing", "orders"), 0);
        }
        for member in members {
            assert!(member.shutdown(SOON).is_clean());
        }
    });
}

/// A group that is polled, while its members come, go and are cut off, and its broker fails.
struct Group {
    broker: Broker,
    random: Random,
    members: Vec<Member>,
    /// Cut off from the broker for ever, as if they had been killed.
    ghosts: Vec<PullConsumer>,
    /// What has been handed out, by queue.
    read: BTreeMap<i32, BTreeSet<i64>>,
    stored: BTreeMap<i32, i64>,
    trouble: Trouble,
}

struct Member {
    consumer: PullConsumer,
    events: Events,
    limits: Limits,
    auto_commit: bool,
}

const GROUP: &str = "billing";
const SHARED: i32 = 4;

impl Group {
    fn new(seed: u64) -> Self {
        Self {
            broker: orders(SHARED as u32),
            random: Random(seed),
            members: Vec::new(),
            ghosts: Vec::new(),
            read: (0..SHARED).map(|id| (id, BTreeSet::new())).collect(),
            stored: (0..SHARED).map(|id| (id, 0)).collect(),
            trouble: Trouble::default(),
        }
    }

    fn join(&mut self) {
        let limits = Limits::any(&mut self.random);
        let auto_commit = self.random.below(2) == 0;
        let client =
            Client::builder().name_servers(self.broker.name_server()).cache_limit(limits.bytes).start();
        let member = client.and_then(|client| {
            PullConsumer::builder(GROUP)
                .client(&client)
                .subscribe("orders", "*")
                .consume_from(ConsumeFrom::FirstOffset)
                .auto_commit(auto_commit)
                .commit_interval(Duration::from_millis(200))
                .pull_batch_size(limits.batch)
                .pull_threshold_messages(limits.messages)
                .start()
        });
        match member {
            Ok(consumer) => {
                let events = consumer.events();
                self.members.push(Member { consumer, events, limits, auto_commit });
            }
            Err(error) => log::info!("a member could not start: {error}"),
        }
    }

    fn leave(&mut self) {
        if let Some(member) = self.random.take(&mut self.members) {
            // Its report may say that something stayed unconfirmed, while brokers fail.
            drop(member.consumer.shutdown(Duration::from_secs(10)));
        }
    }

    fn cut_off(&mut self) {
        let Some(member) = self.random.take(&mut self.members) else { return };
        Trouble::cut_off(&self.broker, member.consumer.client().client_id(), Reaction::Disconnect);
        self.ghosts.push(member.consumer);
    }

    fn fail(&mut self) -> Result<()> {
        self.trouble.add(&self.broker, &mut self.random, &[&CODES[..], &GROUP_CODES].concat());
        match self.random.below(12) {
            0 => self.broker.cut_connections(),
            1 => self.broker.restart()?,
            2 => self.broker.restart_losing(Lose::Members)?,
            3 => {
                let ago = Duration::from_millis(self.random.below(2000));
                self.broker.restart_losing(Lose::OffsetsSince(SystemTime::now() - ago))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn put(&mut self, n: u64) {
        for _ in 0..n {
            let stored = self.broker.put(&Message::new("orders", "x")).unwrap();
            self.stored.insert(stored.queue().queue_id(), stored.queue_offset() + 1);
        }
    }

    /// Each member hands out what it has.
    fn poll(&mut self) {
        for member in &self.members {
            loop {
                let messages = match member.consumer.poll(Duration::ZERO) {
                    Ok(messages) => messages,
                    // Every queue fails just now.
                    Err(error) => break assert_ne!(error.kind(), ErrorKind::Closed, "{error}"),
                };
                let Some(first) = messages.first() else { break };
                let offsets = messages.iter().map(MessageView::queue_offset);
                let in_order =
                    (first.queue_offset()..).zip(offsets.clone()).all(|(next, offset)| next == offset);
                assert!(in_order, "{:?}", offsets.collect::<Vec<_>>());
                self.read.get_mut(&first.queue().queue_id()).unwrap().extend(offsets);
            }
            if !member.auto_commit && self.random.below(2) == 0 {
                // What was lost on the way is committed the next time.
                drop(member.consumer.commit());
            }
        }
    }

    /// Promise 1: what is committed was handed out. Promises of each member.
    fn check(&mut self) {
        let state = self.broker.inspect();
        for (id, read) in &self.read {
            let committed = state.committed(GROUP, &queue(*id)).unwrap_or(0);
            let left_out: Vec<i64> = (0..committed).filter(|offset| !read.contains(offset)).collect();
            assert!(left_out.is_empty(), "queue {id} is committed to {committed}, past {left_out:?}");
        }
        for member in &mut self.members {
            assert_bounded(&member.consumer.stats(), member.limits);
            assert_healthy(&mut member.events);
        }
    }

    /// All that was stored is read and committed, when nothing fails any more.
    fn settle(&mut self) {
        self.trouble.mend();
        until("somebody is there", || {
            if self.members.is_empty() {
                self.join();
            }
            !self.members.is_empty()
        });
        until("everything is read and committed", || {
            self.poll();
            let read = self.read.iter().all(|(id, read)| read.len() as i64 == self.stored[id]);
            read && self.broker.inspect().lag(GROUP, "orders") == 0
        });
        self.check();
        for member in &self.members {
            wait_until_pulling(1, || member.consumer.stats());
        }
    }
}

#[test]
fn members_that_are_polled_leave_nothing_out_whatever_fails() -> Result<()> {
    let mut group = Group::new(crate::seeded::seed());
    let end = Instant::now() + time();
    let mut pace = Pace::new(2000);
    while Instant::now() < end {
        match group.random.below(20) {
            0..=3 if group.members.len() < 3 => group.join(),
            4 | 5 => group.leave(),
            6 if group.ghosts.len() < 3 => group.cut_off(),
            7..=9 => group.fail()?,
            10 => group.check(),
            11..=13 => {
                let n = pace.of(group.random.below(200));
                group.put(n);
            }
            _ => group.poll(),
        }
    }
    group.settle();
    // One more for each queue: each of them moves.
    group.put(4 * SHARED as u64);
    group.settle();
    for ghost in group.ghosts {
        assert!(ghost.shutdown(Duration::from_millis(500)).elapsed < Duration::from_secs(5));
    }
    assert_eq!(group.broker.inspect().requests(RequestCode::CONSUMER_SEND_MSG_BACK), 0);
    Ok(())
}
