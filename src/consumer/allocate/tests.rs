use super::*;

type Strategy<'a> = &'a dyn Fn(&str, &[String], &[MessageQueue]) -> Vec<MessageQueue>;

fn ids(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn numbered(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("c{n}")).collect()
}

fn queues(broker: &str, n: usize) -> Vec<MessageQueue> {
    (0..n).map(|id| MessageQueue::new("t", broker, i32::try_from(id).unwrap())).collect()
}

/// What each member gets: queue ids.
fn shares(strategy: Strategy<'_>, members: &[String], queues: &[MessageQueue]) -> Vec<Vec<i32>> {
    let share = |id: &String| strategy(id, members, queues).iter().map(MessageQueue::queue_id).collect();
    members.iter().map(share).collect()
}

/// The queue ids of each member.
type Shares = &'static [&'static [i32]];

/// The table of the Java client: queues, members, averagely, by circle.
const TABLE: [(usize, usize, Shares, Shares); 9] = [
    (8, 3, &[&[0, 1, 2], &[3, 4, 5], &[6, 7]], &[&[0, 3, 6], &[1, 4, 7], &[2, 5]]),
    (8, 2, &[&[0, 1, 2, 3], &[4, 5, 6, 7]], &[&[0, 2, 4, 6], &[1, 3, 5, 7]]),
    (8, 4, &[&[0, 1], &[2, 3], &[4, 5], &[6, 7]], &[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]),
    (7, 3, &[&[0, 1, 2], &[3, 4], &[5, 6]], &[&[0, 3, 6], &[1, 4], &[2, 5]]),
    (10, 4, &[&[0, 1, 2], &[3, 4, 5], &[6, 7], &[8, 9]], &[&[0, 4, 8], &[1, 5, 9], &[2, 6], &[3, 7]]),
    (
        16,
        5,
        &[&[0, 1, 2, 3], &[4, 5, 6], &[7, 8, 9], &[10, 11, 12], &[13, 14, 15]],
        &[&[0, 5, 10, 15], &[1, 6, 11], &[2, 7, 12], &[3, 8, 13], &[4, 9, 14]],
    ),
    (4, 4, &[&[0], &[1], &[2], &[3]], &[&[0], &[1], &[2], &[3]]),
    (3, 5, &[&[0], &[1], &[2], &[], &[]], &[&[0], &[1], &[2], &[], &[]]),
    (1, 2, &[&[0], &[]], &[&[0], &[]]),
];

#[test]
fn shares_are_those_of_the_java_client() {
    for (n, m, averages, circles) in TABLE {
        let (queues, members) = (queues("broker-a", n), numbered(m));
        assert_eq!(shares(&averagely, &members, &queues), averages, "{n} queues, {m} members, averagely");
        assert_eq!(
            shares(&averagely_by_circle, &members, &queues),
            circles,
            "{n} queues, {m} members, by circle"
        );
    }
}

#[test]
fn every_strategy_gives_each_queue_to_one_member_and_nothing_to_strangers() {
    let strategies: [(&str, Strategy<'_>); 4] = [
        ("averagely", &averagely),
        ("by circle", &averagely_by_circle),
        ("consistent hash", &consistent_hash(10)),
        ("nearby", &machine_room_nearby(averagely, |_| "a".to_owned(), |_| "a".to_owned())),
    ];
    for (name, strategy) in strategies {
        for n in 0..20 {
            for m in 1..7 {
                let queues = queues("broker-a", n);
                let mut all: Vec<i32> = shares(strategy, &numbered(m), &queues).concat();
                all.sort_unstable();
                let each: Vec<i32> = queues.iter().map(MessageQueue::queue_id).collect();
                assert_eq!(all, each, "{name}: {n} queues, {m} members");
                assert!(strategy("stranger", &numbered(m), &queues).is_empty(), "{name}");
            }
        }
    }
}

#[test]
fn a_configured_list_holds_for_its_topic_and_retries_are_shared() {
    let configured = [MessageQueue::new("t", "broker-a", 1), MessageQueue::new("other", "broker-a", 0)];
    let strategy = by_config(configured.clone());
    assert_eq!(strategy("c1", &numbered(2), &queues("broker-a", 4)), configured);
    let retry = [MessageQueue::new("%RETRY%g", "broker-a", 0)];
    assert_eq!(strategy("c0", &numbered(2), &retry), retry);
}

#[test]
fn machine_rooms_share_their_queues_as_the_java_client_does() {
    let table: [(usize, usize, &[&[i32]]); 4] = [
        (8, 3, &[&[0, 1, 6], &[2, 3, 7], &[4, 5]]),
        (4, 3, &[&[0, 3], &[1], &[2]]),
        (2, 3, &[&[0], &[1], &[]]),
        (0, 3, &[&[], &[], &[]]),
    ];
    let strategy = by_machine_room(["room1"]);
    for (n, m, expected) in table {
        let mut all = queues("room1@broker-a", n);
        all.extend(queues("room2@broker-b", 3));
        all.extend(queues("broker-c", 3));
        all.extend(queues("room1@a@b", 1));
        assert_eq!(shares(&strategy, &numbered(m), &all), expected, "{n} queues, {m} members");
    }
}

#[test]
fn queues_go_to_members_nearby_and_those_of_an_empty_room_to_all() {
    let room = |text: &str| text[..1].to_lowercase();
    let strategy = machine_room_nearby(averagely, move |queue| room(queue.broker_name()), move |id| room(id));
    let members = ids(&["A1", "A2", "B1"]);
    let named = |id: &str, queues: &[MessageQueue]| -> Vec<String> {
        let name = |queue: &MessageQueue| format!("{}{}", queue.broker_name(), queue.queue_id());
        strategy(id, &members, queues).iter().map(name).collect()
    };
    let mut all = queues("a", 4);
    all.extend(queues("b", 4));
    assert_eq!(named("A1", &all), ["a0", "a1"]);
    assert_eq!(named("A2", &all), ["a2", "a3"]);
    assert_eq!(named("B1", &all), ["b0", "b1", "b2", "b3"]);
    all.extend(queues("c", 4));
    assert_eq!(named("A1", &all), ["a0", "a1", "c0", "c1"]);
    assert_eq!(named("A2", &all), ["a2", "a3", "c2"]);
    assert_eq!(named("B1", &all), ["b0", "b1", "b2", "b3", "c3"]);
}

#[test]
fn the_ring_is_that_of_the_java_client() {
    let strategy = consistent_hash(10);
    let queues_of = |topic: &str, broker: &str, n: i32| -> Vec<MessageQueue> {
        (0..n).map(|id| MessageQueue::new(topic, broker, id)).collect()
    };
    let members = ids(&["10.0.0.1@1", "10.0.0.2@1", "10.0.0.3@1"]);
    let expected: [&[i32]; 3] = [&[1, 4, 5], &[0, 6, 7], &[2, 3]];
    assert_eq!(shares(&strategy, &members, &queues_of("TopicTest", "broker-a", 8)), expected);

    let members = ids(&["CID_PREFIX0", "CID_PREFIX1"]);
    let expected: [&[i32]; 2] = [&[0, 1, 4, 5], &[2, 3]];
    assert_eq!(shares(&strategy, &members, &queues_of("topic_test", "brokerName", 6)), expected);

    let members = ids(&["CID-1", "CID-2", "CID-3"]);
    let mut all = queues_of("TopicTest", "broker-a", 4);
    all.extend(queues_of("TopicTest", "broker-b", 4));
    let expected: [&[i32]; 3] = [&[3], &[1, 0], &[0, 2, 3, 1, 2]];
    assert_eq!(shares(&strategy, &members, &all), expected);
    assert!(consistent_hash(0)("CID-1", &members, &all).is_empty());
}
