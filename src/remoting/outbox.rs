//! The write half of a connection: bytes that the socket has not taken yet, and who may write them.
//!
//! Whoever has something to send writes it himself while the socket takes it; what is left over is flushed by the
//! io thread when the socket has room again. The lock keeps frames whole. It is held for one round of non-blocking
//! writes at most.
//!
//! Where bytes are encrypted on their way, one thread alone writes: the others leave what they have here, and the
//! first one to do so wakes it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::Instant;

use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering};

/// What an outbox writes to: takes what it can without blocking.
pub(crate) trait Socket {
    fn write_some(&self, bytes: &[u8]) -> io::Result<usize>;
}

/// Bytes on their way to one socket.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    /// The socket has refused bytes, and the io thread flushes when it is writable again; or it is to write anyway,
    /// and has been told. Outside of the lock, so that the io thread, which hears "writable" with every read event,
    /// need not wait for somebody's write.
    blocked: AtomicBool,
    /// Told when there is room again, and when the phase changes.
    changed: Condvar,
}

/// Why a frame was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// More than the limit is waiting already.
    Full,
    /// The connection is closed.
    Closed,
}

/// What became of a frame that was taken.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It is written, or will be by the io thread.
    Accepted,
    /// It waits for the io thread, which has to be told.
    Left,
    /// The socket failed. The io thread closes the connection and completes what waits on it.
    Broken(io::Error),
}

impl Outbox {
    /// Takes frames while fewer than `limit` bytes wait; the last one may go beyond it.
    pub(crate) fn new(limit: usize) -> Self {
        Self::with(limit, false)
    }

    /// One that senders never write from: the io thread takes everything out with [`relay`](Self::relay).
    pub(crate) fn relayed(limit: usize) -> Self {
        Self::with(limit, true)
    }

    fn with(limit: usize, relayed: bool) -> Self {
        let state = State {
            relayed,
            phase: Phase::Opening,
            limit,
            bytes: Vec::new(),
            start: 0,
            frames: VecDeque::new(),
            front_written: 0,
            waiters: 0,
            announced: false,
        };
        Self { state: Mutex::new(state), blocked: AtomicBool::new(false), changed: Condvar::new() }
    }

    /// Sends a frame, now if the socket takes it. `room_by` lets the caller wait that long for room.
    pub(crate) fn send<S: Socket>(
        &self,
        frame: &[u8],
        opaque: Option<i32>,
        socket: &S,
        room_by: Option<Instant>,
    ) -> Result<Taken, Refused> {
        let mut state = self.admit(room_by)?;
        if state.relayed || state.phase != Phase::Open || !state.is_empty() {
            state.append(frame, opaque, 0);
            return Ok(self.write_out(&mut state, socket));
        }
        // Spares the copy into the buffer.
        let mut written = 0;
        let error = write_directly(frame, socket, &mut written).err();
        if written < frame.len() {
            state.append(frame, opaque, written);
        }
        Ok(match error {
            Some(error) => state.broke(error),
            None => self.write_out(&mut state, socket),
        })
    }

    /// Takes the frame that `encode` appends to the buffer, without writing it. True for the first one since the
    /// last flush: the caller has to see to it that somebody flushes.
    pub(crate) fn append<E>(
        &self,
        opaque: Option<i32>,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Result<bool, E>, Refused> {
        let mut state = self.admit(None)?;
        Ok(state.append_with(opaque, encode).map(|()| !std::mem::replace(&mut state.announced, true)))
    }

    /// Writes what has been appended, unless the io thread is waiting for room to do so.
    pub(crate) fn flush<S: Socket>(&self, socket: &S) -> Taken {
        let mut state = self.state.lock();
        state.announced = false;
        self.write_out(&mut state, socket)
    }

    /// The io thread's flush: the socket has room again.
    pub(crate) fn writable<S: Socket>(&self, socket: &S) -> Taken {
        let mut state = self.state.lock();
        self.write_until_blocked(&mut state, socket)
    }

    /// The io thread's part where it alone writes: moves up to `most` bytes to `into`, which count as written. False
    /// when nothing is left.
    pub(crate) fn relay(&self, into: &mut Vec<u8>, most: usize) -> bool {
        let mut state = self.state.lock();
        state.announced = false;
        if state.phase != Phase::Open {
            return false;
        }
        let taken = state.unwritten().len().min(most);
        into.extend_from_slice(state.unwritten().get(..taken).unwrap_or_default());
        state.advance(taken);
        let more = !state.is_empty();
        self.blocked.store(more, Ordering::SeqCst);
        self.tell_waiters(&state);
        more
    }

    /// Whether `writable`, or `relay`, has something to do.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::SeqCst)
    }

    /// The socket is connected: what has been collected meanwhile goes out.
    pub(crate) fn open<S: Socket>(&self, socket: &S) -> Taken {
        let mut state = self.state.lock();
        if state.phase == Phase::Opening {
            state.phase = Phase::Open;
        }
        let taken =
            if state.relayed { self.leave(&state) } else { self.write_until_blocked(&mut state, socket) };
        self.changed.notify_all();
        taken
    }

    /// Waits until the connection is open. False when it was closed instead, or not opened in time.
    pub(crate) fn wait_until_open(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        state.waiters += 1;
        let mut late = false;
        while state.phase == Phase::Opening && !late {
            (state, late) = self.changed.wait_until(state, deadline);
        }
        state.waiters -= 1;
        state.phase == Phase::Open
    }

    /// Takes back a frame of which nothing has been written. False if it is too late for that.
    pub(crate) fn cancel(&self, opaque: i32) -> bool {
        let mut state = self.state.lock();
        let cancelled = state.cancel(opaque);
        self.tell_waiters(&state);
        cancelled
    }

    /// Ends it, and returns the requests that have not been written as a whole: the peer cannot have seen them.
    pub(crate) fn close(&self) -> Vec<i32> {
        let mut state = self.state.lock();
        state.phase = Phase::Closed;
        state.bytes = Vec::new();
        state.start = 0;
        self.blocked.store(false, Ordering::SeqCst);
        self.changed.notify_all();
        std::mem::take(&mut state.frames).into_iter().filter_map(|frame| frame.opaque).collect()
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().len()
    }

    fn admit(&self, room_by: Option<Instant>) -> Result<MutexGuard<'_, State>, Refused> {
        let mut state = self.state.lock();
        while state.is_full() {
            let Some(deadline) = room_by else { return Err(Refused::Full) };
            state.waiters += 1;
            let late;
            (state, late) = self.changed.wait_until(state, deadline);
            state.waiters -= 1;
            if late && state.is_full() {
                return Err(Refused::Full);
            }
        }
        match state.phase {
            Phase::Opening | Phase::Open => Ok(state),
            Phase::Broken | Phase::Closed => Err(Refused::Closed),
        }
    }

    fn write_out<S: Socket>(&self, state: &mut State, socket: &S) -> Taken {
        if self.is_blocked() {
            Taken::Accepted
        } else if state.relayed {
            self.leave(state)
        } else {
            self.write_until_blocked(state, socket)
        }
    }

    /// Leaves everything to the io thread. Whoever raises the flag tells it.
    fn leave(&self, state: &State) -> Taken {
        if state.phase != Phase::Open || state.is_empty() || self.blocked.swap(true, Ordering::SeqCst) {
            return Taken::Accepted;
        }
        Taken::Left
    }

    /// Writes until the socket refuses.
    ///
    /// The first refusal only raises the flag, and then asks once more. Otherwise: our write is refused; the peer
    /// reads, the socket has room, the io thread hears of it, finds no flag and goes back to sleep; we raise the
    /// flag; nobody ever writes the rest.
    fn write_until_blocked<S: Socket>(&self, state: &mut State, socket: &S) -> Taken {
        while state.phase == Phase::Open && !state.is_empty() {
            match socket.write_some(state.unwritten()) {
                Ok(0) => return state.broke(ErrorKind::WriteZero.into()),
                Ok(n) => state.advance(n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if self.blocked.swap(true, Ordering::SeqCst) {
                        break;
                    }
                }
                Err(e) => return state.broke(e),
            }
        }
        if state.is_empty() {
            self.blocked.store(false, Ordering::SeqCst);
        }
        self.tell_waiters(state);
        Taken::Accepted
    }

    fn tell_waiters(&self, state: &State) {
        if state.waiters > 0 && !state.is_full() {
            self.changed.notify_all();
        }
    }
}

/// Writes what the socket takes; `written` counts, also when it fails.
fn write_directly<S: Socket>(frame: &[u8], socket: &S, written: &mut usize) -> io::Result<()> {
    while let Some(rest) = frame.get(*written..).filter(|rest| !rest.is_empty()) {
        match socket.write_some(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => *written += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The io thread alone writes.
    relayed: bool,
    limit: usize,
    /// The first `start` bytes are written.
    bytes: Vec<u8>,
    start: usize,
    /// The frames in `bytes` that are not written as a whole, oldest first.
    frames: VecDeque<Queued>,
    front_written: usize,
    waiters: usize,
    announced: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    Open,
    Broken,
    Closed,
}

#[derive(Debug)]
struct Queued {
    opaque: Option<i32>,
    len: usize,
}

impl State {
    fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn is_full(&self) -> bool {
        self.len() >= self.limit && matches!(self.phase, Phase::Opening | Phase::Open)
    }

    fn unwritten(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Takes over a frame of which the first `written` bytes are out already.
    fn append(&mut self, frame: &[u8], opaque: Option<i32>, written: usize) {
        self.compact();
        if self.frames.is_empty() {
            self.front_written = written;
        }
        self.bytes.extend_from_slice(frame.get(written..).unwrap_or_default());
        self.frames.push_back(Queued { opaque, len: frame.len() });
    }

    fn append_with<E>(
        &mut self,
        opaque: Option<i32>,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.compact();
        let before = self.bytes.len();
        if let Err(e) = encode(&mut self.bytes) {
            self.bytes.truncate(before);
            return Err(e);
        }
        if self.frames.is_empty() {
            self.front_written = 0;
        }
        self.frames.push_back(Queued { opaque, len: self.bytes.len() - before });
        Ok(())
    }

    fn compact(&mut self) {
        if self.start > 0 && self.start >= self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    fn advance(&mut self, written: usize) {
        self.start += written;
        self.front_written += written;
        while let Some(front) = self.frames.front()
            && front.len <= self.front_written
        {
            self.front_written -= front.len;
            self.frames.pop_front();
        }
        if self.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_CAPACITY);
            self.start = 0;
        }
    }

    fn cancel(&mut self, opaque: i32) -> bool {
        let mut begin = self.start;
        for (i, frame) in self.frames.iter().enumerate() {
            let written = if i == 0 { self.front_written } else { 0 };
            if frame.opaque == Some(opaque) {
                if written > 0 {
                    return false;
                }
                self.bytes.drain(begin..begin + frame.len);
                self.frames.remove(i);
                return true;
            }
            begin += frame.len - written;
        }
        false
    }

    fn broke(&mut self, error: io::Error) -> Taken {
        self.phase = Phase::Broken;
        Taken::Broken(error)
    }
}

/// A buffer that had to grow beyond that gives the rest back when it is empty.
const KEPT_CAPACITY: usize = 1 << 20;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

#[cfg(test)]
#[cfg(loom)]
mod model;
