//! Encrypted connections, against the embedded broker.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::scenarios::certificates::Authority;
use crate::support::{SOON, Seen, alone, consumed, library_threads, noting_member_of, put, until};
use rocketmq_sync::broker::{Broker, BrokerBuilder, Cluster};
use rocketmq_sync::{Client, Error, ErrorKind, Message, Producer, Tls};

/// An authority that has signed `server.pem` for 127.0.0.1.
fn authority() -> Authority {
    let authority = Authority::new("the authority");
    authority.sign("server", "127.0.0.1");
    authority
}

fn secure(authority: &Authority) -> BrokerBuilder {
    let (certificate, key) = (authority.path("server.pem"), authority.path("server.key"));
    Broker::builder().topic("orders", 4).tls_files(certificate, key)
}

fn trusting(authority: &Authority) -> Tls {
    Tls::ca_file(authority.ca())
}

fn client(broker: &Broker, tls: Tls) -> rocketmq_sync::Result<Client> {
    Client::builder().name_servers(broker.name_server()).start_timeout(SOON).tls(tls).start()
}

fn refused(broker: &Broker, tls: Tls) -> Error {
    client(broker, tls).unwrap_err()
}

#[test]
fn a1_everything_works_encrypted_and_plain_works_as_ever() {
    let authority = authority();
    for broker in [secure(&authority), Broker::builder().topic("orders", 4)] {
        let encrypted = format!("{broker:?}").contains("server.pem");
        let broker = broker.start().unwrap();
        let builder = Client::builder().name_servers(broker.name_server());
        let builder = if encrypted { builder.tls(trusting(&authority)) } else { builder };
        let client = builder.start().unwrap();
        let producer = Producer::builder("shop").client(&client).start().unwrap();
        for n in 0..20 {
            producer.send(&Message::new("orders", n.to_string())).unwrap();
        }
        let seen = Seen::default();
        let consumer = noting_member_of(&client, &seen);
        seen.wait(20);
        put(&broker, 20..40);
        seen.wait(40);
        consumed(&broker);
        seen.assert_once(0..40);
        assert!(consumer.shutdown(SOON).is_clean());
    }
}

#[test]
fn a_cluster_is_encrypted_as_a_whole() {
    let authority = authority();
    let files = (authority.path("server.pem"), authority.path("server.key"));
    let cluster = Cluster::builder()
        .brokers(2)
        .name_servers(2)
        .each(|broker| broker.topic("orders", 1).tls_files(files.0, files.1))
        .start()
        .unwrap();
    let client =
        Client::builder().name_servers(cluster.name_server()).tls(trusting(&authority)).start().unwrap();
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    let brokers: Vec<_> = (0..4)
        .map(|_| producer.send(&Message::new("orders", "x")).unwrap().queue().broker_name().to_owned())
        .collect();
    assert!(brokers.contains(&"broker-a".to_owned()) && brokers.contains(&"broker-b".to_owned()));
}

#[test]
fn both_sides_show_a_certificate() {
    let authority = authority();
    authority.sign("me", "me");
    let broker = secure(&authority).tls_client_ca(authority.ca()).start().unwrap();
    let me = trusting(&authority).client_certificate(authority.path("me.pem"), authority.path("me.key"));
    let producer = client(&broker, me).unwrap();
    let producer = Producer::builder("shop").client(&producer).start().unwrap();
    producer.send(&Message::new("orders", "x")).unwrap();

    let error = refused(&broker, trusting(&authority));
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("set Tls::client_certificate"), "{error}");
    assert!(!error.is_retryable());

    let stranger = Authority::new("a stranger");
    stranger.sign("me", "me");
    let foreign = trusting(&authority).client_certificate(stranger.path("me.pem"), stranger.path("me.key"));
    let error = refused(&broker, foreign);
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("does not accept our client certificate"), "{error}");
}

#[test]
fn an_authority_may_be_given_as_bytes_and_a_name_be_set() {
    let authority = Authority::new("the authority");
    authority.sign("server", "mq.example.com");
    let broker = secure(&authority).start().unwrap();
    let pem = fs::read(authority.ca()).unwrap();
    drop(client(&broker, Tls::ca_pem(pem).server_name("mq.example.com")).unwrap());
    drop(client(&broker, Tls::insecure()).unwrap());

    let error = refused(&broker, trusting(&authority));
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    let text = error.to_string();
    assert!(text.contains("mq.example.com") && text.contains("Tls::server_name"), "{text}");
    assert_eq!(error.attempts().len(), 1);
}

/// The certificate has to be for the host that is dialled, not for the address that was advertised.
#[test]
fn a_translated_address_is_the_one_whose_certificate_counts() {
    let authority = Authority::new("the authority");
    authority.sign("server", "localhost");
    let broker = secure(&authority).advertise("10.255.255.1:10911").start().unwrap();
    let real = broker.name_server().replace("127.0.0.1", "localhost");
    let map = {
        let real = real.clone();
        move |address: &str| address.replace("10.255.255.1:10911", &real)
    };
    let client =
        Client::builder().name_servers(real).address_map(map).tls(trusting(&authority)).start().unwrap();
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    producer.send(&Message::new("orders", "x")).unwrap();
    assert_eq!(broker.inspect().depth("orders"), 1);
}

#[test]
fn a1_a_wrong_authority_is_named() {
    let broker = secure(&authority()).start().unwrap();
    let other = Authority::new("another");
    let error = refused(&broker, trusting(&other));
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("ca.pem") && !error.is_retryable(), "{error}");
}

#[test]
fn plain_and_encrypted_do_not_understand_each_other_and_say_so() {
    let authority = authority();
    let plain = Broker::builder().start().unwrap();
    let error = refused(&plain, trusting(&authority));
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("one without TLS does that, too"), "{error}");

    let broker = secure(&authority).start().unwrap();
    let error = Client::builder().name_servers(broker.name_server()).start().unwrap_err();
    assert!(error.to_string().contains("want TLS?"), "{error}");
}

#[test]
fn files_that_are_missing_or_useless_are_said_at_the_start() {
    let authority = authority();
    let broker = secure(&authority).start().unwrap();
    let error = refused(&broker, Tls::ca_file(authority.path("none.pem")));
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().contains("none.pem"), "{error}");

    let useless = trusting(&authority).client_certificate(authority.ca(), authority.path("server.key"));
    let error = refused(&broker, useless);
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert_eq!(error.mistakes()[0].setting, "tls");
    assert!(error.to_string().contains("server.key"), "{error}");

    let error =
        Broker::builder().tls_files(authority.ca(), authority.path("server.key")).start().unwrap_err();
    assert_eq!((error.kind(), error.mistakes()[0].setting), (ErrorKind::Config, "tls_files"));
    let error = Broker::builder().tls_client_ca(authority.ca()).start().unwrap_err();
    assert_eq!(error.mistakes()[0].setting, "tls_client_ca");
}

/// The certificates of both sides are replaced by those of another authority while the client runs.
#[test]
fn certificates_are_read_again_for_each_new_connection() {
    let (old, new) = (Authority::new("the old"), Authority::new("the new"));
    for authority in [&old, &new] {
        authority.sign("server", "127.0.0.1");
        authority.sign("me", "me");
    }
    let broker = secure(&old).tls_client_ca(old.ca()).start().unwrap();
    let tls = trusting(&old).client_certificate(old.path("me.pem"), old.path("me.key"));
    let client = client(&broker, tls).unwrap();
    let producer = Producer::builder("shop").client(&client).send_timeout(SOON).start().unwrap();
    producer.send(&Message::new("orders", "before")).unwrap();

    broker.kill();
    fs::copy(new.path("server.pem"), old.path("server.pem")).unwrap();
    fs::copy(new.path("server.key"), old.path("server.key")).unwrap();
    let theirs = old.path("theirs.pem");
    fs::rename(old.ca(), &theirs).unwrap();
    fs::copy(new.ca(), old.ca()).unwrap();
    broker.start().unwrap();
    // The client's own certificate is still the old one.
    until("the server refuses it", || {
        let error = producer.send(&Message::new("orders", "refused")).map(drop).unwrap_err();
        error.attempts().iter().any(|attempt| attempt.kind == ErrorKind::Refused)
    });
    fs::copy(new.path("me.pem"), old.path("me.pem")).unwrap();
    fs::copy(new.path("me.key"), old.path("me.key")).unwrap();
    until("the new one is shown", || producer.send(&Message::new("orders", "after")).is_ok());
    let messages = broker.inspect().messages("orders");
    assert_eq!((messages.len(), messages[1].body()), (2, &b"after"[..]));
}

/// The broker stands still while more is sent than socket and outbox hold; then everything arrives.
#[test]
fn big_messages_pass_a_reader_that_is_slow() {
    let authority = authority();
    let broker = secure(&authority).start().unwrap();
    let client = client(&broker, trusting(&authority)).unwrap();
    let producer = Producer::builder("shop").client(&client).send_timeout(SOON).attempt_timeout(SOON);
    let producer = producer.compress_over(usize::MAX).start().unwrap();
    let body: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    producer.send(&Message::new("orders", "first")).unwrap();
    broker.pause();
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| producer.send(&Message::new("orders", body.as_slice())).map(drop)))
            .collect();
        let before = client.stats().bytes_sent;
        until("the senders send", || client.stats().bytes_sent > before + 8 * 3_000_000 - 1);
        assert_eq!(broker.inspect().depth("orders"), 1, "nothing arrives");
        broker.resume();
        senders.into_iter().for_each(|sender| sender.join().unwrap().unwrap());
    });
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    seen.wait(9);
    assert_eq!(seen.messages().iter().filter(|message| message.body() == body).count(), 8);
    assert!(consumer.shutdown(SOON).is_clean());
}

/// A proxy lets through a byte at a time for a while, so that no record comes in one piece.
#[test]
fn a_trickling_network_only_takes_longer() {
    let authority = authority();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = proxy.local_addr().unwrap().to_string();
    let broker = secure(&authority).advertise(&address).start().unwrap();
    let target = broker.name_server();
    std::thread::spawn(move || {
        for near in proxy.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(&target) else { return };
            let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || drip(near, far));
            std::thread::spawn(move || drip(far_too, near_too));
        }
    });
    let client = Client::builder().name_servers(address).tls(trusting(&authority)).start().unwrap();
    let producer = Producer::builder("shop").client(&client).start().unwrap();
    for n in 0..10 {
        producer.send(&Message::new("orders", n.to_string())).unwrap();
    }
    let seen = Seen::default();
    let consumer = noting_member_of(&client, &seen);
    seen.wait(10);
    consumed(&broker);
    assert!(consumer.shutdown(SOON).is_clean());
}

fn drip(mut from: TcpStream, mut to: TcpStream) {
    to.set_nodelay(true).unwrap();
    let mut bytes = [0; 512];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        if bytes[..n].iter().any(|byte| to.write_all(&[*byte]).is_err()) {
            break;
        }
    }
    drop(to.shutdown(std::net::Shutdown::Both));
}

#[test]
fn twenty_starts_and_stops_leave_no_thread_behind() {
    alone("tls::twenty_starts_and_stops_leave_no_thread_behind", || {
        let authority = authority();
        let broker = secure(&authority).start().unwrap();
        for round in 0..20 {
            let client = client(&broker, trusting(&authority)).unwrap();
            let seen = Seen::default();
            let consumer = noting_member_of(&client, &seen);
            put(&broker, round..round + 1);
            seen.wait(1);
            let began = Instant::now();
            assert!(consumer.shutdown(SOON).is_clean());
            assert!(client.shutdown(SOON).is_clean());
            assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        }
        broker.wait(SOON, |state| state.connections() == 0).unwrap();
        until("threads end", || library_threads() == ["rmq-broker"]);
    });
}
