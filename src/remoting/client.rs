//! The handle through which the upper rooms send requests.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use mio::{Poll, Waker};
use parking_lot::Mutex;

use super::alarm::Alarm;
use super::aux::Aux;
use super::call::Waiter;
use super::connection::{Conn, Reason};
use super::endpoint::{Admission, Endpoint, Suspect};
use super::outbox::{Refused, Taken};
use super::reactor::{Command, Reactor, WAKER};
use super::{CallError, Incoming, RemotingConfig, Reply};
use crate::protocol::{Frame, RemotingCommand, encode};

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
        let waker = Waker::new(poll.registry(), WAKER)?;
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
        mut command: RemotingCommand,
        waiter: Waiter,
        deadline: Option<Instant>,
        when: When,
    ) -> Option<(Arc<Conn>, i32)> {
        self.shared.complete(&mut command);
        let conn = match self.shared.connection(address) {
            Ok(conn) => conn,
            Err(error) => {
                waiter.complete(Err(error));
                return None;
            }
        };
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

/// What handles and the io thread share.
pub(super) struct Shared {
    pub(super) config: RemotingConfig,
    pub(super) endpoints: Mutex<Endpoints>,
    pub(super) alarm: Alarm,
    pub(super) aux: Aux,
    pub(super) received: AtomicU64,
    pub(super) late_replies: AtomicU64,
    sent: AtomicU64,
    born: Instant,
    queued: Mutex<Vec<Arc<Conn>>>,
    commands: Sender<Command>,
    waker: Waker,
}

#[derive(Default)]
pub(super) struct Endpoints {
    pub(super) links: HashMap<Arc<str>, Link>,
    closed: bool,
}

pub(super) struct Link {
    pub(super) endpoint: Endpoint,
    /// There while it is connecting or open.
    pub(super) conn: Option<Arc<Conn>>,
}

impl Shared {
    fn new(config: RemotingConfig, commands: Sender<Command>, waker: Waker) -> Self {
        Self {
            config,
            endpoints: Mutex::new(Endpoints::default()),
            alarm: Alarm::new(),
            aux: Aux::new(),
            received: AtomicU64::new(0),
            late_replies: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            born: Instant::now(),
            queued: Mutex::new(Vec::new()),
            commands,
            waker,
        }
    }

    /// Sends first, then wakes: the io thread empties the channel on each wake.
    pub(super) fn command(&self, command: Command) {
        // The io thread is gone after a shutdown, and has closed everything.
        if self.commands.send(command).is_ok() {
            self.wake();
        }
    }

    /// Time as the alarm counts it.
    pub(super) fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.born).as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn instant(&self, micros: u64) -> Option<Instant> {
        self.born.checked_add(Duration::from_micros(micros))
    }

    /// All connections, also those that are not open yet.
    pub(super) fn conns(&self) -> Vec<Arc<Conn>> {
        self.endpoints.lock().links.values().filter_map(|link| link.conn.clone()).collect()
    }

    /// Lets the others know that it is open.
    pub(super) fn mark_open(&self, conn: &Arc<Conn>, now: Instant) {
        let mut endpoints = self.endpoints.lock();
        if let Some(link) = endpoints.link_of(conn) {
            link.endpoint.opened(now);
        }
    }

    /// Fails what waits on this connection, and lets the address be dialled again when that is due.
    pub(super) fn end(&self, conn: &Arc<Conn>, reason: &Reason, jitter: f64) {
        let unwritten = conn.close(reason);
        self.detach(conn, reason, jitter);
        conn.fail(&unwritten, reason);
    }

    fn detach(&self, conn: &Arc<Conn>, reason: &Reason, jitter: f64) {
        let mut endpoints = self.endpoints.lock();
        let Some(link) = endpoints.link_of(conn) else { return };
        link.conn = None;
        match reason {
            Reason::Released(_) | Reason::Shutdown => link.endpoint.released(),
            _ => link.endpoint.failed(Instant::now(), reason.text(), jitter),
        }
    }

    fn wake(&self) {
        if let Err(e) = self.waker.wake() {
            log::error!("cannot wake thread {}: {e}", self.config.name);
        }
    }

    /// Sees to it that the io thread is awake at this time.
    fn watch(&self, deadline: Instant) {
        if self.alarm.is_later_than(self.micros(deadline)) {
            self.wake();
        }
    }

    fn conn(&self, address: &str) -> Option<Arc<Conn>> {
        self.endpoints.lock().links.get(address)?.conn.clone()
    }

    fn open_conns(&self) -> Vec<Arc<Conn>> {
        let endpoints = self.endpoints.lock();
        let open = endpoints.links.values().filter(|link| link.endpoint.is_open());
        open.filter_map(|link| link.conn.clone()).collect()
    }

    /// The connection to this address; the first one who asks has it made.
    fn connection(&self, address: &str) -> Result<Arc<Conn>, CallError> {
        let now = Instant::now();
        let conn = {
            let mut endpoints = self.endpoints.lock();
            if endpoints.closed {
                return Err(CallError::Closed);
            }
            let link = endpoints.link(address);
            match link.endpoint.admit(now) {
                Admission::Refuse(cause) => return Err(CallError::BackingOff { cause }),
                Admission::Join => return link.conn.clone().ok_or(CallError::Closed),
                Admission::Connect => {}
            }
            let conn = Arc::new(Conn::new(address.into(), self.config.outbox_limit, now));
            link.conn.insert(conn).clone()
        };
        self.command(Command::Connect(conn.clone()));
        Ok(conn)
    }

    /// Adds what goes with every request.
    fn complete(&self, command: &mut RemotingCommand) {
        if let Some(namespace) = &self.config.namespace_v2 {
            command.fields.set("nsd", "true");
            command.fields.set("ns", namespace.as_str());
        }
        // Last, since the server checks every field it gets.
        #[cfg(feature = "acl")]
        if let Some(credentials) = &self.config.credentials {
            super::acl::sign(command, credentials);
        }
    }

    fn write(
        &self,
        conn: &Arc<Conn>,
        command: &RemotingCommand,
        opaque: Option<i32>,
        room_by: Option<Instant>,
    ) -> Result<(), CallError> {
        log::trace!("to {}: {command:?}", conn.address);
        let mut bytes = Vec::with_capacity(256 + command.body.len());
        encode(command, self.config.encoding, &mut bytes).map_err(CallError::Encode)?;
        self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let taken = conn.send(&bytes, opaque, room_by).map_err(|refused| conn.refused(refused, room_by))?;
        conn.settle(taken);
        Ok(())
    }

    fn append(&self, conn: &Arc<Conn>, command: &RemotingCommand) -> Result<(), CallError> {
        log::trace!("to {}: {command:?}", conn.address);
        let encoded = conn.outbox.append(Some(command.opaque), |bytes| {
            let before = bytes.len();
            encode(command, self.config.encoding, bytes)?;
            self.sent.fetch_add((bytes.len() - before) as u64, Ordering::Relaxed);
            Ok(())
        });
        let first = encoded.map_err(|refused| conn.refused(refused, None))?.map_err(CallError::Encode)?;
        if first {
            self.queued.lock().push(conn.clone());
        }
        Ok(())
    }
}

impl Endpoints {
    /// None when the connection was closed on request: there may be a new one under its address.
    fn link_of(&mut self, conn: &Arc<Conn>) -> Option<&mut Link> {
        let link = self.links.get_mut(&conn.address)?;
        link.conn.as_ref().is_some_and(|own| Arc::ptr_eq(own, conn)).then_some(link)
    }

    fn link(&mut self, address: &str) -> &mut Link {
        if !self.links.contains_key(address) {
            self.links.insert(address.into(), Link { endpoint: Endpoint::new(), conn: None });
        }
        self.links.get_mut(address).expect("it has just been put there")
    }
}

impl Conn {
    /// A failed write ends the connection. The io thread does that; shutting the socket down lets it know.
    pub(super) fn settle(&self, taken: Taken) {
        if let Taken::Broken(error) = taken {
            self.broken(&error);
        }
    }

    fn refused(&self, refused: Refused, room_by: Option<Instant>) -> CallError {
        match refused {
            Refused::Full if room_by.is_some() => CallError::Timeout { written: false },
            Refused::Full => CallError::Full,
            Refused::Closed => self.ended(),
        }
    }

    fn not_open(&self) -> CallError {
        if self.failure().is_some() { self.ended() } else { CallError::Timeout { written: false } }
    }

    /// What a sender is told that comes after the end.
    fn ended(&self) -> CallError {
        match self.failure() {
            Some(reason) => reason.error(false),
            None => CallError::Lost { written: false, cause: "closed".into() },
        }
    }
}
