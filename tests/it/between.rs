//! Somebody between a client and a broker, who reads, changes or swallows what they tell each other.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rocketmq_sync::testing::protocol::{Encoding, FrameDecoder, MAX_FRAME, RemotingCommand, encode};

/// Changes an answer of the broker; the request is the one that it answers.
type Change = dyn Fn(&RemotingCommand, &mut RemotingCommand) + Send + Sync;

/// Passes on what comes to its address, as long as somebody connects there.
pub struct Between {
    pub address: String,
    /// Every request that a client made.
    requests: Arc<Mutex<Vec<RemotingCommand>>>,
    silent: Arc<AtomicBool>,
}

impl Between {
    pub fn clients_and(
        broker: String,
        change: impl Fn(&RemotingCommand, &mut RemotingCommand) + Send + Sync + 'static,
    ) -> Self {
        let here = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = here.local_addr().unwrap().to_string();
        let requests: Arc<Mutex<Vec<_>>> = Arc::default();
        let silent = Arc::new(AtomicBool::new(false));
        let (kept, swallows, change): (_, _, Arc<Change>) =
            (requests.clone(), silent.clone(), Arc::new(change));
        std::thread::spawn(move || {
            for client in here.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&broker) else { continue };
                pass(client, server, kept.clone(), swallows.clone(), change.clone());
            }
        });
        Self { address, requests, silent }
    }

    /// From now on connections are accepted and kept open, and nothing passes: as at the address of a machine that is
    /// gone without a word.
    pub fn swallow(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    pub fn requests(&self) -> Vec<RemotingCommand> {
        self.requests.lock().unwrap().clone()
    }
}

fn pass(
    client: TcpStream,
    server: TcpStream,
    requests: Arc<Mutex<Vec<RemotingCommand>>>,
    silent: Arc<AtomicBool>,
    change: Arc<Change>,
) {
    let (client_again, server_again) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let of_connection: Arc<Mutex<HashMap<i32, RemotingCommand>>> = Arc::default();
    let (kept, silent_again) = (of_connection.clone(), silent.clone());
    std::thread::spawn(move || {
        each_frame(client, server, &silent_again, |command| {
            requests.lock().unwrap().push(command.clone());
            kept.lock().unwrap().insert(command.opaque, command.clone());
        });
    });
    std::thread::spawn(move || {
        each_frame(server_again, client_again, &silent, |answer| {
            let request = of_connection.lock().unwrap().remove(&answer.opaque);
            if let Some(request) = request.filter(|_| answer.is_response()) {
                change(&request, answer);
            }
        });
    });
}

fn each_frame(
    mut from: TcpStream,
    mut to: TcpStream,
    silent: &AtomicBool,
    mut look: impl FnMut(&mut RemotingCommand),
) {
    let mut decoder = FrameDecoder::new(MAX_FRAME);
    let mut buffer = vec![0; 1 << 16];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if silent.load(Ordering::SeqCst) {
            continue;
        }
        decoder.feed(&buffer[..n]);
        while let Ok(Some(frame)) = decoder.next_frame() {
            let mut command = frame.command().unwrap();
            look(&mut command);
            let mut bytes = Vec::new();
            encode(&command, Encoding::Json, &mut bytes).unwrap();
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
    }
    while silent.load(Ordering::SeqCst) {
        std::thread::park();
    }
    drop(to.shutdown(std::net::Shutdown::Both));
}
