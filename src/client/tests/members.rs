//! Members of groups: what brokers are told of them, and what they are told.

use super::*;

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
fn the_rooms_above_keep_one_of_each_kind_per_client() {
    let fake = Fake::start();
    let client = builder(&fake).start().unwrap();
    let one = client.instance().extension(|| Ok(Arc::new(7u8))).unwrap();
    let same = client.instance().extension(|| Ok(Arc::new(8u8))).unwrap();
    assert!(Arc::ptr_eq(&one, &same));
    assert_eq!(*client.instance().extension(|| Ok(Arc::new("text"))).unwrap(), "text");
}
