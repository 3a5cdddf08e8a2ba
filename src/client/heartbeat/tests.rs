use super::*;

const INTERVAL: Duration = Duration::from_secs(30);

fn content(version: i64) -> Arc<Content> {
    let topics = BTreeMap::from([("orders".to_owned(), version)]);
    Arc::new(Content { consumers: BTreeMap::from([("g".to_owned(), topics)]), producers: BTreeSet::new() })
}

/// One broker with an open connection, of this number.
fn connected(link: u64) -> (Told, Arc<str>) {
    let (told, address) = (Told::default(), Arc::from("a:1"));
    told.connection_began(&address, link);
    (told, address)
}

#[test]
fn a_broker_is_told_when_it_has_acknowledged_that_version() {
    let (told, address) = connected(7);
    assert_eq!(told.told_on(&address, "g", "orders", 5), None);
    let connection = told.connection(&address);
    assert_eq!(told.acknowledged(&address, connection, &content(5)), Some(true));
    assert_eq!(told.told_on(&address, "g", "orders", 5), Some(7));
    assert_eq!(told.told_on(&address, "g", "orders", 4), Some(7));
    for (address, group, topic, version) in [
        ("a:1", "g", "orders", 6),
        ("a:1", "g", "other", 5),
        ("a:1", "h", "orders", 5),
        ("b:1", "g", "orders", 5),
    ] {
        assert_eq!(told.told_on(address, group, topic, version), None, "{address} {group} {topic} {version}");
    }
    assert_eq!(told.acknowledged(&address, connection, &content(5)), Some(false), "no news");
    assert_eq!(told.acknowledged(&address, connection, &content(6)), Some(true));
}

#[test]
fn a_broker_forgets_with_its_connection() {
    let (told, address) = connected(7);
    let connection = told.connection(&address);
    assert_eq!(told.acknowledged(&address, connection, &content(5)), Some(true));
    told.connection_ended(&address);
    assert!(told.told_on(&address, "g", "orders", 5).is_none() && !told.knows(&address));
    told.connection_began(&address, 8);
    assert_eq!(told.told_on(&address, "g", "orders", 5), None, "nor does the next one know it");
}

#[test]
fn an_acknowledgement_of_a_connection_that_has_ended_does_not_count() {
    let (told, address) = connected(7);
    let connection = told.connection(&address);
    told.connection_ended(&address);
    told.connection_began(&address, 8);
    assert_eq!(told.acknowledged(&address, connection, &content(5)), None);
    assert_eq!(told.told_on(&address, "g", "orders", 5), None);
    let connection = told.connection(&address);
    assert_eq!(told.acknowledged(&address, connection, &content(5)), Some(true));
    assert_eq!(told.told_on(&address, "g", "orders", 5), Some(8));
}

struct Scene {
    beats: Beats,
    start: Instant,
    broker: Arc<str>,
}

impl Scene {
    fn new() -> Self {
        let start = Instant::now();
        let broker: Arc<str> = "a:1".into();
        let mut beats = Beats::new(INTERVAL);
        beats.set_brokers([broker.clone()], start);
        Scene { beats, start, broker }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    fn due_in(&self) -> Option<u128> {
        self.beats.next_due().map(|due| due.saturating_duration_since(self.start).as_millis())
    }

    fn send(&mut self, ms: u64) {
        assert_eq!(*self.beats.take_due(self.at(ms)), *std::slice::from_ref(&self.broker), "at {ms}");
    }

    fn answer(&mut self, beaten: Beaten, ms: u64) {
        self.beats.answered(&self.broker.clone(), beaten, self.at(ms));
    }
}

#[test]
fn a_new_broker_is_told_at_once_and_then_every_interval() {
    let mut scene = Scene::new();
    scene.send(0);
    assert!(scene.beats.is_out("a:1"));
    scene.answer(Beaten::Acknowledged, 10);
    assert_eq!(scene.due_in(), Some(30_010));
    scene.beats.set_brokers(["a:1".into(), "b:1".into()], scene.at(100));
    assert_eq!(scene.due_in(), Some(100), "only the new one");
    assert_eq!(scene.beats.take_due(scene.at(100)), ["b:1".into()]);
    scene.beats.set_brokers(["b:1".into()], scene.at(200));
    assert_eq!(scene.due_in(), None, "the other one left");
}

#[test]
fn a_heartbeat_that_is_wanted_while_one_is_out_follows_it() {
    let mut scene = Scene::new();
    scene.send(0);
    for ms in 1..1000 {
        scene.beats.want(&scene.broker.clone(), scene.at(ms));
    }
    assert_eq!(scene.due_in(), None);
    scene.answer(Beaten::Acknowledged, 1_000);
    assert_eq!(scene.due_in(), Some(1_000));
    scene.send(1_000);
    scene.answer(Beaten::Acknowledged, 1_010);
    assert_eq!(scene.due_in(), Some(31_010), "one, not a thousand");
}

#[test]
fn a_returned_broker_is_told_at_once() {
    let mut scene = Scene::new();
    scene.send(0);
    scene.beats.linked(&scene.broker.clone(), scene.at(5));
    scene.answer(Beaten::Acknowledged, 10);
    assert_eq!(scene.due_in(), Some(30_010), "the connection came up for the heartbeat itself");
    scene.beats.lost(&scene.broker.clone(), scene.at(1_000));
    assert_eq!(scene.due_in(), Some(1_100));
    scene.beats.linked(&scene.broker.clone(), scene.at(1_020));
    assert_eq!(scene.due_in(), Some(1_020));
}

#[test]
fn an_unreachable_broker_is_tried_again_with_growing_pauses_up_to_3_s() {
    let mut scene = Scene::new();
    let mut at = 0;
    for pause in [100, 200, 400, 800, 1_600, 3_000, 3_000] {
        scene.send(at);
        scene.answer(Beaten::Failed, at);
        at += pause;
        assert_eq!(scene.due_in(), Some(u128::from(at)));
    }
    scene.send(at);
    scene.answer(Beaten::Acknowledged, at);
    assert_eq!(scene.due_in(), Some(u128::from(at) + 30_000));
}

#[test]
fn a_refusal_is_not_repeated_in_haste() {
    let mut scene = Scene::new();
    scene.send(0);
    scene.beats.want(&scene.broker.clone(), scene.at(1));
    scene.answer(Beaten::Refused, 10);
    assert_eq!(scene.due_in(), Some(1_010));
    scene.send(1_010);
    scene.answer(Beaten::Refused, 1_010);
    assert_eq!(scene.due_in(), Some(3_010));
}

#[test]
fn everybody_can_be_told_at_once() {
    let mut scene = Scene::new();
    scene.beats.set_brokers(["a:1".into(), "b:1".into()], scene.at(0));
    for address in scene.beats.take_due(scene.at(0)) {
        scene.beats.answered(&address, Beaten::Acknowledged, scene.at(0));
    }
    scene.beats.want_all(scene.at(50));
    assert_eq!(scene.beats.take_due(scene.at(50)).len(), 2);
    assert_eq!(scene.beats.take_due(scene.at(50)).len(), 0);
}

#[test]
fn a_heartbeat_and_a_goodbye_never_overtake_each_other() {
    let mut scene = Scene::new();
    scene.send(0);
    assert!(!scene.beats.hold("a:1"), "a heartbeat is out");
    scene.answer(Beaten::Acknowledged, 10);
    assert!(scene.beats.hold("a:1") && scene.beats.hold("a:1"));
    scene.beats.want(&scene.broker.clone(), scene.at(20));
    assert_eq!(scene.beats.take_due(scene.at(40_000)).len(), 0, "two goodbyes are out");
    scene.beats.released(&scene.broker.clone(), scene.at(40_000));
    assert_eq!(scene.beats.take_due(scene.at(40_000)).len(), 0);
    scene.beats.released(&scene.broker.clone(), scene.at(40_010));
    scene.send(40_010);
}

#[test]
fn a_broker_forgets_the_group_that_leaves() {
    let told = Told::default();
    let (a, b): (Arc<str>, Arc<str>) = ("a:1".into(), "b:1".into());
    let content = content(5);
    for address in [&a, &b] {
        told.connection_began(address, 7);
        let connection = told.connection(address);
        assert_eq!(told.acknowledged(address, connection, &content), Some(true));
    }
    told.forget_group("a:1", MemberKind::Producer, "g");
    assert!(told.told_on("a:1", "g", "orders", 5).is_some());
    told.forget_group("a:1", MemberKind::Consumer, "g");
    assert!(
        told.told_on("a:1", "g", "orders", 5).is_none() && told.told_on("b:1", "g", "orders", 5).is_some()
    );
}

#[test]
fn a_broker_that_leaves_is_remembered_while_a_heartbeat_is_out() {
    let mut scene = Scene::new();
    scene.send(0);
    scene.beats.set_brokers([], scene.at(1));
    assert!(scene.beats.is_out("a:1") && !scene.beats.hold("a:1"), "the goodbye has to wait for it");
    scene.beats.want_all(scene.at(2));
    scene.answer(Beaten::Acknowledged, 10);
    assert!(scene.beats.hold("a:1"));
    assert_eq!(scene.due_in(), None);
    scene.beats.released(&scene.broker.clone(), scene.at(20));
    assert_eq!(scene.due_in(), None);
    scene.beats.set_brokers([scene.broker.clone()], scene.at(30));
    assert_eq!(scene.due_in(), Some(30), "it is back");
}

#[test]
fn a_broker_that_is_back_before_its_heartbeat_is_answered_gets_another() {
    let mut scene = Scene::new();
    scene.send(0);
    scene.beats.set_brokers([], scene.at(1));
    scene.beats.set_brokers([scene.broker.clone()], scene.at(2));
    scene.answer(Beaten::Acknowledged, 10);
    assert_eq!(scene.due_in(), Some(10));
}
