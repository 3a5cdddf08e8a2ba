//! Who was given which message, when and how often.

use rocketmq_sync::MessageView;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The deliveries of numbered messages. A body is a number, and then words: "7 fails 2" is not accepted before its
/// third delivery. The Java peer reads bodies the same way.
#[derive(Debug, Default)]
pub struct Tally {
    deliveries: Mutex<BTreeMap<u64, Vec<Delivery>>>,
    changed: Condvar,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    pub to: Member,
    pub at: Instant,
    pub reconsumed: u32,
    pub place: Place,
}

/// Where a message was taken from, and when by the clock that all members look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub queue: i32,
    pub at_millis: u64,
    pub offset: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    Ours,
    Java,
    /// Ours, in a process of its own.
    Apart,
}

impl Tally {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// As the listener of a member of ours.
    pub fn take(&self, message: &MessageView) -> Result<(), String> {
        let body = message.body_str().map_err(|error| error.to_string())?;
        let at_millis = UNIX_EPOCH.elapsed().map_or(0, |time| time.as_millis() as u64);
        let place = Place { queue: message.queue().queue_id(), at_millis, offset: message.queue_offset() };
        self.record(body, Member::Ours, message.reconsume_times(), place);
        if message.reconsume_times() < failures(body) { Err(format!("{body:?} says so")) } else { Ok(()) }
    }

    pub fn record(&self, body: &str, to: Member, reconsumed: u32, place: Place) {
        let delivery = Delivery { to, at: Instant::now(), reconsumed, place };
        self.lock().entry(number(body)).or_default().push(delivery);
        self.changed.notify_all();
    }

    /// Waits until so many different numbers have come.
    pub fn wait_for(&self, count: u64, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut deliveries = self.lock();
        while (deliveries.len() as u64) < count {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let so_far = deliveries.len();
                drop(deliveries); // listeners still use it
                panic!("{so_far} of {count} messages within {limit:?}");
            }
            deliveries = self.changed.wait_timeout(deliveries, left).expect("no panic under the lock").0;
        }
    }

    pub fn count(&self) -> u64 {
        self.lock().len() as u64
    }

    pub fn of(&self, number: u64) -> Vec<Delivery> {
        self.lock().get(&number).cloned().unwrap_or_default()
    }

    /// The reconsume times of the deliveries of a message, in order.
    pub fn reconsumed(&self, number: u64) -> Vec<u32> {
        self.of(number).iter().map(|delivery| delivery.reconsumed).collect()
    }

    /// When messages of this queue came, in milliseconds of the clock that all members look at, in order.
    pub fn times_of_queue(&self, queue: i32) -> Vec<u64> {
        let deliveries = self.lock();
        let places = deliveries.values().flatten().map(|delivery| delivery.place);
        let mut times: Vec<u64> =
            places.filter(|place| place.queue == queue).map(|place| place.at_millis).collect();
        times.sort_unstable();
        times
    }

    /// How many deliveries there were beyond the first of each message.
    pub fn duplicates(&self) -> usize {
        self.lock().values().map(|deliveries| deliveries.len() - 1).sum()
    }

    /// Every number of this range has come, and no other.
    pub fn assert_exactly(&self, numbers: std::ops::Range<u64>) {
        let deliveries = self.lock();
        let missing: Vec<_> =
            numbers.clone().filter(|number| !deliveries.contains_key(number)).take(10).collect();
        let alien: Vec<_> =
            deliveries.keys().filter(|number| !numbers.contains(number)).take(10).copied().collect();
        drop(deliveries);
        assert!(
            missing.is_empty() && alien.is_empty(),
            "of {numbers:?} missing {missing:?}, not of them {alien:?}"
        );
    }

    /// In every queue each message followed the one before it, whoever was given it. A message that comes again follows
    /// itself; whoever takes a queue over may go back to what the other had not committed.
    pub fn assert_in_order(&self) {
        let deliveries = self.lock();
        let mut all: Vec<(Place, Member)> = deliveries.values().flatten().map(|d| (d.place, d.to)).collect();
        drop(deliveries);
        all.sort_by_key(|(place, _)| *place);
        for queue in all.chunk_by(|(one, _), (next, _)| one.queue == next.queue) {
            let mut last: Option<(i64, Member)> = None;
            let mut end = 0;
            for (place, member) in queue {
                let follows = match last {
                    Some((offset, by)) if by == *member => (offset..=offset + 1).contains(&place.offset),
                    _ => place.offset <= end,
                };
                assert!(follows, "{member:?} was given {place:?} after {last:?}");
                (last, end) = (Some((place.offset, *member)), end.max(place.offset + 1));
            }
        }
    }

    /// The numbers whose deliveries fulfil this.
    pub fn numbers(&self, mut fulfils: impl FnMut(&[Delivery]) -> bool) -> Vec<u64> {
        self.lock().iter().filter(|(_, deliveries)| fulfils(deliveries)).map(|(number, _)| *number).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<Delivery>>> {
        self.deliveries.lock().expect("no panic under the lock")
    }
}

/// That a body begins with.
pub fn number(body: &str) -> u64 {
    let number = body.split(' ').next().unwrap_or("");
    number.parse().unwrap_or_else(|_| panic!("a body of somebody else: {body:?}"))
}

/// How often a message with this body is not accepted.
fn failures(body: &str) -> u32 {
    let words: Vec<_> = body.split(' ').collect();
    match words[..] {
        [_, "fails", times] => times.parse().expect("a number of failures"),
        _ => 0,
    }
}
