//! The loop of a server.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use super::{Handler, Peer, ServerConfig, Shared};
use crate::protocol::Frame;
use crate::remoting::call::guard;
use crate::remoting::connection::{End, Flow, Reader, Turn};
use crate::remoting::outbox::{Outbox, Taken};
use crate::remoting::tls::Acceptor;
use crate::remoting::tls::{Session, cause_of};

pub(super) const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
const FIRST_PEER: usize = 2;

/// Out of file descriptors, for example: no event tells when to try again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Loop<H> {
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
    session: Option<Session>,
}

impl<H: Handler> Loop<H> {
    pub(super) fn new(
        shared: Arc<Shared>,
        config: ServerConfig,
        poll: Poll,
        listener: std::net::TcpListener,
        handler: H,
    ) -> io::Result<Self> {
        let mut listener = TcpListener::from_std(listener);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self {
            shared,
            config,
            poll,
            listener,
            accept_again: None,
            handler,
            links: HashMap::new(),
            next_token: FIRST_PEER,
            readable: Vec::new(),
        })
    }

    pub(super) fn run(mut self) {
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
        let session = self.config.tls.as_ref().map(Acceptor::begin).transpose();
        let session = session.map_err(|cause| io::Error::other(cause.to_string()))?;
        let limit = self.config.outbox_limit;
        let outbox = if session.is_some() { Outbox::relayed(limit) } else { Outbox::new(limit) };
        let peer = Peer::new(token, stream, remote, local, outbox, session.is_some(), &self.shared);
        let reader = Reader::new(self.config.max_frame);
        self.links.insert(token, Link { peer: peer.clone(), reader, session });
        if !guard("the handler's `opened`", || self.handler.opened(&peer)) {
            peer.close();
        }
        Ok(())
    }

    fn on_event(&mut self, token: Token, writable: bool) {
        let Some(link) = self.links.get_mut(&token) else { return };
        if writable {
            link.writable();
            if link.is_to_be_closed() {
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
            if !link.peer.is_readable(self.config.high_water) {
                continue;
            }
            match link.read(&mut self.handler, self.config.high_water) {
                Turn::Drained | Turn::Stopped => {}
                Turn::More => self.want_to_read(token),
                Turn::Ended(end) => {
                    match end {
                        End::Closed => {}
                        End::Failed(e) if cause_of(&e).is_some() => {
                            log::info!("{} was refused: {e}", link.peer.remote());
                        }
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
            guard("the handler's `tick`", || self.handler.tick());
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
                let Some(link) = self.links.get_mut(&peer.token()) else { continue };
                link.flush();
                if link.is_to_be_closed() {
                    self.close(peer.token());
                } else if peer.take_unread() {
                    self.want_to_read(peer.token());
                }
            }
        }
    }

    fn close(&mut self, token: Token) {
        let Some(mut link) = self.links.remove(&token) else { return };
        if let Some(session) = &mut link.session {
            session.say_goodbye(link.peer.stream());
        }
        link.peer.hang_up();
        guard("the handler's `closed`", || self.handler.closed(&link.peer));
    }

    fn close_all(&mut self) {
        for token in self.links.keys().copied().collect::<Vec<_>>() {
            self.close(token);
        }
    }
}

impl Link {
    fn read(&mut self, handler: &mut impl Handler, high_water: usize) -> Turn {
        let peer = &self.peer;
        let take = |frame: Frame| {
            peer.note_encoding(frame.encoding());
            if !guard("the handler's `frame`", || handler.frame(peer, frame)) {
                peer.close();
            }
            Ok(if peer.is_readable(high_water) { Flow::Next } else { Flow::Stop })
        };
        let (_, turn) = match &mut self.session {
            None => self.reader.turn(peer.stream(), take),
            Some(session) => self.reader.turn(session.reader(peer.stream()), take),
        };
        // TLS answers some of what comes by itself, and what was sent during the handshake waits for its end.
        if self.session.is_some() && !matches!(turn, Turn::Ended(_)) {
            self.flush();
        }
        turn
    }

    /// Writes what the socket takes of what has been sent.
    fn flush(&mut self) {
        let flushed = match &mut self.session {
            None => self.peer.flush(),
            Some(session) => match session.flush(self.peer.outbox(), self.peer.stream()) {
                Ok(more) => {
                    if more {
                        self.peer.touch();
                    }
                    return;
                }
                Err(e) => Taken::Broken(e),
            },
        };
        if let Taken::Broken(e) = flushed {
            self.peer.broken(&e);
        }
    }

    fn writable(&mut self) {
        if self.session.is_some() {
            return self.flush();
        }
        if let Taken::Broken(e) = self.peer.writable() {
            self.peer.broken(&e);
        }
    }

    fn is_to_be_closed(&self) -> bool {
        let unwritten = self.session.as_ref().is_some_and(Session::has_unwritten);
        self.peer.is_to_be_closed(unwritten)
    }
}
