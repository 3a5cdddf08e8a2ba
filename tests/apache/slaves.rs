//! Two masters, a slave of the first, and two name servers of Apache RocketMQ, each killed and started in turn while
//! messages are sent and consumed. Run by `tests/apache/run-slaves VERSION`, which starts the servers and says where
//! they are.

mod cluster;
#[path = "../scenarios/mod.rs"]
mod scenarios;
mod traffic;

use cluster::{TOPIC, ends, offsets, read_from_the_slave, slave_has_everything};
use rocketmq_sync::{Client, ConsumeFrom, PushConsumer};
use scenarios::java::{self, QUICK};
use scenarios::peer::Peer;
use scenarios::{SOON, eventually, start, tally::Tally};
use std::sync::Arc;
use std::time::Instant;
use traffic::Traffic;

/// Two members of ours; one of ours and one official Java consumer; one that begins while the first master is away.
const OURS: &str = "slaves-ours";
const MIXED: &str = "slaves-mixed";
const LATE: &str = "slaves-late";

#[test]
fn servers_killed_in_turn_lose_nothing() {
    let _ = env_logger::builder().is_test(true).try_init();
    cluster::create_topic();
    let clients: [Client; 2] = std::array::from_fn(|_| {
        Client::builder().name_servers(cluster::name_servers()).start().expect("the servers are there")
    });
    let traffic = Traffic::default();
    std::thread::scope(|scope| {
        let groups = Groups::start(&clients, &traffic);
        let _end = traffic.until_dropped();
        scope.spawn(|| traffic.run(&clients[0], TOPIC));
        // A Java member of 5.x may stand still for half a minute after its start.
        traffic.wait_for(100);
        groups.have(0..100);
        groups.outlast("a", "namesrv");
        groups.outlast("b", "namesrv");
        groups.outlast("b", "broker");
        let late = groups.outlast_the_first_master();
        groups.follow_a_suggestion();
        // It is suggested, and away.
        groups.outlast("slave", "broker");
        groups.end(late);
    });
}

/// All who consume, but for the one that comes later.
struct Groups<'a> {
    members: [PushConsumer; 2],
    beside_java: PushConsumer,
    java: Peer,
    ours: Arc<Tally>,
    mixed: Arc<Tally>,
    client: &'a Client,
    traffic: &'a Traffic,
}

/// A group of one member that has begun to read while the first master was away.
struct Late {
    member: PushConsumer,
    tally: Arc<Tally>,
}

impl<'a> Groups<'a> {
    /// Returns when they have shared the queues out.
    fn start(clients: &'a [Client; 2], traffic: &'a Traffic) -> Self {
        let (ours, mixed) = (Tally::new(), Tally::new());
        let groups = Groups {
            members: clients.each_ref().map(|client| member(client, OURS, &ours)),
            beside_java: member(&clients[0], MIXED, &mixed),
            java: java::consumer(&cluster::name_servers(), MIXED, TOPIC, QUICK, &mixed),
            ours,
            mixed,
            client: &clients[0],
            traffic,
        };
        eventually(SOON, "the groups have shared the queues out", || {
            groups.members.iter().all(|member| owned(member) == 2)
                && owned(&groups.beside_java) == 2
                && !groups.java.queues().is_empty()
        });
        groups
    }

    /// Waits until both groups have these numbers.
    fn have(&self, numbers: std::ops::Range<u64>) {
        all_came(&self.ours, numbers.clone());
        all_came(&self.mixed, numbers);
    }

    /// With this server away, what is sent comes, by way of the others; with it back, so does everything.
    fn outlast(&self, part: &str, server: &str) {
        let begun = Instant::now();
        cluster::kill(part, server);
        // What was on its way at the kill may be with the one that was killed.
        let first = self.traffic.sent() + 1;
        self.traffic.wait_for(first + 100);
        self.have(first..first + 100);
        cluster::start(part, server);
        self.have(0..self.traffic.sent());
        cluster::is_known();
        eprintln!("{server} {part} killed and back: {:.1?}", begun.elapsed());
    }

    /// What only the first master and its slave have is read from the slave, which is told how far; then the master
    /// knows it.
    fn outlast_the_first_master(&self) -> Late {
        eventually(SOON, "the slave knows the topic", cluster::slave_knows_the_topic);
        let (begun, sent) = (Instant::now(), self.hold_back());
        all_came(&self.mixed, 0..sent);
        let read = read_from_the_slave();
        cluster::kill("a", "broker");
        self.members.iter().for_each(PushConsumer::resume);
        all_came(&self.ours, 0..sent);
        assert!(read_from_the_slave() > read);
        let tally = Tally::new();
        let late = Late { member: member(self.client, LATE, &tally), tally };
        all_came(&late.tally, 0..sent);
        for group in [OURS, LATE] {
            let what = format!("the slave knows the progress of {group}");
            eventually(SOON, &what, || offsets("slave", group) == ends("slave"));
        }
        eprintln!("read from the slave: {:.1?}", begun.elapsed());
        self.traffic.resume();
        self.traffic.wait_for(sent + 100);
        all_came(&self.ours, sent..sent + 100);
        cluster::start("a", "broker");
        cluster::is_known();
        let sent = self.traffic.pause_after(100);
        self.have(0..sent);
        all_came(&late.tally, 0..sent);
        masters_know_the_progress(&[OURS, MIXED, LATE]);
        eprintln!("and back to its master: {:.1?}", begun.elapsed());
        late
    }

    /// The first master suggests its slave, which has everything: it is read there, and the master is told how far.
    fn follow_a_suggestion(&self) {
        cluster::suggest_the_slave();
        let sent = self.hold_back();
        let read = read_from_the_slave();
        self.members.iter().for_each(PushConsumer::resume);
        all_came(&self.ours, 0..sent);
        assert!(read_from_the_slave() > read);
        masters_know_the_progress(&[OURS]);
        self.traffic.resume();
    }

    /// Everything has come, and what the masters know of it remains when all have left.
    fn end(self, late: Late) {
        let sent = self.traffic.pause_after(100);
        let tallies = [&self.ours, &self.mixed, &late.tally];
        tallies.iter().for_each(|tally| all_came(tally, 0..sent));
        masters_know_the_progress(&[OURS, MIXED, LATE]);
        self.java.stop();
        for member in self.members.iter().chain([&self.beside_java, &late.member]) {
            let report = member.shutdown(SOON);
            assert!(report.is_clean(), "{report}");
        }
        masters_know_the_progress(&[OURS, MIXED, LATE]);
        tallies.iter().for_each(|tally| tally.assert_exactly(0..sent));
        let again = tallies.map(|tally| tally.duplicates());
        eprintln!("{sent} messages; of each group {again:?} deliveries were repetitions");
    }

    /// Makes a backlog for the group of ours at both masters, which the slave has as well; returns how much was sent.
    fn hold_back(&self) -> u64 {
        self.members.iter().for_each(PushConsumer::suspend);
        let sent = self.traffic.pause_after(400);
        slave_has_everything();
        sent
    }
}

fn member(client: &Client, group: &str, tally: &Arc<Tally>) -> PushConsumer {
    let tally = tally.clone();
    let builder = PushConsumer::builder(group)
        .client(client)
        .subscribe(TOPIC, "*")
        .consume_from(ConsumeFrom::FirstOffset)
        .consume_concurrently(move |batch| batch.each(|message| tally.take(message)));
    start(&builder)
}

fn owned(member: &PushConsumer) -> usize {
    member.assignment().iter().filter(|queue| queue.topic() == TOPIC).count()
}

fn all_came(tally: &Tally, numbers: std::ops::Range<u64>) {
    let begun = Instant::now();
    for number in numbers.clone() {
        let what = format!("{number} of {numbers:?} comes");
        eventually(SOON.saturating_sub(begun.elapsed()), &what, || !tally.of(number).is_empty());
    }
}

/// These groups have told both masters that everything is consumed.
fn masters_know_the_progress(groups: &[&str]) {
    for (part, group) in ["a", "b"].into_iter().flat_map(|part| groups.iter().map(move |group| (part, group)))
    {
        let what = format!("master {part} knows the progress of {group}");
        eventually(SOON, &what, || offsets(part, group) == ends(part));
    }
}
