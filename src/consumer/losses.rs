//! How often the connection to each broker was lost.
//!
//! `rmq-control` counts as soon as it hears of it, and a consume thread compares before each batch of a locked queue:
//! whether a lock is believed in must not wait for `rmq-rebalance`, where a slow allocation strategy may hold up
//! everything else that follows from a loss.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::outside::Outside;
use crate::client::Notice;

/// The count of one broker, shared by whoever counts and whoever compares.
#[derive(Clone, Debug, Default)]
pub struct Losses(Arc<AtomicU64>);

impl Losses {
    /// How often so far.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Once more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// The counts of all brokers, by their names.
#[derive(Debug, Default)]
pub(crate) struct AllLosses(Mutex<BTreeMap<Arc<str>, Losses>>);

impl AllLosses {
    /// That of one broker.
    pub(super) fn of(&self, broker: &Arc<str>) -> Losses {
        let mut all = self.0.lock();
        if let Some(known) = all.get(broker) {
            return known.clone();
        }
        all.entry(broker.clone()).or_default().clone()
    }
}

/// Looks at what the client has to tell on its way to `rmq-rebalance`. A broker that has moved may have lost its locks
/// as one whose connection ended.
pub(super) fn look<S: Outside>(core: &S, notice: &Notice) {
    let broker = match notice {
        Notice::Disconnected { address, .. } => core.broker_name(address),
        Notice::BrokerMoved { name } => Some(name.clone()),
        _ => None,
    };
    if let Some(broker) = broker {
        core.losses(&broker).add();
    }
}
