use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::builder::{BrokerBuilder, bind};
use super::follow::Follower;
use super::handle::Broker;
use super::handlers::name_server;
use super::look;
use super::names::NameServer;
use super::pulse::Pulse;
use super::request::{Answer, Refusal, ReplyTo, Request};
use super::runtime::Shared;
use super::settings::Version;
use super::snapshot::Snapshot;
use super::tls;
use crate::Result;
use crate::clock::Clock;
use crate::error::{Error, Mistake};
use crate::protocol::{Frame, RemotingCommand, ResponseCode};
use crate::remoting::server::{Handler, Peer, Server, ServerConfig};
use crate::remoting::tls::Acceptor;

/// Several brokers that share their name servers, each with a port of its own.
///
/// ```
/// use rocketmq_sync::broker::Cluster;
///
/// let cluster = Cluster::builder().brokers(2).each(|broker| broker.topic("orders", 4)).start()?;
/// assert_eq!(cluster.broker("broker-b").map(|broker| broker.name()), Some("broker-b"));
/// # Ok::<(), rocketmq_sync::Error>(())
/// ```
#[must_use = "the brokers are shut down when their handle is dropped"]
pub struct Cluster {
    /// First, so that they end before their slaves do.
    followers: Vec<Follower>,
    brokers: Vec<Broker>,
    slaves: Vec<Broker>,
    shared: Vec<Arc<Shared>>,
    shared_slaves: Vec<Arc<Shared>>,
    name_servers: Vec<Server>,
    clock: Clock,
}

/// Settings of a [`Cluster`], from [`Cluster::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ClusterBuilder {
    brokers: usize,
    slaves: usize,
    name_servers: usize,
    template: BrokerBuilder,
}

impl ClusterBuilder {
    /// How many brokers, named `broker-a`, `broker-b` and so on. Default 1, at most 26.
    pub fn brokers(mut self, n: usize) -> Self {
        self.brokers = n;
        self
    }

    /// How many slaves each broker has, with the ids 1 and up. Default 0.
    ///
    /// A slave is in the routes beside its master, follows it in memory within a moment, and lets nobody write. Clients
    /// read from it while its master is away. With the setting `slaveReadEnable` (request 25) a master sends the
    /// members of a group to the broker id that the group is set to.
    pub fn slaves(mut self, n: usize) -> Self {
        self.slaves = n;
        self
    }

    /// How many name servers, which know the same. Default 1.
    pub fn name_servers(mut self, n: usize) -> Self {
        self.name_servers = n;
        self
    }

    /// Settings of each broker. Names are given by the cluster, and each broker needs a port of its own.
    pub fn each(mut self, f: impl FnOnce(BrokerBuilder) -> BrokerBuilder) -> Self {
        self.template = f(self.template);
        self
    }

    /// Starts name servers and brokers. Clients can fetch routes to all of them when this returns.
    ///
    /// # Errors
    /// `Config` with the mistakes in the settings; `Io` when an address cannot be listened on.
    pub fn start(self) -> Result<Cluster> {
        let mistakes = self.mistakes();
        if !mistakes.is_empty() {
            return Err(Error::config(mistakes));
        }
        let (names, pulse) = (Arc::new(NameServer::default()), Arc::new(Pulse::default()));
        let clock = self.template.settings.clock.clone();
        let version = self.template.settings.version;
        let start = |letter: u8| {
            let name = format!("broker-{}", char::from(letter));
            self.template.clone().name(name).start_with(names.clone(), pulse.clone())
        };
        let brokers = (b'a'..=b'z').take(self.brokers).map(start).collect::<Result<Vec<_>>>()?;
        let (mut slaves, mut followers) = (Vec::new(), Vec::new());
        for (master, id) in brokers.iter().flat_map(|master| (1..=self.slaves).map(move |id| (master, id))) {
            let mut builder = self.template.clone().name(master.name());
            builder.settings.id = i64::try_from(id).unwrap_or(i64::MAX);
            let slave = builder.start_with(names.clone(), pulse.clone())?;
            let follower = Follower::start(master.shared().clone(), slave.shared().clone());
            followers.push(follower.map_err(|error| Error::io("starting the thread of a slave", error))?);
            slaves.push(slave);
        }
        let tls = tls::acceptor(&self.template.settings)?;
        let name_servers = (0..self.name_servers)
            .map(|_| serve_names(names.clone(), version, tls.clone()))
            .collect::<Result<_>>()?;
        let all = |brokers: &[Broker]| brokers.iter().map(|broker| broker.shared().clone()).collect();
        let (shared, shared_slaves) = (all(&brokers), all(&slaves));
        Ok(Cluster { followers, brokers, slaves, shared, shared_slaves, name_servers, clock })
    }

    fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        if !(1..=26).contains(&self.brokers) {
            mistakes.push(Mistake::new("brokers", format!("{} brokers; 1 to 26 are possible", self.brokers)));
        }
        if self.name_servers == 0 {
            mistakes.push(Mistake::new("name_servers", "a cluster needs at least one"));
        }
        if self.slaves > 9 {
            mistakes.push(Mistake::new("slaves", format!("{} slaves; 0 to 9 are possible", self.slaves)));
        }
        if self.brokers * (1 + self.slaves) > 1 && !self.template.listen.ends_with(":0") {
            mistakes.push(Mistake::new("listen", "several brokers need several ports: listen on port 0"));
        }
        mistakes
    }
}

impl Cluster {
    /// One broker and one name server, until told otherwise.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder { brokers: 1, slaves: 0, name_servers: 1, template: BrokerBuilder::new() }
    }

    /// The addresses to give to clients, separated by `;`.
    pub fn name_server(&self) -> String {
        let addresses: Vec<_> =
            self.name_servers.iter().map(|server| server.local_address().to_string()).collect();
        addresses.join(";")
    }

    /// The master of that name.
    pub fn broker(&self, name: &str) -> Option<&Broker> {
        self.brokers.iter().find(|broker| broker.name() == name)
    }

    /// The slave of that master with this id, from 1 on.
    pub fn slave(&self, name: &str, id: u64) -> Option<&Broker> {
        self.slaves.iter().find(|slave| slave.name() == name && slave.id() == id)
    }

    /// All slaves, in the order of their names and ids.
    pub fn slaves(&self) -> &[Broker] {
        &self.slaves
    }

    /// All masters, in the order of their names.
    pub fn brokers(&self) -> &[Broker] {
        &self.brokers
    }

    /// The clock of all brokers.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What is there at this moment, on all masters. What a slave has is told by its own [`Broker::inspect`].
    pub fn inspect(&self) -> Snapshot {
        look::snapshot(&self.shared)
    }

    /// Waits until the condition is true, as [`Broker::wait`].
    ///
    /// # Errors
    /// `Timeout`; the text says what was last seen.
    pub fn wait(&self, timeout: Duration, condition: impl FnMut(&Snapshot) -> bool) -> Result<()> {
        look::wait(&self.shared, timeout, condition)
    }

    /// As [`wait`](Self::wait), moving a manual clock, as [`Broker::fast_forward`].
    ///
    /// # Errors
    /// As `wait`; `Config` if the brokers were not built with [`Clock::manual`].
    pub fn fast_forward(&self, timeout: Duration, condition: impl FnMut(&Snapshot) -> bool) -> Result<()> {
        look::fast_forward(&self.shared, &self.shared_slaves, &self.clock, timeout, condition)
    }

    /// Stops all brokers. The name servers go on until the handle is dropped, and have no routes any more.
    pub fn shutdown(&self) {
        self.brokers.iter().chain(&self.slaves).for_each(Broker::shutdown);
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.brokers.iter().map(Broker::name).collect();
        let slaves = self.followers.len();
        f.debug_struct("Cluster").field("brokers", &names).field("slaves", &slaves).finish_non_exhaustive()
    }
}

fn serve_names(names: Arc<NameServer>, version: Version, tls: Option<Acceptor>) -> Result<Server> {
    let (listener, address) = bind("127.0.0.1:0")?;
    let config = ServerConfig { name: "rmq-names".to_owned(), tls, ..ServerConfig::default() };
    Server::start(listener, config, Names { names, version })
        .map_err(|error| Error::io(format_args!("starting a name server on {address}"), error))
}

/// A name server on a port of its own.
struct Names {
    names: Arc<NameServer>,
    version: Version,
}

impl Handler for Names {
    fn opened(&mut self, _: &Peer) {}

    fn frame(&mut self, peer: &Peer, frame: Frame) {
        let command = match frame.command() {
            Ok(command) if command.is_response() => return,
            Ok(command) => command,
            Err(error) => {
                log::debug!("closing the connection of {}: {error}", peer.remote());
                return peer.close();
            }
        };
        let (opaque, oneway) = (command.opaque, command.is_oneway());
        let reply =
            ReplyTo { peer: peer.id(), opaque, encoding: frame.encoding(), oneway, twist: None, number: 0 };
        let answer = self.answer(&Request { remote: peer.remote(), command, reply });
        if !oneway {
            peer.send(&RemotingCommand { opaque, version: self.version.number(), ..answer });
        }
    }

    fn closed(&mut self, _: &Peer) {}

    fn next_deadline(&self) -> Option<std::time::Instant> {
        None
    }

    fn tick(&mut self) {}
}

impl Names {
    fn answer(&self, request: &Request) -> RemotingCommand {
        match name_server::handle(&self.names, request) {
            Some(Ok(Answer::Now(command))) => command,
            Some(Err(refusal)) => refusal.into_command(),
            // No request to a name server is answered later.
            Some(Ok(Answer::Later)) | None => {
                let remark = format!(" request type {} not supported", request.command.code);
                Refusal::new(ResponseCode::REQUEST_CODE_NOT_SUPPORTED, remark).into_command()
            }
        }
    }
}
