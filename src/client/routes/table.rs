//! All routes of a client, and the addresses of all brokers that occur in them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::protocol::body::TopicRouteData;

use super::{MASTER, Route};

/// Which of a broker's addresses is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The master, nobody else.
    Master,
    /// The one with this id; if it is missing, the next id (unless the master was asked for), else any.
    Id(u64),
    /// The master if there is one, else any.
    Any,
}

/// Name → id → address.
type Brokers = BTreeMap<Arc<str>, BTreeMap<u64, Arc<str>>>;

/// The routes by topic. One lock around it, held for look-ups and merges only.
#[derive(Debug, Default)]
pub(crate) struct RouteTable {
    topics: HashMap<Arc<str>, Arc<Route>>,
    brokers: Brokers,
}

/// What a new route changed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) topic: Arc<str>,
    /// Something is different from before, or there was nothing before.
    pub(crate) changed: bool,
    /// A broker that this topic had is gone from it.
    pub(crate) lost_broker: bool,
    pub(crate) moved: Vec<Moved>,
}

/// A server that is somewhere else now. Nobody is at its former address any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) broker: Arc<str>,
    pub(crate) from: Arc<str>,
    /// It keeps the offsets and locks of its broker: the master, or who stands in for it.
    pub(crate) keeper: bool,
}

impl RouteTable {
    pub(crate) fn route(&self, topic: &str) -> Option<&Arc<Route>> {
        self.topics.get(topic)
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topics.keys()
    }

    /// Takes over what a name server said about a topic.
    pub(crate) fn apply(&mut self, topic: &Arc<str>, data: TopicRouteData) -> Change {
        let route = Route::new(topic.clone(), data);
        let old = self.topics.get(topic);
        if let Some(old) = old
            && old.data() == route.data()
        {
            // What is said of a broker last holds, also when this topic's own entry is the same as before.
            let brokers = old.brokers().clone();
            self.merge_brokers(&brokers);
            // Two topics that say different things of a broker may do so for long: nobody has moved.
            return Change { topic: topic.clone(), ..Change::default() };
        }
        let lost_broker =
            old.is_some_and(|old| old.brokers().keys().any(|name| !route.brokers().contains_key(name)));
        let brokers = route.brokers().clone();
        self.topics.insert(topic.clone(), Arc::new(route));
        let moved = self.merge_brokers(&brokers);
        Change { topic: topic.clone(), changed: true, lost_broker, moved }
    }

    /// Forgets a topic that nobody needs any more.
    pub(crate) fn forget(&mut self, topic: &str) {
        if self.topics.remove(topic).is_some() {
            self.drop_unknown();
        }
    }

    pub(crate) fn broker_address(&self, name: &str, role: Role) -> Option<(Arc<str>, u64)> {
        let ids = self.brokers.get(name)?;
        let at = |id: u64| ids.get(&id).map(|address| (address.clone(), id));
        let any = || ids.iter().next().map(|(id, address)| (address.clone(), *id));
        match role {
            Role::Master => at(MASTER),
            Role::Any => any(),
            Role::Id(MASTER) => at(MASTER).or_else(any),
            Role::Id(id) => at(id).or_else(|| at(id.saturating_add(1))).or_else(any),
        }
    }

    /// A broker of the topic to ask about the topic or its groups: from `start` on, masters before slaves.
    pub(crate) fn any_broker_of(&self, topic: &str, start: usize) -> Option<Arc<str>> {
        let route = self.topics.get(topic)?;
        let names: Vec<&Arc<str>> = route.brokers().keys().collect();
        let turned = names.iter().cycle().skip(start % names.len().max(1)).take(names.len());
        let find = |role| turned.clone().find_map(|name| self.broker_address(name, role));
        find(Role::Master).or_else(|| find(Role::Any)).map(|(address, _)| address)
    }

    /// Every address that is known, with the broker's name and the id there.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (&Arc<str>, u64, &Arc<str>)> {
        self.brokers.iter().flat_map(|(name, ids)| ids.iter().map(move |(id, address)| (name, *id, address)))
    }

    pub(crate) fn broker_name(&self, address: &str) -> Option<&Arc<str>> {
        self.addresses().find(|(_, _, known)| &***known == address).map(|(name, _, _)| name)
    }

    /// The topics that have a broker at this address.
    pub(crate) fn topics_at(&self, address: &str) -> Vec<Arc<str>> {
        self.topics
            .values()
            .filter(|route| route.has_address(address))
            .map(|route| route.topic().clone())
            .collect()
    }

    /// Returns who has moved, and from where. Who is merely missing may be back at the same place any moment.
    fn merge_brokers(&mut self, named: &Brokers) -> Vec<Moved> {
        let mut moved = Vec::new();
        for (name, ids) in named {
            for (id, from) in self.brokers.insert(name.clone(), ids.clone()).unwrap_or_default() {
                if ids.get(&id).is_some_and(|now| *now != from) {
                    let keeper = ids.keys().next() == Some(&id);
                    moved.push(Moved { broker: name.clone(), from, keeper });
                }
            }
        }
        self.drop_unknown();
        moved.retain(|moved| self.broker_name(&moved.from).is_none());
        moved
    }

    /// A broker that no topic names any more is not spoken to any more.
    fn drop_unknown(&mut self) {
        let named: BTreeSet<&Arc<str>> =
            self.topics.values().flat_map(|route| route.brokers().keys()).collect();
        self.brokers.retain(|name, ids| named.contains(name) && !ids.is_empty());
    }
}
