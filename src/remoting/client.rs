//! The handle through which the upper rooms send requests.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use mio::{Poll, Waker};
use parking_lot::Mutex;

use super::auxiliary::Aux;
use super::call::Waiter;
use super::connection::Conn;
use super::endpoint::Suspect;
use super::reactor::{Command, Reactor, WAKER};
use super::shared::Shared;
use super::{CallError, Incoming, RemotingConfig, Reply};
use crate::protocol::{Frame, RemotingCommand};

/// Requests over TCP, one connection per address, made on demand.
///
/// One thread, `rmq-io`, owns the sockets. A request is written by the thread that makes it, as long as the socket
/// takes it; answers come on `rmq-io`. All clones are one; the last one that is dropped shuts it down.
#[derive(Clone)]
pub(crate) struct Remoting {
    shared: Arc<Shared>,
    owner: Arc<Owner>,
}

/// Figures about all connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RemotingStats {
    /// Open connections.
    pub(crate) connections: usize,
    /// Requests without an outcome.
    pub(crate) pending: usize,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
    /// Answers that came after their deadline, and were dropped.
    pub(crate) late_replies: u64,
}

/// Which connections have been silent for too long.
#[derive(Debug)]
pub(crate) struct Suspects {
    /// To each of these addresses send a request that is answered at once, with this timeout.
    pub(crate) probe: Vec<(Arc<str>, Duration)>,
    /// Ask again then.
    pub(crate) look_again: Instant,
}

impl Remoting {
    /// Starts the io thread. Nothing is connected yet.
    ///
    /// # Errors
    /// When the system gives no thread or no poll, and for credentials in a build without the feature `acl`.
    pub(crate) fn start(config: RemotingConfig) -> io::Result<Self> {
        if config.credentials.is_some() && !cfg!(feature = "acl") {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "credentials need the feature `acl` of rocketmq-sync",
            ));
        }
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        // One item per connection that is to be made or closed. A sender may wait for room in it, since the io
        // thread never waits for anybody.
        let (commands, inbox) = bounded(1024);
        let name = config.name.clone();
        let shared = Arc::new(Shared::new(config, commands, waker));
        let reactor = Reactor::new(shared.clone(), poll, inbox);
        let thread = thread::Builder::new().name(name).spawn(move || reactor.run())?;
        let owner = Arc::new(Owner { shared: shared.clone(), thread: Mutex::new(Some(thread)) });
        Ok(Self { shared, owner })
    }

    /// Sends a request and waits for its answer. For threads that may wait, first of all the user's.
    pub(crate) fn call(
        &self,
        address: &str,
        command: RemotingCommand,
        deadline: Instant,
    ) -> Result<Frame, CallError> {
        // Of its own, so that no late answer of an earlier call can be taken for this one's.
        let (sender, outcome) = bounded(1);
        let filed = self.submit(address, command, Waiter::Thread(sender), None, When::RoomBy(deadline));
        if let Ok(outcome) = outcome.recv_deadline(deadline) {
            return outcome;
        }
        if let Some((conn, opaque)) = filed
            && conn.take(opaque).is_some()
        {
            return Err(CallError::Timeout { written: !conn.outbox.cancel(opaque) });
        }
        // The io thread has taken the entry and is about to complete it.
        outcome.recv().unwrap_or(Err(CallError::Closed))
    }

    /// Sends a request without waiting. Every outcome comes through `reply`, exactly once, failures that are known
    /// at once on the calling thread.
    pub(crate) fn invoke(&self, address: &str, command: RemotingCommand, deadline: Instant, reply: Reply) {
        self.submit(address, command, Waiter::Loop(reply), Some(deadline), When::Now);
    }

    /// As [`invoke`](Self::invoke), but written at the next [`flush`](Self::flush), with everything else that is
    /// queued for that connection.
    pub(crate) fn queue(&self, address: &str, command: RemotingCommand, deadline: Instant, reply: Reply) {
        self.submit(address, command, Waiter::Loop(reply), Some(deadline), When::AtFlush);
    }

    /// As [`queue`](Self::queue), on this very connection: if it is not the present one any more, the request fails as
    /// lost and not written, and no connection is made for it.
    pub(crate) fn queue_on(
        &self,
        address: &str,
        link: u64,
        command: RemotingCommand,
        deadline: Instant,
        reply: Reply,
    ) {
        match self.shared.conn(address).filter(|conn| conn.link == link) {
            Some(conn) => {
                self.submit_on(conn, command, Waiter::Loop(reply), Some(deadline), When::AtFlush);
            }
            None => {
                let cause = "the connection is gone".into();
                Waiter::Loop(reply).complete(Err(CallError::Lost { written: false, cause }));
            }
        }
    }

    /// Writes what has been queued: one write per connection.
    pub(crate) fn flush(&self) {
        let queued = std::mem::take(&mut *self.shared.queued.lock());
        for conn in queued {
            conn.settle(conn.flush());
        }
    }

    /// Sends a request that gets no answer. It may be lost without a word; an error is what is known at once.
    pub(crate) fn oneway(&self, address: &str, command: RemotingCommand) -> Result<(), CallError> {
        self.send_oneway(address, command, None)
    }

    /// As [`oneway`](Self::oneway), for threads that may wait: for the connection, and for room in it.
    pub(crate) fn oneway_by(
        &self,
        address: &str,
        command: RemotingCommand,
        deadline: Instant,
    ) -> Result<(), CallError> {
        self.send_oneway(address, command, Some(deadline))
    }

    /// Answers a request that a server has sent. One-way requests get no answer.
    pub(crate) fn respond(&self, to: &Incoming, command: RemotingCommand) {
        to.respond(command);
    }

    /// Whether a connection to this address is open.
    pub(crate) fn is_connected(&self, address: &str) -> bool {
        self.shared.endpoints.lock().links.get(address).is_some_and(|link| link.endpoint.is_open())
    }

    /// Our end of the connection to this address.
    pub(crate) fn local_address(&self, address: &str) -> Option<SocketAddr> {
        self.shared.conn(address)?.local_address()
    }

    /// Closes the connection to this address and forgets its failures. Requests on it fail as lost.
    pub(crate) fn close(&self, address: &str) {
        let link = self.shared.endpoints.lock().links.remove(address);
        if let Some(conn) = link.and_then(|link| link.conn) {
            self.shared.command(Command::Close(conn, "closed by this client".into()));
        }
    }

    /// Looks for connections whose peer may be gone without a word, and closes those that have not answered two
    /// probes: within 18 s.
    pub(crate) fn suspects(&self, now: Instant) -> Suspects {
        let mut suspects = Suspects { probe: Vec::new(), look_again: now + Duration::from_secs(10) };
        for conn in self.shared.open_conns() {
            let waiting_since = conn.pending.lock().waiting_since();
            let step = conn.suspicion.lock().step(now, conn.heard(), waiting_since);
            let look_again = match step {
                Suspect::Calm { look_again } => look_again,
                Suspect::Wait { look_again } => Some(look_again),
                Suspect::Probe { timeout } => {
                    suspects.probe.push((conn.address.clone(), timeout));
                    Some(now + timeout)
                }
                Suspect::Close => {
                    self.shared.command(Command::Close(conn, "the server is silent, also when asked".into()));
                    None
                }
            };
            suspects.look_again = look_again.into_iter().fold(suspects.look_again, Instant::min);
        }
        suspects
    }

    pub(crate) fn stats(&self) -> RemotingStats {
        let conns = self.shared.conns();
        RemotingStats {
            connections: conns.iter().filter(|conn| conn.stream().is_some()).count(),
            pending: conns.iter().map(|conn| conn.pending.lock().len()).sum(),
            bytes_received: self.shared.received.load(Ordering::Relaxed),
            bytes_sent: self.shared.sent.load(Ordering::Relaxed),
            late_replies: self.shared.late_replies.load(Ordering::Relaxed),
        }
    }

    /// Threads for what may hang: files, look-ups that are user code.
    pub(crate) fn aux(&self) -> &Aux {
        &self.shared.aux
    }

    /// Writes what waits, for `flush` at most, then closes all connections and ends the io thread. Requests without
    /// an outcome fail with `Closed`, as does everything after.
    pub(crate) fn shutdown(&self, flush: Duration) {
        self.flush();
        self.owner.shutdown(flush);
    }

    fn send_oneway(
        &self,
        address: &str,
        mut command: RemotingCommand,
        deadline: Option<Instant>,
    ) -> Result<(), CallError> {
        self.shared.complete(&mut command);
        command = command.oneway();
        let conn = self.shared.connection(address)?;
        if let Some(deadline) = deadline
            && !conn.outbox.wait_until_open(deadline)
        {
            return Err(conn.not_open());
        }
        // Numbered like the others, but nobody waits.
        command.opaque = conn.pending.lock().number();
        self.shared.write(&conn, &command, None, deadline)
    }

    /// Files a request and sends it. None if it has its outcome already.
    fn submit(
        &self,
        address: &str,
        command: RemotingCommand,
        waiter: Waiter,
        deadline: Option<Instant>,
        when: When,
    ) -> Option<(Arc<Conn>, i32)> {
        match self.shared.connection(address) {
            Ok(conn) => self.submit_on(conn, command, waiter, deadline, when),
            Err(error) => {
                waiter.complete(Err(error));
                None
            }
        }
    }

    fn submit_on(
        &self,
        conn: Arc<Conn>,
        mut command: RemotingCommand,
        waiter: Waiter,
        deadline: Option<Instant>,
        when: When,
    ) -> Option<(Arc<Conn>, i32)> {
        self.shared.complete(&mut command);
        let opaque = conn.file(waiter, deadline);
        command.opaque = opaque;
        if let Some(deadline) = deadline {
            self.shared.watch(deadline);
        }
        let taken = match when {
            When::Now => self.shared.write(&conn, &command, Some(opaque), None),
            When::RoomBy(by) => self.shared.write(&conn, &command, Some(opaque), Some(by)),
            When::AtFlush => self.shared.append(&conn, &command),
        };
        if let Err(error) = taken {
            if let Some(waiter) = conn.take(opaque) {
                waiter.complete(Err(error));
            }
            return None;
        }
        Some((conn, opaque))
    }
}

impl fmt::Debug for Remoting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remoting").field("config", &self.shared.config).field("stats", &self.stats()).finish()
    }
}

enum When {
    Now,
    /// Now; a full outbox may make room until then.
    RoomBy(Instant),
    AtFlush,
}

/// Shuts down when the last handle goes.
struct Owner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Owner {
    fn shutdown(&self, flush: Duration) {
        self.shared.endpoints.lock().closed = true;
        self.shared.aux.close();
        let Some(thread) = self.thread.lock().take() else { return };
        self.shared.command(Command::Shutdown { flush_until: Instant::now() + flush });
        // The last handle may be dropped by a closure that the io thread itself runs.
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            log::error!("thread {} panicked", self.shared.config.name);
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shutdown(Duration::ZERO);
    }
}
