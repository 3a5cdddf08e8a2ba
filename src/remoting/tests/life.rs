//! Start, close, shutdown, and what is left afterwards.

use super::*;

#[test]
fn shutdown_fails_what_waits_and_refuses_what_comes() {
    let address = rough(|stream| swallow(&stream));
    let client = client();
    let (sink, outcomes) = outcomes();
    client.invoke(&address, request("a"), soon(), sink.reply(1));
    let waiting = thread::spawn({
        let (client, address) = (client.clone(), address.clone());
        move || client.call(&address, request("b"), soon())
    });
    wait_for("both wait", || client.stats().pending == 2);
    client.shutdown(ms(100));
    assert_eq!(outcomes.recv_timeout(SOON).unwrap(), (1, Err(CallError::Closed)));
    assert_eq!(waiting.join().unwrap(), Err(CallError::Closed));
    client.invoke(&address, request("c"), soon(), sink.reply(2));
    assert_eq!(outcomes.recv_timeout(SOON).unwrap(), (2, Err(CallError::Closed)));
    assert_eq!(client.oneway(&address, request("d")), Err(CallError::Closed));
    client.shutdown(ms(100));
}

#[test]
fn shutdown_writes_what_waits() {
    let (go, gate) = unbounded::<()>();
    let (seen, commands) = unbounded();
    let address = rough(move |stream| {
        _ = gate.recv();
        while let Some(command) = read_command(&stream) {
            _ = seen.send(command.body.len());
        }
    });
    let client =
        Remoting::start(RemotingConfig { outbox_limit: 32 << 20, ..RemotingConfig::default() }).unwrap();
    client.oneway_by(&address, request("open"), soon()).unwrap();
    client.oneway(&address, request(&"x".repeat(8 << 20))).unwrap();
    let (sink, _outcomes) = outcomes();
    client.queue(&address, request("queued"), soon(), sink.reply(1));
    let ending = thread::spawn(move || client.shutdown(SOON));
    go.send(()).unwrap();
    let lengths: Vec<_> = (0..3).map(|_| commands.recv_timeout(SOON).unwrap()).collect();
    assert_eq!(lengths, [4, 8 << 20, 6]);
    ending.join().unwrap();
}

#[test]
fn shutdown_does_not_wait_longer_than_told() {
    let (_go, gate) = unbounded::<()>();
    let address = rough(move |_stream| _ = gate.recv());
    let client = client();
    client.oneway_by(&address, request("open"), soon()).unwrap();
    client.oneway(&address, request(&"x".repeat(15 << 20))).unwrap();
    let started = Instant::now();
    client.shutdown(ms(50));
    assert!(started.elapsed() < SOON / 2);
}

#[test]
fn a_dropped_client_ends_its_thread() {
    let served = echo();
    let config = RemotingConfig { name: "io-dropped".to_owned(), ..RemotingConfig::default() };
    let client = Remoting::start(config).unwrap();
    client.call(&served.address, request("a"), soon()).unwrap();
    let peer = served.peers.recv_timeout(SOON).unwrap();
    drop(client);
    assert_eq!(threads_named("io-dropped"), 0);
    assert_eq!(served.closed.recv_timeout(SOON), Ok(peer.id()));
}

#[test]
fn a_closed_address_can_be_used_again() {
    let served = echo();
    let client = client();
    client.call(&served.address, request("a"), soon()).unwrap();
    client.close(&served.address);
    assert!(!client.is_connected(&served.address));
    client.call(&served.address, request("b"), soon()).unwrap();
    client.close("127.0.0.1:1");
    let first = served.peers.recv_timeout(SOON).unwrap();
    assert_eq!(served.closed.recv_timeout(SOON), Ok(first.id()));
}

#[test]
fn closing_fails_what_waits() {
    let address = rough(|stream| swallow(&stream));
    let client = client();
    let (sink, outcomes) = outcomes();
    client.invoke(&address, request("a"), soon(), sink.reply(1));
    wait_for("connected", || client.is_connected(&address));
    client.close(&address);
    let (_, outcome) = outcomes.recv_timeout(SOON).unwrap();
    let error = outcome.unwrap_err();
    assert!(
        matches!(&error, CallError::Lost { cause, .. } if cause.contains("closed by this client")),
        "{error:?}"
    );
}

#[test]
fn a_closure_that_panics_costs_nothing_else() {
    let served = serve(|peer, command| {
        peer.send(&request("a question"));
        peer.send(&answer_to(&command));
    });
    let config = RemotingConfig {
        on_link: Arc::new(|event| panic!("{event:?}, on purpose")),
        on_request: Arc::new(|incoming| panic!("{:?}, on purpose", incoming.code())),
        ..RemotingConfig::default()
    };
    let client = Remoting::start(config).unwrap();
    let bad = ReplySink::new(|tag, _| panic!("{tag}, on purpose"));
    client.invoke(&served.address, request("a"), soon(), bad.reply(1));
    client.call(&served.address, request("b"), soon()).unwrap();
    assert_eq!(served.peers.len(), 1, "the connection is still the first");
}

#[test]
fn credentials_and_namespace_go_with_every_request() {
    let (seen, commands) = unbounded();
    let served = serve(move |peer, command| {
        peer.send(&answer_to(&command));
        drop(seen.send(command));
    });
    let config = RemotingConfig {
        credentials: Some(Credentials::new("ak", "sk")),
        namespace_v2: Some("tenant".to_owned()),
        ..RemotingConfig::default()
    };
    if !cfg!(feature = "acl") {
        assert_eq!(Remoting::start(config).unwrap_err().kind(), std::io::ErrorKind::Unsupported);
        return;
    }
    let client = Remoting::start(config).unwrap();
    client.call(&served.address, request("a"), soon()).unwrap();
    let command = commands.recv_timeout(SOON).unwrap();
    assert_eq!((command.fields.get("nsd"), command.fields.get("ns")), (Some("true"), Some("tenant")));
    #[cfg(feature = "acl")]
    assert!(super::acl::is_signed_with(&command, "sk"), "the namespace is signed, too");
}

const ALONE: &str = "ROCKETMQ_SYNC_TEST_ALONE";

/// Needs a process without other tests, which open and close sockets of their own: runs itself in one.
#[test]
#[cfg(target_os = "linux")]
fn fifty_starts_and_shutdowns_leave_no_thread_and_no_descriptor() {
    if std::env::var_os(ALONE).is_some() {
        return start_and_shut_down();
    }
    let name = "remoting::tests::life::fifty_starts_and_shutdowns_leave_no_thread_and_no_descriptor";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[cfg(target_os = "linux")]
fn start_and_shut_down() {
    let round = || {
        let served = echo();
        let client = client();
        client.call(&served.address, request("a"), soon()).unwrap();
        let by_name = format!("localhost:{}", served.server.local_address().port());
        client.call(&by_name, request("a"), soon()).unwrap();
        let (sink, _) = outcomes();
        client.invoke(&served.address, request("unanswered"), soon(), sink.reply(1));
        client.shutdown(Duration::ZERO);
    };
    round();
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    wait_for("look-up threads end", || threads_named("rmq-aux") == 0);
    let before = (count("task"), count("fd"));
    (0..50).for_each(|_| round());
    wait_for("look-up threads end", || threads_named("rmq-aux") == 0);
    assert_eq!((threads_named("rmq-io"), threads_named("rmq-broker")), (0, 0));
    let after = (count("task"), count("fd"));
    assert_eq!(after, before, "threads and descriptors");
}

fn threads_named(name: &str) -> usize {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|found| found.trim() == name).count()
}
