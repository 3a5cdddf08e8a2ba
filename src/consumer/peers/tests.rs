use super::*;
use crate::message::{Filter, Subscription};
use crate::protocol::body::Connection;

fn subscriptions(topics: &[(&str, &str)]) -> Subscriptions {
    let one = |(topic, filter): &(&str, &str)| {
        let subscription = Subscription::parse(*topic, &Filter::tags(*filter), 1).unwrap();
        (Arc::from(*topic), Arc::new(subscription))
    };
    topics.iter().map(one).chain([one(&("%RETRY%billing", "*"))]).collect()
}

fn data(topics: &[(&str, &str)]) -> Vec<SubscriptionData> {
    subscriptions(topics).values().map(|one| SubscriptionData::from(&**one)).collect()
}

fn held(members: &[&str], topics: &[(&str, &str)]) -> ConsumerConnection {
    let connection = |(n, id): (usize, &&str)| Connection {
        client_id: (*id).to_owned(),
        client_addr: format!("10.0.0.1:{}", 1000 + n),
        ..Connection::default()
    };
    ConsumerConnection {
        connection_set: members.iter().enumerate().map(connection).collect(),
        subscription_table: data(topics).into_iter().map(|one| (one.topic.clone(), one)).collect(),
        ..ConsumerConnection::default()
    }
}

fn info(topics: &[(&str, &str)], ours: bool) -> Result<ConsumerRunningInfo, String> {
    let property = ours.then(|| (SHARES_AMONG_SUBSCRIBERS.to_owned(), "true".to_owned()));
    Ok(ConsumerRunningInfo {
        subscription_set: data(topics),
        properties: property.into_iter().collect(),
        ..ConsumerRunningInfo::default()
    })
}

struct Case {
    peers: Peers,
    mine: Subscriptions,
    broker: Arc<str>,
    now: Instant,
}

impl Case {
    fn new(topics: &[(&str, &str)]) -> Self {
        let mine = subscriptions(topics);
        Self { peers: Peers::default(), mine, broker: "10.0.0.9:10911".into(), now: Instant::now() }
    }

    fn look(&mut self, held: &ConsumerConnection) -> Seen {
        let me = Me { id: "me", broker: &self.broker, subscriptions: &self.mine, now: self.now };
        self.peers.look(held, &me)
    }

    fn answered(&mut self, id: &str, info: Result<ConsumerRunningInfo, String>) -> (bool, Vec<Finding>) {
        let me = Me { id: "me", broker: &self.broker, subscriptions: &self.mine, now: self.now };
        self.peers.answered(id, info, &me)
    }

    fn ask_again(&mut self) -> Vec<String> {
        let me = Me { id: "me", broker: &self.broker, subscriptions: &self.mine, now: self.now };
        self.peers.ask_again(&me)
    }

    fn counted(&self, topic: &str, members: &[&str]) -> Vec<String> {
        let members = Members::new(members.iter().map(|id| (*id).to_owned()).collect());
        self.peers.subscribers(topic, "me", members).ids().to_vec()
    }
}

fn mismatch(topic: &str, ours: &str, theirs: &str) -> Finding {
    Finding::Mismatch { topic: topic.into(), ours: ours.into(), theirs: theirs.into() }
}

#[test]
fn what_differs_is_told_once_in_a_while() {
    let mut case = Case::new(&[("a", "x||y"), ("b", "*")]);
    let same = held(&["me"], &[("a", " y || x"), ("b", "")]);
    assert_eq!(case.look(&same).findings, [], "written in another way");
    let other = held(&["me"], &[("a", "x"), ("c", "*")]);
    let findings = [mismatch("a", "x || y", "x"), mismatch("b", "*", ""), mismatch("c", "", "*")];
    assert_eq!(case.look(&other).findings, findings);
    assert_eq!(case.look(&other).findings, []);
    case.now += TELL_AGAIN;
    assert_eq!(case.look(&other).findings, findings);
}

#[test]
fn who_is_new_is_asked_and_everybody_when_a_topic_is_missing() {
    let mut case = Case::new(&[("a", "*")]);
    assert_eq!(case.look(&held(&["me", "x"], &[("a", "*")])).ask, ["x"]);
    assert!(case.look(&held(&["me", "x"], &[("a", "*")])).ask.is_empty(), "its answer is still to come");
    case.answered("x", info(&[("a", "*")], true));
    assert_eq!(case.look(&held(&["me", "x", "y"], &[("a", "*")])).ask, ["y"]);
    case.answered("y", info(&[("a", "*")], true));
    assert_eq!(case.look(&held(&["me", "x", "y"], &[("b", "*")])).ask, ["x", "y"]);
}

#[test]
fn a_topic_that_was_dropped_is_told_and_everybody_asked_though_it_is_back_by_then() {
    let mut case = Case::new(&[("a", "*")]);
    case.answered("x", info(&[("a", "*")], true));
    let me = Me { id: "me", broker: &case.broker, subscriptions: &case.mine, now: case.now };
    assert_eq!(case.peers.topic_dropped("a", &me), [mismatch("a", "*", "")]);
    assert_eq!(case.peers.topic_dropped("b", &me), [], "not ours any more");
    assert_eq!(case.peers.deadline(), Some(case.now));
    assert_eq!(case.look(&held(&["me", "x"], &[("a", "*")])).ask, ["x"]);
    case.answered("x", info(&[], true));
    assert!(case.look(&held(&["me", "x"], &[("a", "*")])).ask.is_empty(), "once");
}

#[test]
fn a_large_group_is_left_in_peace() {
    let mut case = Case::new(&[("a", "*")]);
    let ids: Vec<String> = (0..17).map(|n| format!("x{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    assert!(case.look(&held(&ids, &[("a", "*")])).ask.is_empty());
}

#[test]
fn u1_who_does_not_subscribe_a_topic_is_not_counted_if_all_readers_agree() {
    let mut case = Case::new(&[("a", "*")]);
    assert_eq!(case.counted("a", &["me", "x"]), ["me", "x"], "nothing is known");
    assert!(case.answered("x", info(&[("b", "*")], true)).0);
    assert_eq!(case.counted("a", &["me", "x"]), ["me"]);
    assert_eq!(case.counted("a", &["me", "x", "new"]), ["me", "new", "x"], "one is not known");
    case.answered("java", info(&[("a", "*")], false));
    assert_eq!(case.counted("a", &["java", "me", "x"]), ["java", "me", "x"], "Java counts everybody");
    case.answered("java", info(&[("b", "*")], false));
    assert_eq!(case.counted("a", &["java", "me", "x"]), ["me"], "unless it does not read the topic");
}

#[test]
fn who_is_left_out_is_asked_again_until_it_subscribes() {
    let mut case = Case::new(&[("a", "*")]);
    case.answered("x", info(&[], true));
    case.answered("y", info(&[("a", "*")], true));
    assert!(case.ask_again().is_empty(), "not yet");
    case.now += ASK_AGAIN;
    assert_eq!(case.ask_again(), ["x"]);
    assert!(!case.answered("x", info(&[], true)).0, "nothing new");
    case.now += ASK_AGAIN;
    assert_eq!(case.ask_again(), ["x"]);
    assert!(case.answered("x", info(&[("a", "*")], true)).0);
    case.now += ASK_AGAIN;
    assert!(case.ask_again().is_empty());
    assert_eq!(case.counted("a", &["me", "x", "y"]), ["me", "x", "y"]);
}

#[test]
fn who_does_not_answer_twice_is_counted_again() {
    let mut case = Case::new(&[("a", "*")]);
    case.answered("x", info(&[], true));
    assert!(!case.answered("x", Err("timeout".into())).0);
    assert_eq!(case.counted("a", &["me", "x"]), ["me"]);
    assert!(case.answered("x", Err("timeout".into())).0);
    assert_eq!(case.counted("a", &["me", "x"]), ["me", "x"]);
}

#[test]
fn r1_another_client_of_the_same_id_is_a_twin_and_an_old_connection_of_ours_is_not() {
    let mut case = Case::new(&[("a", "*")]);
    let own = "10.0.0.1:1000".parse().ok();
    case.peers.heartbeaten(own, Duration::from_secs(30), case.now);
    assert_eq!(case.look(&held(&["me", "x"], &[("a", "*")])).findings, []);
    assert_eq!(case.look(&held(&["me", "me"], &[("a", "*")])).findings, [Finding::Twin]);
    let mut case = Case::new(&[("a", "*")]);
    for port in [1000, 1001] {
        let own = format!("10.0.0.1:{port}").parse().ok();
        case.peers.heartbeaten(own, Duration::from_secs(30), case.now);
    }
    assert_eq!(case.look(&held(&["me", "me"], &[("a", "*")])).findings, []);
}

#[test]
fn behind_a_translation_of_addresses_a_twin_is_one_that_stays() {
    let mut case = Case::new(&[("a", "*")]);
    case.peers.heartbeaten("192.168.0.1:77".parse().ok(), Duration::from_secs(30), case.now);
    let two = held(&["me", "me"], &[("a", "*")]);
    assert_eq!(case.look(&two).findings, []);
    case.now += STALE / 2;
    assert_eq!(case.look(&two).findings, []);
    case.now += STALE;
    assert_eq!(case.look(&two).findings, [Finding::Twin]);
}

#[test]
fn looks_come_soon_after_a_change_and_between_two_heartbeats() {
    let (mut peers, start) = (Peers::default(), Instant::now());
    let interval = Duration::from_secs(30);
    peers.heartbeaten(None, interval, start);
    assert_eq!(peers.deadline(), Some(start + SOON));
    assert!(!peers.is_due(start) && peers.is_due(start + SOON) && !peers.is_due(start + SOON));
    peers.heartbeaten(None, interval, start + interval);
    assert_eq!(peers.deadline(), Some(start + interval * 3 / 2));
    let change = start + Duration::from_millis(200);
    peers.changed(change);
    assert_eq!(peers.deadline(), Some(start + SOON + APART), "not at once after the last");
    peers.put_off(start + interval);
    assert_eq!(peers.deadline(), Some(start + interval + APART));
}
