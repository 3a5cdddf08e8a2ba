//! What a broker was told when it was built.

use std::time::Duration;

use super::classes::Class;
#[cfg(feature = "acl")]
use super::rights::Rights;
#[cfg(feature = "tls")]
use super::tls::TlsFiles;
use crate::clock::Clock;
#[cfg(feature = "acl")]
use crate::remoting::Credentials;

/// The cluster that every embedded broker belongs to, as untouched real ones do.
pub(crate) const CLUSTER: &str = "DefaultCluster";
/// The id of a broker that is no slave.
pub(crate) const MASTER: i64 = 0;
/// The template for topics that are created by sending to them.
pub(crate) const TEMPLATE_TOPIC: &str = "TBW102";
/// The region that real brokers name in answers and messages unless told otherwise.
pub(crate) const REGION: &str = "DefaultRegion";

/// Which broker an embedded one looks like to clients: what it understands, and what it answers where versions differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Version {
    /// RocketMQ 4.9.7.
    V4_9,
    /// RocketMQ 5.3.3.
    #[default]
    V5_3,
    /// RocketMQ 5.5.0.
    V5_5,
}

impl Version {
    /// The number in each answer (`MQVersion`).
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::V4_9 => 407,
            Self::V5_3 => 479,
            Self::V5_5 => 513,
        }
    }

    /// The name of that number.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V4_9 => "V4_9_7",
            Self::V5_3 => "V5_3_3",
            Self::V5_5 => "V5_5_0",
        }
    }

    pub(crate) fn is_5(self) -> bool {
        self >= Self::V5_3
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    /// 0 is the master; slaves follow from 1 on.
    pub(crate) id: i64,
    pub(crate) topics: Vec<(String, i32)>,
    pub(crate) auto_create_topics: bool,
    pub(crate) auto_create_groups: bool,
    /// `enablePropertyFilter`.
    pub(crate) property_filter: bool,
    pub(crate) clock: Clock,
    pub(crate) version: Version,
    pub(crate) delay_levels: Vec<Duration>,
    /// With any of these it plays a filter server.
    pub(crate) classes: Vec<Class>,
    /// Who may do what; nobody is asked while there is none.
    #[cfg(feature = "acl")]
    pub(crate) accounts: Vec<(Credentials, Rights)>,
    #[cfg(feature = "tls")]
    pub(crate) tls: TlsFiles,
}
