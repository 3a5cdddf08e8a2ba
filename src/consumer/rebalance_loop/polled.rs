//! What programs that poll want of `rmq-rebalance`: other queues, another place in a queue, a commit.

use std::collections::BTreeSet;
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::group::Group;
use super::requests::Requests;
use crate::consumer::failure::Failure;
use crate::consumer::offset::Offset;
use crate::consumer::outside::Outside;
use crate::consumer::process_queue::ProcessQueue;
use crate::consumer::pull_consumer::{Assigned, Standing};
use crate::consumer::stats::StartReason;
use crate::error::ErrorKind;
use crate::message::MessageQueue;

/// See above. Whoever wishes waits for the answer; if there is none, the consumer has ended.
#[derive(Debug)]
pub(crate) enum Wish {
    /// The assigned queues are others now.
    Assign { done: Sender<()> },
    /// Go on there. `false`: the queue is not ours.
    GoTo { queue: MessageQueue, to: Offset, done: Sender<bool> },
    /// Store this, of that generation of the queue.
    Commit { queue: MessageQueue, generation: u64, offset: Offset, done: Sender<(MessageQueue, Committed)> },
    /// What the program knows of the start of a queue.
    Start { queue: MessageQueue, epoch: u64, answer: Result<Option<Offset>, String> },
}

/// What came of a commit.
#[derive(Debug)]
pub(crate) enum Committed {
    /// The broker has stored it.
    Stored,
    /// It has not.
    Failed(Failure),
    /// The queue went on elsewhere meanwhile: an operator has set its offset.
    Elsewhere,
    /// The queue is not ours.
    NotOurs,
}

type Waiting = (MessageQueue, Offset, Sender<(MessageQueue, Committed)>);

/// The commits of one queue that the program waits for.
#[derive(Debug, Default)]
pub(super) struct ByHand {
    /// Not sent: another commit is out.
    waiting: Vec<Waiting>,
    /// Settled by the answer to the commit that is out.
    sent: Vec<Waiting>,
}

impl ByHand {
    /// The queue goes on elsewhere.
    pub(super) fn leave(&mut self) {
        for (queue, _, done) in self.waiting.drain(..) {
            drop(done.send((queue, Committed::Elsewhere)));
        }
    }

    /// The queue was given up, with this as what the broker has.
    pub(super) fn end(self, committed: Option<Offset>) {
        for (queue, offset, done) in self.sent.into_iter().chain(self.waiting) {
            let stored = committed.is_some_and(|committed| committed >= offset);
            // Who has stopped waiting does not want to know.
            drop(done.send((queue, if stored { Committed::Stored } else { Committed::NotOurs })));
        }
    }
}

/// To be told once everything else about the commit is done.
#[must_use]
pub(super) struct Told(Vec<Waiting>, Option<Failure>);

impl Told {
    pub(super) fn send(self) {
        for (queue, _, done) in self.0 {
            let committed = self.1.clone().map_or(Committed::Stored, Committed::Failed);
            drop(done.send((queue, committed)));
        }
    }
}

impl<S: Outside> Group<S> {
    pub(super) fn polled(&mut self, wish: Wish, requests: &mut Requests<S>) {
        match wish {
            Wish::Assign { done } => {
                if let Some(assigned) = self.core.assigned()
                    && self.ending.is_none()
                {
                    self.assign(&assigned, requests);
                }
                // Who has stopped waiting has gone on without.
                let _ = done.send(());
            }
            Wish::GoTo { queue, to, done } => {
                let ours = self.queues.get(&queue).is_some_and(|owned| !owned.assignment.is_leaving());
                if ours {
                    self.drive(&queue, requests, |assignment, _, _| assignment.go_to(to, StartReason::Seek));
                }
                let _ = done.send(ours);
            }
            Wish::Commit { queue, generation, offset, done } => {
                self.want_commit(queue, generation, offset, done, requests);
            }
            Wish::Start { queue, epoch, answer } => {
                if self.queues.get(&queue).is_none_or(|owned| owned.epoch != epoch) {
                    return;
                }
                if let Err(error) = &answer {
                    log::warn!("the program's own offset of {queue} is not known: {error}");
                    let failure = Failure::new(ErrorKind::InvalidInput, format!("start_offset: {error}"));
                    self.core.note(&queue, Standing::Failing(failure));
                }
                self.drive(&queue, requests, |assignment, now, _| assignment.told(answer, now));
            }
        }
    }

    /// The queues that the program has named, and those of the topics that it has named.
    pub(super) fn assign(&mut self, assigned: &Assigned, requests: &mut Requests<S>) {
        let topics = assigned.all_topics();
        self.topics.retain(|topic, _| topics.contains(topic));
        let mut settled = true;
        let mut all: BTreeSet<MessageQueue> = assigned.queues.clone();
        for topic in &topics {
            let mut wanted: BTreeSet<MessageQueue> =
                assigned.queues.iter().filter(|queue| queue.topic() == &**topic).cloned().collect();
            match self.core.queues_of(topic) {
                Some(queues) if assigned.topics.contains(topic) => wanted.extend(queues),
                Some(_) => {}
                None => {
                    self.core.want_route(topic);
                    settled = false;
                    // What it had of the topic stays.
                    all.extend(self.queues.keys().filter(|queue| queue.topic() == &**topic).cloned());
                    continue;
                }
            }
            all.extend(wanted.iter().cloned());
            self.topics.entry(topic.clone()).or_default().wanted = Some(wanted);
        }
        let gone: Vec<MessageQueue> =
            self.queues.keys().filter(|queue| !all.contains(*queue)).cloned().collect();
        for queue in gone {
            self.unwant(&queue, requests);
        }
        self.cadence.ran(self.core.now(), settled, self.core.jitter());
        for queue in all {
            if self.queues.get(&queue).is_none_or(|owned| owned.assignment.is_leaving()) {
                self.want(queue, false, requests);
            }
        }
    }

    fn want_commit(
        &mut self,
        queue: MessageQueue,
        generation: u64,
        offset: Offset,
        done: Sender<(MessageQueue, Committed)>,
        requests: &mut Requests<S>,
    ) {
        let Some(owned) = self.queues.get_mut(&queue) else {
            return drop(done.send((queue, Committed::NotOurs)));
        };
        let line = owned.line;
        let its = |process: &&Arc<ProcessQueue>| (line..=process.id()).contains(&generation);
        let Some(process) = owned.process.as_ref().filter(its) else {
            return drop(done.send((queue, Committed::Elsewhere)));
        };
        if process.id() != generation {
            process.allow(offset);
        }
        owned.by_hand.waiting.push((queue.clone(), offset, done));
        if owned.assignment.is_active() {
            self.commit_by_hand(&queue, requests);
        } else {
            // It was given up and waits for this; then it is committed for the last time.
            self.drive(&queue, requests, |assignment, now, watermark| assignment.drained(now, watermark));
        }
    }

    /// Commits what the program wants committed, if nothing else is out. The last word counts for all before it.
    pub(super) fn commit_by_hand(&mut self, queue: &MessageQueue, requests: &mut Requests<S>) {
        let Some(owned) = self.queues.get_mut(queue) else { return };
        if owned.assignment.is_committing() || !owned.assignment.is_active() {
            return;
        }
        let Some((_, offset, _)) = owned.by_hand.waiting.last() else { return };
        let offset = *offset;
        owned.by_hand.sent.append(&mut owned.by_hand.waiting);
        self.drive(queue, requests, |assignment, _, _| assignment.commit_by_hand(offset));
    }

    /// The commit that was out is answered.
    pub(super) fn told_of_commit(
        &mut self,
        queue: &MessageQueue,
        answer: &Result<(), String>,
        requests: &mut Requests<S>,
    ) -> Told {
        let sent = self.queues.get_mut(queue).map(|owned| std::mem::take(&mut owned.by_hand.sent));
        let failure = answer.as_ref().err().map(|error| known(error, requests));
        Told(sent.unwrap_or_default(), failure)
    }

    /// Whether the program does not know yet that it cannot commit what it got of this one any more: not if it has
    /// assigned other queues, or has shut the consumer down.
    pub(super) fn may_be_lost(&self, process: &ProcessQueue) -> bool {
        self.ending.is_none() && self.core.is_member() && process.waits_for_commit()
    }

    /// A start position could not be found out.
    pub(super) fn not_found(&self, queue: &MessageQueue, error: &str, requests: &Requests<S>) {
        if self.queues.get(queue).is_some_and(|owned| owned.process.is_none()) {
            self.core.note(queue, Standing::Failing(known(error, requests)));
        }
    }
}

/// What is known of a failed request: all of it, or that it could not be sent.
fn known<S: Outside>(error: &str, requests: &Requests<S>) -> Failure {
    requests.failure.clone().unwrap_or_else(|| Failure::new(ErrorKind::Unreachable, error))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::requests::Answer;
    use super::super::{Groups, RebalanceEvent};
    use super::*;
    use crate::consumer::outside::stub::Stub;

    /// A consumer with one queue, of which its program has got three messages.
    fn with_three_handed_out(auto: bool) -> (Arc<Stub>, Groups<Stub>, Arc<ProcessQueue>) {
        let core = Stub::polled_by_program(auto);
        let mut groups = Groups::<Stub>::new(());
        let (ready, _is_ready) = crossbeam_channel::bounded(1);
        groups.handle(RebalanceEvent::Start { core: core.clone(), ready });
        groups.due();
        answer_all(&core, &mut groups, || Answer::Members(Ok(vec![core.client_id().into()])));
        groups.due();
        answer_all(&core, &mut groups, || Answer::Stored(Ok(Some(Offset::ZERO))));
        let process = present(&core);
        Stub::push(&process, 3);
        process.hand_out(None).expect("it has three");
        (core, groups, process)
    }

    fn answer_all(core: &Stub, groups: &mut Groups<Stub>, answer: impl Fn() -> Answer) {
        for tag in core.take_sent() {
            groups.answered(tag, |_| answer());
        }
    }

    fn present(core: &Stub) -> Arc<ProcessQueue> {
        core.owned().pop().expect("it has one queue")
    }

    fn commit(core: &Arc<Stub>, groups: &mut Groups<Stub>, of: &ProcessQueue, offset: Offset) -> Committed {
        let (done, answer) = crossbeam_channel::bounded(1);
        let wish = Wish::Commit { queue: of.queue().clone(), generation: of.id(), offset, done };
        groups.handle(RebalanceEvent::Polled(core.clone(), wish));
        answer_all(core, groups, || Answer::Committed(Ok(())));
        answer.try_recv().expect("it is answered").1
    }

    #[test]
    fn what_a_program_says_of_a_queue_that_was_made_anew_meanwhile_holds_for_the_new_one() {
        let (core, mut groups, former) = with_three_handed_out(false);
        let said = former.allow_all().0.expect("three messages");
        groups.handle(RebalanceEvent::Rebuild(former.id()));
        let anew = present(&core);
        assert_ne!(anew.id(), former.id());
        assert_eq!((anew.watermark(), anew.committable()), (said, said));
        assert!(matches!(commit(&core, &mut groups, &former, said), Committed::Stored));
        assert_eq!(anew.facts.committed(), Some(said));
    }

    #[test]
    fn a_queue_that_was_made_anew_is_not_committed_before_the_program_says_so() {
        let (core, mut groups, former) = with_three_handed_out(false);
        groups.handle(RebalanceEvent::Rebuild(former.id()));
        let anew = present(&core);
        assert_eq!((anew.committable(), anew.waits_for_commit()), (Offset::ZERO, true));
        let all = former.allow_all().0.expect("three messages");
        assert_eq!(anew.committable(), Offset::ZERO, "the loop has not heard of it");
        assert!(matches!(commit(&core, &mut groups, &former, all), Committed::Stored));
        assert_eq!((anew.committable(), anew.waits_for_commit()), (all, false));
    }

    #[test]
    fn of_a_queue_that_commits_by_itself_a_former_word_is_not_stored_before_where_it_begins_anew() {
        let (core, mut groups, former) = with_three_handed_out(true);
        let all = former.allow_all().0.expect("three messages");
        groups.handle(RebalanceEvent::Rebuild(former.id()));
        assert_eq!(present(&core).committable(), all);
        assert!(matches!(commit(&core, &mut groups, &former, Offset::ZERO), Committed::Elsewhere));
    }

    #[test]
    fn what_a_program_says_of_a_queue_in_which_it_has_gone_elsewhere_is_not_stored() {
        let (core, mut groups, former) = with_three_handed_out(false);
        let said = former.allow_all().0.expect("three messages");
        let (done, _is_done) = crossbeam_channel::bounded(1);
        let wish = Wish::GoTo { queue: former.queue().clone(), to: Offset::ZERO, done };
        groups.handle(RebalanceEvent::Polled(core.clone(), wish));
        assert!(matches!(commit(&core, &mut groups, &former, said), Committed::Elsewhere));
    }
}
