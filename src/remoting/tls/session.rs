//! One encrypted connection, of either side.

use std::io::{self, ErrorKind, Read, Write};

use mio::net::TcpStream;
use rustls::Connection;

use super::failure::{Hints, as_io, cause_of, explain, hung_up};
use crate::remoting::Cause;
use crate::remoting::outbox::Outbox;

/// Encrypts and decrypts for one socket; for the thread that owns it, without ever blocking.
pub(crate) struct Session {
    tls: Connection,
    hints: Hints,
    /// The socket took no more; an event will tell when it does.
    stuck: bool,
    /// Read from the socket, not yet decrypted.
    wire: Wire,
    /// On its way from the outbox.
    plain: Vec<u8>,
}

struct Wire {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

/// How much is encrypted before it is written: senders wait in the outbox, where they can be counted and taken back.
const CHUNK: usize = 64 << 10;
/// So many chunks, and others get their turn.
const CHUNKS: usize = 16;
const READ: usize = 64 << 10;

impl Session {
    pub(super) fn new(mut tls: Connection, hints: Hints) -> Self {
        // No more than a chunk is ever in it.
        tls.set_buffer_limit(None);
        let wire = Wire { bytes: vec![0; READ], start: 0, end: 0 };
        Self { tls, hints, stuck: false, wire, plain: Vec::new() }
    }

    /// Goes on with the handshake. True when it is through.
    pub(crate) fn handshake(&mut self, stream: &TcpStream) -> Result<bool, Cause> {
        loop {
            // What the server has said last tells more than that it reads no more.
            let pushed = self.push(stream);
            if !self.tls.is_handshaking() && pushed.is_ok() {
                return Ok(true);
            }
            match self.pull(stream) {
                Ok(0) => return Err(hung_up()),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    return pushed.map(|()| false).map_err(|e| lost(&e));
                }
                Err(e) => return Err(cause_of(&e).unwrap_or_else(|| lost(&e))),
            }
        }
    }

    /// Encrypts and writes what waits in the outbox, as far as the socket takes it. True if it stopped for the sake of
    /// others and has to be called again.
    pub(crate) fn flush(&mut self, outbox: &Outbox, stream: &TcpStream) -> io::Result<bool> {
        for _ in 0..CHUNKS {
            self.push(stream)?;
            if self.stuck || self.tls.is_handshaking() {
                return Ok(false);
            }
            self.plain.clear();
            outbox.relay(&mut self.plain, CHUNK);
            if self.plain.is_empty() {
                return Ok(false);
            }
            self.tls.writer().write_all(&self.plain)?;
        }
        self.push(stream)?;
        Ok(!self.stuck)
    }

    /// Whether the socket took no more the last time.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck
    }

    /// Whether something is encrypted and not written.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.tls.wants_write()
    }

    /// What the other side sends, decrypted. Writing may be necessary after reading: see
    /// [`has_unwritten`](Self::has_unwritten).
    pub(crate) fn reader<'a>(&'a mut self, stream: &'a TcpStream) -> impl Read + use<'a> {
        Decrypted { session: self, stream }
    }

    /// Lets the other side know that nothing more comes, if the socket takes it.
    pub(crate) fn say_goodbye(&mut self, stream: &TcpStream) {
        self.tls.send_close_notify();
        // It may be gone already, and will notice anyway.
        drop(self.push(stream));
    }

    /// Writes what is encrypted, until the socket takes no more.
    fn push(&mut self, stream: &TcpStream) -> io::Result<()> {
        self.stuck = false;
        let mut stream = stream;
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.stuck = true;
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Decrypts some of what has come. 0 at the end of the stream.
    fn pull(&mut self, stream: &TcpStream) -> io::Result<usize> {
        if self.wire.is_empty() && self.wire.fill(stream)? == 0 {
            return Ok(0);
        }
        let taken = self.tls.read_tls(&mut self.wire)?;
        let early = self.tls.is_handshaking();
        if let Err(error) = self.tls.process_new_packets() {
            // The alert that says why; it may be too late for it.
            drop(self.push(stream));
            return Err(as_io(explain(&error, &self.hints, early)));
        }
        Ok(taken)
    }
}

fn lost(error: &io::Error) -> Cause {
    format!("the connection was lost in the TLS handshake: {error}").into()
}

struct Decrypted<'a> {
    session: &'a mut Session,
    stream: &'a TcpStream,
}

impl Read for Decrypted<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.tls.reader().read(into) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                // A clean end, or so many bytes.
                decided => return decided,
            }
            if self.session.pull(self.stream)? == 0 {
                return Ok(0);
            }
        }
    }
}

impl Wire {
    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Only when it is empty.
    fn fill(&mut self, mut stream: &TcpStream) -> io::Result<usize> {
        let read = stream.read(&mut self.bytes)?;
        (self.start, self.end) = (0, read);
        Ok(read)
    }
}

/// For rustls, which reads a few kilobytes at a time.
impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = self.bytes.get(self.start..self.end).unwrap_or_default();
        let n = rest.len().min(into.len());
        if let (Some(to), Some(from)) = (into.get_mut(..n), rest.get(..n)) {
            to.copy_from_slice(from);
        }
        self.start += n;
        Ok(n)
    }
}
