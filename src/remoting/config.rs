use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use super::{Credentials, Incoming, Tls};
use crate::protocol::{Encoding, MAX_FRAME};

/// Translates an address that a server advertises into the one to dial. Runs on `rmq-aux`.
pub(crate) type AddressMap = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Looks up `host:port`. May block: runs on `rmq-aux`.
pub(crate) type Resolver = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// What a [`Remoting`](super::Remoting) is started with.
#[derive(Clone)]
pub(crate) struct RemotingConfig {
    /// The name of its thread; default `rmq-io`.
    pub(crate) name: String,
    /// From the first request to the open connection, the look-up of the host included; default 3 s.
    pub(crate) connect_timeout: Duration,
    /// The longest frame that is read, with its length prefix; default 16 MiB.
    pub(crate) max_frame: usize,
    /// How headers are written; default JSON.
    pub(crate) encoding: Encoding,
    /// Bytes that may wait in one connection; the last frame may go beyond it. Default 4 MiB.
    pub(crate) outbox_limit: usize,
    /// Default: addresses are dialled as they are.
    pub(crate) address_map: Option<AddressMap>,
    /// Signs every request; default none.
    pub(crate) credentials: Option<Credentials>,
    /// How connections are encrypted; default: not at all.
    pub(crate) tls: Option<Tls>,
    /// Goes with every request as its namespace (brokers 5.x); default none.
    pub(crate) namespace_v2: Option<String>,
    /// Told about connections, on the io thread: it may only pass on what it hears, without blocking.
    pub(crate) on_link: Arc<dyn Fn(LinkEvent) + Send + Sync>,
    /// Given the requests that servers send, on the io thread: the same holds.
    pub(crate) on_request: Arc<dyn Fn(Incoming) + Send + Sync>,
    /// Looks up host names; default: the system.
    pub(crate) resolver: Resolver,
}

impl Default for RemotingConfig {
    fn default() -> Self {
        Self {
            name: "rmq-io".to_owned(),
            connect_timeout: Duration::from_secs(3),
            max_frame: MAX_FRAME,
            encoding: Encoding::Json,
            outbox_limit: 4 << 20,
            address_map: None,
            credentials: None,
            tls: None,
            namespace_v2: None,
            on_link: Arc::new(|_| {}),
            on_request: Arc::new(|_| {}),
            resolver: Arc::new(|host, port| Ok((host, port).to_socket_addrs()?.collect())),
        }
    }
}

/// Without the closures.
impl fmt::Debug for RemotingConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemotingConfig")
            .field("name", &self.name)
            .field("connect_timeout", &self.connect_timeout)
            .field("max_frame", &self.max_frame)
            .field("encoding", &self.encoding)
            .field("outbox_limit", &self.outbox_limit)
            .field("credentials", &self.credentials)
            .field("tls", &self.tls)
            .field("namespace_v2", &self.namespace_v2)
            .finish_non_exhaustive()
    }
}

/// What happens to connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinkEvent {
    /// A connection is open. `local` is our end of it, `link` its number, for
    /// [`queue_on`](super::Remoting::queue_on).
    Up { address: Arc<str>, local: SocketAddr, link: u64 },
    /// A connection was lost, or could not be made.
    Down { address: Arc<str>, error: Arc<str> },
}
