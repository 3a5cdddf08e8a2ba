//! What the handles and the io thread of a client share: the connections by address, and how a sender finds his.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use mio::Waker;
use parking_lot::Mutex;

use super::alarm::Alarm;
use super::auxiliary::Aux;
use super::call::guard;
use super::connection::{Conn, Reason};
use super::endpoint::{Admission, Endpoint};
use super::outbox::{Refused, Taken};
use super::reactor::Command;
use super::{CallError, Incoming, LinkEvent, RemotingConfig};
use crate::protocol::{RemotingCommand, encode};

/// What handles and the io thread share.
pub(super) struct Shared {
    pub(super) config: RemotingConfig,
    pub(super) endpoints: Mutex<Endpoints>,
    pub(super) alarm: Alarm,
    pub(super) aux: Aux,
    pub(super) received: AtomicU64,
    pub(super) late_replies: AtomicU64,
    pub(super) sent: AtomicU64,
    next_link: AtomicU64,
    born: Instant,
    pub(super) queued: Mutex<Vec<Arc<Conn>>>,
    commands: Sender<Command>,
    waker: Arc<Waker>,
}

#[derive(Default)]
pub(super) struct Endpoints {
    pub(super) links: BTreeMap<Arc<str>, Link>,
    pub(super) closed: bool,
}

pub(super) struct Link {
    pub(super) endpoint: Endpoint,
    /// There while it is connecting or open.
    pub(super) conn: Option<Arc<Conn>>,
}

impl Shared {
    pub(super) fn new(config: RemotingConfig, commands: Sender<Command>, waker: Arc<Waker>) -> Self {
        Self {
            config,
            endpoints: Mutex::new(Endpoints::default()),
            alarm: Alarm::new(),
            aux: Aux::new(),
            received: AtomicU64::new(0),
            late_replies: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            next_link: AtomicU64::new(0),
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

    pub(super) fn on_link(&self, event: LinkEvent) {
        guard("on_link", || (self.config.on_link)(event));
    }

    pub(super) fn on_request(&self, incoming: Incoming) {
        guard("on_request", || (self.config.on_request)(incoming));
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
            _ => link.endpoint.failed(Instant::now(), reason.cause(), jitter),
        }
    }

    fn wake(&self) {
        if let Err(e) = self.waker.wake() {
            log::error!("cannot wake thread {}: {e}", self.config.name);
        }
    }

    /// Sees to it that the io thread is awake at this time.
    pub(super) fn watch(&self, deadline: Instant) {
        if self.alarm.is_later_than(self.micros(deadline)) {
            self.wake();
        }
    }

    pub(super) fn conn(&self, address: &str) -> Option<Arc<Conn>> {
        self.endpoints.lock().links.get(address)?.conn.clone()
    }

    pub(super) fn open_conns(&self) -> Vec<Arc<Conn>> {
        let endpoints = self.endpoints.lock();
        let open = endpoints.links.values().filter(|link| link.endpoint.is_open());
        open.filter_map(|link| link.conn.clone()).collect()
    }

    /// The connection to this address; the first one who asks has it made.
    pub(super) fn connection(&self, address: &str) -> Result<Arc<Conn>, CallError> {
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
            let number = self.next_link.fetch_add(1, Ordering::Relaxed);
            let relay = self.config.tls.as_ref().map(|_| self.waker.clone());
            let conn = Arc::new(Conn::new(address.into(), number, self.config.outbox_limit, relay, now));
            link.conn.insert(conn).clone()
        };
        self.command(Command::Connect(conn.clone()));
        Ok(conn)
    }

    /// Adds what goes with every request.
    pub(super) fn complete(&self, command: &mut RemotingCommand) {
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

    pub(super) fn write(
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

    pub(super) fn append(&self, conn: &Arc<Conn>, command: &RemotingCommand) -> Result<(), CallError> {
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
        match taken {
            Taken::Accepted => {}
            Taken::Left => self.wake_io(),
            Taken::Broken(error) => self.broken(&error),
        }
    }

    fn refused(&self, refused: Refused, room_by: Option<Instant>) -> CallError {
        match refused {
            Refused::Full if room_by.is_some() => CallError::Timeout { written: false },
            Refused::Full => CallError::Full,
            Refused::Closed => self.ended(),
        }
    }

    pub(super) fn not_open(&self) -> CallError {
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
