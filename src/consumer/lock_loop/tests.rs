use std::time::Duration;

use super::*;
use crate::consumer::lease::Lease;
use crate::consumer::offset::Offset;
use crate::consumer::outside::stub::Stub;
use crate::consumer::process_queue::{Limits, Took};
use crate::message::MessageQueue;

struct Case {
    core: Arc<Stub>,
    locks: Locks<Stub>,
    queue: Arc<ProcessQueue>,
    asked: Asked,
}

impl Case {
    fn new() -> Self {
        let core = Stub::in_order();
        let asked = core.asking(&"broker-a".into());
        let limits = Limits { messages: 10, bytes: 1 << 20, span: usize::MAX };
        let queue = MessageQueue::new("orders", "broker-a", 0);
        let queue = ProcessQueue::new(queue, Offset::ZERO, limits, core.budget_for_test());
        let queue = Arc::new(queue.in_order(Some(Lease::new(asked, core.losses(&"broker-a".into())))));
        Self { locks: Locks::new(core.clone(), ()), core, queue, asked }
    }

    fn after(&self, time: Duration) -> Asked {
        Asked { at: self.asked.at + time, by_wall: self.asked.by_wall + time, ..self.asked }
    }
}

/// Told as a story: the lock thread looks at the clock, a moment before the belief in the lock ends. A consume thread
/// looks at it a moment later, and leaves the queue. Then the renewal is granted, and all it finds is a lock that had not
/// run out when it looked.
#[test]
fn a_queue_that_stopped_for_its_lock_at_the_last_moment_goes_on() {
    let mut case = Case::new();
    Stub::push(&case.queue, 1);
    let end = case.after(Duration::from_secs(30));
    assert_eq!(case.queue.take_in_order(1, end.at, end.by_wall, &mut Vec::new()), Took::NoLock);
    let now = case.after(Duration::from_millis(29_999)).at;
    case.locks.granted(&case.queue, case.after(Duration::from_secs(26)), now);
    assert_eq!(case.core.readied(), 1);
}

#[test]
fn nothing_starts_once_a_renewal_was_refused() {
    let mut case = Case::new();
    Stub::push(&case.queue, 1);
    let (broker, queues) = (case.queue.queue().shared_broker_name().clone(), vec![case.queue.clone()]);
    case.locks.under_way.insert(1, UnderWay { broker, asked: case.asked, queues });
    case.locks.answered(1, || Ok(BTreeSet::new()));
    assert_eq!(case.queue.take_in_order(1, case.asked.at, case.asked.by_wall, &mut Vec::new()), Took::NoLock);
}

/// The queue may be wanted again by now, and locked by its new generation, of which this thread knows nothing.
#[test]
fn what_a_late_renewal_has_locked_is_not_given_back_unseen() {
    let mut case = Case::new();
    case.queue.lose_lease();
    let soon = case.after(Duration::from_secs(1));
    case.locks.granted(&case.queue, soon, soon.at);
    assert_eq!(case.core.unlocks(), 0);
}
