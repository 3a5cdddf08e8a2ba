//! The settings of a client: how they are given, checked, and completed from the environment.

mod check;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::error::Mistake;
use crate::protocol::Encoding;
use crate::remoting::{Credentials, Tls};

/// The settings of a [`Client`](super::Client), plain data until [`start`](ClientBuilder::start).
#[derive(Clone)]
#[must_use = "a client exists when start() has returned"]
pub struct ClientBuilder {
    pub(super) name_servers: Option<String>,
    pub(super) look_up: Option<LookUp>,
    pub(super) prefix: Option<String>,
    pub(super) credentials: Option<Credentials>,
    pub(super) tls: Option<Tls>,
    pub(super) namespace: Option<String>,
    pub(super) namespace_v2: Option<String>,
    pub(super) client_ip: Option<IpAddr>,
    pub(super) instance_name: Option<String>,
    pub(super) address_map: Option<AddressMap>,
    pub(super) connect_timeout: Duration,
    pub(super) request_timeout: Duration,
    pub(super) start_timeout: Duration,
    pub(super) in_background: bool,
    pub(super) route_interval: Duration,
    pub(super) heartbeat_interval: Duration,
    pub(super) cache_limit: usize,
    pub(super) max_frame_size: usize,
    pub(super) trace_topic: Option<String>,
    pub(super) clock: Clock,
    pub(super) encoding: Encoding,
}

/// Advertised address → address to dial.
pub(super) type AddressMap = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Finds the name servers; the error is a text already.
pub(super) type LookUp = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

impl ClientBuilder {
    pub(super) fn new() -> Self {
        ClientBuilder {
            name_servers: None,
            look_up: None,
            prefix: None,
            credentials: None,
            tls: None,
            namespace: None,
            namespace_v2: None,
            client_ip: None,
            instance_name: None,
            address_map: None,
            connect_timeout: Duration::from_secs(3),
            request_timeout: Duration::from_secs(3),
            start_timeout: Duration::from_secs(10),
            in_background: false,
            route_interval: Duration::from_secs(30),
            heartbeat_interval: Duration::from_secs(30),
            cache_limit: 256 << 20,
            max_frame_size: 16 << 20,
            trace_topic: None,
            clock: Clock::system(),
            encoding: Encoding::Json,
        }
    }

    /// The addresses of the name servers: `host:port`, separated by `;`, `,` or spaces. Hosts may be DNS names, IPv4
    /// or IPv6 addresses (`[::1]:9876`). Default: the environment variable `NAMESRV_ADDR`. Java: `namesrvAddr`.
    pub fn name_servers(mut self, list: impl Into<String>) -> Self {
        self.name_servers = Some(list.into());
        self
    }

    /// A look-up of the name servers, in the form of [`name_servers`](Self::name_servers): asked at start, then
    /// every two minutes, on a thread that may block. When it fails or panics, the old addresses stay; as long as there
    /// are none, it is asked again after 5 s.
    pub fn name_servers_from<E: fmt::Display>(
        mut self,
        look_up: impl Fn() -> Result<String, E> + Send + Sync + 'static,
    ) -> Self {
        self.look_up = Some(Arc::new(move || look_up().map_err(|error| format!("{error:#}"))));
        self
    }

    /// Completes the settings from environment variables: with the prefix `SHOP_RMQ`, from `SHOP_RMQ_NAMESRV`,
    /// `SHOP_RMQ_ACCESS_KEY`, `SHOP_RMQ_SECRET_KEY`, `SHOP_RMQ_SECURITY_TOKEN`, `SHOP_RMQ_NAMESPACE` and
    /// `SHOP_RMQ_TLS_CA`, the path of a file for `Tls::ca_file` (feature `tls`).
    /// What is set by a method of this builder wins.
    pub fn environment(mut self, prefix: &str) -> Self {
        self.prefix = Some(prefix.to_owned());
        self
    }

    /// Signs every request. Default: none. [`start`](Self::start) then makes one signed call.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Encrypts every connection, to name servers and to brokers. Default: none is. Java: `useTLS` and its files.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// A namespace that prefixes the names of topics and groups on the servers; the program does not see it.
    /// Default: none. At most one of this and [`namespace_v2`](Self::namespace_v2).
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.namespace = Some(name.into());
        self
    }

    /// A namespace that goes with every request as a header (brokers 5.x). Default: none.
    pub fn namespace_v2(mut self, name: impl Into<String>) -> Self {
        self.namespace_v2 = Some(name.into());
        self
    }

    /// The address in the client id. Default: the address of this machine towards the name server.
    pub fn client_ip(mut self, ip: IpAddr) -> Self {
        self.client_ip = Some(ip);
        self
    }

    /// The second half of the client id. Default: unique (process id and a random number), so that two clients
    /// never have the same id, in containers neither.
    pub fn instance_name(mut self, name: impl Into<String>) -> Self {
        self.instance_name = Some(name.into());
        self
    }

    /// Translates the address that a server advertises into the one to dial. Default: as advertised. Runs on a
    /// thread of the library and must not wait for this client.
    pub fn address_map(mut self, map: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.address_map = Some(Arc::new(map));
        self
    }

    /// How long a connection may take to open. Default: 3 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a server may take to answer a request that has no timeout of its own. Default: 3 s. Java:
    /// `mqClientApiTimeout`.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// How long `start()` of this client, and of the producers and consumers on it, may take. Default: 10 s.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// Lets `start()` succeed without any server: the client, and the producers and consumers on it, connect when
    /// the servers, topics and groups are there. Default: off.
    pub fn connect_in_background(mut self) -> Self {
        self.in_background = true;
        self
    }

    /// How often the routes of topics are asked for; trouble makes it sooner. Default: 30 s. Java:
    /// `pollNameServerInterval`.
    pub fn route_interval(mut self, interval: Duration) -> Self {
        self.route_interval = interval;
        self
    }

    /// How often every broker gets a heartbeat; a new or returned one gets it at once. Default: 30 s, at most 100 s
    /// (brokers forget a client after 120 s). Java: `heartbeatBrokerInterval`.
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.heartbeat_interval = interval;
        self
    }

    /// How many bytes of fetched messages are held, for all queues of all consumers together. Default: 256 MiB.
    /// Whatever it says, each queue may hold one answer of a broker.
    pub fn cache_limit(mut self, bytes: usize) -> Self {
        self.cache_limit = bytes;
        self
    }

    /// The longest frame that is accepted from a server. Default: 16 MiB.
    pub fn max_frame_size(mut self, bytes: usize) -> Self {
        self.max_frame_size = bytes;
        self
    }

    /// Records who sent and consumed which message when, in this topic: what the official console and `mqadmin
    /// queryMsgTraceById` show. Default: off. Java: `enableTrace` and `traceTopic`; its topic, and theirs unless they are
    /// told otherwise, is `"RMQ_SYS_TRACE_TOPIC"`, which brokers have with `traceTopicEnable`.
    ///
    /// Sends of producers, calls of push consumers' listeners and polls of pull consumers are recorded, as in Java not
    /// one-way sends, and not where a broker says that it wants no trace (`traceOn`). `rmq-trace` stores the records about a second later, and the last ones
    /// at the shutdown, within its grace. Nobody waits for it: when records come faster than brokers store them, some
    /// are dropped, which is counted in [`ClientStats::lost_traces`](crate::ClientStats::lost_traces) and logged.
    pub fn trace_topic(mut self, topic: impl Into<String>) -> Self {
        self.trace_topic = Some(topic.into());
        self
    }

    /// The clock of heartbeats, routes, commits and retries. Default: the machine's.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How headers are written, where a request has a choice. Default: as JSON.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// As `check`, for builders that have mistakes of their own to add.
    pub(crate) fn mistakes(&self) -> Vec<Mistake> {
        self.check(process_environment).err().unwrap_or_default()
    }
}

/// Settings that have been checked.
#[derive(Clone)]
pub(crate) struct ClientConfig {
    pub(crate) name_servers: Vec<Arc<str>>,
    pub(super) look_up: Option<LookUp>,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) tls: Option<Tls>,
    pub(crate) namespace: Option<String>,
    pub(crate) namespace_v2: Option<String>,
    pub(crate) client_ip: Option<IpAddr>,
    pub(crate) instance_name: Option<String>,
    pub(super) address_map: Option<AddressMap>,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) start_timeout: Duration,
    pub(crate) in_background: bool,
    pub(crate) route_interval: Duration,
    pub(crate) heartbeat_interval: Duration,
    pub(crate) cache_limit: usize,
    pub(crate) max_frame_size: usize,
    pub(crate) trace_topic: Option<String>,
    pub(crate) clock: Clock,
    pub(super) encoding: Encoding,
}

pub(crate) fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("name_servers", &self.name_servers)
            .field("name_servers_from", &self.look_up.is_some())
            .field("environment", &self.prefix)
            .field("credentials", &self.credentials)
            .field("tls", &self.tls)
            .field("namespace", &self.namespace)
            .field("namespace_v2", &self.namespace_v2)
            .field("client_ip", &self.client_ip)
            .field("instance_name", &self.instance_name)
            .field("address_map", &self.address_map.is_some())
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .field("start_timeout", &self.start_timeout)
            .field("connect_in_background", &self.in_background)
            .field("route_interval", &self.route_interval)
            .field("heartbeat_interval", &self.heartbeat_interval)
            .field("cache_limit", &self.cache_limit)
            .field("max_frame_size", &self.max_frame_size)
            .field("trace_topic", &self.trace_topic)
            .finish()
    }
}

#[cfg(test)]
mod tests;
