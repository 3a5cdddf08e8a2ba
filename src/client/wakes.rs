//! What the control loop is to look at next, gathered: a thousand wishes become one item on its channel.

use std::collections::BTreeSet;
use std::sync::Arc;

use crossbeam_channel::Sender;
use parking_lot::Mutex;

use super::control::Input;
use super::routes::Change;

/// The wishes of all threads towards `rmq-control`.
#[derive(Debug)]
pub(crate) struct Wakes {
    pending: Mutex<Pending>,
    inbox: Sender<Input>,
}

#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// The loop has been woken and has not looked yet.
    queued: bool,
    /// Members came, left, or changed what they subscribe to.
    pub(crate) members: bool,
    pub(crate) heartbeat_to_all: bool,
    pub(crate) heartbeat_to: BTreeSet<Arc<str>>,
    pub(crate) topics: BTreeSet<Arc<str>>,
    /// Routes that a thread fetched for itself.
    pub(crate) fetched: Vec<Change>,
    /// A broker said that the members of a group have changed.
    pub(crate) ids_changed: bool,
}

impl Pending {
    pub(crate) fn want_route(&mut self, topic: &str) {
        if !self.topics.contains(topic) {
            self.topics.insert(topic.into());
        }
    }

    pub(crate) fn want_heartbeat(&mut self, address: &str) {
        if !self.heartbeat_to.contains(address) {
            self.heartbeat_to.insert(address.into());
        }
    }
}

impl Wakes {
    pub(crate) fn new(inbox: Sender<Input>) -> Self {
        Wakes { pending: Mutex::default(), inbox }
    }

    /// Adds to what is wished for, and wakes the loop unless it has been woken already.
    pub(crate) fn add(&self, wish: impl FnOnce(&mut Pending)) {
        let mut pending = self.pending.lock();
        wish(&mut pending);
        let first = !std::mem::replace(&mut pending.queued, true);
        drop(pending);
        if first {
            // Nobody is left to wake after a shutdown.
            drop(self.inbox.send(Input::Wake));
        }
    }

    /// All wishes so far. Later ones wake the loop again.
    pub(crate) fn take(&self) -> Pending {
        std::mem::take(&mut *self.pending.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::unbounded;

    #[test]
    fn a_thousand_wishes_wake_once() {
        let (inbox, outbox) = unbounded();
        let wakes = Wakes::new(inbox);
        for _ in 0..1000 {
            wakes.add(|pending| pending.ids_changed = true);
            wakes.add(|pending| pending.want_route("orders"));
        }
        assert_eq!(outbox.len(), 1);
        let pending = wakes.take();
        assert!(pending.ids_changed && pending.topics.len() == 1);
        wakes.add(|pending| pending.members = true);
        assert_eq!(outbox.len(), 2);
        let pending = wakes.take();
        assert!(pending.members && !pending.ids_changed);
    }
}
