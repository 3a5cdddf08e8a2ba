mod by_hand;
mod commits;
mod end;
mod reset;
mod start;

use super::*;

pub(super) fn at(wire: i64) -> Offset {
    Offset::new(wire).unwrap()
}

pub(super) fn policy(from: ConsumeFrom) -> Policy {
    Policy { from, is_retry_topic: false, asks_program: false, by_hand: false }
}

struct Case {
    now: Instant,
    queue: Assignment,
}

/// A queue that is active at offset 10, which is stored.
fn active() -> Case {
    let now = Instant::now();
    let (mut queue, actions) = Assignment::new(policy(ConsumeFrom::LastOffset), false, now);
    assert_eq!(actions, [Action::Ask(Ask::Stored)]);
    let actions = queue.stored(Ok(Some(at(10))), now);
    assert_eq!(actions, [Action::Activate { start: at(10), reason: StartReason::Stored }]);
    Case { now, queue }
}

fn released(committed: i64) -> Vec<Action> {
    vec![Action::Release { committed: Some(at(committed)), failed: None }]
}
