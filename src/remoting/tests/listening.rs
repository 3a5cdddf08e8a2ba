//! The listening side against peers that misbehave.

use super::*;
use crate::remoting::server::ServerWaker;
use std::sync::atomic::{AtomicUsize, Ordering};

fn connect(served: &Served) -> TcpStream {
    let stream = TcpStream::connect(&served.address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

fn ask(stream: &TcpStream, text: &str, opaque: i32) {
    let mut command = request(text);
    command.opaque = opaque;
    assert!(write_command(stream, &command));
}

fn answer(stream: &TcpStream) -> (i32, String) {
    let command = read_command(stream).unwrap();
    (command.opaque, String::from_utf8(command.body).unwrap())
}

#[test]
fn requests_in_single_bytes_and_many_at_once() {
    let served = echo();
    let mut stream = connect(&served);
    let mut command = request("slow");
    command.opaque = 1;
    for byte in bytes_of(&command) {
        stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(answer(&stream), (1, "slow".to_owned()));
    let mut all = Vec::new();
    for opaque in 0..500 {
        let mut command = request("x");
        command.opaque = opaque;
        all.extend(bytes_of(&command));
    }
    stream.write_all(&all).unwrap();
    for opaque in 0..500 {
        assert_eq!(answer(&stream).0, opaque);
    }
}

#[test]
fn what_is_no_frame_closes_only_its_own_connection() {
    let served = echo();
    let good = connect(&served);
    for rubbish in [&[0xff; 16][..], b"GET / HTTP/1.1\r\n\r\n", &[0, 0, 0, 3, 0, 0, 0, 0]] {
        let mut bad = connect(&served);
        bad.write_all(rubbish).unwrap();
        assert_eq!(bad.read(&mut [0; 16]).unwrap_or(0), 0, "closed");
        served.closed.recv_timeout(SOON).unwrap();
    }
    ask(&good, "still here", 1);
    assert_eq!(answer(&good), (1, "still here".to_owned()));
}

#[test]
fn a_panic_of_the_handler_costs_one_connection() {
    let served = serve(|peer, command| {
        assert_ne!(command.body, b"panic", "on purpose");
        peer.send(&answer_to(&command));
    });
    let (good, mut bad) = (connect(&served), connect(&served));
    ask(&bad, "panic", 1);
    assert_eq!(bad.read(&mut [0; 16]).unwrap_or(0), 0, "closed");
    ask(&good, "still here", 2);
    assert_eq!(answer(&good), (2, "still here".to_owned()));
}

#[test]
fn a_peer_that_does_not_read_is_not_read_either() {
    // Each request of a few bytes asks for 100 kB.
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let served = serve(move |peer, command| {
        counted.fetch_add(1, Ordering::SeqCst);
        let mut answer = answer_to(&command);
        answer.body = vec![b'x'; 100_000];
        peer.send(&answer);
    });
    let stream = connect(&served);
    let writer = thread::spawn({
        let stream = stream.try_clone().unwrap();
        move || (0..2000).for_each(|opaque| ask(&stream, "more", opaque))
    });
    let peer = served.peers.recv_timeout(SOON).unwrap();
    wait_for("more waits than should", || peer.waiting() >= ServerConfig::default().high_water);
    assert!(asked.load(Ordering::SeqCst) < 2000, "reading goes on in spite of it");
    for opaque in 0..2000 {
        assert_eq!(answer(&stream).0, opaque);
    }
    writer.join().unwrap();
    assert_eq!(peer.waiting(), 0);
}

#[test]
fn a_paused_peer_is_read_when_it_is_resumed() {
    let served = echo();
    let stream = connect(&served);
    let peer = served.peers.recv_timeout(SOON).unwrap();
    peer.pause_reading(true);
    ask(&stream, "held", 1);
    stream.set_read_timeout(Some(ms(30))).unwrap();
    assert!((&stream).read(&mut [0; 1]).is_err(), "nothing comes");
    peer.pause_reading(false);
    stream.set_read_timeout(Some(SOON)).unwrap();
    assert_eq!(answer(&stream), (1, "held".to_owned()));
}

#[test]
fn raw_bytes_and_a_close_make_a_cut_frame() {
    let served = serve(|peer, command| {
        let bytes = bytes_of(&answer_to(&command));
        peer.send_bytes(&bytes[..bytes.len() / 2]);
        peer.close_after_flush();
    });
    let client = client();
    let error = client.call(&served.address, request("a"), soon()).unwrap_err();
    assert!(matches!(error, CallError::Lost { written: true, .. }), "{error:?}");
}

#[test]
fn shutdown_closes_connections_and_frees_the_port() {
    let mut served = echo();
    let mut stream = connect(&served);
    let peer = served.peers.recv_timeout(SOON).unwrap();
    served.server.shutdown();
    assert_eq!(served.closed.recv_timeout(SOON), Ok(peer.id()));
    assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
    peer.send(&request("nobody hears it"));
    peer.close();
    let again = serve_at(&served.address, |_, _| {});
    drop(connect(&again));
}

/// Ticks at its deadlines and when woken.
struct Ticking {
    due: Option<Instant>,
    ticks: Sender<Instant>,
}

impl Handler for Ticking {
    fn opened(&mut self, _: &Peer) {}
    fn frame(&mut self, _: &Peer, _: Frame) {}
    fn closed(&mut self, _: &Peer) {}
    fn next_deadline(&self) -> Option<Instant> {
        self.due
    }
    fn tick(&mut self) {
        self.due = None;
        self.ticks.send(Instant::now()).unwrap();
    }
}

#[test]
fn ticks_come_at_the_deadline_and_on_waking() {
    let (ticks, seen) = unbounded();
    let due = Instant::now() + ms(40);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::start(listener, ServerConfig::default(), Ticking { due: Some(due), ticks }).unwrap();
    assert!(seen.recv_timeout(SOON).unwrap() >= due);
    let waker: ServerWaker = server.waker();
    for _ in 0..3 {
        waker.wake();
        seen.recv_timeout(SOON).unwrap();
    }
    assert!(seen.recv_timeout(ms(30)).is_err(), "one each");
}
