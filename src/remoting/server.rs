//! The listening side: one thread that accepts, reads, calls a handler with each frame, and writes what the handler
//! has sent, once per connection and turn.

mod peer;

use std::collections::HashMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::Mutex;

pub(crate) use self::peer::Peer;
use super::connection::{End, Reader, Turn};
use super::outbox::Taken;
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
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            name: "rmq-broker".to_owned(),
            max_frame: MAX_FRAME,
            high_water: 4 << 20,
            outbox_limit: 256 << 20,
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
        let mut listener = TcpListener::from_std(listener);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let shared = Arc::new(Shared::new(waker));
        let name = config.name.clone();
        let server_loop = Loop::new(shared.clone(), config, poll, listener, handler);
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

const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
const FIRST_PEER: usize = 2;

/// Out of file descriptors, for example: no event tells when to try again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

struct Loop<H> {
    shared: Arc<Shared>,
    config: ServerConfig,
    poll: Poll,
    listener: TcpListener,
    accept_again: Option<Instant>,
    handler: H,
    links: HashMap<Token, Link>,
    next_token: usize,
    /// Peers that may have more to read.
    readable: Vec<Token>,
}

struct Link {
    peer: Peer,
    reader: Reader,
}

impl<H: Handler> Loop<H> {
    fn new(shared: Arc<Shared>, config: ServerConfig, poll: Poll, listener: TcpListener, handler: H) -> Self {
        Self {
            shared,
            config,
            poll,
            listener,
            accept_again: None,
            handler,
            links: HashMap::new(),
            next_token: FIRST_PEER,
            readable: Vec::new(),
        }
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        while !self.shared.stop.load(Ordering::SeqCst) {
            // The handler's calls are guarded one by one; this is for a bug of the loop itself.
            if catch_unwind(AssertUnwindSafe(|| self.turn(&mut events))).is_err() {
                log::error!("thread {} panicked; all connections are closed", self.config.name);
                self.close_all();
            }
        }
        self.settle();
        self.close_all();
    }

    fn turn(&mut self, events: &mut Events) {
        if let Err(e) = self.poll.poll(events, self.timeout()) {
            if e.kind() != ErrorKind::Interrupted {
                log::error!("poll: {e}");
            }
            return;
        }
        for event in &*events {
            match event.token() {
                WAKER => {}
                LISTENER => self.accept(),
                token => self.on_event(token, event.is_writable()),
            }
        }
        if self.accept_again.is_some_and(|at| at <= Instant::now()) {
            self.accept();
        }
        self.read();
        self.tick();
        self.settle();
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.readable.is_empty() || self.shared.tick.load(Ordering::SeqCst) {
            return Some(Duration::ZERO);
        }
        let next = self.handler.next_deadline().into_iter().chain(self.accept_again).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn accept(&mut self) {
        self.accept_again = None;
        loop {
            match self.listener.accept() {
                Ok((stream, remote)) => {
                    if let Err(e) = self.welcome(stream, remote) {
                        log::debug!("{remote}: {e}");
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(e) => {
                    log::warn!("cannot accept a connection: {e}");
                    self.accept_again = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn welcome(&mut self, mut stream: TcpStream, remote: SocketAddr) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let local = stream.local_addr()?;
        let token = Token(self.next_token);
        self.next_token += 1;
        self.poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let peer = Peer::new(token, stream, remote, local, self.config.outbox_limit, &self.shared);
        self.links.insert(token, Link { peer: peer.clone(), reader: Reader::new(self.config.max_frame) });
        if !guard("opened", || self.handler.opened(&peer)) {
            peer.close();
        }
        Ok(())
    }

    fn on_event(&mut self, token: Token, writable: bool) {
        let Some(link) = self.links.get(&token) else { return };
        if writable {
            if let Taken::Broken(e) = link.peer.writable() {
                link.peer.broken(&e);
            }
            if link.peer.is_to_be_closed() {
                return self.close(token);
            }
        }
        self.want_to_read(token);
    }

    fn want_to_read(&mut self, token: Token) {
        if !self.readable.contains(&token) {
            self.readable.push(token);
        }
    }

    fn read(&mut self) {
        for token in std::mem::take(&mut self.readable) {
            let Some(link) = self.links.get_mut(&token) else { continue };
            // It is read again when it is resumed.
            if link.peer.is_paused() {
                continue;
            }
            // And here when what waits for it has been written: at the end of this turn, or on an event.
            if link.peer.waiting() >= self.config.high_water {
                link.peer.leave_unread();
                continue;
            }
            match link.read(&mut self.handler) {
                Turn::Drained => {}
                Turn::More => self.want_to_read(token),
                Turn::Ended(end) => {
                    match end {
                        End::Closed => {}
                        End::Failed(e) => log::debug!("{}: {e}", link.peer.remote()),
                        End::Broken(e) => log::debug!("{} sent what is no frame: {e}", link.peer.remote()),
                    }
                    self.close(token);
                }
            }
        }
    }

    fn tick(&mut self) {
        let asked = self.shared.tick.swap(false, Ordering::SeqCst);
        if asked || self.handler.next_deadline().is_some_and(|at| at <= Instant::now()) {
            guard("tick", || self.handler.tick());
        }
    }

    /// Does what has been asked of peers during this turn: one write for each.
    fn settle(&mut self) {
        loop {
            let touched = std::mem::take(&mut *self.shared.touched.lock());
            if touched.is_empty() {
                return;
            }
            for peer in touched {
                if let Taken::Broken(e) = peer.flush() {
                    peer.broken(&e);
                }
                if peer.is_to_be_closed() {
                    self.close(peer.token());
                } else if peer.take_unread() {
                    self.want_to_read(peer.token());
                }
            }
        }
    }

    fn close(&mut self, token: Token) {
        let Some(link) = self.links.remove(&token) else { return };
        link.peer.hang_up();
        guard("closed", || self.handler.closed(&link.peer));
    }

    fn close_all(&mut self) {
        for token in self.links.keys().copied().collect::<Vec<_>>() {
            self.close(token);
        }
    }
}

impl Link {
    fn read(&mut self, handler: &mut impl Handler) -> Turn {
        let peer = &self.peer;
        let (_, turn) = self.reader.turn(peer.stream(), |frame| {
            if peer.is_closing() {
                return Ok(());
            }
            peer.note_encoding(frame.encoding());
            if !guard("frame", || handler.frame(peer, frame)) {
                peer.close();
            }
            Ok(())
        });
        turn
    }
}

/// Runs a call of the handler. False if it panicked.
fn guard(what: &str, call: impl FnOnce()) -> bool {
    let done = catch_unwind(AssertUnwindSafe(call)).is_ok();
    if !done {
        log::error!("the handler of a server panicked in `{what}`");
    }
    done
}
