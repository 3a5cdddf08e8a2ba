//! The same with TLS, which the upper layers must not notice, and what it refuses.

use std::fs;
use std::net::Shutdown;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use super::*;
use crate::error::ErrorKind;
use crate::remoting::tls::Acceptor;

/// An authority, and what it has signed.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes NAME.pem and NAME.key.
    fn sign(&self, name: &str, host: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    fn acceptor(&self) -> Acceptor {
        Acceptor::read(&self.path("server.pem"), &self.path("server.key"), None).unwrap()
    }

    fn trusted(&self) -> Tls {
        Tls::ca_file(self.path("ca.pem"))
    }
}

/// An authority that has signed `server.pem` for 127.0.0.1.
fn authority() -> Authority {
    let authority = Authority::new();
    authority.sign("server", "127.0.0.1");
    authority
}

fn with_tls(tls: Tls) -> RemotingConfig {
    RemotingConfig { tls: Some(tls), ..RemotingConfig::default() }
}

fn started(config: RemotingConfig) -> Remoting {
    Remoting::start(config).unwrap()
}

fn secure(acceptor: Acceptor, on_command: impl FnMut(&Peer, RemotingCommand) + Send + 'static) -> Served {
    serve_with(ServerConfig { tls: Some(acceptor), ..ServerConfig::default() }, "127.0.0.1:0", on_command)
}

fn secure_echo(authority: &Authority) -> Served {
    secure(authority.acceptor(), |peer, command| {
        if !command.is_oneway() {
            peer.send(&answer_to(&command));
        }
    })
}

/// Passes everything on, `piece` bytes at a time.
fn trickle(to: String, piece: usize) -> String {
    rough(move |near| {
        let far = TcpStream::connect(&to).unwrap();
        far.set_nodelay(true).unwrap();
        let pass = move |mut from: TcpStream, mut to: TcpStream| {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = from.read(&mut bytes) {
                if bytes[..n].chunks(piece).any(|piece| to.write_all(piece).is_err()) {
                    break;
                }
            }
            _ = to.shutdown(Shutdown::Both);
        };
        let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        thread::spawn(move || pass(far_too, near_too));
        pass(near, far);
    })
}

fn kind(error: &CallError) -> (ErrorKind, String) {
    match error {
        CallError::Unreachable { cause }
        | CallError::BackingOff { cause }
        | CallError::Lost { cause, .. } => (cause.kind(), cause.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_queued_and_one_way_requests_and_large_bodies_go_both_ways() {
    let authority = authority();
    let served = secure_echo(&authority);
    let client = started(with_tls(authority.trusted()));
    assert_eq!(text(&client.call(&served.address, request("hello"), soon()).unwrap()), "hello");
    let body = "0123456789".repeat(500_000);
    assert_eq!(text(&client.call(&served.address, request(&body), soon()).unwrap()), body);
    let (sink, outcomes) = outcomes();
    for tag in 0..200 {
        client.queue(&served.address, request(&tag.to_string()), soon(), sink.reply(tag));
    }
    client.flush();
    client.oneway(&served.address, request("x")).unwrap();
    for tag in 0..200 {
        let (got, outcome) = outcomes.recv_timeout(SOON).unwrap();
        assert_eq!((got, text(&outcome.unwrap())), (tag, tag.to_string()));
    }
    assert_eq!((client.stats().connections, client.stats().pending), (1, 0));
}

#[test]
fn many_threads_share_one_encrypted_connection() {
    let authority = authority();
    let served = secure_echo(&authority);
    let client = started(with_tls(authority.trusted()));
    thread::scope(|scope| {
        for t in 0..8 {
            let (client, address) = (&client, &served.address);
            scope.spawn(move || {
                for i in 0..100 {
                    let body = format!("{t}-{i}-{}", "x".repeat(i * 577 % 40_000));
                    assert_eq!(text(&client.call(address, request(&body), soon()).unwrap()), body);
                }
            });
        }
    });
    assert_eq!(served.peers.try_iter().count(), 1);
}

#[test]
fn records_may_come_in_any_pieces() {
    let authority = authority();
    let served = secure_echo(&authority);
    for piece in [1, 3, 1000] {
        let address = trickle(served.address.clone(), piece);
        let client = started(with_tls(authority.trusted()));
        let body = "drop by drop".repeat(piece * 20);
        for _ in 0..3 {
            assert_eq!(text(&client.call(&address, request(&body), soon()).unwrap()), body);
        }
    }
}

#[test]
fn a_server_asks_and_other_threads_of_it_send() {
    let authority = authority();
    let served = secure(authority.acceptor(), |_, _| {});
    let (sender, asked) = unbounded();
    let on_request = Arc::new(move |incoming: Incoming| {
        incoming.respond(RemotingCommand::response(ResponseCode::SUCCESS, 0));
        sender.send(incoming.command().unwrap().body).unwrap();
    });
    let client = started(RemotingConfig { on_request, ..with_tls(authority.trusted()) });
    client.oneway_by(&served.address, request("here I am"), soon()).unwrap();
    let peer = served.peers.recv_timeout(SOON).unwrap();
    for n in 0..50 {
        peer.send(&request(&n.to_string()));
    }
    for n in 0..50 {
        assert_eq!(asked.recv_timeout(SOON).unwrap(), n.to_string().as_bytes());
    }
    peer.send(&request("the last"));
    peer.close_after_flush();
    assert_eq!(asked.recv_timeout(SOON).unwrap(), b"the last");
    wait_for("closed", || !client.is_connected(&served.address));
}

#[test]
fn a_peer_that_does_not_read_holds_senders_up_and_loses_nothing() {
    const LIMIT: usize = 64 * 1024;
    let authority = authority();
    let served = secure_echo(&authority);
    let client = started(RemotingConfig { outbox_limit: LIMIT, ..with_tls(authority.trusted()) });
    let (sink, outcomes) = outcomes();
    client.call(&served.address, request("open"), soon()).unwrap();
    let peer = served.peers.recv_timeout(SOON).unwrap();
    peer.pause_reading(true);
    let body = "x".repeat(100_000);
    let mut taken = 0;
    let refused = loop {
        client.invoke(&served.address, request(&body), soon(), sink.reply(taken));
        match outcomes.try_recv() {
            // The io thread is not done with the ones before.
            Ok(_) if !is_full_for_good(&client, &served.address) => {}
            Ok((_, outcome)) => break outcome,
            Err(_) => taken += 1,
        }
    };
    assert_eq!(refused, Err(CallError::Full));
    let late = client.call(&served.address, request("x"), Instant::now() + ms(30)).unwrap_err();
    assert_eq!(late, CallError::Timeout { written: false });
    let waiting = thread::spawn({
        let (client, address) = (client.clone(), served.address.clone());
        move || client.call(&address, request("waits for room"), soon())
    });
    peer.pause_reading(false);
    for _ in 0..taken {
        assert_eq!(text(&outcomes.recv_timeout(SOON).unwrap().1.unwrap()).len(), body.len());
    }
    waiting.join().unwrap().unwrap();
}

/// A user's call finds no room in a while.
fn is_full_for_good(client: &Remoting, address: &str) -> bool {
    client.call(address, request("is there room?"), Instant::now() + ms(50))
        == Err(CallError::Timeout { written: false })
}

#[test]
fn what_is_refused_says_what_to_do() {
    let authority = authority();
    let other = Authority::new();
    let served = secure_echo(&authority);
    let called = |tls: Tls, address: &str| {
        kind(&started(with_tls(tls)).call(address, request("a"), soon()).unwrap_err())
    };

    let (wrong_ca, text) = called(other.trusted(), &served.address);
    assert_eq!(wrong_ca, ErrorKind::Refused, "{text}");
    assert!(text.contains("ca.pem") && text.contains("signed by none"), "{text}");

    let (wrong_name, text) = called(authority.trusted().server_name("mq.example.com"), &served.address);
    assert_eq!(wrong_name, ErrorKind::Refused, "{text}");
    assert!(text.contains("mq.example.com") && text.contains("Tls::server_name"), "{text}");

    let plain = echo();
    let (plaintext, text) = called(authority.trusted(), &plain.address);
    assert_eq!(plaintext, ErrorKind::Unreachable, "{text}");
    assert!(text.contains("one without TLS does that"), "{text}");

    let chatty = rough(|mut stream| drop(stream.write_all(b"220 mail.example.com ESMTP\r\n")));
    let (no_tls, text) = called(authority.trusted(), &chatty);
    assert_eq!(no_tls, ErrorKind::Protocol, "{text}");
    assert!(text.contains("does not speak TLS"), "{text}");

    let (no_file, text) = called(Tls::ca_file("/nowhere/ca.pem"), &served.address);
    assert_eq!(no_file, ErrorKind::Io, "{text}");
    assert!(text.contains("/nowhere/ca.pem"), "{text}");

    let client = started(with_tls(authority.trusted()));
    client.call(&served.address, request("a"), soon()).unwrap();
}

#[test]
fn a_client_certificate_that_is_demanded_is_asked_for_in_the_error() {
    let authority = authority();
    authority.sign("me", "me");
    let (server, ca) = (authority.path("server.pem"), authority.path("ca.pem"));
    let acceptor = Acceptor::read(&server, &authority.path("server.key"), Some(&ca)).unwrap();
    let served = secure(acceptor, |peer, command| peer.send(&answer_to(&command)));
    let shown = authority.trusted().client_certificate(authority.path("me.pem"), authority.path("me.key"));
    started(with_tls(shown)).call(&served.address, request("a"), soon()).unwrap();

    let (none, text) = kind(
        &started(with_tls(authority.trusted())).call(&served.address, request("a"), soon()).unwrap_err(),
    );
    assert_eq!(none, ErrorKind::Refused, "{text}");
    assert!(text.contains("Tls::client_certificate"), "{text}");

    let stranger = Authority::new();
    stranger.sign("me", "me");
    let foreign = authority.trusted().client_certificate(stranger.path("me.pem"), stranger.path("me.key"));
    let (foreign, text) =
        kind(&started(with_tls(foreign)).call(&served.address, request("a"), soon()).unwrap_err());
    assert_eq!(foreign, ErrorKind::Refused, "{text}");
    assert!(text.contains("does not accept our client certificate"), "{text}");
}

#[test]
fn a_handshake_that_hangs_ends_at_the_connect_deadline() {
    let authority = authority();
    let address = rough(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let client = started(RemotingConfig { connect_timeout: ms(100), ..with_tls(authority.trusted()) });
    let begun = Instant::now();
    let (kind, text) = kind(&client.call(&address, request("a"), soon()).unwrap_err());
    assert!(kind == ErrorKind::Unreachable && text.contains("TLS handshake timed out"), "{text}");
    assert!(begun.elapsed() < SOON / 2);
}

#[test]
fn a_client_that_speaks_plainly_to_a_server_with_tls_is_cut_off() {
    let served = secure_echo(&authority());
    let error = client().call(&served.address, request("a"), soon()).unwrap_err();
    assert!(matches!(error, CallError::Decode(_)) && error.to_string().contains("want TLS?"), "{error:?}");
}

#[test]
fn a_certificate_that_is_given_as_it_is_is_believed_for_its_names_only() {
    let authority = Authority::new();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    // As `openssl req -x509` makes them.
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    fs::write(authority.path("server.pem"), &pem).unwrap();
    fs::write(authority.path("server.key"), key.serialize_pem()).unwrap();
    let served = secure_echo(&authority);
    let given = Tls::ca_pem(pem);
    started(with_tls(given.clone())).call(&served.address, request("a"), soon()).unwrap();
    let elsewhere =
        started(with_tls(given.server_name("elsewhere"))).call(&served.address, request("a"), soon());
    assert_eq!(kind(&elsewhere.unwrap_err()).0, ErrorKind::Refused);
    started(with_tls(Tls::insecure())).call(&served.address, request("a"), soon()).unwrap();
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = authority();
    authority.sign("other", "other");
    let path = |name: &str| authority.path(name);
    fs::write(
        path("locked.key"),
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    let show =
        |certificate: &str, key: &str| authority.trusted().client_certificate(path(certificate), path(key));
    for (tls, words) in [
        (Tls::ca_pem("no PEM at all"), &["Tls::ca_pem", "no certificate"][..]),
        (Tls::ca_file(path("server.key")), &["server.key", "no certificate"]),
        (show("other.pem", "server.key"), &["server.key", "other.pem", "not that of"]),
        (show("other.pem", "other.pem"), &["no private key in", "other.pem"]),
        (show("other.pem", "locked.key"), &["locked.key", "encrypted"]),
        (authority.trusted().server_name("a b"), &["`a b`", "Tls::server_name"]),
    ] {
        let cause = tls.plan("localhost").unwrap_err();
        assert!(
            cause.kind() == ErrorKind::Config && words.iter().all(|word| cause.contains(word)),
            "{cause}"
        );
    }
}

#[test]
fn nothing_of_a_key_is_printed() {
    let authority = authority();
    let secret = fs::read_to_string(authority.path("server.key")).unwrap();
    let tls = Tls::ca_pem(secret.clone()).client_certificate("me.pem", "me.key").server_name("mq");
    let text = format!("{tls:?} {:?} {:?}", with_tls(tls.clone()), authority.acceptor());
    assert!(text.contains("me.key") && text.contains("mq") && text.contains("Pem("), "{text}");
    assert!(secret.lines().all(|line| !text.contains(line)), "{text}");
}
