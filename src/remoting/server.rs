//! The listening side: one thread that accepts, reads, calls a handler with each frame, and writes what the handler
//! has sent, once per connection and turn.

mod peer;
mod turn;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use mio::{Poll, Waker};
use parking_lot::Mutex;

pub(crate) use self::peer::Peer;
use self::turn::{Loop, WAKER};
use super::tls::Acceptor;
use crate::protocol::{Frame, MAX_FRAME};

/// What a server does with its connections. Everything is called on the server's one thread, and must not block: while
/// it runs nothing is read or written.
///
/// A panic is logged; it costs the connection it happened on.
pub(crate) trait Handler: Send + 'static {
    /// A connection has been accepted.
    fn opened(&mut self, peer: &Peer);
    /// A whole frame has come.
    fn frame(&mut self, peer: &Peer, frame: Frame);
    /// A connection is gone; nothing that is sent to it arrives any more. Called once for each one opened.
    fn closed(&mut self, peer: &Peer);
    /// When [`tick`](Self::tick) is due. Asked after every turn.
    fn next_deadline(&self) -> Option<Instant>;
    /// The deadline has come, or somebody has called [`ServerWaker::wake`].
    fn tick(&mut self);
}

/// What a [`Server`] is started with.
#[derive(Debug, Clone)]
pub(crate) struct ServerConfig {
    /// The name of its thread; default `rmq-broker`.
    pub(crate) name: String,
    /// The longest frame that is read, with its length prefix; default 16 MiB.
    pub(crate) max_frame: usize,
    /// While so many bytes wait to be sent to a peer, nothing is read from it; default 4 MiB.
    pub(crate) high_water: usize,
    /// A peer that lets so many bytes wait is cut off; default 256 MiB.
    pub(crate) outbox_limit: usize,
    /// Has everybody speak TLS; default: nobody.
    pub(crate) tls: Option<Acceptor>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            name: "rmq-broker".to_owned(),
            max_frame: MAX_FRAME,
            high_water: 4 << 20,
            outbox_limit: 256 << 20,
            tls: None,
        }
    }
}

/// A running server. Dropped, it shuts down.
pub(crate) struct Server {
    local: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Lets other threads make [`Handler::tick`] run.
#[derive(Clone)]
pub(crate) struct ServerWaker(Arc<Shared>);

impl Server {
    /// Serves what connects to `listener`, until shut down.
    pub(crate) fn start(
        listener: std::net::TcpListener,
        config: ServerConfig,
        handler: impl Handler,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let local = listener.local_addr()?;
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let shared = Arc::new(Shared::new(waker));
        let name = config.name.clone();
        let server_loop = Loop::new(shared.clone(), config, poll, listener, handler)?;
        let thread = thread::Builder::new().name(name).spawn(move || server_loop.run())?;
        Ok(Self { local, shared, thread: Some(thread) })
    }

    /// Where it listens.
    pub(crate) fn local_address(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn waker(&self) -> ServerWaker {
        ServerWaker(self.shared.clone())
    }

    /// Closes the port and all connections, and joins the thread. What has been sent is written as far as the
    /// sockets take it at once.
    pub(crate) fn shutdown(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.wake();
        // A handler may own the last handle of its own server.
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            log::error!("the thread of the server on {} panicked", self.local);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("local", &self.local).finish_non_exhaustive()
    }
}

impl ServerWaker {
    /// Makes the server call [`Handler::tick`] soon. Any number of calls before that are one.
    pub(crate) fn wake(&self) {
        if !self.0.tick.swap(true, Ordering::SeqCst) {
            self.0.wake();
        }
    }
}

impl fmt::Debug for ServerWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerWaker")
    }
}

/// What peers, the loop and the owner share.
struct Shared {
    waker: Waker,
    stop: AtomicBool,
    tick: AtomicBool,
    /// Peers with something to write, to close, or to read again. The loop takes them at the end of a turn.
    touched: Mutex<Vec<Peer>>,
}

impl Shared {
    fn new(waker: Waker) -> Self {
        Self {
            waker,
            stop: AtomicBool::new(false),
            tick: AtomicBool::new(false),
            touched: Mutex::new(Vec::new()),
        }
    }

    fn wake(&self) {
        if let Err(e) = self.waker.wake() {
            log::error!("cannot wake a server: {e}");
        }
    }
}
