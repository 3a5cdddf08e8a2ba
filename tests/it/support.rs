//! What the tests of the push consumer share: a broker, a builder with the settings most of them want, a note of what
//! the listener saw, and ways to wait.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use rocketmq_sync::broker::{Broker, Clock};
use rocketmq_sync::consumer::{Event, Events, PushConsumerBuilder};
use rocketmq_sync::{Batch, Client, ConsumeFrom, Message, MessageQueue, MessageView, PushConsumer};

/// Longer than anything here takes on a loaded machine.
pub const SOON: Duration = Duration::from_secs(30);

/// A broker with the topic `orders`.
pub fn orders(queues: u32) -> Broker {
    Broker::builder().topic("orders", queues).start().unwrap()
}

/// The same, with a clock to be moved.
pub fn orders_by_hand(queues: u32) -> Broker {
    Broker::builder().topic("orders", queues).clock(Clock::manual()).start().unwrap()
}

pub fn client_of(name_servers: String) -> Client {
    Client::builder().name_servers(name_servers).start().unwrap()
}

/// A client that learns soon of what has changed.
pub fn client_with_routes_every(interval: Duration, name_servers: String) -> Client {
    Client::builder().name_servers(name_servers).route_interval(interval).start().unwrap()
}

/// A client that looks its name servers up, by this clock.
pub fn client_of_list(list: &Arc<Mutex<String>>, clock: &Clock) -> Client {
    let list = list.clone();
    Client::builder()
        .name_servers_from(move || Ok::<_, String>(list.lock().unwrap().clone()))
        .clock(clock.clone())
        .start()
        .unwrap()
}

/// A client whose timers run on the broker's clock.
pub fn client_by_hand(broker: &Broker) -> Client {
    Client::builder().name_servers(broker.name_server()).clock(broker.clock().clone()).start().unwrap()
}

/// A member of `billing` that consumes `orders` from the beginning.
pub fn billing() -> PushConsumerBuilder {
    PushConsumer::builder("billing").subscribe("orders", "*").consume_from(ConsumeFrom::FirstOffset)
}

/// A member of `billing` that accepts whatever it sees.
pub fn noting_member(broker: &Broker, seen: &Seen) -> PushConsumer {
    billing().name_servers(broker.name_server()).consume_concurrently(seen.listener()).start().unwrap()
}

/// The same, with a client of one's own.
pub fn noting_member_of(client: &Client, seen: &Seen) -> PushConsumer {
    billing().client(client).consume_concurrently(seen.listener()).start().unwrap()
}

/// Stores messages with these numbers as bodies.
pub fn put(broker: &Broker, numbers: std::ops::Range<u32>) {
    for n in numbers {
        broker.put(&Message::new("orders", n.to_string())).unwrap();
    }
}

/// The same, in so many queues by turns.
pub fn put_in_turn(broker: &Broker, numbers: std::ops::Range<i32>, queues: i32) {
    for n in numbers {
        broker.put(&Message::new("orders", n.to_string()).queue(&queue(n % queues))).unwrap();
    }
}

/// Waits until `billing` has committed all of `orders`.
pub fn consumed(broker: &Broker) {
    broker.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
}

/// The same, for a consumer whose commits are on the broker's clock.
pub fn consumed_by_hand(broker: &Broker) {
    let tenth = Duration::from_millis(100);
    advance_until(broker.clock(), tenth, "all committed", || broker.inspect().lag("billing", "orders") == 0);
}

pub fn queue(id: i32) -> MessageQueue {
    MessageQueue::new("orders", "broker-a", id)
}

pub fn body(message: &MessageView) -> &str {
    message.body_str().unwrap()
}

/// What listeners have seen.
#[derive(Clone, Default)]
pub struct Seen(Arc<(Mutex<Vec<MessageView>>, Condvar)>);

impl Seen {
    pub fn note(&self, batch: &Batch) {
        self.0.0.lock().unwrap().extend(batch.iter().cloned());
        self.0.1.notify_all();
    }

    /// For a listener that accepts everything.
    pub fn listener(&self) -> impl Fn(&Batch) + Send + Sync + 'static {
        let seen = self.clone();
        move |batch| seen.note(batch)
    }

    /// For a listener that answers so, whatever it notes.
    pub fn answering<A>(
        &self,
        answer: impl Fn(&Batch) -> A + Send + Sync + 'static,
    ) -> impl Fn(&Batch) -> A + Send + Sync + 'static {
        let seen = self.clone();
        move |batch| {
            seen.note(batch);
            answer(batch)
        }
    }

    pub fn len(&self) -> usize {
        self.0.0.lock().unwrap().len()
    }

    pub fn messages(&self) -> Vec<MessageView> {
        self.0.0.lock().unwrap().clone()
    }

    /// In the order in which they were seen.
    pub fn bodies(&self) -> Vec<String> {
        self.0.0.lock().unwrap().iter().map(|message| body(message).to_owned()).collect()
    }

    /// Of the messages with this body, in the order in which they were seen.
    pub fn reconsume_times_of(&self, text: &str) -> Vec<u32> {
        let all = self.0.0.lock().unwrap();
        all.iter().filter(|message| body(message) == text).map(MessageView::reconsume_times).collect()
    }

    /// How often each body was seen.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for message in self.0.0.lock().unwrap().iter() {
            *counts.entry(body(message).to_owned()).or_default() += 1;
        }
        counts
    }

    /// Waits until so many messages were seen, repeated ones included.
    pub fn wait(&self, n: usize) {
        let seen = self.0.0.lock().unwrap();
        let (seen, _) = self.0.1.wait_timeout_while(seen, SOON, |seen| seen.len() < n).unwrap();
        assert!(seen.len() >= n, "{} of {n} messages in {SOON:?}", seen.len());
    }

    /// Waits until so many different messages were seen.
    pub fn wait_for_distinct(&self, n: usize) {
        until(&format!("{n} different messages"), || self.counts().len() >= n);
    }

    /// Each of these numbers was seen, and each once.
    pub fn assert_once(&self, numbers: std::ops::Range<u32>) {
        let expected: BTreeMap<String, usize> = numbers.map(|n| (n.to_string(), 1)).collect();
        assert_eq!(self.counts(), expected);
    }
}

/// A gate that is shut at first.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<(bool, usize)>, Condvar)>);

impl Gate {
    /// Waits until it is opened.
    pub fn pass(&self) {
        let mut state = self.0.0.lock().unwrap();
        state.1 += 1;
        self.0.1.notify_all();
        drop(self.0.1.wait_while(state, |state| !state.0).unwrap());
    }

    pub fn open(&self) {
        self.0.0.lock().unwrap().0 = true;
        self.0.1.notify_all();
    }

    pub fn is_open(&self) -> bool {
        self.0.0.lock().unwrap().0
    }

    /// Waits until so many have come to it.
    pub fn wait_for(&self, n: usize) {
        let state = self.0.0.lock().unwrap();
        let (state, _) = self.0.1.wait_timeout_while(state, SOON, |state| state.1 < n).unwrap();
        assert!(state.1 >= n, "{} of {n} came to the gate", state.1);
    }
}

/// Looks again and again until the condition is true.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Moves a clock in steps until the condition is true. After each step whoever waits for it gets some real time: a busy
/// machine must not be taken for one where hours pass without a word.
pub fn advance_until(clock: &Clock, step: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let mut moved = Instant::now();
    until(what, || {
        let met = condition();
        if !met && moved.elapsed() > FOR_A_STEP {
            clock.advance(step);
            moved = Instant::now();
        }
        met
    });
}

const FOR_A_STEP: Duration = Duration::from_millis(50);

/// Lets a clock that is moved by hand run at the usual pace, until dropped: for a client whose timers are on it.
pub struct Ticking(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Ticking {
    pub fn of(clock: &Clock) -> Self {
        Self::faster(clock, 1)
    }

    /// At so many times the usual pace.
    pub fn faster(clock: &Clock, times: u32) -> Self {
        let (stop, clock) = (Arc::new(AtomicBool::new(false)), clock.clone());
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut last = Instant::now();
            while !stopped.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(2));
                clock.advance(last.elapsed() * times);
                last = Instant::now();
            }
        });
        Self(stop, Some(thread))
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.take().unwrap().join().unwrap();
    }
}

/// The next event that is wanted.
pub fn next_event<T>(events: &mut Events, what: &str, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let event = events.next_timeout(left).unwrap_or_else(|| panic!("no event: {what}"));
        if let Some(found) = wanted(event) {
            return found;
        }
    }
}

/// Runs a test in a process of its own, where nothing else has threads and sockets.
pub fn alone(name: &str, test: impl FnOnce()) {
    const ALONE: &str = "IT_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let program = std::env::current_exe().unwrap();
    let output =
        Command::new(program).args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

/// The names of the library's threads in this process, sorted.
pub fn library_threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    let mut names: Vec<String> =
        tasks.flatten().filter_map(name).map(|name| name.trim().to_owned()).collect();
    names.retain(|name| name.starts_with("rmq-"));
    names.sort();
    names
}

/// How many files and sockets this process has open.
pub fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// An address that nobody listens on.
pub fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}
