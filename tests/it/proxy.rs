//! What may stand between a client and a broker.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Passes on what comes, both ways, until it is told to swallow everything: then it accepts and reads, and says nothing.
pub struct Proxy {
    pub address: String,
    swallows: Arc<AtomicBool>,
}

impl Proxy {
    pub fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let swallows = Arc::new(AtomicBool::new(false));
        let silent = swallows.clone();
        std::thread::spawn(move || {
            for down in listener.incoming() {
                let (down, up) = (down.unwrap(), TcpStream::connect(&server).unwrap());
                pass(down.try_clone().unwrap(), up.try_clone().unwrap(), silent.clone());
                pass(up, down, silent.clone());
            }
        });
        Self { address, swallows }
    }

    /// From now on nothing passes, and nobody is told.
    pub fn swallow(&self) {
        self.swallows.store(true, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, silent: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = std::io::Read::read(&mut from, &mut buffer) {
            let passed =
                silent.load(Ordering::SeqCst) || std::io::Write::write_all(&mut to, &buffer[..n]).is_ok();
            if !passed {
                break;
            }
        }
        drop(to.shutdown(Shutdown::Both));
    });
}
