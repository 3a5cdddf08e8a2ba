//! What the tests by a seed share: chance, trouble, and what must hold of every member at any moment.
//!
//! `RMQ_RANDOM_SECONDS` makes them longer (default 4), `RMQ_RANDOM_SEED` repeats one as far as threads allow;
//! `.ci/random` runs all of them with fresh seeds.

use std::time::{Duration, Instant};

use rocketmq_sync::broker::{Broker, Fault, FaultHandle, Reaction};
use rocketmq_sync::consumer::{ConsumerStats, Event, Events, Waiting};
use rocketmq_sync::{RequestCode, ResponseCode};

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
        self.next() % n.max(1)
    }

    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }

    /// One of several, taken out; none of none.
    pub fn take<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        (!from.is_empty()).then(|| from.swap_remove(self.index(from.len())))
    }
}

/// That of this run, which says it.
pub fn seed() -> u64 {
    let seed = variable("RMQ_RANDOM_SEED").unwrap_or_else(|| {
        u64::from(std::process::id()) ^ std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64
    });
    println!("RMQ_RANDOM_SEED={seed}");
    seed
}

/// How long things happen.
pub fn time() -> Duration {
    Duration::from_secs(variable("RMQ_RANDOM_SECONDS").unwrap_or(4))
}

pub fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Keeps what is sent down to what can be consumed, on a machine where everything else is quick, too.
pub struct Pace {
    begun: Instant,
    per_second: u64,
    sent: u64,
}

impl Pace {
    pub fn new(per_second: u64) -> Self {
        Self { begun: Instant::now(), per_second, sent: 0 }
    }

    /// So many, or as many of them as may be.
    pub fn of(&mut self, n: u64) -> u64 {
        let most = 500 + self.per_second * self.begun.elapsed().as_secs();
        let n = n.min(most - self.sent);
        self.sent += n;
        n
    }
}

/// What a broker is made to do wrong, until it is mended.
#[derive(Default)]
pub struct Trouble(Vec<FaultHandle>);

impl Trouble {
    /// One kind of request goes wrong up to three times.
    pub fn add(&mut self, broker: &Broker, random: &mut Random, codes: &[RequestCode]) {
        let code = codes[random.index(codes.len())];
        let reaction = match random.below(9) {
            0 => Reaction::Reply(ResponseCode::SYSTEM_ERROR),
            1 => Reaction::Reply(ResponseCode::SYSTEM_BUSY),
            2 => Reaction::Delay(Duration::from_millis(random.below(200))),
            3 => Reaction::Disconnect,
            4 => Reaction::CutFrame(random.index(60)),
            5 => Reaction::Trickle { bytes: 100, every: Duration::from_millis(1) },
            // Whoever pulls waits for half a minute before he asks again, longer than a run lasts.
            6 if code != RequestCode::PULL_MESSAGE => Reaction::Ignore,
            6 | 7 => Reaction::DisconnectAfterwards,
            _ => Reaction::Twice,
        };
        let fault = Fault::on(code, reaction).times(1 + random.below(3));
        self.0.push(broker.fault(fault));
    }

    /// The broker loses every word of this client from now on.
    pub fn cut_off(broker: &Broker, client_id: &str, reaction: Reaction) {
        drop(broker.fault(Fault::on_any(reaction).client_id(client_id).forever()));
    }

    /// Nothing of what was added goes wrong any more.
    pub fn mend(&mut self) {
        self.0.drain(..).for_each(|fault| fault.remove());
    }
}

/// What every consumer has to do with a broker.
pub const CODES: [RequestCode; 7] = [
    RequestCode::PULL_MESSAGE,
    RequestCode::HEART_BEAT,
    RequestCode::GET_ROUTEINFO_BY_TOPIC,
    RequestCode::GET_MIN_OFFSET,
    RequestCode::GET_MAX_OFFSET,
    RequestCode::SEARCH_OFFSET_BY_TIMESTAMP,
    RequestCode::UNREGISTER_CLIENT,
];

/// What a member of a group has in addition.
pub const GROUP_CODES: [RequestCode; 4] = [
    RequestCode::QUERY_CONSUMER_OFFSET,
    RequestCode::UPDATE_CONSUMER_OFFSET,
    RequestCode::GET_CONSUMER_LIST_BY_GROUP,
    RequestCode::CONSUMER_SEND_MSG_BACK,
];

/// Promise 5: no queue holds more than a pull beyond its limit, nor the client more than a frame a queue beyond its own.
pub fn assert_bounded(stats: &ConsumerStats, limits: Limits) {
    for queue in &stats.queues {
        assert!(queue.cached_messages < limits.messages + limits.batch, "{limits:?}: {queue:?}");
    }
    let most = limits.bytes + stats.queues.len() * limits.batch * LONGEST;
    assert!(stats.cached_bytes <= most, "{} bytes are cached of {limits:?}", stats.cached_bytes);
}

/// How much a member may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub messages: usize,
    pub batch: usize,
    pub bytes: usize,
}

impl Limits {
    pub fn any(random: &mut Random) -> Self {
        Self { messages: 8 + random.index(200), batch: 1 + random.index(32), bytes: 2000 << random.below(8) }
    }
}

/// A stored message of these tests is shorter, a retry with all its properties included.
const LONGEST: usize = 600;

/// Promises 4 and 6: the library has not found a queue that stood still without a reason, nor a bug of its own.
pub fn assert_healthy(events: &mut Events) {
    while let Some(event) = events.try_next() {
        let wrong = match &event {
            Event::QueueStalled { reason: Waiting::Failing(why), .. } => why.ends_with("was lost"),
            Event::ThreadRestarted { .. } => true,
            _ => false,
        };
        assert!(!wrong, "{event}");
    }
}

/// Promise 4, when nothing is wrong any more: a pull of each queue is out, or a reason is told. The clock of the member
/// runs at so many times the usual pace.
pub fn wait_until_pulling(pace: u32, stats: impl Fn() -> ConsumerStats) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let stats = stats();
        let idle = stats.queues.iter().find(|queue| {
            let pulled = queue.last_pull.is_some_and(|age| age < HELD * pace);
            !pulled && queue.waiting.is_none()
        });
        let Some(idle) = idle else { return };
        assert!(Instant::now() < deadline, "idle without a reason: {idle:#?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A broker holds a pull for 15 s, and the answer to one has as long to come.
const HELD: Duration = Duration::from_secs(31);
