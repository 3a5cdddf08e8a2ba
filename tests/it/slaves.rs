//! Brokers with slaves: reading from the slave while the master is away, and back; offsets go to the master.

use std::time::Duration;

use rocketmq_sync::broker::{Broker, Cluster, Fault, Reaction};
use rocketmq_sync::consumer::PushConsumerBuilder;
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::body::{SubscriptionGroupConfig, TopicRouteData};
use rocketmq_sync::testing::protocol::headers::PullMessageAnswer;
use rocketmq_sync::{Client, Message, MessageQueue, Producer, RequestCode, ResponseCode};

use crate::support::{self, SOON, Seen, client_with_routes_every, consumed, noting_member_of, put, until};
use crate::wire::{Wire, message, messages, pull};

fn cluster(brokers: usize) -> Cluster {
    Cluster::builder().brokers(brokers).slaves(1).each(|broker| broker.topic("orders", 2)).start().unwrap()
}

fn pair(cluster: &Cluster) -> (&Broker, &Broker) {
    (cluster.broker("broker-a").unwrap(), cluster.slave("broker-a", 1).unwrap())
}

fn billing(cluster: &Cluster) -> PushConsumerBuilder {
    support::billing().name_servers(cluster.name_server())
}

fn pulls(broker: &Broker) -> u64 {
    broker.inspect().requests(RequestCode::PULL_MESSAGE)
}

/// From now on the master sends the readers of the group to its slave.
fn suggest_the_slave(master: &Broker) {
    let mut wire = Wire::connect(&master.name_server());
    let mut tell = |code, body: Vec<u8>| {
        let answer = wire.call(RemotingCommand::request(code).body(body));
        assert_eq!(answer.response_code(), ResponseCode::SUCCESS, "{answer:?}");
    };
    let group = SubscriptionGroupConfig { group_name: "billing".into(), broker_id: 1, ..Default::default() };
    tell(RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group.write());
    tell(RequestCode::UPDATE_BROKER_CONFIG, b"slaveReadEnable=true".to_vec());
}

#[test]
fn a_slave_has_what_its_master_has_and_is_written_to_by_nobody() {
    let cluster = cluster(1);
    let (master, slave) = pair(&cluster);
    put(master, 0..10);
    slave.wait(SOON, |state| state.depth("orders") == 10).unwrap();
    let bodies = |broker: &Broker| {
        let messages = broker.inspect().messages("orders");
        messages
            .iter()
            .map(|message| (message.offset_message_id(), message.body().to_vec()))
            .collect::<Vec<_>>()
    };
    assert_eq!(bodies(slave), bodies(master));
    let mut wire = Wire::connect(&slave.name_server());
    let refused = wire.ask(RequestCode::SEND_MESSAGE_V2, &message("orders", 0));
    assert_eq!(refused.response_code(), ResponseCode::SERVICE_NOT_AVAILABLE);
    let route =
        wire.call(RemotingCommand::request(RequestCode::GET_ROUTEINFO_BY_TOPIC).field("topic", "orders"));
    let route = TopicRouteData::read(&route.body).unwrap();
    assert_eq!(route.broker_datas[0].broker_addrs.keys().collect::<Vec<_>>(), [&0, &1]);
    assert_eq!(route.queue_datas.len(), 1);

    // What the slave has missed comes when it is back, cuts and deletions among it.
    slave.kill();
    put(master, 10..30);
    master.set_queues("later", 3);
    master.truncate(&MessageQueue::new("orders", "broker-a", 0), 3, 9);
    slave.start().unwrap();
    let queue = |id| MessageQueue::new("orders", "broker-a", id);
    slave
        .wait(SOON, |state| {
            state.range(&queue(0)) == Some((3, 9))
                && state.range(&queue(1)) == Some((0, 15))
                && state.topics().any(|topic| topic == "later")
        })
        .unwrap();
    assert_eq!(bodies(slave), bodies(master));
    put(master, 30..34);
    slave.wait(SOON, |state| state.depth("orders") == master.inspect().depth("orders")).unwrap();
    assert_eq!(bodies(slave), bodies(master));

    master.restart_losing(rocketmq_sync::broker::Lose::Everything).unwrap();
    put(master, 0..2);
    slave.wait(SOON, |state| state.depth("orders") == 2).unwrap();
    assert_eq!(bodies(slave), bodies(master));
}

#[test]
fn a_slave_that_is_behind_says_so_and_not_that_the_offset_is_wrong() {
    let cluster = cluster(1);
    let (master, slave) = pair(&cluster);
    put(master, 0..4);
    slave.wait(SOON, |state| state.depth("orders") == 4).unwrap();
    let mut wire = Wire::connect(&slave.name_server());
    wire.heartbeat("c", "g", "orders", &["*"]);
    let answer = wire.ask(RequestCode::PULL_MESSAGE, &pull("g", "orders", 0, 7));
    assert_eq!(answer.response_code(), ResponseCode::PULL_RETRY_IMMEDIATELY);
    assert_eq!(answer.header::<PullMessageAnswer>().unwrap().next_begin_offset, 7);
    let answer = wire.ask(RequestCode::PULL_MESSAGE, &pull("g", "orders", 0, 0));
    assert_eq!(messages(&answer.body).len(), 2);
}

#[test]
fn the_slave_is_read_while_the_master_is_away_and_the_master_again_afterwards() {
    let cluster = cluster(1);
    let (master, slave) = pair(&cluster);
    let seen = Seen::default();
    // No heartbeat during this test: the slave is told the offsets as soon as it stands in.
    let client = Client::builder()
        .name_servers(cluster.name_server())
        .heartbeat_interval(Duration::from_secs(100))
        .start()
        .unwrap();
    let consumer = noting_member_of(&client, &seen);
    put(master, 0..100);
    seen.wait(100);
    assert_eq!(pulls(slave), 0);
    consumer.suspend();
    // The pulls that the master holds are answered by these.
    put(master, 100..200);
    slave.wait(SOON, |state| state.depth("orders") == 200).unwrap();
    master.kill();
    consumer.resume();
    seen.wait(200);
    consumed(slave);
    assert!(pulls(slave) > 0);
    let before = pulls(master);

    // What was committed at the slave meanwhile is told the master, without anything new.
    master.start().unwrap();
    consumed(master);
    put(master, 200..300);
    seen.wait(300);
    consumed(master);
    until("the master is read again", || pulls(master) > before);
    assert!(consumer.shutdown(SOON).is_clean());
    seen.assert_once(0..300);
}

#[test]
fn a_group_begins_where_it_stood_with_only_the_slave_there() {
    let cluster = cluster(1);
    let (master, slave) = pair(&cluster);
    let first = Seen::default();
    let consumer = billing(&cluster).consume_concurrently(first.listener()).start().unwrap();
    put(master, 0..50);
    first.wait(50);
    assert!(consumer.shutdown(SOON).is_clean());
    put(master, 50..80);
    slave.wait(SOON, |state| state.depth("orders") == 80 && state.lag("billing", "orders") == 30).unwrap();
    master.kill();

    let second = Seen::default();
    // Nothing tells this client that there is a master again but the route, which it asks for every 30 s by itself.
    let client = client_with_routes_every(Duration::from_millis(200), cluster.name_server());
    let consumer = noting_member_of(&client, &second);
    second.wait(30);
    consumed(slave);
    master.start().unwrap();
    consumed(master);
    put(master, 80..90);
    second.wait(40);
    consumed(master);
    assert!(consumer.shutdown(SOON).is_clean());
    first.assert_once(0..50);
    second.assert_once(50..90);
}

#[test]
fn a_group_is_read_from_the_broker_that_its_broker_suggests_and_commits_to_the_master() {
    let cluster = cluster(1);
    let (master, slave) = pair(&cluster);
    suggest_the_slave(master);
    let seen = Seen::default();
    let consumer = billing(&cluster).consume_concurrently(seen.listener()).start().unwrap();
    put(master, 0..20);
    seen.wait(20);
    until("the slave is read", || pulls(slave) > 0);
    put(master, 20..40);
    seen.wait(40);
    consumed(master);
    assert_eq!(slave.inspect().requests(RequestCode::UPDATE_CONSUMER_OFFSET), 0);
    // The slave has no such setting: it sends its readers back to the master, and that one to the slave again.
    assert!(consumer.shutdown(SOON).is_clean());
    seen.assert_once(0..40);
}

#[test]
fn what_a_suggested_slave_refuses_is_read_from_the_master() {
    let cluster = cluster(1);
    let (master, slave) = pair(&cluster);
    suggest_the_slave(master);
    // So says one without `slaveReadEnable` always, and one of 5.x, with another code, for up to a minute after a topic
    // was made.
    let busy = Reaction::Reply(ResponseCode::SYSTEM_BUSY);
    let refusal = slave.fault(Fault::on(RequestCode::PULL_MESSAGE, busy).topic("orders").forever());
    let seen = Seen::default();
    put(master, 0..100);
    let consumer =
        billing(&cluster).pull_batch_size(1).consume_concurrently(seen.listener()).start().unwrap();
    seen.wait(100);
    consumed(master);
    refusal.wait_hits(1, SOON).unwrap();
    assert!(consumer.shutdown(SOON).is_clean());
    seen.assert_once(0..100);
}

#[test]
fn masters_and_slaves_killed_in_turn_lose_nothing() {
    let cluster = Cluster::builder()
        .brokers(2)
        .slaves(1)
        .name_servers(2)
        .each(|broker| broker.topic("orders", 2))
        .start()
        .unwrap();
    let seen = Seen::default();
    let consumer = billing(&cluster).consume_concurrently(seen.listener()).start().unwrap();
    let producer = Producer::builder("shop")
        .name_servers(cluster.name_server())
        .attempt_timeout(Duration::from_millis(500))
        .start()
        .unwrap();
    let mut sent = 0;
    let mut send = |n: u32| {
        for number in sent..sent + n {
            until("a broker takes it", || producer.send(&Message::new("orders", number.to_string())).is_ok());
        }
        sent += n;
        seen.wait_for_distinct(sent as usize);
    };
    send(40);
    for broker in cluster.brokers().iter().chain(cluster.slaves()) {
        broker.kill();
        send(40);
        broker.start().unwrap();
        send(40);
    }
    cluster.wait(SOON, |state| state.lag("billing", "orders") == 0).unwrap();
    for slave in cluster.slaves() {
        let master = cluster.broker(slave.name()).unwrap();
        slave.wait(SOON, |state| state.depth("orders") == master.inspect().depth("orders")).unwrap();
        consumed(slave);
    }
    assert!(consumer.shutdown(SOON).is_clean());
    let counts = seen.counts();
    assert_eq!(counts.len(), sent as usize);
}
