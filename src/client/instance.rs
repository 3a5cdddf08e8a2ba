//! The inside of a client: what producers, consumers and the admin handle work with.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::error::{Error, Mistake, Result};
use crate::protocol::ids::UniqueIds;
use crate::protocol::{Frame, RemotingCommand};
use crate::remoting::{CallError, Remoting, Reply};
use crate::sync::AtomicUsize;

use super::control::{Goodbye, Input};
use super::heartbeat::Told;
use super::life::Life;
use super::member::{Member, MemberKind};
use super::name_server::NameServers;
use super::namespace::Namespace;
use super::routes::{Role, Route, RouteTable};
use super::threads::Threads;
use super::wakes::Wakes;
use super::{ClientConfig, ClientStats, random};
use crate::error::Attempt;

/// One client: its connections, what it knows of topics and brokers, and who uses it.
///
/// Locks are held one at a time, for look-ups only, and never while something is sent or user code runs.
pub(crate) struct Instance {
    pub(super) id: String,
    pub(super) config: ClientConfig,
    pub(super) namespace: Namespace,
    pub(super) remoting: Remoting,
    pub(super) name_servers: NameServers,
    pub(super) routes: Mutex<RouteTable>,
    pub(super) told: Arc<Told>,
    /// The version of each broker, as its last acknowledgement of a heartbeat had it.
    pub(super) versions: Mutex<HashMap<Arc<str>, i32>>,
    pub(super) members: Mutex<Vec<Arc<dyn Member>>>,
    pub(super) wakes: Arc<Wakes>,
    pub(super) inbox: Sender<Input>,
    pub(super) threads: Arc<Threads>,
    pub(super) control: Mutex<Option<JoinHandle<()>>>,
    pub(super) life: Life,
    /// Made by the builder of a producer or consumer: ends with the last one on it.
    pub(super) implicit: AtomicBool,
    /// `None` once they have run.
    pub(super) at_end: Mutex<Option<Vec<Hook>>>,
    /// Threads that may wait for a server until the connections are closed.
    pub(super) late_threads: Mutex<Vec<JoinHandle<()>>>,
    ids: UniqueIds,
    extensions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    cached_bytes: Arc<AtomicUsize>,
    lost_traces: Arc<AtomicU64>,
}

/// What runs when the client is shut down, with what is left of the grace.
pub(super) type Hook = Box<dyn FnOnce(Duration) + Send>;

/// What a new instance is made of.
pub(super) struct Parts {
    pub(super) id: String,
    /// Part of the ids of messages.
    pub(super) ip: Option<IpAddr>,
    pub(super) config: ClientConfig,
    pub(super) remoting: Remoting,
    pub(super) name_servers: NameServers,
    pub(super) told: Arc<Told>,
    pub(super) wakes: Arc<Wakes>,
    pub(super) inbox: Sender<Input>,
}

impl Instance {
    pub(super) fn new(parts: Parts) -> Self {
        Instance {
            id: parts.id,
            namespace: Namespace::new(parts.config.namespace.as_deref()),
            config: parts.config,
            remoting: parts.remoting,
            name_servers: parts.name_servers,
            routes: Mutex::default(),
            told: parts.told,
            versions: Mutex::default(),
            members: Mutex::default(),
            wakes: parts.wakes,
            inbox: parts.inbox,
            threads: Arc::default(),
            control: Mutex::default(),
            life: Life::default(),
            implicit: AtomicBool::new(false),
            at_end: Mutex::new(Some(Vec::new())),
            late_threads: Mutex::default(),
            ids: UniqueIds::new(parts.ip, std::process::id()),
            extensions: Mutex::default(),
            cached_bytes: Arc::default(),
            lost_traces: Arc::default(),
        }
    }

    /// `ip@pid#random`, or as the user named it: unique, and the same for as long as the client lives.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn config(&self) -> &ClientConfig {
        &self.config
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.config.clock
    }

    pub(crate) fn remoting(&self) -> &Remoting {
        &self.remoting
    }

    /// Turns the names that programs use into those of the servers, and back.
    pub(crate) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The addresses of the name servers, each followed by a semicolon, as Java's tools expect it.
    pub(crate) fn name_server_list(&self) -> String {
        self.name_servers.in_order().iter().map(|server| format!("{server};")).collect()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.life.is_running()
    }

    /// The id of a message that is about to be sent. No two are the same.
    pub(crate) fn new_message_id(&self) -> String {
        self.ids.next(self.clock().millis())
    }

    /// Starts and counts a thread of this client.
    pub(crate) fn spawn(
        &self,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<JoinHandle<()>> {
        self.threads.spawn(name, body)
    }

    /// The names of the threads of this client, its producers and consumers.
    pub(crate) fn thread_names(&self) -> Vec<String> {
        let aux = (0..self.remoting.aux().threads()).map(|_| "rmq-aux".to_owned());
        ["rmq-io".to_owned()].into_iter().chain(aux).chain(self.threads.names()).collect()
    }

    /// Bytes of fetched messages that are held at present, to be held against `config().cache_limit`.
    pub(crate) fn cached_bytes(&self) -> &Arc<AtomicUsize> {
        &self.cached_bytes
    }

    /// Where records of the message trace that come to nothing are counted.
    pub(super) fn lost_traces(&self) -> &Arc<AtomicU64> {
        &self.lost_traces
    }

    pub(super) fn stats(&self) -> ClientStats {
        let remoting = self.remoting.stats();
        ClientStats {
            connections: remoting.connections,
            pending_requests: remoting.pending,
            bytes_received: remoting.bytes_received,
            bytes_sent: remoting.bytes_sent,
            cached_bytes: self.cached_bytes.load(Ordering::Relaxed),
            lost_traces: self.lost_traces.load(Ordering::Relaxed),
            // Besides our own: rmq-io, and rmq-aux while there is any.
            threads: self.threads.running() + 1 + self.remoting.aux().threads(),
        }
    }
}

/// Routes and brokers.
impl Instance {
    /// The route of a topic as it is known, and the wish to keep it fresh. Names are those of the servers.
    pub(crate) fn route(&self, topic: &str) -> Option<Arc<Route>> {
        let route = self.routes.lock().route(topic).cloned()?;
        route.touch();
        Some(route)
    }

    /// Asks the control loop to fetch the route now; members hear of the outcome.
    pub(crate) fn want_route(&self, topic: &str) {
        self.wakes.add(|pending| pending.want_route(topic));
    }

    /// The address of a broker, and the id there (0: the master).
    pub(crate) fn broker_address(&self, name: &str, role: Role) -> Option<(Arc<str>, u64)> {
        self.routes.lock().broker_address(name, role)
    }

    /// Some broker that has the topic, for questions about the topic or its groups: a master if there is one.
    pub(crate) fn any_broker_of(&self, topic: &str) -> Option<Arc<str>> {
        self.routes.lock().any_broker_of(topic, random::below(1 << 16))
    }

    pub(crate) fn broker_name(&self, address: &str) -> Option<Arc<str>> {
        self.routes.lock().broker_name(address).cloned()
    }

    /// The version of the broker's software, once it has acknowledged a heartbeat.
    pub(crate) fn broker_version(&self, address: &str) -> Option<i32> {
        self.versions.lock().get(address).copied()
    }

    /// The addresses of all brokers that are known: name, id, address.
    pub(crate) fn brokers(&self) -> Vec<(Arc<str>, u64, Arc<str>)> {
        let routes = self.routes.lock();
        routes.addresses().map(|(name, id, address)| (name.clone(), id, address.clone())).collect()
    }
}

/// Requests.
impl Instance {
    /// Asks and waits. For threads that may wait.
    pub(crate) fn call(
        &self,
        address: &str,
        command: RemotingCommand,
        timeout: Duration,
    ) -> Result<Frame, CallError> {
        self.remoting.call(address, command, Instant::now() + timeout)
    }

    /// Asks without waiting; the outcome comes through `reply`.
    pub(crate) fn invoke(&self, address: &str, command: RemotingCommand, timeout: Duration, reply: Reply) {
        self.remoting.invoke(address, command, Instant::now() + timeout, reply);
    }

    /// As `invoke`, but written at the next `flush`, one write per broker.
    pub(crate) fn queue(&self, address: &str, command: RemotingCommand, timeout: Duration, reply: Reply) {
        self.remoting.queue(address, command, Instant::now() + timeout, reply);
    }

    /// As `queue`, on this very connection; if it is gone, the request fails as lost and not written.
    pub(crate) fn queue_on(
        &self,
        address: &str,
        link: u64,
        command: RemotingCommand,
        timeout: Duration,
        reply: Reply,
    ) {
        self.remoting.queue_on(address, link, command, Instant::now() + timeout, reply);
    }

    pub(crate) fn flush(&self) {
        self.remoting.flush();
    }
}

/// Heartbeats.
impl Instance {
    /// One heartbeat as soon as possible, to one broker or to all. Never dropped: if one is out, this one follows.
    /// Says what members say by then.
    pub(crate) fn heartbeat_now(&self, address: Option<&str>) {
        self.wakes.add(|pending| match address {
            Some(address) => pending.want_heartbeat(address),
            None => pending.heartbeat_to_all = true,
        });
    }

    /// Whether the broker has acknowledged, on its present connection, a heartbeat with this group's subscription of
    /// this topic, in this version or a newer one.
    pub(crate) fn is_told(&self, address: &str, group: &str, topic: &str, version: i64) -> bool {
        self.told_on(address, group, topic, version).is_some()
    }

    /// The connection on which the broker has acknowledged any heartbeat.
    pub(crate) fn heard_on(&self, address: &str) -> Option<u64> {
        self.told.heard_on(address)
    }

    /// As [`is_told`](Self::is_told), with the number of that connection, for [`queue_on`](Self::queue_on).
    pub(crate) fn told_on(&self, address: &str, group: &str, topic: &str, version: i64) -> Option<u64> {
        self.told.told_on(address, group, topic, version)
    }
}

/// Members.
impl Instance {
    /// Adds a producer or consumer group.
    ///
    /// # Errors
    /// `Config` if this client has one of that kind and name already, `Closed` if it has been shut down.
    pub(crate) fn register(&self, member: Arc<dyn Member>) -> Result<()> {
        if !self.is_running() {
            return Err(Error::closed("the client"));
        }
        let (kind, group) = (member.kind(), member.group().to_owned());
        let mut members = self.members.lock();
        if members.iter().any(|known| known.kind() == kind && known.group() == group) {
            let group = self.namespace.strip(&group);
            let problem = format!("this client has a {kind} of group {group} already; use another client");
            return Err(Error::config(vec![Mistake::new("group", problem)]));
        }
        members.push(member);
        drop(members);
        self.members_changed();
        Ok(())
    }

    /// The control loop looks at the members anew: whose routes to keep fresh, whom to tell what.
    pub(crate) fn members_changed(&self) {
        self.wakes.add(|pending| pending.members = true);
    }

    /// Removes a member: no heartbeat names it from now on. Brokers are not told, see [`leave`](Self::leave).
    pub(crate) fn unregister(&self, kind: MemberKind, group: &str) {
        let is_meant = |member: &Arc<dyn Member>| member.kind() == kind && member.group() == group;
        let leaving = self.members().into_iter().find(|member| is_meant(member));
        self.members.lock().retain(|member| !is_meant(member));
        self.members_changed();
        // For the last time: nobody asks it any more.
        leaving.inspect(|member| member.publish_metrics());
    }

    /// Removes a member and says goodbye to every broker that knows it, side by side; a goodbye waits for the
    /// heartbeat that is out, since brokers may handle the two in either order. The receiver gets what went wrong,
    /// once every broker has answered or the deadline has passed.
    pub(crate) fn leave(&self, kind: MemberKind, group: &str, deadline: Instant) -> Receiver<Vec<Attempt>> {
        self.unregister(kind, group);
        let (done, left) = bounded(1);
        let goodbye = Goodbye { kind, group: group.to_owned(), deadline, done };
        // After a shutdown the connections are closed, and with them the brokers have forgotten everybody.
        drop(self.inbox.send(Input::Leave(goodbye)));
        left
    }

    pub(super) fn members(&self) -> Vec<Arc<dyn Member>> {
        self.members.lock().clone()
    }
}

/// What upper rooms keep here, one of each type per client.
impl Instance {
    /// The one `T` of this client, made on first use.
    ///
    /// `make` runs under the lock of the extensions: it must not ask for another one.
    pub(crate) fn extension<T: Any + Send + Sync>(
        &self,
        make: impl FnOnce() -> Result<Arc<T>>,
    ) -> Result<Arc<T>> {
        let mut extensions = self.extensions.lock();
        if let Some(known) = extensions.get(&TypeId::of::<T>())
            && let Ok(known) = known.clone().downcast::<T>()
        {
            return Ok(known);
        }
        let made = make()?;
        extensions.insert(TypeId::of::<T>(), made.clone());
        Ok(made)
    }

    /// Runs when the client is shut down: after the members have ended, before the connections close. At once if
    /// that is over.
    pub(crate) fn on_last_shutdown(&self, hook: Hook) {
        let mut at_end = self.at_end.lock();
        match &mut *at_end {
            Some(hooks) => hooks.push(hook),
            None => {
                drop(at_end);
                hook(Duration::ZERO);
            }
        }
    }

    /// This thread of the client ends at the latest when the connections are closed, and is joined then.
    pub(super) fn join_after_close(&self, thread: JoinHandle<()>) {
        self.late_threads.lock().push(thread);
    }

    /// Lets go of what the upper rooms kept, which may hold this instance in turn.
    pub(super) fn drop_extensions(&self) {
        let extensions = std::mem::take(&mut *self.extensions.lock());
        drop(extensions);
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance")
            .field("id", &self.id)
            .field("name_servers", &self.name_servers)
            .finish_non_exhaustive()
    }
}
