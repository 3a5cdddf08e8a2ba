//! Servers that speak TLS only, and a broker that demands a certificate of its clients and signed requests.

use super::certificates::Authority;
use super::{SOON, Target, member, producer, tally::Tally};
use rocketmq_sync::{Client, ClientBuilder, Credentials, Error, ErrorKind, Message, Producer, Tls};
use std::fs;
use std::time::Duration;

pub const ADMIN: (&str, &str) = ("admin-key", "admin-secret");
/// May send and consume `guarded` as the group `guarded-group`, and nothing else.
pub const READER: (&str, &str) = ("reader-key", "reader-secret");

/// What the servers and we need: they are to take `server.pem` and `server.key`, and to believe clients whose
/// certificate is signed by `ca.pem`.
pub fn certificates() -> Authority {
    let authority = Authority::new("the authority");
    authority.sign("server", "127.0.0.1");
    authority.sign("me", "me");
    authority
}

pub fn only_who_proves_who_he_is_is_served(target: &dyn Target, authority: &Authority) {
    let credentials = |account: (&str, &str)| Credentials::new(account.0, account.1);
    let plain =
        || Client::builder().name_servers(target.name_server()).start_timeout(Duration::from_secs(30));
    let encrypted = || plain().tls(Tls::ca_file(authority.ca()));
    let known = || plain().tls(me(authority));

    let error = plain().start().expect_err("nobody is served without TLS");
    assert!(error.to_string().contains("TLS"), "{error}");
    let stranger = Authority::new("a stranger");
    assert_refused(plain().tls(Tls::ca_file(stranger.ca())), "signed by none of the authorities");
    let renamed = Tls::ca_file(authority.ca()).server_name("mq.example.com");
    assert_refused(plain().tls(renamed), "Tls::server_name");
    assert_refused(encrypted().credentials(credentials(ADMIN)), "Tls::client_certificate");
    assert_refused(known().credentials(Credentials::new(ADMIN.0, "wrong")), "");
    assert_refused(known().credentials(Credentials::new("nobody", "secret")), "");

    let client = known().credentials(credentials(ADMIN)).start().expect("all is as it should be");
    let producer = producer(&client);
    send(&producer, 0..100);
    let tally = Tally::new();
    let consumer = member(&client, "guarded-group", "guarded", &tally);
    tally.wait_for(100, SOON);

    let unsigned = known().start().expect("a name server asks for no signature");
    let error = one(&unsigned, "guarded").expect_err("nobody is served without a signature");
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    let reader = known().credentials(credentials(READER)).start().expect("the account is known");
    one(&reader, "guarded").expect("it has that right");
    let error = one(&reader, "forbidden").expect_err("the account has no right to it");
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    tally.wait_for(101, SOON);

    replace_certificates(target, authority);
    send(&producer, 101..200);
    tally.wait_for(200, SOON);
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");
    tally.assert_exactly(0..200);
}

fn me(authority: &Authority) -> Tls {
    Tls::ca_file(authority.ca()).client_certificate(authority.path("me.pem"), authority.path("me.key"))
}

fn assert_refused(builder: ClientBuilder, words: &str) {
    let error = builder.start().expect_err("it is to be refused");
    assert!(error.kind() == ErrorKind::Refused && error.to_string().contains(words), "{words}: {error}");
}

/// The number 100 is the only one that it sends.
fn one(client: &Client, topic: &str) -> Result<(), Error> {
    producer(client).with_timeout(Duration::from_secs(10)).send(&Message::new(topic, "100")).map(drop)
}

/// Topics come into being when something is sent to them; that, and a broker that comes back, may take a moment.
fn send(producer: &Producer, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let message = Message::new("guarded", number.to_string());
        super::until_acknowledged(|| producer.send(&message).map(drop));
    }
}

/// The broker comes back with a certificate of another authority, which the client learns of by its file alone.
fn replace_certificates(target: &dyn Target, ours: &Authority) {
    let other = Authority::new("another");
    other.sign("server", "127.0.0.1");
    target.kill_broker();
    for name in ["server.pem", "server.key"] {
        fs::copy(other.path(name), ours.path(name)).expect("the folder is ours");
    }
    let both = [fs::read(ours.ca()), fs::read(other.ca())].map(|pem| pem.expect("it is there")).concat();
    fs::write(ours.ca(), both).expect("the folder is ours");
    target.start_broker();
}
