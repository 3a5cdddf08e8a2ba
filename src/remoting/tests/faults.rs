//! Servers that cut, trickle, send rubbish or are not there.

use super::*;
use crate::protocol::MAX_FRAME;

#[test]
fn a_connection_cut_in_mid_frame_fails_its_calls_at_once() {
    let address = rough(|mut stream| {
        let (Some(first), Some(_)) = (read_command(&stream), read_command(&stream)) else { return };
        let answer = bytes_of(&answer_to(&first));
        stream.write_all(&answer[..answer.len() / 2]).unwrap();
    });
    let client = client();
    let (sink, outcomes) = outcomes();
    client.invoke(&address, request("a"), soon(), sink.reply(1));
    client.invoke(&address, request("b"), soon(), sink.reply(2));
    for _ in 0..2 {
        let (_, outcome) = outcomes.recv_timeout(SOON / 2).unwrap();
        let error = outcome.unwrap_err();
        assert!(matches!(&error, CallError::Lost { written: true, .. }), "{error:?}");
        assert!(error.written());
    }
    assert_eq!(client.stats().pending, 0);
}

#[test]
fn a_thread_that_waits_learns_of_the_loss_at_once() {
    let address = rough(|stream| drop(read_command(&stream)));
    let started = Instant::now();
    let error = client().call(&address, request("a"), soon()).unwrap_err();
    assert!(matches!(error, CallError::Lost { written: true, .. }), "{error:?}");
    assert!(started.elapsed() < SOON / 2);
}

#[test]
fn a_trickle_of_single_bytes_is_an_answer() {
    let address = rough(|mut stream| {
        while let Some(command) = read_command(&stream) {
            for byte in bytes_of(&answer_to(&command)) {
                stream.write_all(&[byte]).unwrap();
            }
        }
    });
    let client = client();
    for body in ["drop by drop", ""] {
        assert_eq!(text(&client.call(&address, request(body), soon()).unwrap()), body);
    }
}

#[test]
fn answers_in_one_piece_with_the_begin_of_the_next() {
    let address = rough(|mut stream| {
        let commands: Vec<_> = (0..3).map(|_| read_command(&stream).unwrap()).collect();
        let all: Vec<u8> = commands.iter().rev().flat_map(|command| bytes_of(&answer_to(command))).collect();
        let middle = all.len() / 2;
        stream.write_all(&all[..middle]).unwrap();
        stream.write_all(&all[middle..]).unwrap();
        swallow(&stream);
    });
    let client = client();
    let (sink, outcomes) = outcomes();
    for tag in 0..3 {
        client.invoke(&address, request(&tag.to_string()), soon(), sink.reply(tag));
    }
    for tag in [2, 1, 0] {
        let (got, outcome) = outcomes.recv_timeout(SOON).unwrap();
        assert_eq!((got, text(&outcome.unwrap())), (tag, tag.to_string()));
    }
}

#[test]
fn x6_what_is_no_frame_closes_the_connection_and_says_so() {
    let mut too_long = ((MAX_FRAME - 3) as u32).to_be_bytes().to_vec();
    too_long.extend([0; 4]);
    let cases = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        vec![0xff; 64],
        vec![0; 8],
        [&[0, 0, 0, 8, 0, 0, 0, 4][..], b"{{{{"].concat(),
        too_long,
    ];
    for rubbish in cases {
        let address = rough(move |mut stream| {
            drop(read_command(&stream));
            stream.write_all(&rubbish).unwrap();
            swallow(&stream);
        });
        let client = client();
        let error = client.call(&address, request("a"), soon()).unwrap_err();
        assert!(matches!(error, CallError::Decode(_)), "{error:?}");
        assert!(!client.is_connected(&address));
    }
}

#[test]
fn a_refused_connection_is_told_at_once_and_then_backed_off() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let (sender, events) = unbounded();
    let on_link = Arc::new(move |event| drop(sender.send(event)));
    let client = Remoting::start(RemotingConfig { on_link, ..RemotingConfig::default() }).unwrap();
    let started = Instant::now();
    let error = client.call(&address, request("a"), soon()).unwrap_err();
    let CallError::Unreachable { cause } = &error else { panic!("{error:?}") };
    assert!(cause.contains(&address) && cause.contains("refused"), "{cause}");
    assert!(!error.written());
    let again = client.call(&address, request("a"), soon()).unwrap_err();
    assert_eq!(again, CallError::BackingOff { cause: cause.clone() });
    assert!(started.elapsed() < SOON / 2);
    let Ok(LinkEvent::Down { error, .. }) = events.recv_timeout(SOON) else { panic!("no Down") };
    assert_eq!(error, *cause.text());

    // The server comes up: the next attempt that is due finds it.
    let served = serve_at(&address, |peer, command| peer.send(&answer_to(&command)));
    wait_for("connected again", || client.call(&served.address, request("b"), soon()).is_ok());
}

#[test]
fn requests_made_while_connecting_fail_together_as_never_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let client = client();
    let (sink, outcomes) = outcomes();
    for tag in 0..20 {
        client.invoke(&address, request("a"), soon(), sink.reply(tag));
    }
    for _ in 0..20 {
        let (_, outcome) = outcomes.recv_timeout(SOON).unwrap();
        assert!(!outcome.unwrap_err().written());
    }
}

#[test]
fn a_server_that_hangs_up_and_returns_is_found_again() {
    let served = serve(|peer, command| match &*command.body {
        b"cut" => peer.close(),
        _ => peer.send(&answer_to(&command)),
    });
    let client = client();
    for _ in 0..3 {
        wait_for("an answer", || client.call(&served.address, request("a"), soon()).is_ok());
        let error = client.call(&served.address, request("cut"), soon()).unwrap_err();
        assert!(matches!(error, CallError::Lost { written: true, .. }), "{error:?}");
    }
}

#[test]
fn a_half_open_connection_is_found_by_two_probes() {
    let address = rough(|stream| swallow(&stream));
    let client = client();
    let (sink, outcomes) = outcomes();
    let now = Instant::now();
    client.invoke(&address, request("pull"), now + ms(60_000), sink.reply(1));
    wait_for("connected", || client.is_connected(&address));
    assert!(client.suspects(Instant::now()).probe.is_empty());
    let asked = Instant::now() + ms(10_000);
    let suspects = client.suspects(asked);
    assert_eq!(suspects.probe, [(Arc::from(&*address), ms(3_000))]);
    assert_eq!(suspects.look_again, asked + ms(3_000));
    assert!(client.suspects(asked + ms(1_000)).probe.is_empty());
    assert_eq!(client.suspects(asked + ms(3_000)).probe, [(Arc::from(&*address), ms(5_000))]);
    assert!(client.is_connected(&address));
    client.suspects(asked + ms(8_000));
    let (_, outcome) = outcomes.recv_timeout(SOON / 2).unwrap();
    let error = outcome.unwrap_err();
    assert!(
        matches!(&error, CallError::Lost { written: true, cause } if cause.contains("silent")),
        "{error:?}"
    );
    assert!(!client.is_connected(&address));
}

#[test]
fn an_answered_probe_calms() {
    let served = serve(|peer, command| {
        if command.body == b"probe" {
            peer.send(&answer_to(&command));
        }
    });
    let client = client();
    let (sink, _outcomes) = outcomes();
    client.invoke(&served.address, request("pull"), soon(), sink.reply(1));
    wait_for("connected", || client.is_connected(&served.address));
    let past = Instant::now();
    // As if ten seconds had passed: the step takes the time it is given.
    assert_eq!(client.suspects(past + ms(10_000)).probe.len(), 1);
    client.call(&served.address, request("probe"), soon()).unwrap();
    assert!(client.is_connected(&served.address));
}

#[test]
fn a_flood_of_requests_from_one_server_does_not_keep_others_waiting() {
    const FLOOD: usize = 20_000;
    let flooding = rough(|mut stream| {
        drop(read_command(&stream));
        let wave: Vec<u8> = std::iter::repeat_n(bytes_of(&request("x")), 1000).flatten().collect();
        for _ in 0..FLOOD / 1000 {
            stream.write_all(&wave).unwrap();
        }
        swallow(&stream);
    });
    let served = echo();
    let (sender, requests) = crossbeam_channel::bounded(256);
    let (done, all_seen) = unbounded();
    let seen = std::sync::atomic::AtomicUsize::new(0);
    // What the control loop does: takes what it has room for, and says so to the server otherwise.
    let on_request = Arc::new(move |incoming: Incoming| {
        if let Err(full) = sender.try_send(incoming) {
            full.into_inner().respond(RemotingCommand::response(ResponseCode::SYSTEM_BUSY, 0));
        }
        if seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1 == FLOOD {
            _ = done.send(());
        }
    });
    let client = Remoting::start(RemotingConfig { on_request, ..RemotingConfig::default() }).unwrap();
    let (sink, _outcomes) = outcomes();
    client.invoke(&flooding, request("begin"), soon(), sink.reply(1));
    for _ in 0..50 {
        client.call(&served.address, request("a"), soon()).unwrap();
    }
    all_seen.recv_timeout(SOON).unwrap();
    assert_eq!(requests.len(), 256);
}

#[test]
fn an_answer_nobody_waits_for_is_dropped() {
    let address = rough(|stream| {
        while let Some(mut command) = read_command(&stream) {
            let answer = answer_to(&command);
            command.opaque = command.opaque.wrapping_add(1000);
            write_command(&stream, &answer_to(&command));
            write_command(&stream, &answer);
            write_command(&stream, &answer);
        }
    });
    let client = client();
    for body in ["a", "b"] {
        assert_eq!(text(&client.call(&address, request(body), soon()).unwrap()), body);
    }
    wait_for("all extra answers are counted", || client.stats().late_replies == 4);
}
