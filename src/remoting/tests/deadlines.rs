//! Requests that are not answered in time. Never early; late only by what a busy machine adds.

use super::*;

/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(5);

fn silent() -> String {
    rough(|stream| swallow(&stream))
}

fn assert_exact(started: Instant, wanted: Duration) {
    let elapsed = started.elapsed();
    assert!(elapsed >= wanted, "{elapsed:?} is earlier than {wanted:?}");
    assert!(elapsed < wanted + SLACK, "{elapsed:?} is much later than {wanted:?}");
}

#[test]
fn a_call_ends_at_its_deadline() {
    let address = silent();
    let client = client();
    let started = Instant::now();
    let error = client.call(&address, request("a"), started + ms(80)).unwrap_err();
    assert_exact(started, ms(80));
    assert_eq!(error, CallError::Timeout { written: true });
    assert!(client.is_connected(&address), "a timed-out call closes nothing");
    assert_eq!(client.stats().pending, 0);
}

#[test]
fn invoked_requests_end_at_their_deadlines_whatever_the_order() {
    let address = silent();
    let client = client();
    let (sink, outcomes) = outcomes();
    let started = Instant::now();
    for wanted in [300, 60, 180, 120, 240] {
        client.invoke(&address, request("a"), started + ms(wanted), sink.reply(wanted));
    }
    for wanted in [60, 120, 180, 240, 300] {
        let (tag, outcome) = outcomes.recv_timeout(SOON).unwrap();
        assert_eq!((tag, outcome), (wanted, Err(CallError::Timeout { written: true })));
        assert_exact(started, ms(wanted));
    }
}

#[test]
fn an_earlier_deadline_wakes_the_io_thread() {
    let address = silent();
    let client = client();
    let (sink, outcomes) = outcomes();
    client.invoke(&address, request("long poll"), Instant::now() + ms(60_000), sink.reply(1));
    wait_for("connected", || client.is_connected(&address));
    // It sleeps for a minute now.
    for round in 0..3 {
        let started = Instant::now();
        client.invoke(&address, request("short"), started + ms(50), sink.reply(2));
        let (tag, _) = outcomes.recv_timeout(SOON).unwrap();
        assert_eq!(tag, 2, "round {round}");
        assert_exact(started, ms(50));
    }
}

#[test]
fn a_deadline_that_is_over_already_still_has_its_outcome() {
    let address = silent();
    let client = client();
    let (sink, outcomes) = outcomes();
    let past = Instant::now() - ms(10);
    client.invoke(&address, request("a"), past, sink.reply(1));
    assert!(matches!(outcomes.recv_timeout(SOON).unwrap(), (1, Err(CallError::Timeout { .. }))));
    assert!(matches!(client.call(&address, request("a"), past), Err(CallError::Timeout { .. })));
}

#[test]
fn requests_wait_for_the_connection_under_their_own_deadlines() {
    // The host is looked up for longer than the request may take.
    let (_hang, release) = crossbeam_channel::bounded::<()>(0);
    let config = RemotingConfig {
        resolver: Arc::new(move |_, _| {
            _ = release.recv();
            Ok(vec![])
        }),
        ..RemotingConfig::default()
    };
    let client = Remoting::start(config).unwrap();
    let (sink, outcomes) = outcomes();
    let started = Instant::now();
    client.invoke("broker:1", request("a"), started + ms(60), sink.reply(1));
    assert_eq!(outcomes.recv_timeout(SOON).unwrap(), (1, Err(CallError::Timeout { written: false })));
    assert_exact(started, ms(60));
    let started = Instant::now();
    let error = client.call("broker:1", request("a"), started + ms(60)).unwrap_err();
    assert_eq!(error, CallError::Timeout { written: false });
    assert_exact(started, ms(60));
}

#[test]
fn a_late_answer_is_dropped_and_the_next_call_gets_its_own() {
    let (go, gate) = unbounded::<()>();
    let address = rough(move |stream| {
        let late = read_command(&stream).unwrap();
        gate.recv().unwrap();
        write_command(&stream, &answer_to(&late));
        while let Some(command) = read_command(&stream) {
            write_command(&stream, &answer_to(&command));
        }
    });
    let client = client();
    let error = client.call(&address, request("late"), Instant::now() + ms(30)).unwrap_err();
    assert_eq!(error, CallError::Timeout { written: true });
    go.send(()).unwrap();
    assert_eq!(text(&client.call(&address, request("next"), soon()).unwrap()), "next");
    assert_eq!(client.stats().late_replies, 1);
}
