//! The io thread: connects, reads, splits frames, matches answers to requests, writes what senders left over, and
//! fails requests whose time is over.
//!
//! It never waits for another thread, runs no user code and decodes no message. It locks one pending table or one
//! outbox at a time.

mod connecting;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Poll, Token};

use super::attempt::Candidates;
use super::connection::{Conn, End, Flow, Reader, Reason, Turn};
use super::jitter::Jitter;
use super::resolve::Resolved;
use super::shared::Shared;
use super::tls::{Plan, Session};
use super::{Incoming, LinkEvent};
use crate::error::ErrorKind;
use crate::protocol::{DecodeError, Frame};

pub(super) const WAKER: Token = Token(0);

/// What handles ask of the io thread.
#[derive(Debug)]
pub(super) enum Command {
    Connect(Arc<Conn>),
    Resolved(Arc<Conn>, Resolved),
    Close(Arc<Conn>, Arc<str>),
    Shutdown { flush_until: Instant },
}

pub(super) struct Reactor {
    shared: Arc<Shared>,
    poll: Poll,
    commands: Receiver<Command>,
    sockets: HashMap<Token, Socket>,
    /// Hosts that are being looked up, and until when that may take.
    resolving: Vec<(Arc<Conn>, Instant)>,
    /// A counter, never reused: an event for a socket that is gone finds nobody.
    next_token: usize,
    /// Sockets that may have more to read.
    readable: Vec<Token>,
    jitter: Jitter,
    /// When the alarm has to be set anew.
    alarm: Option<Instant>,
    stop: Option<Instant>,
}

enum Socket {
    Connecting(Connecting),
    Open(Open),
}

struct Connecting {
    conn: Arc<Conn>,
    stream: TcpStream,
    peer: SocketAddr,
    until: Instant,
    candidates: Candidates,
    plan: Option<Plan>,
    /// Once the socket is connected, with TLS.
    session: Option<Session>,
}

struct Open {
    conn: Arc<Conn>,
    reader: Reader,
    session: Option<Session>,
    /// The server has said something.
    heard: bool,
    /// A write of ours failed: when there is nothing more to read, it ends.
    failed: Option<Reason>,
}

impl Reactor {
    pub(super) fn new(shared: Arc<Shared>, poll: Poll, commands: Receiver<Command>) -> Self {
        Self {
            shared,
            poll,
            commands,
            sockets: HashMap::new(),
            resolving: Vec::new(),
            next_token: WAKER.0 + 1,
            readable: Vec::new(),
            jitter: Jitter::new(),
            alarm: None,
            stop: None,
        }
    }

    /// Runs until it is told to stop.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(256);
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.turn(&mut events))) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    // A bug of ours. What hangs on a connection may be half done, so all of them end; senders
                    // connect again.
                    log::error!("thread {} panicked; all connections are closed", self.shared.config.name);
                    self.end_all(&Reason::Lost("internal error in the io thread".into()));
                }
            }
        }
        self.end_all(&Reason::Shutdown);
    }

    /// One round. False when it is time to end.
    fn turn(&mut self, events: &mut Events) -> bool {
        if let Err(e) = self.poll.poll(events, self.timeout()) {
            if e.kind() != io::ErrorKind::Interrupted {
                log::error!("poll: {e}");
            }
            return true;
        }
        let mut woken = false;
        for event in &*events {
            match event.token() {
                WAKER => woken = true,
                token => self.on_event(token, event),
            }
        }
        if woken {
            self.obey();
            self.relay_all();
        }
        self.read();
        self.keep_time(woken);
        !self.is_done()
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.readable.is_empty() {
            return Some(Duration::ZERO);
        }
        let connecting = self.sockets.values().filter_map(|socket| match socket {
            Socket::Connecting(connecting) => Some(connecting.until),
            Socket::Open(_) => None,
        });
        let resolving = self.resolving.iter().map(|(_, until)| *until);
        let next = connecting.chain(resolving).chain(self.alarm).chain(self.stop).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn on_event(&mut self, token: Token, event: &Event) {
        match self.sockets.get_mut(&token) {
            None => {}
            Some(Socket::Connecting(_)) => self.advance(token),
            Some(Socket::Open(open)) => {
                let failed = event.is_writable() && !open.writable();
                if (failed || event.is_readable() || event.is_read_closed() || event.is_error())
                    && !self.readable.contains(&token)
                {
                    self.readable.push(token);
                }
            }
        }
    }

    fn obey(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Connect(conn) => self.connect(conn),
                Command::Resolved(conn, resolved) => self.resolved(conn, resolved),
                Command::Close(conn, why) => self.close(&conn, why),
                Command::Shutdown { flush_until } => self.stop = Some(flush_until),
            }
        }
    }

    // Reading

    fn read(&mut self) {
        for token in std::mem::take(&mut self.readable) {
            let Some(Socket::Open(open)) = self.sockets.get_mut(&token) else { continue };
            let turn = open.read(&self.shared);
            let reason = match turn {
                Turn::More => {
                    self.readable.push(token);
                    continue;
                }
                Turn::Drained | Turn::Stopped => match open.failed.take() {
                    None => continue,
                    Some(reason) => reason,
                },
                Turn::Ended(end) => open.reason(end),
            };
            let conn = open.conn.clone();
            self.sockets.remove(&token);
            self.end(&conn, &reason);
        }
    }

    // TLS: what senders leave in their outboxes

    fn relay_all(&mut self) {
        let mut failed = Vec::new();
        for (token, socket) in &mut self.sockets {
            if let Socket::Open(open) = socket
                && open.conn.outbox.is_blocked()
                && open.session.as_ref().is_some_and(|session| !session.is_stuck())
                && !open.relay()
            {
                failed.push(*token);
            }
        }
        // The server may have said why.
        self.readable.extend(failed);
    }

    // Time

    /// Sets the alarm when its time has come, or when a sender has said that it is too late. Otherwise it stays: an
    /// answered request may leave it too early, but to move it would mean that the next request wakes us again.
    fn keep_time(&mut self, woken: bool) {
        let now = Instant::now();
        self.expire_attempts(now);
        if woken || self.alarm.is_some_and(|at| at <= now) {
            self.expire_requests(now);
        }
    }

    fn expire_attempts(&mut self, now: Instant) {
        let late = self.sockets.iter().filter_map(|(token, socket)| match socket {
            Socket::Connecting(connecting) if connecting.until <= now => Some(*token),
            _ => None,
        });
        for token in late.collect::<Vec<_>>() {
            self.attempt_timed_out(token);
        }
        while let Some(at) = self.resolving.iter().position(|(_, until)| *until <= now) {
            let (conn, _) = self.resolving.swap_remove(at);
            self.end(&conn, &Reason::Unreachable("the look-up of the host timed out".into()));
        }
    }

    fn expire_requests(&mut self, now: Instant) {
        let conns: Vec<_> = self.all_conns().cloned().collect();
        for conn in &conns {
            conn.expire(now);
        }
        let earliest = self.shared.alarm.set(|| {
            let deadlines = conns.iter().filter_map(|conn| conn.pending.lock().next_deadline());
            deadlines.min().map(|at| self.shared.micros(at))
        });
        self.alarm = if earliest == u64::MAX { None } else { self.shared.instant(earliest) };
    }

    fn all_conns(&self) -> impl Iterator<Item = &Arc<Conn>> {
        let sockets = self.sockets.values().map(|socket| match socket {
            Socket::Connecting(connecting) => &connecting.conn,
            Socket::Open(open) => &open.conn,
        });
        sockets.chain(self.resolving.iter().map(|(conn, _)| conn))
    }

    // Ending

    fn is_done(&self) -> bool {
        let Some(flush_until) = self.stop else { return false };
        let mut open = self.sockets.values().filter_map(|socket| match socket {
            Socket::Open(open) => Some(open),
            Socket::Connecting(_) => None,
        });
        Instant::now() >= flush_until || open.all(Open::is_flushed)
    }

    fn close(&mut self, conn: &Arc<Conn>, why: Arc<str>) {
        self.resolving.retain(|(own, _)| !Arc::ptr_eq(own, conn));
        let token = self.sockets.iter().find_map(|(token, socket)| match socket {
            Socket::Connecting(connecting) => Arc::ptr_eq(&connecting.conn, conn).then_some(*token),
            Socket::Open(open) => Arc::ptr_eq(&open.conn, conn).then_some(*token),
        });
        match token.and_then(|token| self.sockets.remove(&token)) {
            Some(Socket::Connecting(mut connecting)) => self.deregister(&mut connecting.stream),
            Some(Socket::Open(mut open)) => open.say_goodbye(),
            None => {}
        }
        self.end(conn, &Reason::Released(why.into()));
    }

    /// Fails what waits on a connection whose socket is not in the table any more.
    fn end(&mut self, conn: &Arc<Conn>, reason: &Reason) {
        log::debug!("connection to {} ended: {}", conn.address, reason.text());
        self.shared.end(conn, reason, self.jitter.next());
        if !matches!(reason, Reason::Shutdown) {
            self.shared.on_link(LinkEvent::Down { address: conn.address.clone(), error: reason.text() });
        }
    }

    fn end_all(&mut self, reason: &Reason) {
        let mut conns: Vec<_> = self.all_conns().cloned().collect();
        conns.extend(self.shared.conns());
        // Those that have been asked for and not been seen yet, or are on their way out.
        conns.extend(self.commands.try_iter().filter_map(|command| match command {
            Command::Connect(conn) | Command::Resolved(conn, _) | Command::Close(conn, _) => Some(conn),
            Command::Shutdown { flush_until } => {
                self.stop = Some(flush_until);
                None
            }
        }));
        for (_, socket) in self.sockets.drain() {
            if let Socket::Open(mut open) = socket {
                open.say_goodbye();
            }
        }
        self.resolving.clear();
        self.readable.clear();
        conns.sort_by_key(Arc::as_ptr);
        conns.dedup_by_key(|conn| Arc::as_ptr(conn));
        for conn in conns {
            self.end(&conn, reason);
        }
    }

    fn deregister(&self, stream: &mut TcpStream) {
        if let Err(e) = self.poll.registry().deregister(stream) {
            log::debug!("deregister: {e}");
        }
    }
}

impl Open {
    fn read(&mut self, shared: &Shared) -> Turn {
        let conn = &self.conn;
        let Some(stream) = conn.stream() else { return Turn::Drained };
        let take = |frame| deliver(shared, conn, frame);
        let (bytes, turn) = match &mut self.session {
            None => self.reader.turn(stream, take),
            Some(session) => self.reader.turn(session.reader(stream), take),
        };
        if bytes > 0 {
            self.heard = true;
            shared.received.fetch_add(bytes as u64, Ordering::Relaxed);
            conn.hear(Instant::now());
        }
        // TLS answers some of what comes by itself.
        let answers = self.session.as_ref().is_some_and(Session::has_unwritten);
        if answers && !matches!(turn, Turn::Ended(_)) && !self.relay() {
            return Turn::More;
        }
        turn
    }

    /// The socket has room again. False as of `relay`.
    fn writable(&mut self) -> bool {
        let conn = &self.conn;
        match &self.session {
            None if conn.outbox.is_blocked() => conn.settle(conn.writable()),
            Some(session) if session.has_unwritten() || conn.outbox.is_blocked() => return self.relay(),
            _ => {}
        }
        true
    }

    /// With TLS: writes what waits. False if that failed: it ends when everything is read that the server has said.
    fn relay(&mut self) -> bool {
        let (Some(session), Some(stream)) = (&mut self.session, self.conn.stream()) else { return true };
        match session.flush(&self.conn.outbox, stream) {
            Ok(false) => true,
            Ok(true) => {
                self.conn.wake_io();
                true
            }
            Err(e) => {
                self.failed = Some(Reason::Lost(e.to_string().into()));
                false
            }
        }
    }

    fn is_flushed(&self) -> bool {
        self.conn.outbox.len() == 0 && !self.session.as_ref().is_some_and(Session::has_unwritten)
    }

    fn say_goodbye(&mut self) {
        if let (Some(session), Some(stream)) = (&mut self.session, self.conn.stream()) {
            session.say_goodbye(stream);
        }
    }

    /// A write that failed knows more than a read that finds the socket shut down, and TLS more than both.
    fn reason(&mut self, end: End) -> Reason {
        let wants_tls = matches!(end, End::Closed) && !self.heard && self.session.is_none();
        let read = match wants_tls {
            true => {
                Reason::Lost("closed by the server without a word: one that wants TLS does that, too".into())
            }
            false => end.reason(),
        };
        if read.cause().kind() != ErrorKind::Unreachable {
            return read;
        }
        self.failed.take().or_else(|| self.conn.failure().cloned()).unwrap_or(read)
    }
}

/// Passes a frame on: an answer to who waits for it, a request to the upper rooms.
fn deliver(shared: &Shared, conn: &Arc<Conn>, frame: Frame) -> Result<Flow, DecodeError> {
    let head = frame.head()?;
    if !head.is_response() {
        log::trace!("request {} from {}", head.code, conn.address);
        shared.on_request(Incoming::new(conn.clone(), frame, head));
    } else if let Some(waiter) = conn.take(head.opaque) {
        waiter.complete(Ok(frame));
    } else {
        shared.late_replies.fetch_add(1, Ordering::Relaxed);
        log::debug!("answer {} from {} came too late", head.opaque, conn.address);
    }
    Ok(Flow::Next)
}
