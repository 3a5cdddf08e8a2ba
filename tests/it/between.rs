//! Somebody between a client and a broker, who reads and changes what they tell each other.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rocketmq_sync::testing::protocol::{Encoding, FrameDecoder, MAX_FRAME, RemotingCommand, encode};

/// Changes an answer of the broker; the request is the one that it answers.
type Change = dyn Fn(&RemotingCommand, &mut RemotingCommand) + Send + Sync;

/// Passes on what comes to its address, as long as somebody connects there.
pub struct Between {
    pub address: String,
    /// Every request that a client made.
    requests: Arc<Mutex<Vec<RemotingCommand>>>,
}

impl Between {
    pub fn clients_and(
        broker: String,
        change: impl Fn(&RemotingCommand, &mut RemotingCommand) + Send + Sync + 'static,
    ) -> Self {
        let here = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = here.local_addr().unwrap().to_string();
        let requests: Arc<Mutex<Vec<_>>> = Arc::default();
        let (kept, change): (_, Arc<Change>) = (requests.clone(), Arc::new(change));
        std::thread::spawn(move || {
            for client in here.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&broker) else { continue };
                pass(client, server, kept.clone(), change.clone());
            }
        });
        Self { address, requests }
    }

    pub fn requests(&self) -> Vec<RemotingCommand> {
        self.requests.lock().unwrap().clone()
    }
}

fn pass(
    client: TcpStream,
    server: TcpStream,
    requests: Arc<Mutex<Vec<RemotingCommand>>>,
    change: Arc<Change>,
) {
    let (client_again, server_again) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let of_connection: Arc<Mutex<HashMap<i32, RemotingCommand>>> = Arc::default();
    let kept = of_connection.clone();
    std::thread::spawn(move || {
        each_frame(client, server, |command| {
            requests.lock().unwrap().push(command.clone());
            kept.lock().unwrap().insert(command.opaque, command.clone());
        });
    });
    std::thread::spawn(move || {
        each_frame(server_again, client_again, |answer| {
            let request = of_connection.lock().unwrap().remove(&answer.opaque);
            if let Some(request) = request.filter(|_| answer.is_response()) {
                change(&request, answer);
            }
        });
    });
}

fn each_frame(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&mut RemotingCommand)) {
    let mut decoder = FrameDecoder::new(MAX_FRAME);
    let mut buffer = vec![0; 1 << 16];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
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
    drop(to.shutdown(std::net::Shutdown::Both));
}
