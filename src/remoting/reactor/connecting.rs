//! From an address to an open connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use mio::net::TcpStream;
use mio::{Interest, Token};

use super::{Connecting, Open, Reactor, Socket};
use crate::remoting::LinkEvent;
use crate::remoting::attempt::{Candidates, is_through};
use crate::remoting::connection::{Conn, Reader, Reason};
use crate::remoting::resolve::{self, Resolved};

impl Reactor {
    pub(super) fn connect(&mut self, conn: Arc<Conn>) {
        let deadline = Instant::now() + self.shared.config.connect_timeout;
        if let Some(socket) = resolve::at_once(&self.shared.config, &conn.address) {
            return self.try_next(conn, Candidates::new([socket], deadline));
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
            Ok(addresses) => self.try_next(conn, Candidates::new(addresses, deadline)),
            Err(why) => self.end(&conn, &Reason::Unreachable(why.into())),
        }
    }

    /// Dials the next address.
    fn try_next(&mut self, conn: Arc<Conn>, mut candidates: Candidates) {
        while let Some((peer, until)) = candidates.next(Instant::now()) {
            match self.dial(peer) {
                Ok((token, stream)) => {
                    let connecting = Connecting { conn, stream, peer, until, candidates };
                    self.sockets.insert(token, Socket::Connecting(connecting));
                    return;
                }
                Err(e) => candidates.failed(peer, &e.to_string()),
            }
        }
        self.end(&conn, &Reason::Unreachable(candidates.cause().into()));
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
        let Some(Socket::Connecting(connecting)) = self.sockets.get(&token) else { return };
        match is_through(&connecting.stream) {
            Ok(false) => {}
            Ok(true) => self.opened(token),
            Err(e) => self.attempt_failed(token, &e.to_string()),
        }
    }

    pub(super) fn attempt_failed(&mut self, token: Token, why: &str) {
        let Some(Socket::Connecting(mut connecting)) = self.sockets.remove(&token) else { return };
        self.deregister(&mut connecting.stream);
        connecting.candidates.failed(connecting.peer, why);
        self.try_next(connecting.conn, connecting.candidates);
    }

    fn opened(&mut self, token: Token) {
        let Some(Socket::Connecting(connecting)) = self.sockets.remove(&token) else { return };
        let Connecting { conn, stream, peer, mut candidates, .. } = connecting;
        let prepared = stream.set_nodelay(true).and_then(|()| stream.local_addr());
        let local = match prepared {
            Ok(local) => local,
            Err(e) => {
                candidates.failed(peer, &e.to_string());
                return self.try_next(conn, candidates);
            }
        };
        log::debug!("connected to {} ({local} to {peer})", conn.address);
        let now = Instant::now();
        conn.settle(conn.open(stream, local, now));
        self.shared.mark_open(&conn, now);
        self.shared.on_link(LinkEvent::Up { address: conn.address.clone(), local, link: conn.link });
        let reader = Reader::new(self.shared.config.max_frame);
        self.sockets.insert(token, Socket::Open(Open { conn, reader }));
        // Its events of this round may have come together with the one that told of the connection.
        self.readable.push(token);
    }
}
