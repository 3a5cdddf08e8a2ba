use super::*;
use crate::protocol::body::BrokerData;

fn queue(broker: &str, perm: i32, read: i32, write: i32) -> QueueData {
    QueueData {
        broker_name: broker.into(),
        perm,
        read_queue_nums: read,
        write_queue_nums: write,
        ..QueueData::default()
    }
}

fn broker(name: &str, addresses: &[(i64, &str)]) -> BrokerData {
    BrokerData {
        broker_name: name.into(),
        broker_addrs: addresses.iter().map(|(id, address)| (*id, (*address).into())).collect(),
        ..BrokerData::default()
    }
}

fn data(queues: Vec<QueueData>, brokers: Vec<BrokerData>) -> TopicRouteData {
    TopicRouteData { queue_datas: queues, broker_datas: brokers, ..TopicRouteData::default() }
}

fn names(queues: &[MessageQueue]) -> Vec<String> {
    queues.iter().map(|queue| format!("{}:{}", queue.broker_name(), queue.queue_id())).collect()
}

#[test]
fn queues_follow_permissions_counts_and_masters() {
    let route = Route::new(
        "orders".into(),
        data(
            vec![
                queue("b", 6, 1, 2),
                queue("a", 6, 2, 1),
                queue("slave-only", 6, 1, 1),
                queue("ro", 4, 1, 1),
                queue("wo", 2, 1, 1),
            ],
            vec![
                broker("a", &[(0, "10.0.0.1:10911")]),
                broker("b", &[(0, "10.0.0.2:10911"), (1, "10.0.0.3:10911")]),
                broker("slave-only", &[(1, "10.0.0.4:10911")]),
                broker("ro", &[(0, "10.0.0.5:10911")]),
                broker("wo", &[(0, "10.0.0.6:10911")]),
            ],
        ),
    );
    assert_eq!(names(route.publish()), ["a:0", "b:0", "b:1", "wo:0"]);
    assert_eq!(names(route.subscribe()), ["a:0", "a:1", "b:0", "ro:0", "slave-only:0"]);
    assert_eq!(route.publish()[0].topic(), "orders");
}

#[test]
fn an_order_configuration_decides_about_publishing() {
    let mut with_order = data(vec![queue("a", 6, 8, 8)], vec![broker("a", &[(0, "x:1")])]);
    with_order.order_topic_conf = Some("b:2; a:1;nonsense;c:x".into());
    assert_eq!(names(Route::new("t".into(), with_order).publish()), ["b:0", "b:1", "a:0"]);
}

#[test]
fn hostile_counts_are_not_believed() {
    let route = Route::new(
        "t".into(),
        data(
            vec![queue("a", 6, i32::MAX, -5), queue("b", 6, i32::MAX, 1)],
            vec![broker("b", &[(0, "x:1"), (-1, "y:1")])],
        ),
    );
    assert_eq!(route.subscribe().len(), MOST_QUEUES);
    assert_eq!(names(route.publish()), ["b:0"]);
    assert!(!route.has_address("y:1"));
}

fn table() -> RouteTable {
    let mut table = RouteTable::default();
    let change = table.apply(
        &"orders".into(),
        data(
            vec![queue("a", 6, 1, 1), queue("b", 6, 1, 1)],
            vec![broker("a", &[(0, "a0:1"), (1, "a1:1"), (2, "a2:1")]), broker("b", &[(1, "b1:1")])],
        ),
    );
    assert!(change.changed && !change.lost_broker);
    table
}

fn address(table: &RouteTable, name: &str, role: Role) -> Option<String> {
    table.broker_address(name, role).map(|(address, id)| format!("{address}/{id}"))
}

#[test]
fn addresses_by_role() {
    let table = table();
    let cases = [
        ("a", Role::Master, Some("a0:1/0")),
        ("a", Role::Any, Some("a0:1/0")),
        ("a", Role::Id(1), Some("a1:1/1")),
        ("a", Role::Id(7), Some("a0:1/0")),
        ("b", Role::Master, None),
        ("b", Role::Id(0), Some("b1:1/1")),
        ("b", Role::Any, Some("b1:1/1")),
        ("c", Role::Any, None),
    ];
    for (name, role, expected) in cases {
        assert_eq!(address(&table, name, role).as_deref(), expected, "{name} {role:?}");
    }
    let mut gap = RouteTable::default();
    gap.apply(&"t".into(), data(vec![], vec![broker("a", &[(0, "a0:1"), (2, "a2:1")])]));
    assert_eq!(address(&gap, "a", Role::Id(1)).as_deref(), Some("a2:1/2"), "the next id stands in");
}

#[test]
fn any_broker_of_a_topic_is_a_master_if_there_is_one() {
    let table = table();
    for start in 0..4 {
        assert_eq!(table.any_broker_of("orders", start).as_deref(), Some("a0:1"));
    }
    assert_eq!(table.any_broker_of("nothing", 0), None);
    let mut two = RouteTable::default();
    two.apply(&"t".into(), data(vec![], vec![broker("a", &[(0, "a0:1")]), broker("b", &[(0, "b0:1")])]));
    assert_eq!(two.any_broker_of("t", 0).as_deref(), Some("a0:1"));
    assert_eq!(two.any_broker_of("t", 1).as_deref(), Some("b0:1"));
}

#[test]
fn a_change_is_told_from_a_repetition_and_a_lost_broker_is_noticed() {
    let mut table = table();
    let topic: Arc<str> = "orders".into();
    let old = table.route("orders").unwrap().clone();
    // The same in another order is the same.
    let mut same = old.data().clone();
    same.queue_datas.reverse();
    same.broker_datas.reverse();
    assert_eq!(table.apply(&topic, same), Change { topic: topic.clone(), ..Change::default() });
    assert!(Arc::ptr_eq(table.route("orders").unwrap(), &old));

    let without_b = data(vec![queue("a", 6, 1, 1)], vec![broker("a", &[(0, "a0:1")])]);
    let change = table.apply(&topic, without_b);
    assert!(change.changed && change.lost_broker);
    assert_eq!(address(&table, "b", Role::Any), None, "a broker that no topic names is forgotten");
    assert_eq!(address(&table, "a", Role::Id(1)).as_deref(), Some("a0:1/0"));
}

#[test]
fn n1_who_has_moved_is_told_from_who_is_missing() {
    let (mut table, topic) = (table(), Arc::<str>::from("orders"));
    let mut now_at = |a: &[(i64, &str)], b: &[(i64, &str)]| {
        let brokers = vec![broker("a", a), broker("b", b)];
        let moved = table.apply(&topic, data(vec![queue("a", 6, 1, 1)], brokers)).moved;
        let told = |moved: Moved| {
            let role = if moved.keeper { "" } else { ", a slave" };
            format!("{} from {}{role}", moved.broker, moved.from)
        };
        moved.into_iter().map(told).collect::<Vec<_>>()
    };
    now_at(&[(0, "a0:1"), (1, "a1:1")], &[(0, "b0:1")]);
    assert_eq!(now_at(&[(0, "a0:2"), (1, "a1:1")], &[(0, "b0:1")]), ["a from a0:1"]);
    assert_eq!(now_at(&[(0, "a0:2"), (1, "a1:2")], &[(0, "b0:1")]), ["a from a1:1, a slave"]);
    now_at(&[(0, "a0:2"), (1, "a1:1")], &[(0, "b0:1")]);
    assert!(now_at(&[(1, "a1:1")], &[(0, "b0:1")]).is_empty(), "the master is away");
    assert_eq!(now_at(&[(1, "a1:3")], &[(0, "b0:1")]), ["a from a1:1"], "it stands in for the master");
    now_at(&[(1, "a1:1")], &[(0, "b0:1")]);
    assert!(now_at(&[(0, "a0:2"), (1, "a1:1")], &[(0, "b0:1")]).is_empty(), "and back");
    assert!(
        now_at(&[(0, "a1:1"), (1, "a0:2")], &[(0, "b0:1")]).is_empty(),
        "master and slave have changed places"
    );
    assert_eq!(now_at(&[(0, "a1:1"), (1, "a0:2")], &[(0, "b0:3")]), ["b from b0:1"]);
}

#[test]
fn a_broker_stays_while_any_topic_names_it() {
    let mut table = table();
    table.apply(&"other".into(), data(vec![], vec![broker("b", &[(0, "b9:1")])]));
    assert_eq!(address(&table, "b", Role::Master).as_deref(), Some("b9:1/0"), "the last word holds");
    table.forget("orders");
    assert_eq!(address(&table, "a", Role::Any), None);
    assert_eq!(address(&table, "b", Role::Any).as_deref(), Some("b9:1/0"));
    assert_eq!(table.topics_at("b9:1"), ["other".into()]);
    assert_eq!(table.broker_name("b9:1").map(|name| &**name), Some("b"));
}

#[test]
fn a_route_notices_that_it_is_used() {
    let route = Route::new("t".into(), TopicRouteData::default());
    assert!(route.take_used() && !route.take_used());
    route.touch();
    assert!(route.take_used());
}
