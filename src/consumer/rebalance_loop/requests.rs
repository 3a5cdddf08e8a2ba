//! The requests of `rmq-rebalance` that are under way, and what their answers mean.

use std::collections::HashMap;
use std::sync::Arc;

use crate::client::{Instance, Role};
use crate::consumer::assignment::Ask;
use crate::consumer::offset::Offset;
use crate::message::MessageQueue;
use crate::protocol::body::ConsumerIdList;
use crate::protocol::headers::{
    ConsumerGroup, GetMaxOffset, OffsetAnswer, QueryConsumerOffset, QueueStart, SearchOffset,
    UpdateConsumerOffset,
};
use crate::protocol::{Frame, RemotingCommand, RequestCode, ResponseCode};
use crate::remoting::{CallError, ReplySink};

/// What an answer will be about.
#[derive(Debug, Clone)]
pub(super) enum Request {
    /// The members of the group, as a broker of this topic knows them.
    Members { topic: Arc<str>, address: Arc<str> },
    /// An offset, for one life of one queue.
    Ask { queue: MessageQueue, epoch: u64, ask: Ask },
    /// A commit, likewise.
    Commit { queue: MessageQueue, epoch: u64 },
}

/// Sends requests and remembers what they were about.
pub(super) struct Requests {
    instance: Arc<Instance>,
    sink: ReplySink,
    next: u64,
    /// By tag: the group and the request.
    under_way: HashMap<u64, (Arc<str>, Request)>,
}

impl Requests {
    pub(super) fn new(instance: Arc<Instance>, sink: ReplySink) -> Self {
        Self { instance, sink, next: 0, under_way: HashMap::new() }
    }

    /// What the answer with this tag is about.
    pub(super) fn take(&mut self, tag: u64) -> Option<(Arc<str>, Request)> {
        self.under_way.remove(&tag)
    }

    pub(super) fn members(&mut self, group: &Arc<str>, topic: &Arc<str>, address: &Arc<str>) {
        let header = ConsumerGroup { consumer_group: group.to_string() };
        let command = RemotingCommand::with_header(RequestCode::GET_CONSUMER_LIST_BY_GROUP, &header);
        let request = Request::Members { topic: topic.clone(), address: address.clone() };
        self.send(group, address, command, request);
    }

    /// # Errors
    /// When no address of the broker is known: there will be no answer.
    pub(super) fn ask(
        &mut self,
        group: &Arc<str>,
        queue: &MessageQueue,
        epoch: u64,
        ask: Ask,
    ) -> Result<(), String> {
        let (topic, queue_id, bname) = parts(queue);
        let command = match ask {
            Ask::Stored => RemotingCommand::with_header(
                RequestCode::QUERY_CONSUMER_OFFSET,
                &QueryConsumerOffset {
                    consumer_group: group.to_string(),
                    topic,
                    queue_id,
                    set_zero_if_not_found: None,
                    bname,
                },
            ),
            Ask::Max => RemotingCommand::with_header(
                RequestCode::GET_MAX_OFFSET,
                &GetMaxOffset { topic, queue_id, committed: None, bname },
            ),
            Ask::Min => RemotingCommand::with_header(
                RequestCode::GET_MIN_OFFSET,
                &QueueStart { topic, queue_id, bname },
            ),
            Ask::Time(time) => RemotingCommand::with_header(
                RequestCode::SEARCH_OFFSET_BY_TIMESTAMP,
                &SearchOffset {
                    topic,
                    queue_id,
                    timestamp: crate::clock::millis_of(time),
                    boundary_type: Some("LOWER".to_owned()),
                    bname,
                },
            ),
        };
        let address = self.address(queue)?;
        self.send(group, &address, command, Request::Ask { queue: queue.clone(), epoch, ask });
        Ok(())
    }

    /// # Errors
    /// As [`ask`](Self::ask).
    pub(super) fn commit(
        &mut self,
        group: &Arc<str>,
        queue: &MessageQueue,
        epoch: u64,
        offset: Offset,
    ) -> Result<(), String> {
        let (topic, queue_id, bname) = parts(queue);
        let header = UpdateConsumerOffset {
            consumer_group: group.to_string(),
            topic,
            queue_id,
            commit_offset: offset.wire(),
            bname,
        };
        let address = self.address(queue)?;
        let command = RemotingCommand::with_header(RequestCode::UPDATE_CONSUMER_OFFSET, &header);
        self.send(group, &address, command, Request::Commit { queue: queue.clone(), epoch });
        Ok(())
    }

    /// Offsets are the master's; while it is away, a slave's are better than none.
    fn address(&self, queue: &MessageQueue) -> Result<Arc<str>, String> {
        let address = self.instance.broker_address(queue.broker_name(), Role::Any);
        address.map(|(address, _)| address).ok_or_else(|| {
            self.instance.want_route(queue.topic());
            format!("no address of {} is known", queue.broker_name())
        })
    }

    fn send(&mut self, group: &Arc<str>, address: &str, command: RemotingCommand, request: Request) {
        self.next += 1;
        self.under_way.insert(self.next, (group.clone(), request));
        let timeout = self.instance.config().request_timeout;
        self.instance.invoke(address, command, timeout, self.sink.reply(self.next));
    }
}

/// Topic, queue number and broker name, as headers want them.
fn parts(queue: &MessageQueue) -> (String, i32, Option<String>) {
    (queue.topic().to_owned(), queue.queue_id(), Some(queue.broker_name().to_owned()))
}

/// The members that a broker knows.
pub(super) fn member_ids(answer: Result<Frame, CallError>) -> Result<Vec<String>, String> {
    let command = success(answer)?;
    ConsumerIdList::read(&command.body).map(|list| list.consumer_id_list).map_err(|error| error.to_string())
}

/// The stored offset: there is none, or this one, or it is not known.
pub(super) fn stored_offset(answer: Result<Frame, CallError>) -> Result<Option<Offset>, String> {
    let command = command(answer)?;
    match command.response_code() {
        ResponseCode::QUERY_NOT_FOUND => Ok(None),
        ResponseCode::SUCCESS => offset_in(&command).map(Some),
        code => Err(refusal(code, &command)),
    }
}

/// An offset that always exists.
pub(super) fn queue_offset(answer: Result<Frame, CallError>) -> Result<Offset, String> {
    offset_in(&success(answer)?)
}

/// Whether it was done.
pub(super) fn done(answer: Result<Frame, CallError>) -> Result<(), String> {
    success(answer).map(drop)
}

fn offset_in(command: &RemotingCommand) -> Result<Offset, String> {
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
