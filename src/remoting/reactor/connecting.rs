//! From an address to an open connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use mio::net::TcpStream;
use mio::{Interest, Token};

use super::{Connecting, Open, Reactor, Socket};
use crate::remoting::attempt::{Candidates, is_through};
use crate::remoting::connection::{Conn, Reader, Reason};
use crate::remoting::resolve::{self, Resolved};
use crate::remoting::tls::Plan;
use crate::remoting::{Cause, LinkEvent};

impl Reactor {
    pub(super) fn connect(&mut self, conn: Arc<Conn>) {
        let deadline = Instant::now() + self.shared.config.connect_timeout;
        if let Some(socket) = resolve::at_once(&self.shared.config, &conn.address) {
            return self.try_next(conn, Candidates::new([socket], deadline), None);
        }
        resolve::on_aux(&self.shared, &conn);
        self.resolving.push((conn, deadline));
    }

    pub(super) fn resolved(&mut self, conn: Arc<Conn>, resolved: Resolved) {
        let Some(at) = self.resolving.iter().position(|(own, _)| Arc::ptr_eq(own, &conn)) else {
            return; // It took too long, or was closed meanwhile.
        };
        let (conn, deadline) = self.resolving.swap_remove(at);
        match resolved {
            Ok(found) => self.try_next(conn, Candidates::new(found.addresses, deadline), found.plan),
            Err(cause) => self.end(&conn, &Reason::Unreachable(cause)),
        }
    }

    /// Dials the next address.
    fn try_next(&mut self, conn: Arc<Conn>, mut candidates: Candidates, plan: Option<Plan>) {
        while let Some((peer, until)) = candidates.next(Instant::now()) {
            match self.dial(peer) {
                Ok((token, stream)) => {
                    let connecting =
                        Connecting { conn, stream, peer, until, candidates, plan, session: None };
                    self.sockets.insert(token, Socket::Connecting(connecting));
                    return;
                }
                Err(e) => candidates.failed(peer, e.to_string()),
            }
        }
        self.end(&conn, &Reason::Unreachable(candidates.cause()));
    }

    /// Registers for everything, once and for all: an edge comes whenever something changes.
    fn dial(&mut self, peer: SocketAddr) -> io::Result<(Token, TcpStream)> {
        let mut stream = TcpStream::connect(peer)?;
        let token = Token(self.next_token);
        self.next_token += 1;
        self.poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok((token, stream))
    }

    /// Something happened to a connecting socket.
    pub(super) fn advance(&mut self, token: Token) {
        let Some(Socket::Connecting(connecting)) = self.sockets.get_mut(&token) else { return };
        match connecting.advance() {
            Ok(false) => {}
            Ok(true) => self.opened(token),
            Err(cause) => self.attempt_failed(token, cause),
        }
    }

    pub(super) fn attempt_timed_out(&mut self, token: Token) {
        let Some(Socket::Connecting(connecting)) = self.sockets.get(&token) else { return };
        let what = if connecting.session.is_some() { "the TLS handshake timed out" } else { "timed out" };
        self.attempt_failed(token, what.into());
    }

    fn attempt_failed(&mut self, token: Token, cause: Cause) {
        let Some(Socket::Connecting(mut connecting)) = self.sockets.remove(&token) else { return };
        self.deregister(&mut connecting.stream);
        connecting.candidates.failed(connecting.peer, cause);
        self.try_next(connecting.conn, connecting.candidates, connecting.plan);
    }

    fn opened(&mut self, token: Token) {
        let Some(Socket::Connecting(connecting)) = self.sockets.remove(&token) else { return };
        let Connecting { conn, stream, peer, mut candidates, plan, session, .. } = connecting;
        let local = match stream.local_addr() {
            Ok(local) => local,
            Err(e) => {
                candidates.failed(peer, e.to_string());
                return self.try_next(conn, candidates, plan);
            }
        };
        let how = if session.is_some() { ", with TLS" } else { "" };
        log::debug!("connected to {} ({local} to {peer}{how})", conn.address);
        let now = Instant::now();
        conn.settle(conn.open(stream, local, now));
        self.shared.mark_open(&conn, now);
        self.shared.on_link(LinkEvent::Up { address: conn.address.clone(), local, link: conn.link });
        let reader = Reader::new(self.shared.config.max_frame);
        self.sockets.insert(token, Socket::Open(Open { conn, reader, session, heard: false, failed: None }));
        // Its events of this round may have come together with the one that told of the connection.
        self.readable.push(token);
    }
}

impl Connecting {
    /// As far as it goes now. True when the connection is open, the TLS handshake included.
    fn advance(&mut self) -> Result<bool, Cause> {
        if let Some(session) = &mut self.session {
            return session.handshake(&self.stream);
        }
        let through = is_through(&self.stream).and_then(|through| {
            if through { self.stream.set_nodelay(true) } else { Ok(()) }.map(|()| through)
        });
        match (through.map_err(|e| e.to_string())?, &self.plan) {
            (true, Some(plan)) => self.session.insert(plan.begin()?).handshake(&self.stream),
            (through, _) => Ok(through),
        }
    }
}
