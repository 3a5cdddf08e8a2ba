//! All interleavings of senders, the io thread and the peer that reads.

use super::*;
use crate::sync::Arc;

/// A socket with room for one byte at a time. `edges` counts what an edge-triggered poll would report: the socket
/// became writable after it had refused.
struct Pipe {
    state: Mutex<PipeState>,
}

#[derive(Default)]
struct PipeState {
    held: Option<u8>,
    refused: bool,
    edges: usize,
    read: Vec<u8>,
}

impl Pipe {
    fn new() -> Self {
        Self { state: Mutex::new(PipeState::default()) }
    }

    /// The peer reads what is there. True if that made an edge.
    fn peer_reads(&self) -> bool {
        let mut state = self.state.lock();
        let Some(byte) = state.held.take() else { return false };
        state.read.push(byte);
        std::mem::take(&mut state.refused)
    }
}

impl Socket for Pipe {
    fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock();
        if state.held.is_some() {
            state.refused = true;
            return Err(ErrorKind::WouldBlock.into());
        }
        state.held = bytes.first().copied();
        Ok(1)
    }
}

/// A thread sends `ab`.
fn sending() -> (Arc<Outbox>, Arc<Pipe>, loom::thread::JoinHandle<()>) {
    let (outbox, pipe) = (Arc::new(Outbox::new(100)), Arc::new(Pipe::new()));
    outbox.open(&*pipe);
    let (its_outbox, its_pipe) = (outbox.clone(), pipe.clone());
    let sender = loom::thread::spawn(move || drop(its_outbox.send(b"ab", None, &*its_pipe, None)));
    (outbox, pipe, sender)
}

/// What the io thread does with an edge.
fn on_edge(outbox: &Outbox, pipe: &Pipe) {
    if outbox.is_blocked() {
        outbox.writable(pipe);
    }
}

/// Nobody else moves any more: the rest has to come out by edges alone.
fn read_to_the_end(outbox: &Outbox, pipe: &Pipe, total: usize) {
    while pipe.state.lock().read.len() < total {
        let before = pipe.state.lock().read.len();
        if pipe.peer_reads() {
            on_edge(outbox, pipe);
        }
        assert!(pipe.state.lock().read.len() > before, "bytes are left, and nobody will ever write them");
    }
}

#[test]
fn loom_what_a_full_socket_refused_is_always_written() {
    loom::model(|| {
        let (outbox, pipe, sender) = sending();
        // The io thread: the peer reads now and then, and each edge is seen after that.
        for _ in 0..2 {
            if pipe.peer_reads() {
                on_edge(&outbox, &pipe);
            }
        }
        sender.join().expect("the sender does not panic");
        read_to_the_end(&outbox, &pipe, 2);
        assert_eq!(pipe.state.lock().read, b"ab");
    });
}

#[test]
fn loom_two_senders_never_mix_their_frames() {
    loom::model(|| {
        let (outbox, pipe, sender) = sending();
        // The second one appends and flushes, as the pull thread does.
        _ = outbox.append(None, |bytes| {
            bytes.extend_from_slice(b"cd");
            Ok::<(), ()>(())
        });
        outbox.flush(&*pipe);
        if pipe.peer_reads() {
            on_edge(&outbox, &pipe);
        }
        sender.join().expect("the sender does not panic");
        read_to_the_end(&outbox, &pipe, 4);
        let read = pipe.state.lock().read.clone();
        assert!(read == b"abcd" || read == b"cdab", "{read:?}");
    });
}

/// Where the io thread alone writes: whoever leaves bytes while it is not told already, tells it.
#[test]
fn loom_what_is_left_for_the_io_thread_is_always_taken() {
    loom::model(|| {
        let outbox = Arc::new(Outbox::relayed(100));
        let woken = Arc::new(AtomicBool::new(false));
        let send = |outbox: &Outbox, woken: &AtomicBool, frame: &[u8]| {
            if let Ok(Taken::Left) = outbox.send(frame, None, &Pipe::new(), None) {
                // Not a store, which loom would let come before a swap that has not seen it.
                woken.swap(true, Ordering::SeqCst);
            }
        };
        outbox.open(&Pipe::new());
        let sender = {
            let (outbox, woken) = (outbox.clone(), woken.clone());
            loom::thread::spawn(move || {
                send(&outbox, &woken, b"ab");
                send(&outbox, &woken, b"cd");
            })
        };
        let mut taken = Vec::new();
        let mut turn = || {
            if woken.swap(false, Ordering::SeqCst) {
                while outbox.relay(&mut taken, 3) {}
            }
        };
        turn();
        turn();
        sender.join().expect("the sender does not panic");
        turn();
        assert_eq!(taken, b"abcd");
    });
}
