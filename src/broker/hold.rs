//! Pulls that wait for a message to arrive.
//!
//! Holding is measured in real time, since the client's patience is: its request times out by the machine's clock.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use super::PeerId;

/// One waiting pull. `P` is what is needed to look again and to answer.
#[derive(Debug)]
pub(crate) struct Held<P> {
    pub(crate) peer: PeerId,
    pub(crate) group: String,
    /// Held until something arrives at or after this offset.
    pub(crate) offset: i64,
    /// When it is answered whatever happened.
    pub(crate) deadline: Instant,
    pub(crate) pull: P,
}

/// The waiting pulls of all queues.
#[derive(Debug)]
pub(crate) struct Holds<P> {
    queues: HashMap<Queue, Vec<(u64, Held<P>)>>,
    deadlines: BTreeSet<(Instant, u64)>,
    /// In which queue each one waits.
    places: HashMap<u64, Queue>,
    next_id: u64,
}

type Queue = (String, i32);

impl<P> Default for Holds<P> {
    fn default() -> Self {
        Self { queues: HashMap::new(), deadlines: BTreeSet::new(), places: HashMap::new(), next_id: 0 }
    }
}

impl<P> Holds<P> {
    pub(crate) fn park(&mut self, topic: &str, queue_id: i32, held: Held<P>) {
        let queue = (topic.to_owned(), queue_id);
        let id = self.next_id;
        self.next_id += 1;
        self.deadlines.insert((held.deadline, id));
        self.places.insert(id, queue.clone());
        self.queues.entry(queue).or_default().push((id, held));
    }

    /// Takes out those of a queue that `wanted` names.
    pub(crate) fn take(
        &mut self,
        topic: &str,
        queue_id: i32,
        wanted: impl Fn(&Held<P>) -> bool,
    ) -> Vec<Held<P>> {
        let queue = (topic.to_owned(), queue_id);
        let Some(waiting) = self.queues.get_mut(&queue) else { return Vec::new() };
        let taken: Vec<_> = waiting.extract_if(.., |(_, held)| wanted(held)).collect();
        if waiting.is_empty() {
            self.queues.remove(&queue);
        }
        taken.into_iter().map(|(id, held)| self.forget(id, held)).collect()
    }

    /// Takes out those whose time is up.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<Held<P>> {
        let due: Vec<u64> =
            self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect();
        due.into_iter().filter_map(|id| self.take_one(id)).collect()
    }

    /// Forgets what a closed connection waited for.
    pub(crate) fn drop_peer(&mut self, peer: PeerId) {
        let (deadlines, places) = (&mut self.deadlines, &mut self.places);
        self.queues.retain(|_, waiting| {
            waiting.retain(|(id, held)| {
                if held.peer == peer {
                    deadlines.remove(&(held.deadline, *id));
                    places.remove(id);
                }
                held.peer != peer
            });
            !waiting.is_empty()
        });
    }

    /// When the first of them has waited long enough.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Every waiting pull with its topic and queue.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, i32, &Held<P>)> {
        self.queues
            .iter()
            .flat_map(|((topic, id), waiting)| waiting.iter().map(|w| (topic.as_str(), *id, &w.1)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self { next_id: self.next_id, ..Self::default() };
    }

    fn take_one(&mut self, id: u64) -> Option<Held<P>> {
        let queue = self.places.get(&id)?.clone();
        let waiting = self.queues.get_mut(&queue)?;
        let index = waiting.iter().position(|(own, _)| *own == id)?;
        let (_, held) = waiting.remove(index);
        if waiting.is_empty() {
            self.queues.remove(&queue);
        }
        Some(self.forget(id, held))
    }

    fn forget(&mut self, id: u64, held: Held<P>) -> Held<P> {
        self.deadlines.remove(&(held.deadline, id));
        self.places.remove(&id);
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn holds() -> (Holds<u8>, Instant) {
        let (mut holds, now) = (Holds::default(), Instant::now());
        for (n, (queue_id, peer, seconds)) in [(0, 1, 15), (0, 2, 5), (1, 1, 10)].into_iter().enumerate() {
            let deadline = now + Duration::from_secs(seconds);
            holds.park("t", queue_id, Held { peer, group: "g".into(), offset: 7, deadline, pull: n as u8 });
        }
        (holds, now)
    }

    #[test]
    fn the_first_deadline_comes_first() {
        let (mut holds, now) = holds();
        assert_eq!(holds.next_deadline(), Some(now + Duration::from_secs(5)));
        assert!(holds.expired(now).is_empty());
        let expired: Vec<_> =
            holds.expired(now + Duration::from_secs(10)).iter().map(|held| held.pull).collect();
        assert_eq!(expired, [1, 2]);
        assert_eq!(holds.next_deadline(), Some(now + Duration::from_secs(15)));
    }

    #[test]
    fn an_arrival_takes_those_of_its_queue_that_want_it() {
        let (mut holds, _) = holds();
        let taken = holds.take("t", 0, |held| held.peer == 2);
        assert_eq!(taken.iter().map(|held| held.pull).collect::<Vec<_>>(), [1]);
        assert!(holds.take("t", 7, |_| true).is_empty());
        assert_eq!(holds.iter().count(), 2);
    }

    #[test]
    fn a_closed_connection_leaves_nothing_behind() {
        let (mut holds, _) = holds();
        holds.drop_peer(1);
        assert_eq!(holds.iter().map(|(_, _, held)| held.pull).collect::<Vec<_>>(), [1]);
        holds.drop_peer(2);
        assert_eq!(holds.next_deadline(), None);
        assert!(holds.places.is_empty() && holds.queues.is_empty());
    }
}
