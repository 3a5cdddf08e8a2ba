//! Asking brokers and name servers on the thread of the program, which may wait.

use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;

use crate::client::Role;
use crate::consumer::assignment::Ask;
use crate::consumer::core::Core;
use crate::consumer::failure::Failure;
use crate::consumer::offset::Offset;
use crate::consumer::outside::Outside;
use crate::consumer::rebalance_loop::{offset_in, question};
use crate::error::{Attempt, Error, ErrorKind, Result};
use crate::message::MessageQueue;
use crate::protocol::{Frame, RemotingCommand, ResponseCode};
use crate::remoting::{CallError, ReplySink};

/// The readable queues of a topic.
pub(super) fn queues(core: &Core, topic: &str) -> Result<Vec<MessageQueue>> {
    let deadline = Instant::now() + core.instance.config().request_timeout;
    let namespace = core.instance.namespace();
    let route = core.instance.route_or_fetch(&namespace.topic(topic), deadline)?;
    Ok(route.subscribe().iter().map(|queue| namespace.strip_queue(queue).into_owned()).collect())
}

/// What the group has stored.
pub(super) fn committed(core: &Core, queue: &MessageQueue) -> Result<Option<i64>> {
    if let Some(local) = &core.local {
        return Ok(local.stored(queue).map(Offset::wire));
    }
    match offset(core, queue, Ask::Stored) {
        Ok(offset) => Ok(Some(offset.wire())),
        Err(error) if error.code() == Some(ResponseCode::QUERY_NOT_FOUND) => Ok(None),
        Err(error) => Err(error),
    }
}

/// One offset.
pub(super) fn offset(core: &Core, queue: &MessageQueue, ask: Ask) -> Result<Offset> {
    find_broker(core, queue)?;
    match offsets(core, vec![(queue.clone(), ask)]).pop() {
        Some((_, Ok(offset))) => Ok(offset),
        Some((queue, Err(attempt))) => {
            let queue = core.instance.namespace().strip_queue(&queue);
            let operation = format!("looking for an offset of {queue}");
            Err(Error::failed(operation, vec![attempt]).with_topic(queue.topic()))
        }
        None => Err(Error::closed("the client")),
    }
}

/// Many offsets, all asked for side by side.
pub(super) fn offsets(
    core: &Core,
    asks: Vec<(MessageQueue, Ask)>,
) -> Vec<(MessageQueue, Result<Offset, Attempt>)> {
    let (answers, answered) = unbounded();
    let sink = ReplySink::new(move |tag, answer| drop(answers.send((tag, answer))));
    let begun = Instant::now();
    let mut found = Vec::with_capacity(asks.len());
    let mut asked = Vec::with_capacity(asks.len());
    for (queue, ask) in asks {
        let address = core.instance.broker_address(queue.broker_name(), Role::Any);
        match (address, question(core, &queue, ask)) {
            (Some((address, _)), Some(request)) => {
                core.send(&address, request, &sink, asked.len() as u64);
                asked.push(Some((queue, address)));
            }
            _ => {
                core.instance.want_route(queue.topic());
                let failure = Failure::new(ErrorKind::Unreachable, "no address of it is known");
                let attempt = failure.attempt(queue.broker_name());
                found.push((queue, Err(attempt)));
            }
        }
    }
    drop(sink);
    // Each request has its own deadline; the moment is for the answers to get here.
    let deadline = begun + core.instance.config().request_timeout + MOMENT;
    while asked.iter().any(Option::is_some) {
        let Ok((tag, answer)) = answered.recv_deadline(deadline) else { break };
        let Some((queue, address)) =
            usize::try_from(tag).ok().and_then(|tag| asked.get_mut(tag)).and_then(Option::take)
        else {
            continue;
        };
        let server = format!("{} ({address})", queue.broker_name());
        found.push((queue, read(answer, &server, begun)));
    }
    for (queue, address) in asked.into_iter().flatten() {
        let failure = Failure::new(ErrorKind::Timeout, "no answer in time");
        found.push((queue, Err(failure.attempt(address))));
    }
    found
}

/// A queue of a topic that was never read: its broker's address is in the route.
fn find_broker(core: &Core, queue: &MessageQueue) -> Result<()> {
    if core.instance.broker_address(queue.broker_name(), Role::Any).is_some() {
        return Ok(());
    }
    let deadline = Instant::now() + core.instance.config().request_timeout;
    core.instance.fetch_route(queue.topic(), deadline).map(drop)
}

fn read(answer: Result<Frame, CallError>, server: &str, begun: Instant) -> Result<Offset, Attempt> {
    let timed = |failure: Failure| {
        let mut attempt = failure.attempt(server);
        attempt.elapsed = begun.elapsed();
        attempt
    };
    if let Some(failure) = Failure::of(&answer) {
        return Err(timed(failure));
    }
    let broken = |text: String| timed(Failure::new(ErrorKind::Protocol, text));
    let command: RemotingCommand = answer
        .map_err(|error| broken(error.to_string()))?
        .command()
        .map_err(|error| broken(error.to_string()))?;
    offset_in(&command).map_err(broken)
}

const MOMENT: Duration = Duration::from_millis(500);
