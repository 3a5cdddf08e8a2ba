//! Both sides against each other, and the client side against servers that misbehave, over loopback sockets.

mod addresses;
mod chaos;
mod deadlines;
mod faults;
mod full;
mod life;
mod listening;
mod pair;
#[cfg(feature = "tls")]
mod tls;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::server::{Handler, Peer, Server, ServerConfig};
use super::*;
use crate::protocol::{Encoding, Frame, RemotingCommand, RequestCode, ResponseCode, encode};

/// Long enough for a machine that is busy with something else; nothing waits for it when all is well.
const SOON: Duration = Duration::from_secs(20);

fn soon() -> Instant {
    Instant::now() + SOON
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let until = soon();
    while !condition() {
        assert!(Instant::now() < until, "{what}");
        thread::yield_now();
    }
}

fn client() -> Remoting {
    Remoting::start(RemotingConfig::default()).unwrap()
}

fn request(text: &str) -> RemotingCommand {
    RemotingCommand::request(RequestCode(901)).body(text.as_bytes().to_vec())
}

fn text(frame: &Frame) -> String {
    String::from_utf8(frame.body().to_vec()).unwrap()
}

type Outcome = (u64, Result<Frame, CallError>);

/// A loop's channel, as the upper rooms have one.
fn outcomes() -> (ReplySink, Receiver<Outcome>) {
    let (sender, receiver) = unbounded();
    (ReplySink::new(move |tag, outcome| drop(sender.send((tag, outcome)))), receiver)
}

/// A server whose handler is a closure over each command.
struct Scripted<F> {
    peers: Sender<Peer>,
    closed: Sender<u64>,
    on_command: F,
}

impl<F: FnMut(&Peer, RemotingCommand) + Send + 'static> Handler for Scripted<F> {
    fn opened(&mut self, peer: &Peer) {
        _ = self.peers.send(peer.clone());
    }

    fn frame(&mut self, peer: &Peer, frame: Frame) {
        (self.on_command)(peer, frame.command().unwrap());
    }

    fn closed(&mut self, peer: &Peer) {
        _ = self.closed.send(peer.id());
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn tick(&mut self) {}
}

struct Served {
    server: Server,
    address: String,
    peers: Receiver<Peer>,
    closed: Receiver<u64>,
}

fn serve(on_command: impl FnMut(&Peer, RemotingCommand) + Send + 'static) -> Served {
    serve_at("127.0.0.1:0", on_command)
}

fn serve_at(at: &str, on_command: impl FnMut(&Peer, RemotingCommand) + Send + 'static) -> Served {
    serve_with(ServerConfig::default(), at, on_command)
}

fn serve_with(
    config: ServerConfig,
    at: &str,
    on_command: impl FnMut(&Peer, RemotingCommand) + Send + 'static,
) -> Served {
    let listener = TcpListener::bind(at).unwrap();
    let (peers, peers_seen) = unbounded();
    let (closed, closed_seen) = unbounded();
    let handler = Scripted { peers, closed, on_command };
    let server = Server::start(listener, config, handler).unwrap();
    let address = server.local_address().to_string();
    Served { server, address, peers: peers_seen, closed: closed_seen }
}

fn answer_to(command: &RemotingCommand) -> RemotingCommand {
    RemotingCommand::response(ResponseCode::SUCCESS, command.opaque).body(command.body.clone())
}

/// Answers every request with its own body.
fn echo() -> Served {
    serve(|peer, command| {
        if !command.is_oneway() {
            peer.send(&answer_to(&command));
        }
    })
}

/// A server of plain sockets, which can do what a decent one does not: each connection gets a thread with `serve`.
fn rough(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.unwrap(), serve.clone());
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// The next command of a peer; none when it has hung up.
fn read_command(mut stream: &TcpStream) -> Option<RemotingCommand> {
    let mut bytes = vec![0; 4];
    stream.read_exact(&mut bytes).ok()?;
    let length = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    bytes.resize(4 + length as usize, 0);
    stream.read_exact(&mut bytes[4..]).ok()?;
    Some(Frame::parse(bytes).unwrap().command().unwrap())
}

fn bytes_of(command: &RemotingCommand) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(command, Encoding::Json, &mut bytes).unwrap();
    bytes
}

/// False when the peer has hung up.
fn write_command(mut stream: &TcpStream, command: &RemotingCommand) -> bool {
    stream.write_all(&bytes_of(command)).is_ok()
}

/// Blocks until the peer hangs up, answering nothing.
fn swallow(stream: &TcpStream) {
    while read_command(stream).is_some() {}
}
