//! Who else is in the group, and whether they subscribe what this member does. Pure.
//!
//! Brokers keep one set of subscriptions for a group, that of the last heartbeat, and list members by group, not by
//! topic. So a member looks at what its broker holds, soon after a change in the group and between any two heartbeats:
//! what differs from its own subscriptions is what another member wants. And in groups that are not large, the members
//! are asked what they subscribe (307), so that the queues of a topic can be shared among those that read it. That works
//! only if all of those do the same: while a client that counts every member reads the topic, every member is counted.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outside::Subscriptions;
use super::rebalance::Members;
use crate::message::RETRY_PREFIX;
use crate::protocol::body::{ConsumerConnection, ConsumerRunningInfo, SubscriptionData};

/// A property in the answer to 307: this member shares a topic among its subscribers only.
pub(super) const SHARES_AMONG_SUBSCRIBERS: &str = "sharesAmongSubscribers";

/// What is known of the other members of one group.
#[derive(Debug, Default)]
pub(super) struct Peers {
    check_at: Option<Instant>,
    checked: Option<Instant>,
    known: BTreeMap<String, Peer>,
    /// A broker has dropped a topic of ours, because somebody's heartbeat was without it.
    dropped: bool,
    /// Those that were asked and have not answered yet.
    asked: HashSet<String>,
    ask_again_at: Option<Instant>,
    /// When this was last told.
    told: HashMap<Finding, Instant>,
    /// Addresses from which this client has sent heartbeats.
    own: HashSet<SocketAddr>,
    /// Since when somebody of our id is at this address, by broker and address.
    namesakes: BTreeMap<(Arc<str>, String), Instant>,
}

#[derive(Debug, PartialEq)]
struct Peer {
    /// The text of each filter, by topic.
    subscribes: BTreeMap<String, String>,
    shares_among_subscribers: bool,
    /// How often in a row it has not answered.
    silent: u32,
}

/// Something that somebody should put right.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Finding {
    /// Another member wants something else of this topic; nothing, where the text is empty.
    Mismatch { topic: String, ours: String, theirs: String },
    /// Another client has the id of this one.
    Twin,
}

/// What a look at a broker brought.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) findings: Vec<Finding>,
    /// Members to be asked what they subscribe.
    pub(super) ask: Vec<String>,
}

/// Who asked, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Me<'a> {
    pub(super) id: &'a str,
    pub(super) broker: &'a Arc<str>,
    /// What was subscribed when the broker was asked.
    pub(super) subscriptions: &'a Subscriptions,
    pub(super) now: Instant,
}

impl Peers {
    /// When [`is_due`](Self::is_due) or [`ask_again`](Self::ask_again) has something to say.
    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.check_at, self.ask_again_at].into_iter().flatten().min()
    }

    /// Something in the group has changed.
    pub(super) fn changed(&mut self, now: Instant) {
        let at = self.checked.map_or(now + SOON, |checked| (checked + APART).max(now + SOON));
        self.check_by(at);
    }

    /// A broker that had been told of this topic says that the group does not subscribe it: another member has said so
    /// since. The heartbeat that puts it right is on its way, and may be there before the next look.
    pub(super) fn topic_dropped(&mut self, topic: &str, me: &Me<'_>) -> Vec<Finding> {
        let Some(ours) = me.subscriptions.get(topic) else { return Vec::new() };
        self.dropped = true;
        let at = self.checked.map_or(me.now, |checked| (checked + APART).max(me.now));
        self.check_by(at);
        if topic.starts_with(RETRY_PREFIX) {
            return Vec::new();
        }
        let ours = filter_text(&SubscriptionData::from(&**ours));
        self.news(vec![Finding::Mismatch { topic: topic.to_owned(), ours, theirs: String::new() }], me.now)
    }

    /// A broker has acknowledged a heartbeat that came from this address. Until the next one, others send theirs.
    pub(super) fn heartbeaten(&mut self, from: Option<SocketAddr>, interval: Duration, now: Instant) {
        if self.own.len() >= MOST_OWN {
            self.own.clear();
        }
        self.own.extend(from);
        self.check_by(if self.checked.is_none() { now + SOON } else { now + interval / 2 });
    }

    /// Nobody could be asked.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.check_at = self.check_at.map(|at| at.max(now + APART));
        self.ask_again_at = self.ask_again_at.map(|at| at.max(now + APART));
    }

    /// Whether it is time to look at what a broker holds.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.check_at.is_some_and(|at| at <= now);
        if due {
            self.check_at = None;
            self.checked = Some(now);
        }
        due
    }

    /// Those to be asked once more, since they are left out of something that they may have come to want.
    pub(super) fn ask_again(&mut self, me: &Me<'_>) -> Vec<String> {
        if self.ask_again_at.is_none_or(|at| at > me.now) {
            return Vec::new();
        }
        self.ask_again_at = None;
        let topics = || topics(me.subscriptions);
        let lacking = |peer: &Peer| topics().any(|topic| !peer.subscribes.contains_key(topic));
        let ids: Vec<String> =
            self.known.iter().filter(|(_, peer)| lacking(peer)).map(|(id, _)| id.clone()).collect();
        self.ask(ids)
    }

    /// What the broker holds of the group.
    pub(super) fn look(&mut self, held: &ConsumerConnection, me: &Me<'_>) -> Seen {
        let others: BTreeSet<&str> =
            held.connection_set.iter().map(|one| one.client_id.as_str()).filter(|id| *id != me.id).collect();
        self.known.retain(|id, _| others.contains(id.as_str()));
        let theirs = held.subscription_table.values().map(|one| (one.topic.as_str(), filter_text(one)));
        let theirs: BTreeMap<&str, String> = theirs.collect();
        // Somebody's last word was without it.
        let lacks = std::mem::take(&mut self.dropped)
            || topics(me.subscriptions).any(|topic| !theirs.contains_key(topic));
        let ask: Vec<String> = others
            .iter()
            .filter(|id| lacks || !self.known.contains_key(**id))
            .map(|id| (*id).to_owned())
            .collect();
        let ask = if others.len() < MOST_MEMBERS { self.ask(ask) } else { Vec::new() };
        let mut findings = mismatches(me.subscriptions, &theirs);
        findings.extend(self.has_twin(held, me).then_some(Finding::Twin));
        Seen { findings: self.news(findings, me.now), ask }
    }

    /// What a member said of itself; whether it changes who is counted.
    pub(super) fn answered(
        &mut self,
        id: &str,
        answer: Result<ConsumerRunningInfo, String>,
        me: &Me<'_>,
    ) -> (bool, Vec<Finding>) {
        self.asked.remove(id);
        let Ok(info) = answer else {
            let Some(peer) = self.known.get_mut(id) else { return (false, Vec::new()) };
            peer.silent += 1;
            let forgotten = peer.silent >= MOST_SILENT && self.known.remove(id).is_some();
            self.plan_next(me);
            return (forgotten, Vec::new());
        };
        let subscribes =
            info.subscription_set.iter().map(|one| (one.topic.clone(), filter_text(one))).collect();
        let shares_among_subscribers = info.properties.contains_key(SHARES_AMONG_SUBSCRIBERS);
        let peer = Peer { subscribes, shares_among_subscribers, silent: 0 };
        let theirs = peer.subscribes.iter().map(|(topic, text)| (topic.as_str(), text.clone())).collect();
        let findings = mismatches(me.subscriptions, &theirs);
        let changed = self.known.get(id) != Some(&peer);
        self.known.insert(id.to_owned(), peer);
        self.plan_next(me);
        (changed, self.news(findings, me.now))
    }

    /// The members among whom the queues of a topic are shared.
    pub(super) fn subscribers(&self, topic: &str, me: &str, members: Members) -> Members {
        let counted = |id: &String| {
            id == me || self.known.get(id).is_none_or(|peer| peer.subscribes.contains_key(topic))
        };
        let agree = members.ids().iter().filter(|id| *id != me).all(|id| {
            self.known
                .get(id)
                .is_some_and(|peer| peer.shares_among_subscribers || !peer.subscribes.contains_key(topic))
        });
        if !agree || members.ids().iter().all(counted) {
            return members;
        }
        Members::new(members.ids().iter().filter(|id| counted(id)).cloned().collect())
    }

    /// Whether one of these may leave this member out of a topic that it has not subscribed for long.
    pub(super) fn may_not_know(&self, me: &str, members: &Members) -> bool {
        let others = members.ids().iter().filter(|id| *id != me);
        others.into_iter().any(|id| self.known.get(id).is_some_and(|peer| peer.shares_among_subscribers))
    }

    fn check_by(&mut self, at: Instant) {
        self.check_at = Some(self.check_at.map_or(at, |known| known.min(at)));
    }

    fn ask(&mut self, mut ids: Vec<String>) -> Vec<String> {
        ids.retain(|id| self.asked.insert(id.clone()));
        ids
    }

    fn plan_next(&mut self, me: &Me<'_>) {
        let lacking =
            |peer: &Peer| topics(me.subscriptions).any(|topic| !peer.subscribes.contains_key(topic));
        if self.known.values().any(lacking) {
            self.ask_again_at.get_or_insert(me.now + ASK_AGAIN);
        }
    }

    /// Each is told once in a while.
    fn news(&mut self, findings: Vec<Finding>, now: Instant) -> Vec<Finding> {
        self.told.retain(|_, at| now.saturating_duration_since(*at) < TELL_AGAIN);
        findings.into_iter().filter(|finding| self.told.insert(finding.clone(), now).is_none()).collect()
    }

    /// A connection of ours that ended without the broker noticing is still listed for two minutes: that is no twin.
    fn has_twin(&mut self, held: &ConsumerConnection, me: &Me<'_>) -> bool {
        let namesakes: Vec<&str> = held
            .connection_set
            .iter()
            .filter(|one| one.client_id == me.id)
            .map(|one| one.client_addr.as_str())
            .collect();
        let is_own = |address: &str| {
            address.trim_start_matches('/').parse().is_ok_and(|address| self.own.contains(&address))
        };
        let (own, foreign): (Vec<&str>, Vec<&str>) = namesakes.iter().copied().partition(|at| is_own(at));
        self.namesakes.retain(|(broker, at), _| broker != me.broker || namesakes.contains(&at.as_str()));
        for at in &namesakes {
            self.namesakes.entry((me.broker.clone(), (*at).to_owned())).or_insert(me.now);
        }
        if !own.is_empty() {
            return !foreign.is_empty();
        }
        // Behind a translation of addresses, brokers see others than ours.
        let lasting = |since: &Instant| me.now.saturating_duration_since(*since) > STALE;
        self.namesakes.iter().filter(|((broker, _), since)| broker == me.broker && lasting(since)).count() > 1
    }
}

/// Those that a program subscribes.
fn topics(subscriptions: &Subscriptions) -> impl Iterator<Item = &str> {
    subscriptions.keys().map(|topic| &**topic).filter(|topic| !topic.starts_with(RETRY_PREFIX))
}

fn mismatches(ours: &Subscriptions, theirs: &BTreeMap<&str, String>) -> Vec<Finding> {
    let all: BTreeSet<&str> = topics(ours).chain(theirs.keys().copied()).collect();
    let all = all.into_iter().filter(|topic| !topic.starts_with(RETRY_PREFIX));
    all.filter_map(|topic| {
        let ours =
            ours.get(topic).map(|one| filter_text(&SubscriptionData::from(&**one))).unwrap_or_default();
        let theirs = theirs.get(topic).cloned().unwrap_or_default();
        (ours != theirs).then(|| Finding::Mismatch { topic: topic.to_owned(), ours, theirs })
    })
    .collect()
}

/// The same for the same filter, however it was written.
fn filter_text(subscription: &SubscriptionData) -> String {
    if subscription.is_sql92() || subscription.class_filter_mode {
        return subscription.sub_string.trim().to_owned();
    }
    let tags = subscription.sub_string.split("||").map(str::trim).filter(|tag| !tag.is_empty());
    let tags: BTreeSet<&str> = tags.collect();
    if tags.is_empty() { "*".to_owned() } else { Vec::from_iter(tags).join(" || ") }
}

/// A change in the group comes as several messages: all of them are waited for.
const SOON: Duration = Duration::from_millis(100);
const APART: Duration = Duration::from_millis(500);
/// Everybody asks everybody: in larger groups that would be too much, and all members are counted, as Java does.
const MOST_MEMBERS: usize = 16;
/// How soon a member that is left out of a topic is noticed when it subscribes it.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Until the others must have noticed that this member subscribes a topic.
pub(super) const NOTICED: Duration = Duration::from_millis(2500);
const MOST_SILENT: u32 = 2;
const TELL_AGAIN: Duration = Duration::from_secs(600);
/// Brokers forget a silent client after two minutes.
const STALE: Duration = Duration::from_secs(150);
const MOST_OWN: usize = 1000;

#[cfg(test)]
mod tests;
