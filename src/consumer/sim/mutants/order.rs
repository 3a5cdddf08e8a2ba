//! Mistakes that consumption in order could make.

use super::{Mutant, Stretch};
use crate::consumer::sim::ledger::{BELIEVED, IN_ORDER};

fn found(mutant: Mutant, rule: &str, what: &str) {
    let mut done = Stretch::from_environment().run(Some(mutant));
    let found = done.failures.pop().expect("the simulator notices");
    let named = found.what.starts_with(rule) && found.what.contains(what);
    assert!(named, "{mutant:?} was found for another reason: {found:?}");
}

#[test]
fn finds_that_a_lock_is_not_renewed() {
    found(Mutant::LockNotRenewed, "promise 4:", "has not renewed its lock");
}

#[test]
fn finds_that_the_belief_in_a_lock_never_ends() {
    found(Mutant::BeliefNeverEnds, BELIEVED, "its lock Some(");
}

#[test]
fn finds_that_the_loss_of_a_lock_is_not_noticed() {
    found(Mutant::LockLossNotNoticed, BELIEVED, "its lock None");
}

#[test]
fn finds_that_a_refused_renewal_is_not_heeded() {
    found(Mutant::RefusalIgnored, BELIEVED, "its lock None");
}

#[test]
fn finds_that_the_move_of_a_broker_is_not_noticed() {
    found(Mutant::MoveNotNoticed, BELIEVED, "its lock None");
}

#[test]
fn finds_that_a_queue_is_unlocked_while_its_listener_runs() {
    found(Mutant::UnlockedBeforeListener, "promise 8:", "while its listener runs");
}

#[test]
fn finds_that_a_queue_is_unlocked_before_its_offset_is_stored() {
    found(Mutant::UnlockedBeforeCommit, "promise 8:", "stored");
}

#[test]
fn finds_that_a_message_that_waits_is_passed() {
    found(Mutant::SuspendedIsPassed, IN_ORDER, "");
}
