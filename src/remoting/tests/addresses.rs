//! Names, several addresses, address maps, IPv6.

use super::*;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

fn socket(served: &Served) -> SocketAddr {
    served.server.local_address()
}

fn with_resolver(
    resolver: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
) -> Remoting {
    Remoting::start(RemotingConfig { resolver: Arc::new(resolver), ..RemotingConfig::default() }).unwrap()
}

fn unreachable_cause(outcome: Result<Frame, CallError>) -> Cause {
    match outcome {
        Err(CallError::Unreachable { cause }) => cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_system_knows_localhost() {
    let served = echo();
    let address = format!("localhost:{}", socket(&served).port());
    let client = client();
    assert_eq!(text(&client.call(&address, request("a"), soon()).unwrap()), "a");
    assert!(client.is_connected(&address));
}

#[test]
fn n5_a_name_is_looked_up_again_at_each_connect() {
    let (old, new) = (echo(), echo());
    let answers = [socket(&old), socket(&new)];
    let look_ups = Arc::new(AtomicUsize::new(0));
    let counted = look_ups.clone();
    let client = with_resolver(move |host, port| {
        assert_eq!((host, port), ("broker", 10911));
        Ok(vec![answers[counted.fetch_add(1, Ordering::SeqCst).min(1)]])
    });
    for _ in 0..3 {
        client.call("broker:10911", request("a"), soon()).unwrap();
    }
    assert_eq!(look_ups.load(Ordering::SeqCst), 1);
    client.close("broker:10911");
    wait_for("the second one answers", || client.call("broker:10911", request("a"), soon()).is_ok());
    assert_eq!(look_ups.load(Ordering::SeqCst), 2);
    assert_eq!((old.peers.len(), new.peers.len()), (1, 1));
}

#[test]
fn a_look_up_that_hangs_holds_nothing_up() {
    let served = echo();
    let good = socket(&served);
    let (_hang, release) = crossbeam_channel::bounded::<()>(0);
    let client = with_resolver(move |host, _| {
        if host == "stuck" {
            _ = release.recv();
        }
        Ok(vec![good])
    });
    let (sink, outcomes) = outcomes();
    client.invoke("stuck:1", request("a"), soon(), sink.reply(1));
    assert_eq!(text(&client.call(&served.address, request("numeric"), soon()).unwrap()), "numeric");
    assert_eq!(text(&client.call("fine:1", request("named"), soon()).unwrap()), "named");
    // It fails when the time to connect is over, although nobody can stop the look-up.
    let (_, outcome) = outcomes.recv_timeout(SOON).unwrap();
    assert!(unreachable_cause(outcome).contains("timed out"));
    let started = Instant::now();
    client.shutdown(Duration::ZERO);
    assert!(started.elapsed() < SOON / 2);
}

#[test]
fn a_failed_look_up_says_why() {
    let client = with_resolver(|host, _| match host {
        "empty" => Ok(vec![]),
        _ => Err(io::Error::other("no such host")),
    });
    let cause = unreachable_cause(client.call("nowhere:1", request("a"), soon()));
    assert!(cause.contains("nowhere") && cause.contains("no such host"), "{cause}");
    let cause = unreachable_cause(client.call("empty:1", request("a"), soon()));
    assert!(cause.contains("no address"), "{cause}");
    let cause = unreachable_cause(client.call("no port", request("a"), soon()));
    assert!(cause.contains("`no port` is no address"), "{cause}");
}

#[test]
fn the_next_address_is_tried_when_one_refuses() {
    let served = echo();
    let good = socket(&served);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = with_resolver(move |_, _| Ok(vec![closed, good]));
    assert_eq!(text(&client.call("broker:1", request("a"), soon()).unwrap()), "a");
}

#[test]
fn all_addresses_are_named_when_none_answers() {
    let closed = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (one, two) = (closed(), closed());
    let client = with_resolver(move |_, _| Ok(vec![one, two]));
    let cause = unreachable_cause(client.call("broker:1", request("a"), soon()));
    assert!(cause.contains(&one.to_string()) && cause.contains(&two.to_string()), "{cause}");
}

#[test]
fn an_address_that_swallows_everything_fails_in_time() {
    // Of a block that is reserved for documents: depending on the machine packets vanish or there is no route.
    let config = RemotingConfig { connect_timeout: ms(100), ..RemotingConfig::default() };
    let client = Remoting::start(config).unwrap();
    let started = Instant::now();
    let cause = unreachable_cause(client.call("192.0.2.1:10911", request("a"), soon()));
    assert!(started.elapsed() < SOON / 2, "{cause}");
}

#[test]
fn advertised_addresses_are_mapped() {
    let served = echo();
    let target = served.address.clone();
    let address_map = Arc::new(move |address: &str| {
        assert_ne!(address, "10.255.255.2:1", "on purpose");
        assert_eq!(thread::current().name(), Some("rmq-aux"));
        if address.starts_with("10.") { target.clone() } else { address.to_owned() }
    });
    let config = RemotingConfig { address_map: Some(address_map), ..RemotingConfig::default() };
    let client = Remoting::start(config).unwrap();
    assert_eq!(text(&client.call("10.255.255.1:10911", request("a"), soon()).unwrap()), "a");
    assert!(client.is_connected("10.255.255.1:10911"), "it keeps the name under which it is known");
    assert_eq!(text(&client.call(&served.address, request("b"), soon()).unwrap()), "b");
    let cause = unreachable_cause(client.call("10.255.255.2:1", request("a"), soon()));
    assert!(cause.contains("panicked"), "{cause}");
}

#[test]
fn n11_ipv6_in_both_spellings() {
    let served = serve_at("[::1]:0", |peer, command| peer.send(&answer_to(&command)));
    let client = client();
    let port = socket(&served).port();
    for address in [format!("[::1]:{port}"), format!("::1:{port}"), format!("0:0:0:0:0:0:0:1:{port}")] {
        assert_eq!(text(&client.call(&address, request("a"), soon()).unwrap()), "a", "{address}");
        assert!(client.local_address(&address).unwrap().is_ipv6());
    }
}
