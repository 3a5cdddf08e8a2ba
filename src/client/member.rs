//! What joins a client, and what it hears.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::protocol::ResponseCode;
use crate::protocol::body::ConsumerData;
use crate::remoting::Incoming;

use super::ShutdownReport;

/// A producer or consumer group on a client. Names are those of the wire: with the namespace, if there is one.
///
/// All methods may be called on `rmq-control`: they must return at once, except `shutdown`, which is called on a
/// thread that may wait.
pub(crate) trait Member: Send + Sync {
    fn kind(&self) -> MemberKind;
    fn group(&self) -> &str;
    /// What heartbeats say about it, the subscriptions and their versions; `None` for a producer, and for a consumer
    /// that is no member of its group.
    fn consumer_data(&self) -> Option<ConsumerData>;
    /// The topics whose routes are kept fresh for it, however seldom it looks at them.
    fn topics(&self) -> Vec<String>;
    /// Something happened. Called on `rmq-control`: the member takes a note, or posts to a channel of its own.
    fn notice(&self, notice: Notice);
    /// Publishes its figures, for the feature `metrics`.
    fn publish_metrics(&self) {}
    /// Ends it, within this time.
    fn shutdown(&self, grace: Duration) -> ShutdownReport;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum MemberKind {
    Producer,
    Consumer,
}

impl fmt::Display for MemberKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemberKind::Producer => "producer",
            MemberKind::Consumer => "consumer",
        })
    }
}

/// What the control loop tells its members. Cheap to clone: every member gets its own.
#[derive(Debug, Clone)]
pub(crate) enum Notice {
    /// There is a route of this topic, or it is another one than before.
    RouteChanged(Arc<str>),
    /// A name server answered that there is no such topic, and no other one knows it. A route that was known stays.
    RouteMissing(Arc<str>),
    /// No name server answered; it is tried again.
    RouteFailed(Arc<str>),
    /// There is such a topic, and this client cannot use it.
    TopicUnusable { topic: Arc<str>, why: &'static str },
    /// A broker says that the members of some group have changed. Many of these become one.
    ConsumerIdsChanged,
    /// A connection to a broker is open. The heartbeat is on its way.
    BrokerUp { name: Arc<str>, address: Arc<str> },
    /// The broker has acknowledged a heartbeat.
    Heartbeaten { address: Arc<str> },
    /// The broker answered a heartbeat with something else; it is tried again.
    HeartbeatRefused { address: Arc<str>, code: ResponseCode, remark: Arc<str> },
    /// A connection to a broker was lost, or could not be made.
    Disconnected { address: Arc<str>, error: Arc<str> },
    /// The server that keeps the broker's offsets and locks is at another address than before. The connection to it, and
    /// what was asked on it, is lost; it may have started anew, and forgotten its locks and what it confirmed last.
    BrokerMoved { name: Arc<str> },
    /// A broker asks something of this member's group: 39, 220, 221, 307, 309. To be answered with `respond`,
    /// unless it is one-way. 326 has been answered already.
    Request(Arc<Incoming>),
}
