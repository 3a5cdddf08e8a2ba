//! Broadcasting members that come, go and are cut off while the broker fails: with real threads and sockets, by a seed.
//! Each has a place where it keeps its offsets, and whoever comes back to a place goes on there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rocketmq_sync::broker::{Broker, Reaction};
use rocketmq_sync::consumer::{Events, LocalOffsets};
use rocketmq_sync::{
    Batch, Client, ConsumeFrom, ConsumeStatus, Message, MessageModel, PushConsumer, RequestCode, Result,
};

use crate::seeded::{
    CODES, Limits, Pace, Random, Trouble, assert_bounded, assert_healthy, seed, time, wait_until_pulling,
};
use crate::support::{orders, queue, until};

const GROUP: &str = "watch";
const QUEUES: usize = 4;
const PLACES: usize = 4;

/// What was accepted at a place.
#[derive(Default)]
struct Accepted {
    /// By queue, how often each offset.
    queues: [BTreeMap<i64, u32>; QUEUES],
    out_of_order: Vec<(usize, i64)>,
}

/// A directory of offsets, and who uses it.
struct Place {
    directory: tempfile::TempDir,
    consumer: Option<(PushConsumer, Events, Limits)>,
    accepted: Arc<Mutex<Accepted>>,
    /// Somebody was cut off here, or told that something stayed undone: then some of it comes again.
    disturbed: bool,
}

impl Place {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            consumer: None,
            accepted: Arc::default(),
            disturbed: false,
        }
    }

    fn listener(
        &self,
        moody: u64,
        in_order: bool,
    ) -> impl Fn(&Batch) -> ConsumeStatus + Send + Sync + 'static {
        let accepted = self.accepted.clone();
        move |batch| {
            let message = &batch[0];
            let id = usize::try_from(message.queue().queue_id()).unwrap();
            let offset = message.queue_offset();
            let again = u64::from(message.reconsume_times());
            let mood = Random(moody ^ offset.unsigned_abs() ^ again << 40).next();
            match mood % 400 {
                0..10 => return ConsumeStatus::ReconsumeAfter(Duration::from_millis(20)),
                // A panic that is not told on the screen; the message comes again after a second.
                10 => std::panic::resume_unwind(Box::new("a listener in a bad mood")),
                11..20 => std::thread::sleep(Duration::from_millis(mood % 20)),
                _ => {}
            }
            let mut accepted = accepted.lock().unwrap();
            if in_order && offset > 0 && !accepted.queues[id].contains_key(&(offset - 1)) {
                accepted.out_of_order.push((id, offset));
            }
            *accepted.queues[id].entry(offset).or_default() += 1;
            ConsumeStatus::Success
        }
    }

    fn check(&mut self) {
        let out_of_order = &self.accepted.lock().unwrap().out_of_order;
        assert!(out_of_order.is_empty(), "out of order: {out_of_order:?}");
        let Some((consumer, events, limits)) = &mut self.consumer else { return };
        assert_bounded(&consumer.stats(), *limits);
        assert_healthy(events);
    }

    fn count(&self) -> usize {
        self.accepted.lock().unwrap().queues.iter().map(BTreeMap::len).sum()
    }
}

struct World {
    broker: Broker,
    random: Random,
    places: Vec<Place>,
    in_order: bool,
    stored: Vec<i64>,
    trouble: Trouble,
    troubled: bool,
}

impl World {
    fn new(seed: u64, in_order: bool) -> Self {
        Self {
            broker: orders(QUEUES as u32),
            random: Random(seed),
            places: (0..PLACES).map(|_| Place::new()).collect(),
            in_order,
            stored: vec![0; QUEUES],
            trouble: Trouble::default(),
            troubled: false,
        }
    }

    fn come(&mut self, at: usize) {
        let place = &self.places[at];
        if place.consumer.is_some() {
            return;
        }
        let limits = Limits::any(&mut self.random);
        let listener = place.listener(self.random.next(), self.in_order);
        let client =
            Client::builder().name_servers(self.broker.name_server()).cache_limit(limits.bytes).start();
        let consumer = client.and_then(|client| {
            let builder = PushConsumer::builder(GROUP)
                .client(&client)
                .subscribe("orders", "*")
                .message_model(MessageModel::Broadcasting)
                .local_offsets(LocalOffsets::Directory(place.directory.path().to_owned()))
                .consume_from(ConsumeFrom::FirstOffset)
                .consume_threads(3)
                .suspend_time(Duration::from_millis(20))
                .delay_levels([Duration::from_millis(20); 18])
                .commit_interval(Duration::from_millis(100))
                .max_reconsume_times(1000)
                .pull_batch_size(limits.batch)
                .pull_threshold_messages(limits.messages);
            match self.in_order {
                true => builder.consume_orderly(listener).start(),
                false => builder.consume_concurrently(listener).start(),
            }
        });
        // While the broker fails a start may fail; there will be another.
        match consumer {
            Ok(consumer) => {
                let events = consumer.events();
                self.places[at].consumer = Some((consumer, events, limits));
            }
            Err(error) => log::info!("a member could not start: {error}"),
        }
    }

    fn go(&mut self, at: usize) {
        let place = &mut self.places[at];
        place.check();
        if let Some((consumer, ..)) = place.consumer.take() {
            let report = consumer.shutdown(Duration::from_secs(10));
            // A message that the listener has failed comes again at the same place, with what follows it.
            let retried = |why: &str| why.contains("wait for their retry");
            let undisturbed =
                report.abandoned.is_empty() && report.uncommitted.iter().all(|(_, why)| retried(why));
            assert!(undisturbed || self.troubled, "{report}");
            place.disturbed |= !report.is_clean();
        }
    }

    /// It loses the broker, and gets no time to end.
    fn cut_off(&mut self, at: usize) {
        let place = &mut self.places[at];
        let Some((consumer, ..)) = place.consumer.take() else { return };
        place.disturbed = true;
        Trouble::cut_off(&self.broker, consumer.client().client_id(), Reaction::Disconnect);
        drop(consumer.shutdown(Duration::ZERO));
    }

    fn send(&mut self, n: u64) -> Result<()> {
        for _ in 0..n {
            let id = self.random.index(QUEUES);
            self.broker.put(&Message::new("orders", "x").queue(&queue(id as i32)))?;
            self.stored[id] += 1;
        }
        Ok(())
    }

    fn fail(&mut self) -> Result<()> {
        self.troubled = true;
        self.trouble.add(&self.broker, &mut self.random, &CODES);
        match self.random.below(10) {
            0 => self.broker.cut_connections(),
            1 => self.broker.restart()?,
            _ => {}
        }
        Ok(())
    }

    /// Every place has everything, once where nobody was disturbed.
    fn settle(&mut self) {
        self.trouble.mend();
        for at in 0..PLACES {
            until("somebody is there", || {
                self.come(at);
                self.places[at].consumer.is_some()
            });
        }
        let all = usize::try_from(self.stored.iter().sum::<i64>()).unwrap();
        for place in &mut self.places {
            until("a place has everything", || place.count() == all);
            let accepted = place.accepted.lock().unwrap();
            for (id, queue) in accepted.queues.iter().enumerate() {
                let repeated: Vec<_> = queue.iter().filter(|(_, times)| **times > 1).collect();
                assert!(repeated.is_empty() || place.disturbed, "queue {id} again: {repeated:?}");
            }
            drop(accepted);
            place.check();
            let consumer = &place.consumer.as_ref().unwrap().0;
            wait_until_pulling(1, || consumer.stats());
        }
    }
}

fn run(in_order: bool) -> Result<()> {
    let mut world = World::new(seed(), in_order);
    let end = Instant::now() + time();
    let mut pace = Pace::new(800);
    while Instant::now() < end {
        let at = world.random.index(PLACES);
        match world.random.below(20) {
            0..=4 => world.come(at),
            5 | 6 => world.go(at),
            7 => world.cut_off(at),
            8..=10 => world.fail()?,
            11 => world.places[at].check(),
            _ => {
                let n = pace.of(world.random.below(100));
                world.send(n)?;
            }
        }
    }
    world.settle();
    // One more for each queue: each of them moves.
    world.send(4 * QUEUES as u64)?;
    world.settle();
    let state = world.broker.inspect();
    assert_eq!(state.requests(RequestCode::UPDATE_CONSUMER_OFFSET), 0, "no broker keeps an offset");
    Ok(())
}

#[test]
fn every_place_gets_everything_whoever_comes_goes_or_fails() -> Result<()> {
    run(false)
}

#[test]
fn every_place_gets_everything_in_order_whoever_comes_goes_or_fails() -> Result<()> {
    run(true)
}
