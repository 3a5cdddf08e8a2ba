//! What is read is exactly what was stored: by a seed, for a reader that goes to and fro, and for members that come and
//! go.
//!
//! `RMQ_RANDOM_SECONDS` makes it longer (default 4), `RMQ_RANDOM_SEED` repeats one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::support::{SOON, body, orders, put, queue, until};
use rocketmq_sync::broker::Broker;
use rocketmq_sync::{ConsumeFrom, Message, MessageQueue, MessageView, PullConsumer};

/// splitmix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

/// Runs seed after seed, at least one.
fn seeds(run: impl Fn(u64)) {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(variable("RMQ_RANDOM_SECONDS").unwrap_or(4));
    let begun = Instant::now();
    let mut seed = variable("RMQ_RANDOM_SEED").unwrap_or(1);
    loop {
        eprintln!("seed {seed}");
        run(seed);
        seed += 1;
        if begun.elapsed() > time {
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
        assert_eq!(reader.position(&queue), Some(place as i64));
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
