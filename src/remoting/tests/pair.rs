//! Client and server of this room, both well-behaved.

use super::*;

#[test]
fn a_call_gets_its_answer() {
    let served = echo();
    let client = client();
    assert!(!client.is_connected(&served.address));
    let frame = client.call(&served.address, request("hello"), soon()).unwrap();
    assert_eq!(text(&frame), "hello");
    assert_eq!(frame.head().unwrap().code, 0);
    assert!(client.is_connected(&served.address));
    let peer = served.peers.recv_timeout(SOON).unwrap();
    assert_eq!(client.local_address(&served.address), Some(peer.remote()));
    let stats = client.stats();
    assert_eq!((stats.connections, stats.pending), (1, 0));
    assert!(stats.bytes_sent > 0 && stats.bytes_received > 0, "{stats:?}");
}

#[test]
fn x13_both_encodings_and_the_answer_comes_in_that_of_the_request() {
    for encoding in [Encoding::Json, Encoding::Binary] {
        let served = echo();
        let client = Remoting::start(RemotingConfig { encoding, ..RemotingConfig::default() }).unwrap();
        let frame = client.call(&served.address, request("hello"), soon()).unwrap();
        assert_eq!(frame.encoding(), encoding);
        assert_eq!(text(&frame), "hello");
    }
}

#[test]
fn invoked_requests_come_back_through_the_sink_with_their_tags() {
    let served = echo();
    let client = client();
    let (sink, outcomes) = outcomes();
    for tag in 0..100 {
        client.invoke(&served.address, request(&tag.to_string()), soon(), sink.reply(tag));
    }
    for tag in 0..100 {
        let (got, outcome) = outcomes.recv_timeout(SOON).unwrap();
        assert_eq!((got, text(&outcome.unwrap())), (tag, tag.to_string()), "one connection keeps the order");
    }
}

#[test]
fn queued_requests_go_out_at_the_flush() {
    let served = echo();
    let client = client();
    client.call(&served.address, request("open it"), soon()).unwrap();
    let (sink, outcomes) = outcomes();
    for tag in 0..10 {
        client.queue(&served.address, request("x"), soon(), sink.reply(tag));
    }
    assert!(outcomes.recv_timeout(ms(30)).is_err(), "nothing is sent before the flush");
    client.flush();
    for tag in 0..10 {
        assert_eq!(outcomes.recv_timeout(SOON).unwrap().0, tag);
    }
}

#[test]
fn large_bodies_go_both_ways() {
    let served = echo();
    let client = client();
    let body = "0123456789".repeat(800_000);
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let (client, address, body) = (client.clone(), served.address.clone(), body.clone());
            thread::spawn(move || text(&client.call(&address, request(&body), soon()).unwrap()) == body)
        })
        .collect();
    assert!(calls.into_iter().all(|call| call.join().unwrap()));
}

#[test]
fn many_threads_share_one_connection() {
    let served = echo();
    let client = client();
    let threads: Vec<_> = (0..8)
        .map(|t| {
            let (client, address) = (client.clone(), served.address.clone());
            thread::spawn(move || {
                for i in 0..200 {
                    let body = format!("{t}-{i}-{}", "x".repeat(i * 37 % 5000));
                    assert_eq!(text(&client.call(&address, request(&body), soon()).unwrap()), body);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(served.peers.try_iter().count(), 1);
    assert_eq!(client.stats().pending, 0);
}

#[test]
fn one_way_requests_arrive() {
    let (sender, seen) = unbounded();
    let served = serve(move |_, command| drop(sender.send(command)));
    let client = client();
    client.oneway(&served.address, request("a")).unwrap();
    client.oneway_by(&served.address, request("b"), soon()).unwrap();
    for body in ["a", "b"] {
        let command = seen.recv_timeout(SOON).unwrap();
        assert!(command.is_oneway());
        assert_eq!(command.body, body.as_bytes());
    }
}

#[test]
fn requests_of_a_server_are_answered_while_a_call_waits() {
    // The broker asks in the middle of our call, and answers it when it has our answer.
    let mut waiting = None;
    let served = serve(move |peer, command| {
        if command.is_response() {
            let opaque = waiting.take().unwrap();
            peer.send(&RemotingCommand::response(ResponseCode::SUCCESS, opaque).body(command.body));
        } else {
            waiting = Some(command.opaque);
            let mut question = RemotingCommand::request(RequestCode(307)).body(b"and you?".to_vec());
            question.opaque = command.opaque;
            peer.send(&question);
        }
    });
    let (sender, requests) = unbounded();
    let on_request = Arc::new(move |incoming: Incoming| drop(sender.send(incoming)));
    let client = Remoting::start(RemotingConfig { on_request, ..RemotingConfig::default() }).unwrap();
    let responder = thread::spawn({
        let (client, address) = (client.clone(), served.address.clone());
        move || {
            let incoming = requests.recv_timeout(SOON).unwrap();
            assert_eq!((incoming.code().0, &**incoming.address()), (307, &*address));
            let answer = RemotingCommand::response(ResponseCode::SUCCESS, 0).body(b"fine".to_vec());
            client.respond(&incoming, answer);
        }
    });
    let frame = client.call(&served.address, request("how are you?"), soon()).unwrap();
    assert_eq!(text(&frame), "fine");
    responder.join().unwrap();
}

#[test]
fn links_are_reported() {
    let (sender, events) = unbounded();
    let on_link = Arc::new(move |event| drop(sender.send(event)));
    let client = Remoting::start(RemotingConfig { on_link, ..RemotingConfig::default() }).unwrap();
    let served = echo();
    client.call(&served.address, request("x"), soon()).unwrap();
    let local = client.local_address(&served.address).unwrap();
    let address: Arc<str> = served.address.as_str().into();
    let Ok(LinkEvent::Up { address: open, local: end, link }) = events.recv_timeout(SOON) else {
        panic!("no Up")
    };
    assert_eq!((&open, end), (&address, local));
    let (sink, outcomes) = outcomes();
    client.queue_on(&served.address, link, request("on this one"), soon(), sink.reply(1));
    client.flush();
    assert!(outcomes.recv_timeout(SOON).unwrap().1.is_ok());
    served.peers.recv_timeout(SOON).unwrap().close();
    let Ok(LinkEvent::Down { address: lost, error }) = events.recv_timeout(SOON) else { panic!("no Down") };
    assert_eq!((lost, &*error), (address, "closed by the server"));
    client.queue_on(&served.address, link, request("not on another"), soon(), sink.reply(2));
    let (_, outcome) = outcomes.recv_timeout(SOON).unwrap();
    assert!(matches!(outcome, Err(CallError::Lost { written: false, .. })), "{outcome:?}");
    assert!(!client.is_connected(&served.address), "none is made for it");
}

#[test]
fn the_server_sees_connections_come_and_go() {
    let served = echo();
    let client = client();
    client.call(&served.address, request("x"), soon()).unwrap();
    let peer = served.peers.recv_timeout(SOON).unwrap();
    client.shutdown(Duration::ZERO);
    assert_eq!(served.closed.recv_timeout(SOON), Ok(peer.id()));
    assert_eq!(client.call(&served.address, request("x"), soon()), Err(CallError::Closed));
}

#[test]
fn other_threads_send_through_a_peer() {
    let (sender, opaques) = unbounded();
    let served = serve(move |peer, command| drop(sender.send((peer.clone(), command))));
    let client = client();
    let (sink, outcomes) = outcomes();
    client.invoke(&served.address, request("later"), soon(), sink.reply(7));
    let (peer, command) = opaques.recv_timeout(SOON).unwrap();
    peer.send(&answer_to(&command));
    peer.close_after_flush();
    let (tag, outcome) = outcomes.recv_timeout(SOON).unwrap();
    assert_eq!((tag, text(&outcome.unwrap())), (7, "later".to_owned()));
    assert_eq!(served.closed.recv_timeout(SOON), Ok(peer.id()));
}
