use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::classes::Class;
use super::delay::standard_levels;
use super::handle::Broker;
use super::names::NameServer;
use super::pulse::Pulse;
#[cfg(feature = "acl")]
use super::rights::Rights;
use super::settings::{MASTER, Settings, Version};
#[cfg(feature = "tls")]
use super::tls::TlsFiles;
use crate::Result;
use crate::clock::Clock;
use crate::error::{Error, Mistake};
use crate::message::{MessageView, topic_problem};
#[cfg(feature = "acl")]
use crate::remoting::Credentials;

/// Settings of a [`Broker`], from [`Broker::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct BrokerBuilder {
    pub(super) settings: Settings,
    pub(super) listen: String,
    pub(super) advertise: Option<String>,
}

impl BrokerBuilder {
    pub(super) fn new() -> Self {
        let settings = Settings {
            name: "broker-a".to_owned(),
            id: MASTER,
            topics: Vec::new(),
            auto_create_topics: true,
            auto_create_groups: true,
            property_filter: true,
            clock: Clock::system(),
            version: Version::default(),
            delay_levels: standard_levels(),
            classes: Vec::new(),
            #[cfg(feature = "acl")]
            accounts: Vec::new(),
            #[cfg(feature = "tls")]
            tls: TlsFiles::default(),
        };
        Self { settings, listen: "127.0.0.1:0".to_owned(), advertise: None }
    }

    /// A topic that is there from the start, with so many queues. May be called for several.
    pub fn topic(mut self, name: impl Into<String>, queues: u32) -> Self {
        self.settings.topics.push((name.into(), i32::try_from(queues).unwrap_or(i32::MAX)));
        self
    }

    /// Whether sending to an unknown topic creates it. Default true.
    pub fn auto_create_topics(mut self, on: bool) -> Self {
        self.settings.auto_create_topics = on;
        self
    }

    /// Whether an unknown consumer group is created when it shows up. Default true.
    pub fn auto_create_groups(mut self, on: bool) -> Self {
        self.settings.auto_create_groups = on;
        self
    }

    /// The broker's name; with a machine room before it, as in `room@name`, for members that share queues by rooms
    /// (`allocate::by_machine_room`). Default `broker-a`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Where to listen, `host:port`; port 0 is a free one. Default `127.0.0.1:0`.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = address.into();
        self
    }

    /// The address that routes name, `host:port`, where clients reach the broker by another than it listens on; with
    /// port 0 the port that is listened on. Default: what was bound.
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.advertise = Some(address.into());
        self
    }

    /// The clock of delays, delivery times, locks, client expiry and store times. Default: the machine's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.settings.clock = clock;
        self
    }

    /// The version of RocketMQ whose answers are given where versions differ. Default [`Version::V5_3`].
    pub fn version(mut self, version: Version) -> Self {
        self.settings.version = version;
        self
    }

    /// The delays of the levels, from level 1 on. Default: the standard 18, 1 s to 2 h.
    pub fn delay_levels(mut self, table: impl IntoIterator<Item = Duration>) -> Self {
        self.settings.delay_levels = table.into_iter().collect();
        self
    }

    /// What the class filter of this name says of a message; makes the broker play the filter server of brokers up to
    /// 4.2. The source that consumers bring is not looked at. May be called for several. Default: none, and no filter
    /// server. Runs on the broker's thread, so it should be quick; a panic means no.
    pub fn class_filter(
        mut self,
        class_name: impl Into<String>,
        says: impl Fn(&MessageView) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.settings.classes.push(Class::new(class_name.into(), says));
        self
    }

    /// An account: from the first one on, only signed requests are served, and only what the account has the right
    /// for. Routes are told to everybody, as by real name servers. May be called for several. Default: none.
    #[cfg(feature = "acl")]
    pub fn account(mut self, credentials: Credentials, rights: Rights) -> Self {
        self.settings.accounts.push((credentials, rights));
        self
    }

    /// Has all connections encrypted, with the certificate (or chain) and the key in these PEM files; whoever speaks
    /// plainly is cut off. They are read again by [`Broker::restart`]. Default: connections are plain.
    #[cfg(feature = "tls")]
    pub fn tls_files(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.settings.tls.identity = Some((certificate.into(), key.into()));
        self
    }

    /// Demands of clients a certificate that was signed by an authority in this PEM file. Default: none is asked for.
    /// Needs [`tls_files`](Self::tls_files).
    #[cfg(feature = "tls")]
    pub fn tls_client_ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.tls.client_ca = Some(path.into());
        self
    }

    /// Starts the broker. A client can fetch routes when this returns.
    ///
    /// # Errors
    /// `Config` with all mistakes in the settings; `Io` when the address cannot be listened on or a file not be read.
    pub fn start(self) -> Result<Broker> {
        self.start_with(Arc::default(), Arc::default())
    }

    /// Starts the broker beside others that share a name server and whoever waits for changes.
    pub(super) fn start_with(self, names: Arc<NameServer>, pulse: Arc<Pulse>) -> Result<Broker> {
        let mistakes = self.mistakes();
        if !mistakes.is_empty() {
            return Err(Error::config(mistakes));
        }
        Broker::start_first(self, names, pulse)
    }

    fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        let topics = &self.settings.topics;
        for (i, (name, queues)) in topics.iter().enumerate() {
            mistakes.extend(topic_problem(name).map(|problem| Mistake::new("topic", problem)));
            if *queues == 0 {
                mistakes.push(Mistake::new("topic", format!("the topic `{name}` has no queue")));
            }
            if topics.iter().take(i).any(|(other, _)| other == name) {
                mistakes.push(Mistake::new("topic", format!("the topic `{name}` is named twice")));
            }
        }
        if let Some(problem) = self.settings.name.splitn(2, '@').find_map(topic_problem) {
            mistakes.push(Mistake::new("name", problem.replacen("topic", "broker", 1)));
        }
        #[cfg(feature = "tls")]
        if self.settings.tls.client_ca.is_some() && self.settings.tls.identity.is_none() {
            mistakes.push(Mistake::new("tls_client_ca", "there is no TLS without tls_files"));
        }
        if self.settings.delay_levels.is_empty() {
            mistakes.push(Mistake::new("delay_levels", "retries need at least one level"));
        }
        mistakes
    }
}

pub(super) fn bind(address: &str) -> Result<(TcpListener, SocketAddr)> {
    let bound =
        TcpListener::bind(address).and_then(|listener| listener.local_addr().map(|local| (listener, local)));
    bound.map_err(|error| Error::io(format_args!("listening on {address}"), error))
}

/// The address to reach a listener at from this machine.
pub(super) fn reachable(local: SocketAddr) -> SocketAddr {
    match local.ip() {
        ip if !ip.is_unspecified() => local,
        // "Everywhere" in IPv6 takes IPv4 as well on nearly every machine, and IPv4 is what older clients can dial.
        _ => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), local.port()),
    }
}
