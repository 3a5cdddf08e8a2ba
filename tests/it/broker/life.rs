//! A broker that is built, stopped, paused and started again.

use std::time::Duration;

use super::{broker, code, connect, queue, route};
use crate::wire::{SOON, Wire, message, messages, pull};
use rocketmq_sync::broker::{Broker, Cluster, Lose};
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::body::TopicRouteData;
use rocketmq_sync::testing::protocol::headers::UpdateConsumerOffset;
use rocketmq_sync::{ErrorKind, Message, RequestCode, ResponseCode};

#[test]
fn a_restart_keeps_what_a_disk_keeps() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["*"]);
    wire.publish(&message("t", 0), b"x");
    let commit = UpdateConsumerOffset {
        consumer_group: "g".into(),
        topic: "t".into(),
        queue_id: 0,
        commit_offset: 1,
        bname: None,
    };
    wire.ask(RequestCode::UPDATE_CONSUMER_OFFSET, &commit);
    broker.restart().unwrap();
    assert!(wire.is_closed());
    let state = broker.inspect();
    assert_eq!((state.depth("t"), state.committed("g", &queue(0)), state.connections()), (1, Some(1), 0));
    assert!(state.members("g").is_empty());
    let mut wire = connect(&broker);
    assert_eq!(wire.publish(&message("t", 0), b"y").queue_offset, 1);
    broker.restart_losing(Lose::Offsets).unwrap();
    assert_eq!(broker.inspect().committed("g", &queue(0)), None);
    broker.restart_losing(Lose::Everything).unwrap();
    assert_eq!((broker.inspect().depth("t"), broker.inspect().requests(RequestCode::SEND_MESSAGE)), (0, 2));
    assert!(broker.inspect().topics().any(|topic| topic == "t"), "built with it");
    broker.kill();
    broker.kill();
    assert!(std::net::TcpStream::connect(broker.name_server()).is_err());
    broker.start().unwrap();
    broker.start().unwrap();
    connect(&broker).publish(&message("t", 0), b"z");
}

#[test]
fn a_paused_broker_accepts_and_is_silent() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["*"]);
    let held = wire.send(RemotingCommand::with_header(RequestCode::PULL_MESSAGE, &pull("g", "t", 0, 0)));
    broker.wait(SOON, |state| state.waiting_pulls("g") == 1).unwrap();
    broker.pause();
    broker.put(&Message::new("t", "x").queue(&queue(0))).unwrap();
    let mut late = connect(&broker);
    late.send(RemotingCommand::with_header(RequestCode::GET_ROUTEINFO_BY_TOPIC, &route("t")));
    assert!(late.answer_within(Duration::from_millis(50)).is_none());
    assert!(wire.answer_within(Duration::from_millis(50)).is_none());
    broker.resume();
    assert_eq!(code(&late.answer_within(SOON).unwrap()), ResponseCode::SUCCESS);
    assert_eq!(messages(&wire.answer(held).body).len(), 1);
}

#[test]
fn connections_can_be_cut() {
    let broker = broker();
    let mut wire = connect(&broker);
    wire.heartbeat("c", "g", "t", &["*"]);
    broker.cut_connections();
    assert!(wire.is_closed());
    broker.wait(SOON, |state| state.connections() == 0 && state.members("g").is_empty()).unwrap();
    assert_eq!(connect(&broker).publish(&message("t", 0), b"x").queue_offset, 0);
}

#[test]
fn brokers_of_a_cluster_share_their_name_server() {
    let cluster =
        Cluster::builder().brokers(2).name_servers(2).each(|broker| broker.topic("t", 2)).start().unwrap();
    let names = cluster.name_server();
    let names: Vec<&str> = names.split(';').collect();
    assert_eq!(names.len(), 2);
    let brokers = |address: &str| {
        let answer = Wire::connect(address).ask(RequestCode::GET_ROUTEINFO_BY_TOPIC, &route("t"));
        let route = TopicRouteData::read(&answer.body).unwrap();
        route.broker_datas.into_iter().map(|data| data.broker_name).collect::<Vec<_>>()
    };
    assert_eq!(brokers(names[1]), ["broker-a", "broker-b"]);
    let b = cluster.broker("broker-b").unwrap();
    connect(b).publish(&message("t", 0), b"x");
    cluster.wait(SOON, |state| state.depth("t") == 1).unwrap();
    assert_eq!(cluster.broker("broker-a").unwrap().inspect().depth("t"), 0);
    b.kill();
    assert_eq!(brokers(names[0]), ["broker-a"]);
    b.start().unwrap();
    assert_eq!(brokers(names[0]), ["broker-a", "broker-b"]);
    let unknown = Wire::connect(names[0]).call(RemotingCommand::request(RequestCode::PULL_MESSAGE));
    assert_eq!(code(&unknown), ResponseCode::REQUEST_CODE_NOT_SUPPORTED);
}

#[test]
fn mistakes_are_told_all_at_once() {
    let error = Broker::builder().topic("a b", 1).topic("t", 0).delay_levels([]).start().unwrap_err();
    assert_eq!((error.kind(), error.mistakes().len()), (ErrorKind::Config, 3));
    let error = Broker::builder().name("room@two@names").start().unwrap_err();
    assert!(error.to_string().contains("broker name"), "{error}");
    assert_eq!(Broker::builder().name("room@name").start().unwrap().name(), "room@name");
    let taken = broker();
    let error = Broker::builder().listen(taken.name_server()).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(taken.fast_forward(SOON, |_| true).unwrap_err().kind(), ErrorKind::Config);
    let late = taken.wait(Duration::from_millis(1), |_| false).unwrap_err();
    assert!(late.kind() == ErrorKind::Timeout && late.to_string().contains("connections: 0"), "{late}");
    assert_eq!(Cluster::builder().brokers(0).start().unwrap_err().kind(), ErrorKind::Config);
}
