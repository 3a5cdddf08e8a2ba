//! Commits that the program waits for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::asking;
use super::polling;
use super::seek::not_ours;
use crate::consumer::assignment::Ask;
use crate::consumer::core::Core;
use crate::consumer::offset::Offset;
use crate::consumer::process_queue::ProcessQueue;
use crate::consumer::rebalance_loop::{Committed, RebalanceEvent, Wish};
use crate::error::{Attempt, Error, Result};
use crate::message::MessageQueue;

/// Everything that was handed out.
pub(super) fn everything(core: &Arc<Core>) -> Result<()> {
    let (done, answers) = unbounded();
    let mut asked = 0;
    polling(core).take_handed();
    for process in core.owned() {
        if let (Some(offset), _) = process.allow_all()
            && process.facts.committed() != Some(offset)
        {
            wish(core, &process, offset, &done);
            asked += 1;
        }
    }
    drop(done);
    let results = wait(core, &answers, asked);
    let lost = polling(core).take_lost().into_iter().map(|queue| (queue, Committed::NotOurs));
    verdict(results?.into_iter().chain(lost), false)
}

/// What the program says.
pub(super) fn offsets(
    core: &Arc<Core>,
    offsets: impl IntoIterator<Item = (MessageQueue, i64)>,
) -> Result<()> {
    let mut known = Vec::new();
    for (queue, wire) in offsets {
        let offset = Offset::new(wire)
            .ok_or_else(|| Error::invalid_input(format!("{queue}: offset {wire} is negative")))?;
        let queue = core.instance.namespace().queue(&queue).into_owned();
        let process = core.owned_queue(&queue).ok_or_else(|| not_ours(core, &queue))?;
        // Beyond what was handed out only the broker knows what there is.
        if offset > process.watermark() && offset > asking::offset(core, &queue, Ask::Max)? {
            let plain = core.instance.namespace().strip_queue(&queue);
            let text = format!("offset {offset} lies beyond the end of {plain}");
            return Err(Error::invalid_input(text));
        }
        known.push((process, offset));
    }
    let (done, answers) = unbounded();
    let asked = known.len();
    for (process, offset) in known {
        process.allow(offset);
        wish(core, &process, offset, &done);
    }
    drop(done);
    verdict(wait(core, &answers, asked)?.into_iter(), true)
}

fn wish(core: &Arc<Core>, process: &ProcessQueue, offset: Offset, done: &Sender<(MessageQueue, Committed)>) {
    let (queue, generation, done) = (process.queue().clone(), process.id(), done.clone());
    let wish = Wish::Commit { queue, generation, offset, done };
    core.post_rebalance(RebalanceEvent::Polled(core.clone(), wish));
}

fn wait(
    core: &Core,
    answers: &Receiver<(MessageQueue, Committed)>,
    asked: usize,
) -> Result<Vec<(MessageQueue, Committed)>> {
    // One commit may be out before this one.
    let deadline = Instant::now() + core.instance.config().request_timeout * 2 + MOMENT;
    let mut results = Vec::with_capacity(asked);
    while results.len() < asked {
        match answers.recv_deadline(deadline) {
            Ok(result) => results.push(result),
            Err(error) if error.is_disconnected() => return Err(Error::closed("the consumer")),
            Err(_) => {
                let missing = asked - results.len();
                return Err(Error::timeout(format!(
                    "{missing} of {asked} offsets were not confirmed in time"
                )));
            }
        }
    }
    Ok(results)
}

/// `exact`: what an operator has set meanwhile is in the way of what the program wants.
fn verdict(results: impl Iterator<Item = (MessageQueue, Committed)>, exact: bool) -> Result<()> {
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut elsewhere = Vec::new();
    for (queue, committed) in results {
        match committed {
            Committed::Stored => {}
            Committed::Failed(failure) => attempts.push(failure.attempt(&queue)),
            Committed::Elsewhere if !exact => {}
            Committed::Elsewhere => elsewhere.push(format!("{queue} was set to another offset meanwhile")),
            Committed::NotOurs => elsewhere.push(format!("{queue} is not ours any more")),
        }
    }
    if !attempts.is_empty() {
        return Err(Error::failed("committing offsets", attempts));
    }
    if !elsewhere.is_empty() {
        return Err(Error::invalid_input(format!("not committed: {}", elsewhere.join(", "))));
    }
    Ok(())
}

const MOMENT: Duration = Duration::from_millis(500);
