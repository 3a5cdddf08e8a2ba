use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fake::{Fake, Listener, heartbeats, ok, route, wait_for};
use super::*;
use crate::clock::Clock;
use crate::error::ErrorKind;
use crate::protocol::body::ConsumerData;
use crate::protocol::headers::{GetConsumerRunningInfo, UnregisterClient};
use crate::protocol::{RemotingCommand, RequestCode, ResponseCode};
use crate::remoting::Credentials;

const SOON: Duration = Duration::from_secs(10);

fn builder(fake: &Fake) -> ClientBuilder {
    Client::builder().name_servers(&fake.address)
}

fn dead_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn changed(topic: &'static str) -> impl Fn(&Notice) -> bool {
    move |notice| matches!(notice, Notice::RouteChanged(changed) if **changed == *topic)
}

#[test]
fn without_a_name_server_the_error_names_all_that_were_tried() {
    let (one, two) = (dead_address(), dead_address());
    let error = Client::builder().name_servers(format!("{one};{two}")).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    let mut tried: Vec<&str> = error.attempts().iter().map(|attempt| &*attempt.server).collect();
    tried.sort_unstable();
    let mut expected = [&*one, &*two];
    expected.sort_unstable();
    assert_eq!(tried, expected);
    let text = error.to_string();
    assert!(text.contains(&one) && text.contains(&two) && text.contains("refused"), "{text}");
}

#[test]
fn a_name_server_that_hangs_costs_no_more_than_the_start_timeout() {
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = hanging.local_addr().unwrap().to_string();
    let began = Instant::now();
    let error = Client::builder()
        .name_servers(&address)
        .start_timeout(Duration::from_millis(300))
        .start()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    // The default would be ten seconds; a busy machine takes its share of the time between.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[test]
fn the_next_name_server_is_asked_when_one_fails() {
    let fake = Fake::start();
    for _ in 0..4 {
        let list = format!("{};{}", dead_address(), fake.address);
        let client = Client::builder().name_servers(list).start().unwrap();
        assert!(client.client_id().starts_with("127.0.0.1@"), "{}", client.client_id());
        assert!(client.shutdown(SOON).is_clean());
    }
}

#[test]
fn the_list_can_be_looked_up_by_the_program() {
    let fake = Fake::start();
    let address = fake.address.clone();
    let look_up = move || Ok::<_, String>(format!("http://{address}"));
    drop(Client::builder().name_servers_from(look_up).start().unwrap());
    let failing = Client::builder().name_servers_from(|| Err::<String, _>("registry is down"));
    let error = failing.start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("registry is down"));
    let panicking =
        Client::builder().name_servers_from(|| -> Result<String, String> { panic!("on purpose") });
    assert!(panicking.start().is_err());
}

#[test]
fn a_client_in_the_background_starts_without_servers_and_finds_them_later() {
    let address = dead_address();
    let client = Client::builder().name_servers(&address).connect_in_background().start().unwrap();
    let member = Listener::consumer("g", "orders");
    client.instance().register(member.clone()).unwrap();
    wait_for("a failed try", || member.count(|notice| matches!(notice, Notice::RouteFailed(_))) > 0);
    let fake = Fake::start_at(&address);
    fake.add_topic("orders", 2);
    wait_for("the route", || member.count(changed("orders")) == 1);
    wait_for("the heartbeat", || client.instance().is_told(&address, "g", "orders", 1));
}

#[test]
fn a_broker_is_told_before_it_counts_as_told_and_again_when_it_returns() {
    let mut fake = Fake::start();
    fake.add_topic("orders", 2);
    let client = builder(&fake).start().unwrap();
    let instance = client.instance().clone();
    let member = Listener::consumer("g", "orders");
    instance.register(member.clone()).unwrap();
    let address = fake.address.clone();
    assert!(!instance.is_told(&address, "g", "orders", 1));
    wait_for("the first heartbeat", || instance.is_told(&address, "g", "orders", 1));
    let beats = heartbeats(&fake);
    assert_eq!(beats.last().unwrap().client_id, client.client_id());
    assert_eq!(beats.last().unwrap().consumer_data_set[0].group_name, "g");

    *member.version.lock() = 2;
    assert!(!instance.is_told(&address, "g", "orders", 2));
    instance.heartbeat_now(None);
    wait_for("the new version", || instance.is_told(&address, "g", "orders", 2));

    fake.stop();
    wait_for("the broker to be gone", || !instance.is_told(&address, "g", "orders", 1));
    wait_for("word of it", || member.count(|notice| matches!(notice, Notice::Disconnected { .. })) > 0);
    fake.start_again();
    wait_for("the broker to be told again", || instance.is_told(&address, "g", "orders", 2));
    assert!(member.count(|notice| matches!(notice, Notice::BrokerUp { .. })) > 0);
}

#[test]
fn a_heartbeat_without_an_answer_tells_nobody_anything() {
    let fake = Fake::start();
    fake.add_topic("orders", 1);
    fake.answer(RequestCode::HEART_BEAT, |_, _| None);
    let client = builder(&fake).request_timeout(Duration::from_millis(50)).start().unwrap();
    client.instance().register(Listener::consumer("g", "orders")).unwrap();
    wait_for("several heartbeats", || heartbeats(&fake).len() > 2);
    assert!(!client.instance().is_told(&fake.address, "g", "orders", 1));
}

#[test]
fn a_refused_heartbeat_is_passed_on_and_tells_nobody_anything() {
    let fake = Fake::start();
    fake.add_topic("orders", 1);
    fake.answer(RequestCode::HEART_BEAT, |_, _| {
        Some(RemotingCommand::response(ResponseCode::NO_PERMISSION, 0).remark("no"))
    });
    let client = builder(&fake).start().unwrap();
    let member = Listener::consumer("g", "orders");
    client.instance().register(member.clone()).unwrap();
    wait_for("the refusal", || {
        member.count(|notice| {
            matches!(notice, Notice::HeartbeatRefused { code, .. } if *code == ResponseCode::NO_PERMISSION)
        }) == 1
    });
    assert!(!client.instance().is_told(&fake.address, "g", "orders", 1));
}

#[test]
fn a_producer_is_told_to_masters_only_and_a_group_can_be_there_once() {
    let (fake, slave) = (Fake::start(), Fake::start());
    let mut data = route(1, &fake.address);
    data.broker_datas[0].broker_addrs.insert(1, slave.address.clone());
    fake.answer(RequestCode::GET_ROUTEINFO_BY_TOPIC, move |_, _| Some(ok().body(data.write())));
    let client = builder(&fake).start().unwrap();
    let instance = client.instance();
    instance.register(Listener::producer("p")).unwrap();
    let error = instance.register(Listener::producer("p")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    instance.fetch_route("orders", Instant::now() + SOON).unwrap();
    wait_for("the heartbeat", || heartbeats(&fake).iter().any(|beat| beat.producer_data_set.len() == 1));
    assert!(heartbeats(&slave).is_empty());
    instance.register(Listener::consumer("p", "orders")).unwrap();
    wait_for("the slave to be told", || instance.is_told(&slave.address, "p", "orders", 1));
}

#[test]
fn a_missing_topic_is_found_when_it_appears_and_moving_the_clock_helps() {
    let fake = Fake::start();
    let clock = Clock::manual();
    let mut settings = builder(&fake);
    settings.clock = clock.clone();
    let client = settings.start().unwrap();
    let member = Listener::consumer("g", "orders");
    client.instance().register(member.clone()).unwrap();
    wait_for("the first answer", || member.count(|notice| matches!(notice, Notice::RouteMissing(_))) == 1);
    clock.advance(Duration::from_secs(1));
    wait_for("the second answer", || member.count(|notice| matches!(notice, Notice::RouteMissing(_))) == 2);
    fake.add_topic("orders", 4);
    clock.advance(Duration::from_secs(5));
    wait_for("the route", || member.count(changed("orders")) == 1);
    assert_eq!(client.instance().route("orders").unwrap().subscribe().len(), 4);
    fake.add_topic("orders", 8);
    clock.advance(Duration::from_secs(30));
    wait_for("the new queues", || member.count(changed("orders")) == 2);
    assert_eq!(client.instance().route("orders").unwrap().publish().len(), 8);
}

/// As Apache RocketMQ 5.x describes a topic with a mapping of its queues.
#[test]
fn a_static_topic_is_refused_in_clear_words() {
    let fake = Fake::start();
    let client = builder(&fake).start().unwrap();
    fake.answer(RequestCode::GET_ROUTEINFO_BY_TOPIC, |_, _| {
        let mapping = br#"{"brokerDatas":[],"filterServerTable":{},"queueDatas":[],"topicQueueMappingByBroker":{
            "broker-a":{"bname":"broker-a","currIdMap":{0:0},"epoch":1,"scope":"__global__","topic":"s","totalQueues":1}}}"#;
        Some(ok().body(mapping.to_vec()))
    });
    let error = client.instance().fetch_route("s", Instant::now() + SOON).unwrap_err();
    assert_eq!((error.kind(), error.topic()), (ErrorKind::InvalidInput, Some("s")));
    assert!(error.to_string().contains("static topic"), "{error}");
    let member = Listener::consumer("g", "s");
    client.instance().register(member.clone()).unwrap();
    wait_for("an answer", || member.count(|notice| matches!(notice, Notice::TopicUnusable { .. })) == 1);
    assert!(client.instance().route("s").is_none());
}

#[test]
fn a_topic_that_does_not_exist_is_not_an_unreachable_server() {
    let fake = Fake::start();
    let client = builder(&fake).start().unwrap();
    let error = client.instance().fetch_route("nothing", Instant::now() + SOON).unwrap_err();
    assert_eq!((error.kind(), error.topic()), (ErrorKind::TopicNotFound, Some("nothing")));
    assert_eq!(error.attempts()[0].server, fake.address);
    fake.answer(RequestCode::GET_ROUTEINFO_BY_TOPIC, |_, _| Some(ok().body(b"not json".to_vec())));
    let error = client.instance().fetch_route("orders", Instant::now() + SOON).unwrap_err();
    assert!(error.to_string().contains("decoded"), "{error}");
}

#[test]
fn what_a_broker_asks_finds_its_member_or_an_answer() {
    let fake = Fake::start();
    fake.add_topic("orders", 1);
    let client = builder(&fake).start().unwrap();
    let member = Listener::consumer("g", "orders");
    client.instance().register(member.clone()).unwrap();
    wait_for("the broker to be told", || client.instance().is_told(&fake.address, "g", "orders", 1));
    let peer = fake.peers().remove(0);

    let mut unknown = RemotingCommand::request(RequestCode(9999));
    unknown.opaque = 71;
    peer.send(&unknown);
    let info = |group: &str, opaque| {
        let header = GetConsumerRunningInfo {
            consumer_group: group.into(),
            client_id: client.client_id().into(),
            ..GetConsumerRunningInfo::default()
        };
        let mut command = RemotingCommand::with_header(RequestCode::GET_CONSUMER_RUNNING_INFO, &header);
        command.opaque = opaque;
        command
    };
    peer.send(&info("nobody", 72));
    let mut broken = RemotingCommand::request(RequestCode::GET_CONSUMER_RUNNING_INFO);
    broken.opaque = 73;
    peer.send(&broken);
    let mut reply = RemotingCommand::request(RequestCode::PUSH_REPLY_MESSAGE_TO_CLIENT);
    reply.opaque = 74;
    peer.send(&reply);
    let answer = |opaque| {
        let all: Vec<RemotingCommand> = (0..=3).flat_map(|code| fake.seen(RequestCode(code))).collect();
        all.into_iter().find(|command| command.is_response() && command.opaque == opaque)
    };
    for (opaque, code) in [(71, 3), (72, 1), (73, 1), (74, 0)] {
        wait_for("an answer", || answer(opaque).is_some());
        assert_eq!(answer(opaque).unwrap().code, code, "{opaque}");
    }
    peer.send(&info("g", 75));
    wait_for("the question", || member.count(|notice| matches!(notice, Notice::Request(_))) == 1);
    let heard = member.heard.lock().clone();
    let asked = heard.iter().find_map(|notice| match notice {
        Notice::Request(incoming) => Some(incoming.clone()),
        _ => None,
    });
    asked.unwrap().respond(ok().remark("fine"));
    wait_for("the member's answer", || answer(75).is_some());
}

/// A member that holds the control loop up for as long as a test wants it to.
struct Busy {
    listener: Arc<Listener>,
    gate: parking_lot::Mutex<()>,
}

impl Member for Busy {
    fn kind(&self) -> MemberKind {
        self.listener.kind()
    }

    fn group(&self) -> &str {
        self.listener.group()
    }

    fn consumer_data(&self) -> Option<ConsumerData> {
        self.listener.consumer_data()
    }

    fn topics(&self) -> Vec<String> {
        self.listener.topics()
    }

    fn notice(&self, notice: Notice) {
        let ids_changed = matches!(notice, Notice::ConsumerIdsChanged);
        self.listener.notice(notice);
        if ids_changed {
            drop(self.gate.lock());
        }
    }

    fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.listener.shutdown(grace)
    }
}

#[test]
fn a_flood_from_a_broker_fills_no_memory_and_a_thousand_notifications_are_one() {
    let fake = Fake::start();
    fake.add_topic("orders", 1);
    let client = builder(&fake).start().unwrap();
    let busy = Arc::new(Busy { listener: Listener::consumer("g", "orders"), gate: Default::default() });
    client.instance().register(busy.clone()).unwrap();
    wait_for("the broker to be told", || client.instance().is_told(&fake.address, "g", "orders", 1));
    let peer = fake.peers().remove(0);
    let notify = || peer.send(&RemotingCommand::request(RequestCode::NOTIFY_CONSUMER_IDS_CHANGED).oneway());
    let notices = || busy.listener.count(|notice| matches!(notice, Notice::ConsumerIdsChanged));

    let held = busy.gate.lock();
    notify();
    wait_for("the loop to be busy", || notices() == 1);
    for _ in 0..1000 {
        notify();
    }
    for _ in 0..300 {
        peer.send(&RemotingCommand::request(RequestCode(9999)));
    }
    wait_for("the refusals", || fake.seen(RequestCode(2)).len() == 300 - 256);
    drop(held);
    wait_for("the answers", || fake.seen(RequestCode(3)).len() == 256);
    assert_eq!(notices(), 2);
}

#[test]
fn a_goodbye_follows_the_heartbeat_that_is_out() {
    let fake = Fake::start();
    fake.add_topic("orders", 1);
    let client = builder(&fake).request_timeout(Duration::from_millis(300)).start().unwrap();
    let instance = client.instance();
    instance.register(Listener::consumer("g", "orders")).unwrap();
    wait_for("the broker to be told", || instance.is_told(&fake.address, "g", "orders", 1));
    // From now on heartbeats hang until their timeout.
    fake.answer(RequestCode::HEART_BEAT, |_, _| None);
    let before = heartbeats(&fake).len();
    instance.heartbeat_now(None);
    wait_for("a heartbeat that hangs", || heartbeats(&fake).len() > before);
    let left = instance.leave(MemberKind::Consumer, "g", Instant::now() + SOON);
    assert!(fake.seen(RequestCode::UNREGISTER_CLIENT).is_empty());
    assert_eq!(left.recv_timeout(SOON).unwrap().len(), 0);
    let goodbyes = fake.seen(RequestCode::UNREGISTER_CLIENT);
    let header = goodbyes[0].header::<UnregisterClient>().unwrap();
    assert_eq!(
        (goodbyes.len(), header.consumer_group.as_deref(), &*header.client_id),
        (1, Some("g"), client.client_id())
    );
    assert!(!instance.is_told(&fake.address, "g", "orders", 1));
    assert!(heartbeats(&fake).last().unwrap().consumer_data_set.len() <= 1);
}

#[test]
fn nobody_to_say_goodbye_to_is_no_wait() {
    let fake = Fake::start();
    let client = builder(&fake).start().unwrap();
    client.instance().register(Listener::producer("p")).unwrap();
    let left = client.instance().leave(MemberKind::Producer, "p", Instant::now() + SOON);
    assert_eq!(left.recv_timeout(SOON).unwrap().len(), 0);
}

#[test]
fn shutdown_ends_members_and_threads_and_gives_one_report() {
    let fake = Fake::start();
    fake.add_topic("orders", 1);
    let client = builder(&fake).start().unwrap();
    let instance = client.instance().clone();
    for member in
        [Listener::consumer("a", "orders"), Listener::consumer("b", "orders"), Listener::producer("p")]
    {
        instance.register(member).unwrap();
    }
    let hook = Arc::new(parking_lot::Mutex::new(false));
    let ran = hook.clone();
    instance.on_last_shutdown(Box::new(move |_| *ran.lock() = true));
    assert!(client.stats().threads >= 2 && client.stats().connections >= 1);
    let report = client.shutdown(SOON);
    assert_eq!(report.released, 3);
    assert_eq!(client.shutdown(SOON), report);
    assert!(*hook.lock());
    assert_eq!(instance.threads.running(), 0);
    wait_for("the connections to close", || fake.peers().is_empty());
    assert_eq!(instance.register(Listener::producer("q")).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(instance.fetch_route("orders", Instant::now() + SOON).unwrap_err().kind(), ErrorKind::Closed);
    let left = instance.leave(MemberKind::Producer, "q", Instant::now() + SOON);
    assert!(left.recv_timeout(SOON).is_err(), "nobody is left to say goodbye");
}

#[test]
fn the_last_handle_that_is_dropped_shuts_down() {
    let fake = Fake::start();
    let client = builder(&fake).start().unwrap();
    let instance = client.instance().clone();
    let other = client.clone();
    drop(client);
    assert!(instance.is_running());
    drop(other);
    assert!(!instance.is_running());
    assert_eq!(instance.threads.running(), 0);
}

#[test]
fn shutdown_on_a_thread_of_the_library_does_not_wait_for_itself() {
    let fake = Fake::start();
    let client = builder(&fake).start().unwrap();
    let instance = client.instance().clone();
    let inside = client.clone();
    let thread = instance.spawn("rmq-test", move || assert!(inside.shutdown(SOON).in_background)).unwrap();
    thread.join().unwrap();
    assert!(client.shutdown(SOON).is_clean());
    assert_eq!(instance.threads.running(), 0);
}

#[test]
fn the_rooms_above_keep_one_of_each_kind_per_client() {
    let fake = Fake::start();
    let client = builder(&fake).start().unwrap();
    let one = client.instance().extension(|| Ok(Arc::new(7u8))).unwrap();
    let same = client.instance().extension(|| Ok(Arc::new(8u8))).unwrap();
    assert!(Arc::ptr_eq(&one, &same));
    assert_eq!(*client.instance().extension(|| Ok(Arc::new("text"))).unwrap(), "text");
}

#[test]
fn credentials_are_tried_at_the_start() {
    let fake = Fake::start();
    let cluster = format!(
        r#"{{"brokerAddrTable":{{"broker-a":{{"brokerAddrs":{{0:"{}"}},"brokerName":"broker-a","cluster":"c"}}}},"clusterAddrTable":{{}}}}"#,
        fake.address
    );
    fake.answer(RequestCode::GET_BROKER_CLUSTER_INFO, move |_, _| {
        Some(ok().body(cluster.clone().into_bytes()))
    });
    let start = || builder(&fake).credentials(Credentials::new("me", "secret")).start();
    drop(start().unwrap());
    let beats = heartbeats(&fake);
    assert!(beats.iter().all(|beat| beat.consumer_data_set.is_empty() && beat.producer_data_set.is_empty()));
    fake.answer(RequestCode::HEART_BEAT, |_, _| {
        Some(
            RemotingCommand::response(ResponseCode::SYSTEM_ERROR, 0)
                .remark("AclException: Check signature failed"),
        )
    });
    let error = start().unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, Some(ResponseCode::SYSTEM_ERROR)));
}

#[test]
fn addresses_can_be_translated() {
    let fake = Fake::start();
    fake.add_topic_at("orders", 1, "10.255.255.1:10911");
    let real = fake.address.clone();
    let map = move |address: &str| {
        if address == "10.255.255.1:10911" { real.clone() } else { address.to_owned() }
    };
    let client = builder(&fake).address_map(map).start().unwrap();
    client.instance().register(Listener::consumer("g", "orders")).unwrap();
    wait_for("the broker to be told", || client.instance().is_told("10.255.255.1:10911", "g", "orders", 1));
}
