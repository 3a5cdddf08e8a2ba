use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::builder::{BrokerBuilder, bind, reachable};
use super::faults::{Fault, FaultHandle};
use super::look;
use super::names::NameServer;
use super::pulse::Pulse;
use super::requests::RequestRecord;
use super::runtime::{Connections, Shared};
use super::snapshot::Snapshot;
use super::state::{Now, State};
use super::tls;
use crate::Result;
use crate::clock::{Clock, Ticks, millis_of};
use crate::error::Error;
use crate::message::{Message, MessageQueue, MessageView};
use crate::remoting::server::{Server, ServerConfig};

/// An Apache RocketMQ name server and broker in this process, for tests and development.
///
/// Both answer on one port. Messages are kept in memory, and survive [`kill`](Self::kill) and
/// [`restart`](Self::restart) there, as they would on a disk; members, connections and held pulls do not. One thread
/// serves all connections. Dropping the handle shuts the broker down.
///
/// ```
/// use rocketmq_sync::{Message, broker::Broker};
///
/// let broker = Broker::builder().topic("orders", 4).start()?;
/// broker.put(&Message::new("orders", "paid 42 EUR"))?;
/// assert_eq!(broker.inspect().depth("orders"), 1);
/// # Ok::<(), rocketmq_sync::Error>(())
/// ```
#[must_use = "the broker is shut down when its handle is dropped"]
pub struct Broker {
    name: String,
    id: i64,
    clock: Clock,
    names: Arc<NameServer>,
    shared: Arc<Shared>,
    address: SocketAddr,
    server: Mutex<Option<Server>>,
    _ticks: Ticks,
}

/// What a broker has forgotten when it comes back; see [`Broker::restart_losing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lose {
    /// The queue locks.
    Locks,
    /// All committed offsets.
    Offsets,
    /// What was committed since then, as with an old offset file.
    OffsetsSince(SystemTime),
    /// The members of all groups. They are lost in every restart, since they are known by their connections.
    Members,
    /// Messages, topics (but those it was built with), groups, offsets, locks: a broker with an empty disk.
    Everything,
}

impl Broker {
    /// A broker with nothing set: named `broker-a`, in memory, on a free port of 127.0.0.1.
    pub fn builder() -> BrokerBuilder {
        BrokerBuilder::new()
    }

    /// The address to give to clients as their name server, such as `127.0.0.1:40123`.
    pub fn name_server(&self) -> String {
        reachable(self.address).to_string()
    }

    /// The broker's name, as it is in message queues.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// 0 for a master, 1 and more for the slaves of a [`Cluster`](super::Cluster).
    pub fn id(&self) -> u64 {
        self.id.unsigned_abs()
    }

    /// The clock it was built with.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Stores a message as if a producer had sent it, and returns it as stored. Its topic is created if it may be.
    ///
    /// # Errors
    /// `InvalidInput` for a message or a queue that no broker would take, `TopicNotFound`.
    pub fn put(&self, message: &Message) -> Result<MessageView> {
        self.shared.step_outside(|state| state.put_by_hand(message))
    }

    /// What is there at this moment.
    pub fn inspect(&self) -> Snapshot {
        look::snapshot(std::slice::from_ref(&self.shared))
    }

    /// Waits until the condition is true. It is asked after every change, at first at once.
    ///
    /// # Errors
    /// `Timeout`, by real time; the text says what was last seen.
    pub fn wait(&self, timeout: Duration, condition: impl FnMut(&Snapshot) -> bool) -> Result<()> {
        look::wait(std::slice::from_ref(&self.shared), timeout, condition)
    }

    /// As [`wait`](Self::wait), moving a manual clock from one due delivery to the next, as soon as nothing happens any
    /// more. Clients that are connected keep their membership and their locks however far the clock goes.
    ///
    /// # Errors
    /// As `wait`; `Config` if the broker was not built with [`Clock::manual`].
    pub fn fast_forward(&self, timeout: Duration, condition: impl FnMut(&Snapshot) -> bool) -> Result<()> {
        look::fast_forward(std::slice::from_ref(&self.shared), &[], &self.clock, timeout, condition)
    }

    /// Puts a fault in force.
    pub fn fault(&self, fault: Fault) -> FaultHandle {
        self.shared.step(|state| state.faults.add(fault))
    }

    /// The last 10 000 requests, oldest first; restarts do not clear them.
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.shared.lock().state.requests.to_vec()
    }

    /// Stops and comes back on the same port, with all that a real broker has on its disk, and with its queue locks.
    ///
    /// # Errors
    /// `Io` when the port was taken meanwhile, or when a file of `tls_files` cannot be read; `Config` when it cannot be
    /// used.
    pub fn restart(&self) -> Result<()> {
        self.kill();
        self.start()
    }

    /// As [`restart`](Self::restart), with a loss.
    ///
    /// # Errors
    /// As `restart`.
    pub fn restart_losing(&self, what: Lose) -> Result<()> {
        self.kill();
        self.shared.step(|state| match what {
            Lose::Locks => state.locks.clear(),
            Lose::Offsets => state.offsets.clear(),
            Lose::OffsetsSince(time) => state.offsets.rewind(millis_of(time)),
            Lose::Members => {}
            Lose::Everything => state.forget_everything(),
        });
        self.start()
    }

    /// Ends at once: port and connections are closed, nothing is flushed. The name server of a cluster notices.
    pub fn kill(&self) {
        self.stop("killed");
    }

    /// Starts again on the same port after a [`kill`](Self::kill) or [`shutdown`](Self::shutdown); does nothing if it
    /// runs.
    ///
    /// # Errors
    /// As `restart`.
    pub fn start(&self) -> Result<()> {
        let mut server = self.server.lock();
        if server.is_none() {
            *server = Some(self.serve(bind(&self.address.to_string())?.0)?);
        }
        Ok(())
    }

    /// Names another address in routes from now on, `host:port`, true or not. Restarts keep it.
    pub fn advertise_as(&self, address: &str) {
        let running = self.server.lock().is_some();
        self.shared.step(|state| {
            state.advertised = Some(address.to_owned());
            if running {
                state.register();
            }
        });
    }

    /// Accepts connections, but neither reads nor writes on any until [`resume`](Self::resume), as a stopped process
    /// does.
    pub fn pause(&self) {
        self.shared.set_paused(true);
    }

    /// Goes on after [`pause`](Self::pause), with what has come in meanwhile.
    pub fn resume(&self) {
        self.shared.set_paused(false);
    }

    /// Closes all connections; new ones are accepted.
    pub fn cut_connections(&self) {
        self.shared.cut_connections();
    }

    /// Stops: closes port and connections, and joins the thread. Idempotent.
    pub fn shutdown(&self) {
        self.stop("shut down");
    }

    /// Changes the number of queues of a topic, which is created if need be. Messages in queues that are gone come back
    /// with these.
    pub fn set_queues(&self, topic: &str, n: u32) {
        self.shared.step_outside(|state| state.set_queues(topic, i32::try_from(n).unwrap_or(i32::MAX)));
    }

    /// Forgets what a queue of this broker holds outside `min_offset..max_offset`, as retention and a lost disk do.
    pub fn truncate(&self, queue: &MessageQueue, min_offset: i64, max_offset: i64) {
        self.shared.step_outside(|state| {
            let cut = state.store.truncate(queue.topic(), queue.queue_id(), min_offset, max_offset);
            if let Err(error) = cut {
                log::error!("{queue} cannot be cut: {error}");
            }
        });
    }

    /// Leaves this broker out of the route of a topic until [`show_route`](Self::show_route).
    pub fn hide_route(&self, topic: &str) {
        self.names.hide(&self.name, topic, true);
    }

    /// Takes a [`hide_route`](Self::hide_route) back.
    pub fn show_route(&self, topic: &str) {
        self.names.hide(&self.name, topic, false);
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn start_first(
        builder: BrokerBuilder,
        names: Arc<NameServer>,
        pulse: Arc<Pulse>,
    ) -> Result<Self> {
        let (listener, address) = bind(&builder.listen)?;
        let (name, clock) = (builder.settings.name.clone(), builder.settings.clock.clone());
        let id = builder.settings.id;
        let mut state = State::new(builder.settings, names.clone(), Now::of(&clock));
        state.host = reachable(address);
        let with_port = |host: &str| format!("{host}:{}", address.port());
        state.advertised = builder.advertise.map(|told| match told.strip_suffix(":0") {
            Some(host) => with_port(host),
            None => told,
        });
        let shared = Arc::new(Shared::new(state, clock.clone(), pulse));
        let weak = Arc::downgrade(&shared);
        let ticks = clock.on_advance(move || {
            if let Some(shared) = weak.upgrade() {
                shared.wake();
            }
        });
        let broker =
            Self { name, id, clock, names, shared, address, server: Mutex::new(None), _ticks: ticks };
        *broker.server.lock() = Some(broker.serve(listener)?);
        Ok(broker)
    }

    fn serve(&self, listener: std::net::TcpListener) -> Result<Server> {
        let settings = self.shared.lock().state.settings.clone();
        let config = ServerConfig { tls: tls::acceptor(&settings)?, ..ServerConfig::default() };
        self.shared.begin();
        let connections = Connections(self.shared.clone());
        let server = Server::start(listener, config, connections).map_err(|error| {
            self.shared.end();
            Error::io(format_args!("starting the broker on {}", self.address), error)
        })?;
        self.shared.begun(server.waker());
        log::info!("broker {} is listening on {}", self.name, self.address);
        Ok(server)
    }

    /// The server is joined without the state's lock, since its thread takes that for each connection it closes.
    fn stop(&self, how: &str) {
        let Some(mut server) = self.server.lock().take() else { return };
        self.names.unregister(&self.name, self.id);
        server.shutdown();
        self.shared.end();
        log::info!("broker {} is {how}", self.name);
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker")
            .field("name", &self.name)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
