use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};

use mio::Token;
use mio::net::TcpStream;

use super::Shared;
use crate::protocol::{EncodeError, Encoding, RemotingCommand, encode};
use crate::remoting::outbox::{Outbox, Refused, Taken};

/// One connection to a server, for the handler and for others that want to send to it.
///
/// What the server's own thread sends is collected and written at the end of its turn; what other threads send is
/// written at once, as far as the socket takes it. Nothing here blocks. After the connection is gone all this does
/// nothing.
#[derive(Clone)]
pub(crate) struct Peer(Arc<Inner>);

struct Inner {
    id: u64,
    token: Token,
    stream: TcpStream,
    remote: SocketAddr,
    local: SocketAddr,
    outbox: Outbox,
    /// With TLS the server's thread alone writes.
    relayed: bool,
    encoding: AtomicU8,
    flags: AtomicU8,
    server: Weak<Shared>,
    server_thread: ThreadId,
}

/// Close now.
const CLOSE: u8 = 1;
/// Close when everything is written.
const CLOSE_AFTER_FLUSH: u8 = 2;
/// Do not read.
const PAUSED: u8 = 4;
/// There may be something to read of which no event will tell.
const UNREAD: u8 = 8;

const BINARY: u8 = 1;

impl Peer {
    /// On the server's thread.
    pub(super) fn new(
        token: Token,
        stream: TcpStream,
        remote: SocketAddr,
        local: SocketAddr,
        outbox: Outbox,
        relayed: bool,
        server: &Arc<Shared>,
    ) -> Self {
        outbox.open(&stream);
        Self(Arc::new(Inner {
            id: token.0 as u64,
            token,
            stream,
            remote,
            local,
            outbox,
            relayed,
            encoding: AtomicU8::new(0),
            flags: AtomicU8::new(0),
            server: Arc::downgrade(server),
            server_thread: thread::current().id(),
        }))
    }

    /// Of this connection alone, in this server.
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// The other end.
    pub(crate) fn remote(&self) -> SocketAddr {
        self.0.remote
    }

    /// Our end.
    pub(crate) fn local(&self) -> SocketAddr {
        self.0.local
    }

    /// Sends a command in the encoding that the peer used last; JSON before it has said anything.
    pub(crate) fn send(&self, command: &RemotingCommand) {
        log::trace!("to {}: {command:?}", self.0.remote);
        self.append(|bytes| encode(command, self.encoding(), bytes));
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&self, raw: &[u8]) {
        self.append(|bytes| {
            bytes.extend_from_slice(raw);
            Ok(())
        });
    }

    /// The encoding that the peer used last.
    pub(crate) fn encoding(&self) -> Encoding {
        if self.0.encoding.load(Ordering::Relaxed) == BINARY { Encoding::Binary } else { Encoding::Json }
    }

    /// Bytes that wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.0.outbox.len()
    }

    /// Closes the connection at the end of this turn.
    pub(crate) fn close(&self) {
        self.raise(CLOSE);
        self.touch();
    }

    /// Closes the connection when everything that has been sent so far is written.
    pub(crate) fn close_after_flush(&self) {
        self.raise(CLOSE_AFTER_FLUSH);
        self.touch();
    }

    /// Stops reading, or goes on with it. What has been read already still comes.
    pub(crate) fn pause_reading(&self, pause: bool) {
        if pause {
            self.raise(PAUSED);
        } else {
            self.0.flags.fetch_and(!PAUSED, Ordering::SeqCst);
            self.raise(UNREAD);
            self.touch();
        }
    }

    pub(super) fn token(&self) -> Token {
        self.0.token
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.0.stream
    }

    pub(super) fn outbox(&self) -> &Outbox {
        &self.0.outbox
    }

    pub(super) fn note_encoding(&self, encoding: Encoding) {
        let encoding = if encoding == Encoding::Binary { BINARY } else { 0 };
        self.0.encoding.store(encoding, Ordering::Relaxed);
    }

    /// Whether to go on reading. If not, the end of the turn or an event brings the loop back to it, or whoever has
    /// paused it.
    pub(super) fn is_readable(&self, high_water: usize) -> bool {
        if self.has(PAUSED | CLOSE | CLOSE_AFTER_FLUSH) {
            return false;
        }
        if self.waiting() < high_water {
            return true;
        }
        self.raise(UNREAD);
        // Another thread may have written everything in between, before it could see the mark.
        self.waiting() < high_water
    }

    /// Whether it has been closed by `close`, or by `close_after_flush` and everything is written; `unwritten` says
    /// that something left the outbox and is not.
    pub(super) fn is_to_be_closed(&self, unwritten: bool) -> bool {
        self.has(CLOSE) || (self.has(CLOSE_AFTER_FLUSH) && self.waiting() == 0 && !unwritten)
    }

    fn is_closing(&self) -> bool {
        self.has(CLOSE | CLOSE_AFTER_FLUSH)
    }

    pub(super) fn take_unread(&self) -> bool {
        self.0.flags.fetch_and(!UNREAD, Ordering::SeqCst) & UNREAD != 0
    }

    pub(super) fn flush(&self) -> Taken {
        self.0.outbox.flush(&self.0.stream)
    }

    /// The socket has room again.
    pub(super) fn writable(&self) -> Taken {
        if self.0.outbox.is_blocked() { self.0.outbox.writable(&self.0.stream) } else { Taken::Accepted }
    }

    pub(super) fn hang_up(&self) {
        self.0.outbox.close();
        // Fails when the other side was first.
        drop(self.0.stream.shutdown(Shutdown::Both));
    }

    pub(super) fn broken(&self, error: &io::Error) {
        log::debug!("{}: {error}", self.0.remote);
        self.close();
    }

    fn append(&self, encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>) {
        if self.is_closing() {
            return;
        }
        match self.0.outbox.append(None, encode) {
            Ok(Ok(first)) => self.appended(first),
            Ok(Err(e)) => log::error!("an answer to {} cannot be encoded: {e}", self.0.remote),
            Err(Refused::Closed) => {}
            Err(Refused::Full) => {
                log::warn!("{} does not read what it asks for: cut off", self.0.remote);
                self.close();
            }
        }
    }

    fn appended(&self, first: bool) {
        if thread::current().id() != self.0.server_thread && !self.0.relayed {
            match self.flush() {
                Taken::Broken(e) => self.broken(&e),
                Taken::Accepted if self.has(UNREAD) => self.touch(),
                Taken::Accepted | Taken::Left => {}
            }
        } else if first {
            self.touch();
        }
    }

    /// Has the loop look at this peer.
    pub(super) fn touch(&self) {
        let Some(server) = self.0.server.upgrade() else { return };
        server.touched.lock().push(self.clone());
        if thread::current().id() != self.0.server_thread {
            server.wake();
        }
    }

    fn has(&self, flag: u8) -> bool {
        self.0.flags.load(Ordering::SeqCst) & flag != 0
    }

    fn raise(&self, flag: u8) {
        self.0.flags.fetch_or(flag, Ordering::SeqCst);
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("id", &self.0.id).field("remote", &self.0.remote).finish_non_exhaustive()
    }
}
