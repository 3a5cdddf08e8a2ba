//! Groups whose members share by other strategies than the usual one, two of ours and two of the official Java client
//! in each: every queue has the owner that the Java client's own allocation names, and its messages come there once.
//!
//! All strategies at once. The broker's name is that of a machine room, `@`, and something.

use super::java::{self, QUICK};
use super::peer::{Peer, ids};
use super::tally::number;
use super::{SOON, Target, pause, producer, start};
use rocketmq_sync::{Client, ConsumeFrom, Message, MessageQueue, Producer, PushConsumer, allocate};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The names that `tests/java/Members.java` knows; group and topic are both `allocate-` and the name.
const STRATEGIES: [&str; 6] = ["averagely", "circle", "hash", "room", "nearby", "config"];
/// Their last digits are their rooms, of which there are three. In the order of ids, members of ours and of Java's take
/// turns.
const JAVA: [&str; 2] = ["m1-java-0", "m3-java-1"];
const OURS: [&str; 2] = ["m2-ours-0", "m4-ours-1"];
/// Shared unevenly by four and by three.
const QUEUES: i32 = 10;
/// Of the strategy `config`.
const CONFIGURED: [(&str, std::ops::Range<i32>); 4] =
    [("m1-java-0", 0..3), ("m2-ours-0", 3..5), ("m3-java-1", 5..6), ("m4-ours-1", 6..10)];
const PER_QUEUE: u64 = 5;

pub fn every_strategy_shares_as_java_does(target: &dyn Target) {
    for strategy in STRATEGIES {
        target.create_topic(&name(strategy), QUEUES as u32);
    }
    let told = Arc::<Told>::default();
    let mut java = start_java(target, &told);
    let mut ours: Vec<Member> = OURS.iter().map(|id| Member::start(target, id, &told)).collect();
    let client = super::client(target);
    let mut sending = Sending { producer: producer(&client), told, sent: 0 };

    sending.reaches_owners("all four are there", &JAVA, &ours);
    java.tell(&format!("leave {}", JAVA[1]));
    sending.reaches_owners("one of Java's has left", &JAVA[..1], &ours);
    ours.pop().expect("there are two").stop();
    sending.reaches_owners("one of ours has left", &JAVA[..1], &ours);
    java.stop();
    sending.reaches_owners("Java has left", &[], &ours);
    ours.pop().expect("there is one").stop();
}

fn name(strategy: &str) -> String {
    format!("allocate-{strategy}")
}

fn client_id(instance: &str) -> String {
    format!("127.0.0.1@{instance}")
}

/// What all members have told.
#[derive(Default)]
struct Told(Mutex<Facts>);

#[derive(Default)]
struct Facts {
    /// What the strategy of the Java client made of the members that each member of Java's saw: by group and that member.
    allocations: BTreeMap<(String, String), Shares>,
    /// By group and member of Java's.
    owned: BTreeMap<(String, String), BTreeSet<i32>>,
    /// Who was given a message, by group and number.
    given: BTreeMap<(String, u64), Vec<(String, i32)>>,
}

impl Told {
    fn with<T>(&self, look: impl FnOnce(&mut Facts) -> T) -> T {
        look(&mut self.0.lock().expect("no panic under the lock"))
    }

    fn java(&self, event: &Value) {
        let text = |name: &str| event[name].as_str().expect("a text").to_owned();
        match event["event"].as_str() {
            Some("allocation") => {
                let shares = event["shares"].as_object().expect("a share for each member");
                let shares = shares.iter().map(|(member, share)| (member.clone(), ids(share))).collect();
                self.with(|facts| facts.allocations.insert((text("group"), text("client_id")), shares));
            }
            Some("owned") => {
                let queues = ids(&event["ids"]);
                self.with(|facts| facts.owned.insert((text("group"), text("client_id")), queues));
            }
            Some("given") => {
                let queue = event["queue"].as_i64().expect("the id of a queue") as i32;
                self.given(&text("group"), &text("body"), &text("client_id"), queue);
            }
            _ => {}
        }
    }

    fn given(&self, group: &str, body: &str, to: &str, queue: i32) {
        let (key, delivery) = ((group.to_owned(), number(body)), (to.to_owned(), queue));
        self.with(|facts| facts.given.entry(key).or_default().push(delivery));
    }
}

fn start_java(target: &dyn Target, told: &Arc<Told>) -> Peer {
    let configured = JAVA.map(|instance| {
        let ids: Vec<_> = configured(instance).iter().map(ToString::to_string).collect();
        format!("-Dpeer.configured.{instance}={}", ids.join(","))
    });
    let options: Vec<&str> = QUICK.iter().copied().chain(configured.iter().map(|one| &**one)).collect();
    let (name_server, instances) = (target.name_server(), JAVA.join(","));
    let arguments: Vec<&str> = [&*name_server, &*instances].into_iter().chain(STRATEGIES).collect();
    let told = told.clone();
    java::members(&arguments, &options, move |event| told.java(event))
}

fn configured(instance: &str) -> BTreeSet<i32> {
    let (_, ids) = CONFIGURED.iter().find(|(name, _)| *name == instance).expect("each has some");
    ids.clone().collect()
}

/// One client of ours with a consumer for each strategy.
struct Member {
    id: String,
    client: Client,
    consumers: BTreeMap<&'static str, PushConsumer>,
}

impl Member {
    fn start(target: &dyn Target, instance: &str, told: &Arc<Told>) -> Self {
        let local = "127.0.0.1".parse().expect("an address");
        let builder = Client::builder().name_servers(target.name_server());
        let client = builder.client_ip(local).instance_name(instance).start().expect("the servers are there");
        let consumers = STRATEGIES.map(|strategy| (strategy, consumer(&client, strategy, instance, told)));
        Member { id: client_id(instance), client, consumers: consumers.into() }
    }

    fn owned(&self, strategy: &str) -> BTreeSet<i32> {
        let queues = self.consumers[strategy].assignment().into_iter();
        queues.filter(|queue| queue.topic() == name(strategy)).map(|queue| queue.queue_id()).collect()
    }

    fn stop(self) {
        for (strategy, consumer) in self.consumers {
            let report = consumer.shutdown(SOON);
            assert!(report.is_clean(), "{strategy}: {report}");
        }
        let report = self.client.shutdown(SOON);
        assert!(report.is_clean(), "{report}");
    }
}

fn consumer(client: &Client, strategy: &'static str, instance: &str, told: &Arc<Told>) -> PushConsumer {
    let (id, group, told) = (client_id(instance), name(strategy), told.clone());
    let builder = PushConsumer::builder(&group)
        .client(client)
        .subscribe(&group, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_threads(1)
        .allocate(allocation(strategy, instance))
        .consume_concurrently(move |batch| {
            batch.each(|message| {
                let body = message.body_str().expect("a number");
                told.given(&group, body, &id, message.queue().queue_id());
            });
        });
    start(&builder)
}

type Allocation = Box<dyn Fn(&str, &[String], &[MessageQueue]) -> Vec<MessageQueue> + Send + Sync>;

fn allocation(strategy: &str, instance: &str) -> Allocation {
    match strategy {
        "averagely" => Box::new(allocate::averagely),
        "circle" => Box::new(allocate::averagely_by_circle),
        "hash" => Box::new(allocate::consistent_hash(10)),
        "room" => Box::new(allocate::by_machine_room(["room-a", "room-b"])),
        "nearby" => Box::new(allocate::machine_room_nearby(
            allocate::averagely,
            |queue| (queue.queue_id() % 3).to_string(),
            |client_id| client_id.chars().last().into_iter().collect(),
        )),
        "config" => {
            let ids = configured(instance);
            let queue = |id: &i32| MessageQueue::new(name("config"), BROKER, *id);
            Box::new(allocate::by_config(ids.iter().map(queue)))
        }
        other => panic!("no strategy is called {other}"),
    }
}

/// Sends to every queue that has an owner, and looks whom it comes to.
struct Sending {
    producer: Producer,
    told: Arc<Told>,
    sent: u64,
}

impl Sending {
    fn reaches_owners(&mut self, when: &str, java: &[&str], ours: &[Member]) {
        let (owners, first) = (self.settled(when, java, ours), self.sent);
        let mut expected = BTreeMap::new();
        for (strategy, owners) in &owners {
            for (queue, owner) in owners {
                for _ in 0..PER_QUEUE {
                    let to = MessageQueue::new(name(strategy), BROKER, *queue);
                    let message = Message::new(name(strategy), self.sent.to_string()).queue(&to);
                    self.producer.send(&message).expect("the broker runs");
                    expected.insert((name(strategy), self.sent), vec![(owner.clone(), *queue)]);
                    self.sent += 1;
                }
            }
        }
        eventually_none(&format!("{when}: messages that did not come"), || {
            let given = self.told.with(|facts| facts.given.clone());
            expected.keys().find(|key| !given.contains_key(key)).map(|key| format!("{key:?}"))
        });
        assert_eq!(self.settled(when, java, ours), owners, "{when}: they stay with their owners");
        // What was sent before may have come again when its queue went to another member.
        let given = self.told.with(|facts| facts.given.clone());
        let given: BTreeSet<_> = given.into_iter().filter(|((_, number), _)| *number >= first).collect();
        let expected = expected.into_iter().collect();
        let wrong: Vec<_> = given.symmetric_difference(&expected).take(10).collect();
        assert!(wrong.is_empty(), "{when}: not once, to the owner: {wrong:?}");
    }

    /// The owner of every queue, as soon as all members own what the Java client would give them; by strategy.
    fn settled(&self, when: &str, java: &[&str], ours: &[Member]) -> BTreeMap<&'static str, Owners> {
        let owners = |strategy: &'static str| {
            let ours = ours.iter().map(|member| (member.id.clone(), member.owned(strategy)));
            self.told.with(|facts| owners(facts, strategy, java, ours.collect()))
        };
        eventually_none(when, || STRATEGIES.into_iter().find_map(|strategy| owners(strategy).err()));
        STRATEGIES
            .map(|strategy| (strategy, owners(strategy).unwrap_or_else(|why| panic!("{when}: {why}"))))
            .into()
    }
}

type Owners = BTreeMap<i32, String>;

/// What each member owns, or is to own.
type Shares = BTreeMap<String, BTreeSet<i32>>;

/// The owner of every queue, or what is not yet as it should be.
fn owners(facts: &Facts, strategy: &str, java: &[&str], ours: Shares) -> Result<Owners, String> {
    let key = |id: &String| (name(strategy), id.clone());
    let java: Vec<String> = java.iter().map(|instance| client_id(instance)).collect();
    let mut owned = ours;
    for id in &java {
        owned.insert(id.clone(), facts.owned.get(&key(id)).cloned().unwrap_or_default());
    }
    for id in &java {
        let named = facts.allocations.get(&key(id)).cloned().unwrap_or_default();
        let named = if strategy == "config" { as_configured(&named) } else { named };
        if named != owned {
            return Err(format!("{strategy}: {owned:?}, but by {id} {named:?}"));
        }
    }
    let mut owners = Owners::new();
    for (member, queues) in &owned {
        for queue in queues {
            if let Some(other) = owners.insert(*queue, member.clone()) {
                return Err(format!("{strategy}: {member} and {other} have {queue}"));
            }
        }
    }
    // A queue that no member is configured to have has no owner.
    let all = owners.len() == QUEUES as usize || strategy == "config";
    if all { Ok(owners) } else { Err(format!("{strategy}: {owners:?}")) }
}

/// A member of Java's knows of the others that they are there, and not what they are configured to have.
fn as_configured(named: &Shares) -> Shares {
    named.keys().map(|id| (id.clone(), configured(&id["127.0.0.1@".len()..]))).collect()
}

/// Waits until there is nothing to complain of.
fn eventually_none(what: &str, complaint: impl Fn() -> Option<String>) {
    let begun = Instant::now();
    while let Some(complaint) = complaint() {
        assert!(begun.elapsed() < SOON, "{what}: {complaint}");
        pause(Duration::from_millis(20));
    }
}

/// What the targets call their broker.
pub const BROKER: &str = "room-a@broker-a";
