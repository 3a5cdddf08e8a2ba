//! The requests of `rmq-rebalance` that are under way, and what their answers mean.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::RebalanceEvent;
use crate::client::Role;
use crate::consumer::assignment::Ask;
use crate::consumer::failure::Failure;
use crate::consumer::lease::Asked;
use crate::consumer::offset::Offset;
use crate::consumer::outside::{Outside, Request as Wire, Subscriptions};
use crate::message::MessageQueue;
use crate::protocol::body::{
    ConsumerConnection, ConsumerIdList, ConsumerRunningInfo, LockBatchAnswer, LockBatchRequest,
};
use crate::protocol::headers::{
    ConsumerGroup, GetConsumerRunningInfo, GetMaxOffset, OffsetAnswer, QueryConsumerOffset, QueueStart,
    SearchOffset, UpdateConsumerOffset,
};
use crate::protocol::{DecodeError, Frame, RemotingCommand, ResponseCode};
use crate::remoting::CallError;

/// What an answer will be about.
#[derive(Debug, Clone)]
pub(in crate::consumer) enum Request {
    /// The members of the group, as a broker of this topic knows them.
    Members { topic: Arc<str>, address: Arc<str> },
    /// The members of the group and its subscriptions, as a broker has them; with what was subscribed when it was asked.
    Connections { address: Arc<str>, subscriptions: Arc<Subscriptions> },
    /// What a member is doing, by way of a broker.
    Peer { id: String, address: Arc<str> },
    /// An offset, for one life of one queue.
    Ask { queue: MessageQueue, epoch: u64, ask: Ask },
    /// A commit, likewise.
    Commit { queue: MessageQueue, epoch: u64 },
    /// The locks of queues of one broker, each for one life of the queue.
    Lock { queues: Vec<(MessageQueue, u64)>, asked: Asked },
    /// Their end.
    Unlock { queues: Vec<(MessageQueue, u64)> },
}

/// An answer, read.
#[derive(Debug)]
pub(in crate::consumer) enum Answer {
    Members(Result<Vec<String>, String>),
    Connections(Result<ConsumerConnection, String>),
    Peer(Result<ConsumerRunningInfo, String>),
    /// To [`Ask::Stored`]: there is none, or this one, or it is not known.
    Stored(Result<Option<Offset>, String>),
    /// To any other [`Ask`]: an offset that always exists.
    Offset(Result<Offset, String>),
    Committed(Result<(), String>),
    /// The queues that are ours now.
    Locked(Result<BTreeSet<MessageQueue>, String>),
    Unlocked(Result<(), String>),
}

impl Answer {
    /// Reads the answer to this request.
    pub(super) fn read(request: &Request, answer: Result<Frame, CallError>) -> Self {
        match request {
            Request::Members { .. } => Self::Members(member_ids(answer)),
            Request::Connections { .. } => Self::Connections(body(answer, ConsumerConnection::read)),
            Request::Peer { .. } => Self::Peer(body(answer, ConsumerRunningInfo::read)),
            Request::Ask { ask: Ask::Stored, .. } => Self::Stored(stored_offset(answer)),
            Request::Ask { .. } => Self::Offset(success(answer).and_then(|command| offset_in(&command))),
            Request::Commit { .. } => Self::Committed(success(answer).map(drop)),
            Request::Lock { .. } => Self::Locked(locked_queues(answer)),
            Request::Unlock { .. } => Self::Unlocked(success(answer).map(drop)),
        }
    }
}

/// Sends requests and remembers what they were about.
pub(in crate::consumer) struct Requests<S: Outside> {
    sink: S::Sink,
    next: u64,
    /// By tag: the group and the request.
    under_way: HashMap<u64, (Arc<str>, Request)>,
    /// Why the request failed whose answer is being handled, for those who tell the user.
    pub(super) failure: Option<Failure>,
}

impl<S: Outside> Requests<S> {
    pub(in crate::consumer) fn new(sink: S::Sink) -> Self {
        Self { sink, next: 0, under_way: HashMap::new(), failure: None }
    }

    /// What the answer with this tag is about.
    pub(super) fn take(&mut self, tag: u64) -> Option<(Arc<str>, Request)> {
        self.under_way.remove(&tag)
    }

    pub(super) fn members(&mut self, core: &S, topic: &Arc<str>, address: &Arc<str>) {
        let header = ConsumerGroup { consumer_group: core.group().to_string() };
        let request = Request::Members { topic: topic.clone(), address: address.clone() };
        self.send(core, address, Wire::Members(header), request);
    }

    pub(super) fn connections(&mut self, core: &S, address: &Arc<str>) {
        let header = ConsumerGroup { consumer_group: core.group().to_string() };
        let request = Request::Connections { address: address.clone(), subscriptions: core.subscriptions() };
        self.send(core, address, Wire::Connections(header), request);
    }

    pub(super) fn peer(&mut self, core: &S, address: &Arc<str>, id: String) {
        let header = GetConsumerRunningInfo {
            consumer_group: core.group().to_string(),
            client_id: id.clone(),
            jstack_enable: Some(false),
        };
        let request = Request::Peer { id, address: address.clone() };
        self.send(core, address, Wire::RunningInfo(header), request);
    }

    /// # Errors
    /// When no address of the broker is known: there will be no answer.
    pub(super) fn ask(&mut self, core: &S, queue: &MessageQueue, epoch: u64, ask: Ask) -> Result<(), String> {
        if let (Ask::Stored, Some(store)) = (ask, core.local_store()) {
            let tag = self.remember(core, Request::Ask { queue: queue.clone(), epoch, ask });
            core.post_rebalance(RebalanceEvent::LocalOffset(tag, store.stored(queue)));
            return Ok(());
        }
        let Some(wire) = question(core, queue, ask) else {
            core.ask_program(queue, epoch);
            return Ok(());
        };
        let address = address(core, queue)?;
        self.send(core, &address, wire, Request::Ask { queue: queue.clone(), epoch, ask });
        Ok(())
    }

    /// # Errors
    /// As [`ask`](Self::ask).
    pub(super) fn commit(
        &mut self,
        core: &S,
        queue: &MessageQueue,
        epoch: u64,
        offset: Offset,
    ) -> Result<(), String> {
        if let Some(store) = core.local_store() {
            let tag = self.remember(core, Request::Commit { queue: queue.clone(), epoch });
            store.commit(queue, offset, tag);
            return Ok(());
        }
        let address = address(core, queue)?;
        let (topic, queue_id, bname) = parts(queue);
        let header = UpdateConsumerOffset {
            consumer_group: core.group().to_string(),
            topic,
            queue_id,
            commit_offset: offset.wire(),
            bname,
        };
        self.send(core, &address, Wire::Commit(header), Request::Commit { queue: queue.clone(), epoch });
        Ok(())
    }

    /// # Errors
    /// When no address of the master is known: there will be no answer.
    pub(super) fn lock(
        &mut self,
        core: &S,
        broker: &Arc<str>,
        queues: Vec<(MessageQueue, u64)>,
    ) -> Result<(), String> {
        let (address, body) = about_locks(core, broker, &queues)?;
        let asked = core.asking(broker);
        self.send(core, &address, Wire::Lock(body), Request::Lock { queues, asked });
        Ok(())
    }

    /// # Errors
    /// As [`lock`](Self::lock).
    pub(super) fn unlock(
        &mut self,
        core: &S,
        broker: &str,
        queues: Vec<(MessageQueue, u64)>,
    ) -> Result<(), String> {
        let (address, body) = about_locks(core, broker, &queues)?;
        self.send(core, &address, Wire::Unlock(body), Request::Unlock { queues });
        Ok(())
    }

    fn send(&mut self, core: &S, address: &str, wire: Wire, request: Request) {
        let tag = self.remember(core, request);
        core.send(address, wire, &self.sink, tag);
    }

    /// The tag that its answer will carry.
    fn remember(&mut self, core: &S, request: Request) -> u64 {
        self.next += 1;
        self.under_way.insert(self.next, (core.group().clone(), request));
        self.next
    }
}

/// What the broker is asked; `None` if only the program knows.
pub(in crate::consumer) fn question(core: &impl Outside, queue: &MessageQueue, ask: Ask) -> Option<Wire> {
    let (topic, queue_id, bname) = parts(queue);
    Some(match ask {
        Ask::Stored => Wire::Stored(QueryConsumerOffset {
            consumer_group: core.group().to_string(),
            topic,
            queue_id,
            set_zero_if_not_found: None,
            bname,
        }),
        Ask::Max => Wire::Max(GetMaxOffset { topic, queue_id, committed: None, bname }),
        Ask::Min => Wire::Min(QueueStart { topic, queue_id, bname }),
        Ask::Time(time) => Wire::Time(SearchOffset {
            topic,
            queue_id,
            timestamp: crate::clock::millis_of(time),
            boundary_type: Some("LOWER".to_owned()),
            bname,
        }),
        Ask::Program => return None,
    })
}

/// Offsets are the master's; while it is away, a slave's are better than none.
fn address(core: &impl Outside, queue: &MessageQueue) -> Result<Arc<str>, String> {
    let address = core.broker_address(queue.broker_name(), Role::Any);
    address.map(|(address, _)| address).ok_or_else(|| {
        core.want_route(queue.topic());
        format!("no address of {} is known", queue.broker_name())
    })
}

/// Locks are the master's alone.
pub(in crate::consumer) fn master(core: &impl Outside, broker: &str) -> Result<Arc<str>, String> {
    let address = core.broker_address(broker, Role::Master);
    address.map(|(address, _)| address).ok_or_else(|| format!("no master of {broker} is known"))
}

/// Whom 41 and 42 of these queues go to, and their body.
fn about_locks(
    core: &impl Outside,
    broker: &str,
    queues: &[(MessageQueue, u64)],
) -> Result<(Arc<str>, LockBatchRequest), String> {
    let body = lock_batch(core, queues.iter().map(|(queue, _)| queue.clone()).collect());
    Ok((master(core, broker)?, body))
}

/// The body of 41 and 42.
pub(in crate::consumer) fn lock_batch(core: &impl Outside, queues: Vec<MessageQueue>) -> LockBatchRequest {
    LockBatchRequest {
        client_id: core.client_id().to_owned(),
        consumer_group: core.group().to_string(),
        mq_set: queues,
        only_this_broker: Some(false),
    }
}

/// The queues that the broker has locked for this member: compared by what they are, since the answer may have them in
/// any order, with other fields.
pub(in crate::consumer) fn locked_queues(
    answer: Result<Frame, CallError>,
) -> Result<BTreeSet<MessageQueue>, String> {
    let command = success(answer)?;
    let answer = LockBatchAnswer::read(&command.body).map_err(|error| error.to_string())?;
    Ok(answer.lock_ok_mq_set.into_iter().collect())
}

/// Topic, queue number and broker name, as headers want them.
fn parts(queue: &MessageQueue) -> (String, i32, Option<String>) {
    (queue.topic().to_owned(), queue.queue_id(), Some(queue.broker_name().to_owned()))
}

/// The members that a broker knows.
fn member_ids(answer: Result<Frame, CallError>) -> Result<Vec<String>, String> {
    body(answer, ConsumerIdList::read).map(|list| list.consumer_id_list)
}

fn body<T>(
    answer: Result<Frame, CallError>,
    read: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
) -> Result<T, String> {
    let command = success(answer)?;
    read(&command.body).map_err(|error| error.to_string())
}

/// The stored offset: there is none, or this one, or it is not known.
fn stored_offset(answer: Result<Frame, CallError>) -> Result<Option<Offset>, String> {
    let command = command(answer)?;
    match command.response_code() {
        ResponseCode::QUERY_NOT_FOUND => Ok(None),
        ResponseCode::SUCCESS => offset_in(&command).map(Some),
        code => Err(refusal(code, &command)),
    }
}

pub(in crate::consumer) fn offset_in(command: &RemotingCommand) -> Result<Offset, String> {
    let header: OffsetAnswer = command.header().map_err(|error| error.to_string())?;
    Offset::new(header.offset).ok_or_else(|| format!("the broker answered with offset {}", header.offset))
}

fn success(answer: Result<Frame, CallError>) -> Result<RemotingCommand, String> {
    let command = command(answer)?;
    match command.response_code() {
        ResponseCode::SUCCESS => Ok(command),
        code => Err(refusal(code, &command)),
    }
}

fn command(answer: Result<Frame, CallError>) -> Result<RemotingCommand, String> {
    let frame = answer.map_err(|error| error.to_string())?;
    frame.command().map_err(|error| error.to_string())
}

fn refusal(code: ResponseCode, command: &RemotingCommand) -> String {
    match &command.remark {
        Some(remark) => format!("{code}: {remark}"),
        None => code.to_string(),
    }
}
