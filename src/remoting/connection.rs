//! One connection of the client side, as senders and the io thread share it.

use std::collections::HashSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mio::Waker;
use mio::net::TcpStream;
use parking_lot::Mutex;

use super::call::Waiter;
use super::endpoint::Suspicion;
use super::outbox::{Outbox, Refused, Socket, Taken};
use super::pending::Pending;
use super::tls;
use super::{CallError, Cause};
use crate::protocol::{DecodeError, Frame, FrameDecoder};

/// Made by the first sender, dialled and closed by the io thread.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) address: Arc<str>,
    /// Of this connection alone, among all of its `Remoting`.
    pub(super) link: u64,
    pub(super) outbox: Outbox,
    pub(super) pending: Mutex<Pending<Waiter>>,
    pub(super) suspicion: Mutex<Suspicion>,
    line: Line,
    /// With TLS: lets the io thread see what was left in the outbox.
    relay: Option<Arc<Waker>>,
    /// Why it ended, as far as it is known.
    failure: OnceLock<Reason>,
    born: Instant,
    /// When the last byte came, in microseconds after `born`.
    heard: AtomicU64,
}

impl Conn {
    /// With `relay`, senders write nothing themselves: they leave it to the io thread and wake it.
    pub(super) fn new(
        address: Arc<str>,
        link: u64,
        outbox_limit: usize,
        relay: Option<Arc<Waker>>,
        now: Instant,
    ) -> Self {
        Self {
            address,
            link,
            outbox: if relay.is_some() { Outbox::relayed(outbox_limit) } else { Outbox::new(outbox_limit) },
            pending: Mutex::new(Pending::new()),
            suspicion: Mutex::new(Suspicion::default()),
            line: Line(OnceLock::new()),
            relay,
            failure: OnceLock::new(),
            born: now,
            heard: AtomicU64::new(0),
        }
    }

    /// Files a request. Without a deadline the waiter is a thread that looks at the time itself.
    pub(super) fn file(&self, waiter: Waiter, deadline: Option<Instant>) -> i32 {
        self.pending.lock().insert(waiter, deadline, Instant::now())
    }

    /// Takes the waiter of a request: to complete it is now the caller's business alone.
    pub(super) fn take(&self, opaque: i32) -> Option<Waiter> {
        self.pending.lock().take(opaque)
    }

    /// Sends a frame, or leaves it for the io thread; `room_by` lets a full outbox wait that long.
    pub(super) fn send(
        &self,
        frame: &[u8],
        opaque: Option<i32>,
        room_by: Option<Instant>,
    ) -> Result<Taken, Refused> {
        self.outbox.send(frame, opaque, &self.line, room_by)
    }

    pub(super) fn flush(&self) -> Taken {
        self.outbox.flush(&self.line)
    }

    /// io thread: the socket is writable.
    pub(super) fn writable(&self) -> Taken {
        self.outbox.writable(&self.line)
    }

    /// io thread: the socket is connected; what waits goes out.
    pub(super) fn open(&self, stream: TcpStream, local: SocketAddr, now: Instant) -> Taken {
        self.hear(now);
        // Set once: a connection is dialled once, and moves here from the attempt that succeeded.
        drop(self.line.0.set(Connected { stream, local }));
        self.outbox.open(&self.line)
    }

    /// Fails every request whose deadline has come.
    pub(super) fn expire(&self, now: Instant) {
        let expired = self.pending.lock().expire(now);
        for (opaque, waiter) in expired {
            let written = !self.outbox.cancel(opaque);
            waiter.complete(Err(CallError::Timeout { written }));
        }
    }

    /// A write failed. The io thread ends the connection; shutting the socket down lets it know.
    pub(super) fn broken(&self, error: &io::Error) {
        drop(self.failure.set(Reason::Lost(error.to_string().into())));
        self.hang_up();
    }

    /// Something was left in the outbox for the io thread.
    pub(super) fn wake_io(&self) {
        let woken = self.relay.as_ref().map(|waker| waker.wake());
        if let Some(Err(e)) = woken {
            log::error!("cannot wake the io thread: {e}");
        }
    }

    /// io thread: ends it. The requests are still filed; [`fail`](Self::fail) completes them. Returns those that have
    /// not been written as a whole.
    pub(super) fn close(&self, reason: &Reason) -> HashSet<i32> {
        drop(self.failure.set(reason.clone()));
        let unwritten = self.outbox.close().into_iter().collect();
        self.hang_up();
        unwritten
    }

    /// Why it ended, if it did.
    pub(super) fn failure(&self) -> Option<&Reason> {
        self.failure.get()
    }

    fn hang_up(&self) {
        if let Some(stream) = self.stream() {
            // Fails when the peer has closed it already.
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// Fails what is still filed.
    pub(super) fn fail(&self, unwritten: &HashSet<i32>, reason: &Reason) {
        let waiters = self.pending.lock().drain();
        for (opaque, waiter) in waiters {
            waiter.complete(Err(reason.error(!unwritten.contains(&opaque))));
        }
    }

    pub(super) fn hear(&self, now: Instant) {
        let micros = now.saturating_duration_since(self.born).as_micros();
        self.heard.store(u64::try_from(micros).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn heard(&self) -> Instant {
        self.born + Duration::from_micros(self.heard.load(Ordering::Relaxed))
    }

    pub(super) fn stream(&self) -> Option<&TcpStream> {
        self.line.0.get().map(|connected| &connected.stream)
    }

    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        self.line.0.get().map(|connected| connected.local)
    }
}

/// Nobody is left who could complete what is still filed: the client was shut down while a sender was half-way.
impl Drop for Conn {
    fn drop(&mut self) {
        self.fail(&HashSet::new(), &Reason::Shutdown);
    }
}

/// The socket of a connection once there is one.
#[derive(Debug)]
struct Line(OnceLock<Connected>);

#[derive(Debug)]
struct Connected {
    stream: TcpStream,
    local: SocketAddr,
}

impl Socket for Line {
    fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        // The outbox is opened after the socket is there, and asks it only when open.
        self.0.get().ok_or(ErrorKind::NotConnected)?.stream.write_some(bytes)
    }
}

impl Socket for TcpStream {
    fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut stream = self;
        stream.write(bytes)
    }
}

/// Why a connection ends.
#[derive(Debug, Clone)]
pub(super) enum Reason {
    /// It was never open.
    Unreachable(Cause),
    Lost(Cause),
    /// The peer sent bytes that are no frame.
    Broken(DecodeError),
    /// We closed it.
    Released(Cause),
    Shutdown,
}

impl Reason {
    pub(super) fn error(&self, written: bool) -> CallError {
        match self {
            Self::Unreachable(cause) => CallError::Unreachable { cause: cause.clone() },
            Self::Lost(cause) | Self::Released(cause) => CallError::Lost { written, cause: cause.clone() },
            Self::Broken(_) if !written => CallError::Lost { written, cause: self.cause() },
            Self::Broken(error) => CallError::Decode(error.clone()),
            Self::Shutdown => CallError::Closed,
        }
    }

    pub(super) fn text(&self) -> Arc<str> {
        self.cause().text().clone()
    }

    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Unreachable(cause) | Self::Lost(cause) | Self::Released(cause) => cause.clone(),
            Self::Broken(error) => format!("the server sent what is no frame: {error}").into(),
            Self::Shutdown => "shut down".into(),
        }
    }
}

/// The read half: bytes to frames, a bounded number of bytes at a time.
#[derive(Debug)]
pub(super) struct Reader {
    decoder: FrameDecoder,
}

/// What who takes a frame says to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    /// Not now: what has been read already is kept for the next turn.
    Stop,
}

/// How a turn of reading ended.
#[derive(Debug)]
pub(super) enum Turn {
    /// Everything that was there has been read.
    Drained,
    /// There may be more, and others are waiting.
    More,
    /// Who takes the frames wants no more now.
    Stopped,
    Ended(End),
}

/// Why there is nothing more to read.
#[derive(Debug)]
pub(super) enum End {
    Closed,
    Failed(io::Error),
    Broken(DecodeError),
}

/// One connection that sends without a pause must not keep the others from being read.
const TURN: usize = 1 << 20;

impl Reader {
    pub(super) fn new(max_frame: usize) -> Self {
        Self { decoder: FrameDecoder::new(max_frame) }
    }

    /// Reads until the socket has nothing more, or the turn is over. `take` gets every whole frame, and may say that
    /// it is none. Returns the bytes read, too.
    pub(super) fn turn(
        &mut self,
        mut source: impl Read,
        mut take: impl FnMut(Frame) -> Result<Flow, DecodeError>,
    ) -> (usize, Turn) {
        let mut total = 0;
        loop {
            match self.take_frames(&mut take) {
                Ok(Flow::Next) => {}
                Ok(Flow::Stop) => return (total, Turn::Stopped),
                Err(error) => return (total, Turn::Ended(End::Broken(error))),
            }
            if total >= TURN {
                return (total, Turn::More);
            }
            match source.read(self.decoder.spare()) {
                Ok(0) => return (total, Turn::Ended(End::Closed)),
                Ok(n) => {
                    total += n;
                    self.decoder.filled(n);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return (total, Turn::Drained),
                Err(e) => return (total, Turn::Ended(End::Failed(e))),
            }
        }
    }

    fn take_frames(
        &mut self,
        take: &mut impl FnMut(Frame) -> Result<Flow, DecodeError>,
    ) -> Result<Flow, DecodeError> {
        while let Some(frame) = self.decoder.next_frame()? {
            if take(frame)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Next)
    }
}

impl End {
    pub(super) fn reason(self) -> Reason {
        match self {
            Self::Closed => Reason::Lost("closed by the server".into()),
            Self::Failed(e) => Reason::Lost(tls::cause_of(&e).unwrap_or_else(|| e.to_string().into())),
            Self::Broken(error) => Reason::Broken(error),
        }
    }
}
