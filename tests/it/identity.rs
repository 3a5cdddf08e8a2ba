//! Where the servers are, and who a client says it is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{SOON, Seen, advance_until, client_of_list, noting_member_of, put};
use rocketmq_sync::broker::{Broker, Clock};
use rocketmq_sync::{Client, ErrorKind, Message, Producer};

#[test]
fn the_name_servers_are_looked_up_again_every_two_minutes() {
    let with = |topic: &str| Broker::builder().topic(topic, 1).auto_create_topics(false).start().unwrap();
    let (one, other) = (with("first"), with("second"));
    let list = Arc::new(Mutex::new(one.name_server()));
    let clock = Clock::manual();
    let client = client_of_list(&list, &clock);
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    producer.send(&Message::new("first", "x")).unwrap();
    *list.lock().unwrap() = other.name_server();
    let second = || producer.send(&Message::new("second", "x"));
    assert_eq!(second().unwrap_err().kind(), ErrorKind::TopicNotFound);
    advance_until(&clock, Duration::from_secs(10), "the other server", || second().is_ok());
    assert_eq!((one.inspect().depth("first"), other.inspect().depth("second")), (1, 1));
}

#[test]
fn in_the_background_a_look_up_that_fails_is_tried_again_soon() {
    let broker = crate::support::orders(1);
    let address = broker.name_server();
    let calls = Arc::new(AtomicUsize::new(0));
    let (clock, counted) = (Clock::manual(), calls.clone());
    let client = Client::builder()
        .name_servers_from(move || match counted.fetch_add(1, Ordering::SeqCst) {
            0 => Err("the registry is down"),
            1 => panic!("on purpose"),
            2 => Ok(String::new()),
            _ => Ok(address.clone()),
        })
        .connect_in_background()
        .clock(clock.clone())
        .start()
        .unwrap();
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    put(&broker, 0..1);
    advance_until(&clock, Duration::from_secs(1), "a message", || seen.len() > 0);
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    assert!(consumer.shutdown(SOON).is_clean());
}

#[test]
fn a_client_is_known_by_the_address_and_name_it_was_given() {
    let broker = crate::support::orders(1);
    let client = Client::builder()
        .name_servers(broker.name_server())
        .client_ip("10.1.2.3".parse().unwrap())
        .instance_name("billing-1")
        .start()
        .unwrap();
    assert_eq!(client.client_id(), "10.1.2.3@billing-1");
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    broker.wait(SOON, |state| state.members("billing") == ["10.1.2.3@billing-1"]).unwrap();
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    let receipt = producer.send(&Message::new("orders", "x")).unwrap();
    assert!(receipt.message_id().starts_with("0A010203"), "{}", receipt.message_id());
    seen.wait(1);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// The fields of a namespace are signed with all others.
#[cfg(feature = "acl")]
#[test]
fn a_namespace_in_the_header_goes_with_signed_requests() {
    use rocketmq_sync::Credentials;
    use rocketmq_sync::broker::{Permission, Rights};

    let rights = Rights::none()
        .topic("orders", Permission::ReadWrite)
        .group("billing", Permission::Read)
        .group("shop", Permission::Read);
    let account = Credentials::new("shop", "its secret");
    let broker = Broker::builder().topic("orders", 2).account(account.clone(), rights).start().unwrap();
    let client = Client::builder()
        .name_servers(broker.name_server())
        .credentials(account)
        .namespace_v2("tenant-1")
        .start()
        .unwrap();
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    for n in 0..10 {
        producer.send(&Message::new("orders", n.to_string())).unwrap();
    }
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    seen.wait(10);
    seen.assert_once(0..10);
    assert!(consumer.shutdown(SOON).is_clean());
    let forbidden = producer.send(&Message::new("stock", "x")).unwrap_err();
    assert_eq!(forbidden.kind(), rocketmq_sync::ErrorKind::Refused, "{forbidden}");
}
