//! A peer that does not read: the socket is full, then the outbox.

use super::*;

const LIMIT: usize = 64 * 1024;

fn small_client() -> Remoting {
    Remoting::start(RemotingConfig { outbox_limit: LIMIT, ..RemotingConfig::default() }).unwrap()
}

/// Reads nothing before it is told to, then answers everything.
fn stuck() -> (String, Sender<()>) {
    let (go, gate) = unbounded::<()>();
    let address = rough(move |stream| {
        _ = gate.recv();
        while let Some(command) = read_command(&stream) {
            if !command.is_oneway()
                && !write_command(&stream, &answer_to(&RemotingCommand { body: vec![], ..command }))
            {
                return;
            }
        }
    });
    (address, go)
}

/// Fills socket and outbox. How many requests were taken.
fn fill(client: &Remoting, address: &str, sink: &ReplySink, outcomes: &Receiver<Outcome>) -> u64 {
    let body = "x".repeat(100_000);
    client.invoke(address, request("open"), soon(), sink.reply(0));
    wait_for("connected", || client.is_connected(address));
    for tag in 1.. {
        client.invoke(address, request(&body), soon(), sink.reply(tag));
        if let Ok((refused, outcome)) = outcomes.try_recv() {
            assert_eq!((refused, outcome), (tag, Err(CallError::Full)));
            return tag;
        }
    }
    unreachable!("a socket takes everything")
}

#[test]
fn library_threads_are_refused_and_everything_taken_is_answered_in_the_end() {
    let (address, go) = stuck();
    let client = small_client();
    let (sink, outcomes) = outcomes();
    let taken = fill(&client, &address, &sink, &outcomes);
    assert_eq!(client.oneway(&address, request("x")), Err(CallError::Full));
    go.send(()).unwrap();
    for tag in 0..taken {
        let (got, outcome) = outcomes.recv_timeout(SOON).unwrap();
        assert_eq!(got, tag);
        outcome.unwrap();
    }
}

#[test]
fn user_threads_wait_for_room_until_their_deadline() {
    let (address, go) = stuck();
    let client = small_client();
    let (sink, outcomes) = outcomes();
    fill(&client, &address, &sink, &outcomes);
    let started = Instant::now();
    let error = client.call(&address, request("x"), started + ms(50)).unwrap_err();
    assert_eq!(error, CallError::Timeout { written: false });
    assert!(started.elapsed() >= ms(50));
    let waiting = thread::spawn({
        let (client, address) = (client.clone(), address.clone());
        move || client.call(&address, request("x"), soon())
    });
    let sending = thread::spawn({
        let (client, address) = (client.clone(), address.clone());
        move || client.oneway_by(&address, request("x"), soon())
    });
    go.send(()).unwrap();
    waiting.join().unwrap().unwrap();
    sending.join().unwrap().unwrap();
}

#[test]
fn threads_that_wait_for_room_learn_of_the_end() {
    let (address, _go) = stuck();
    let client = small_client();
    let (sink, outcomes) = outcomes();
    fill(&client, &address, &sink, &outcomes);
    let before = client.stats().pending;
    let waiting = thread::spawn({
        let (client, address) = (client.clone(), address.clone());
        move || client.call(&address, request("x"), soon())
    });
    wait_for("it waits", || client.stats().pending > before);
    client.close(&address);
    let error = waiting.join().unwrap().unwrap_err();
    assert!(matches!(error, CallError::Lost { .. }), "{error:?}");
}

#[test]
fn what_timed_out_before_it_was_written_is_never_sent() {
    let (seen, commands) = unbounded();
    let (go, gate) = unbounded::<()>();
    let address = rough(move |stream| {
        _ = gate.recv();
        while let Some(command) = read_command(&stream) {
            drop(seen.send(command.body));
        }
    });
    let client = small_client();
    let (sink, _outcomes) = outcomes();
    client.invoke(&address, request("open"), soon(), sink.reply(0));
    wait_for("connected", || client.is_connected(&address));
    // More than any socket takes, so that what follows stays behind it.
    client.invoke(&address, request(&"x".repeat(15 << 20)), soon(), sink.reply(1));
    // The outbox is over its limit now, so this one waits for room, and gives up.
    let error = client.call(&address, request("stale"), Instant::now() + ms(30)).unwrap_err();
    assert_eq!(error, CallError::Timeout { written: false });
    go.send(()).unwrap();
    client.oneway_by(&address, request("fresh"), soon()).unwrap();
    let bodies: Vec<_> = (0..3).map(|_| commands.recv_timeout(SOON).unwrap().len()).collect();
    assert_eq!(bodies, [4, 15 << 20, 5]);
}
