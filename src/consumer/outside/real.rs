//! The outside as it is: a client with its sockets and clock, and the loops with their channels.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::{Outside, Request, Subscriptions};
use crate::client::{Namespace, Role, random};
use crate::consumer::budget::Budget;
use crate::consumer::classes;
use crate::consumer::core::{Core, Item, Totals};
use crate::consumer::events::Event;
use crate::consumer::local::LocalStore;
use crate::consumer::losses::Losses;
use crate::consumer::process_queue::ProcessQueue;
use crate::consumer::pull_consumer::{Assigned, Polling, Question, Standing};
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::rebalance_loop::RebalanceEvent;
use crate::consumer::settings::Settings;
use crate::consumer::stats::Waiting;
use crate::consumer::timer_loop::TimerEvent;
use crate::message::MessageQueue;
use crate::protocol::headers::pull_flag;
use crate::protocol::{Header, RemotingCommand, RequestCode};
use crate::remoting::ReplySink;

impl Outside for Core {
    type Sink = ReplySink;

    fn send(&self, address: &str, request: Request, sink: &ReplySink, tag: u64) {
        let timeout = match &request {
            // Filter servers are told nothing by heartbeats, so any connection to them will do.
            Request::Pull(_, header) if header.sys_flag & pull_flag::CLASS_FILTER != 0 => {
                return self.instance.queue(address, request.into_command(), PULL_TIMEOUT, sink.reply(tag));
            }
            Request::Pull(link, _) => {
                let (link, command) = (*link, request.into_command());
                return self.instance.queue_on(address, link, command, PULL_TIMEOUT, sink.reply(tag));
            }
            Request::Unlock(_) => UNLOCK_TIMEOUT,
            _ => self.instance.config().request_timeout,
        };
        self.instance.invoke(address, request.into_command(), timeout, sink.reply(tag));
    }

    fn heartbeat_now(&self, address: Option<&str>) {
        self.instance.heartbeat_now(address);
    }

    fn want_route(&self, topic: &str) {
        self.instance.want_route(topic);
    }

    fn queues_of(&self, topic: &str) -> Option<Vec<MessageQueue>> {
        self.instance.route(topic).map(|route| route.subscribe().to_vec())
    }

    fn any_broker_of(&self, topic: &str) -> Option<Arc<str>> {
        self.instance.any_broker_of(topic)
    }

    fn broker_address(&self, name: &str, role: Role) -> Option<(Arc<str>, u64)> {
        self.instance.broker_address(name, role)
    }

    fn broker_name(&self, address: &str) -> Option<Arc<str>> {
        self.instance.broker_name(address)
    }

    fn masters(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let brokers = self.instance.brokers().into_iter();
        brokers.filter(|(_, id, _)| *id == 0).map(|(name, _, address)| (name, address)).collect()
    }

    fn told_on(&self, address: &str, topic: &str, version: i64) -> Option<u64> {
        if self.is_member() {
            self.instance.told_on(address, &self.group, topic, version)
        } else {
            // Each pull brings its filter along: it only needs a connection.
            self.instance.heard_on(address)
        }
    }

    fn own_address(&self, address: &str) -> Option<SocketAddr> {
        self.instance.remoting().local_address(address)
    }

    fn heartbeat_interval(&self) -> Duration {
        self.instance.config().heartbeat_interval
    }

    fn filter_server(&self, topic: &str, address: &str) -> Option<Arc<str>> {
        classes::filter_server(&self.instance, topic, address)
    }

    fn upload_classes(&self, address: &str) {
        classes::upload_again(&self.instance, &self.group, self.subscriptions().values(), address);
    }

    fn client_id(&self) -> &str {
        self.instance.id()
    }

    fn group(&self) -> &Arc<str> {
        &self.group
    }

    fn plain_group(&self) -> &str {
        &self.plain_group
    }

    fn namespace(&self) -> &Namespace {
        self.instance.namespace()
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn local_store(&self) -> Option<&Arc<LocalStore>> {
        self.local.as_ref()
    }

    fn subscriptions(&self) -> Arc<Subscriptions> {
        self.subscriptions()
    }

    fn is_suspended(&self) -> bool {
        self.is_suspended()
    }

    fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    fn totals(&self) -> &Totals {
        &self.totals
    }

    fn now(&self) -> Instant {
        self.now()
    }

    fn time(&self) -> SystemTime {
        self.instance.clock().now()
    }

    fn measured_now(&self) -> Instant {
        Instant::now()
    }

    fn is_moved_by_hand(&self) -> bool {
        self.instance.clock().is_manual()
    }

    fn jitter(&self) -> f64 {
        random::fraction()
    }

    fn post_pull(&self, event: PullEvent) {
        self.post_pull(event);
    }

    fn post_rebalance(&self, event: RebalanceEvent) {
        self.post_rebalance(event);
    }

    fn post_timer(&self, event: TimerEvent) {
        self.post_timer(event);
    }

    fn emit(&self, event: Event) {
        self.emit(event);
    }

    fn ready(&self, queue: &Arc<ProcessQueue>, oldest: Instant) {
        self.ready.put(Item::Queue(queue.clone()), oldest);
    }

    fn came(&self, messages: usize) {
        // In order, one thread has all messages of a queue: the others need not look at how many there are.
        if self.settings.order.is_none() {
            self.ready.came(messages);
        }
    }

    fn went(&self, messages: usize) {
        if self.settings.order.is_none() {
            self.ready.went(messages);
        }
    }

    fn wake(&self) -> bool {
        self.ready.wake(Instant::now(), self.listener_time()).again
    }

    fn cancel_listeners(&self) {
        self.slots().iter().for_each(|slot| slot.cancel());
    }

    fn own(&self, queue: &Arc<ProcessQueue>) {
        self.own(queue.clone());
    }

    fn disown(&self, queue: &ProcessQueue) {
        self.disown(queue);
    }

    fn owned(&self) -> Vec<Arc<ProcessQueue>> {
        self.owned()
    }

    fn wait_for_start(&self, queue: &MessageQueue, waiting: Option<Waiting>) {
        self.wait_for_start(queue, waiting);
    }

    fn is_listening_to(&self, queue: &MessageQueue) -> bool {
        self.slots().iter().any(|slot| slot.is_working_on(queue))
    }

    fn losses(&self, broker: &Arc<str>) -> Losses {
        self.losses.of(broker)
    }

    fn renew_locks(&self, broker: &Arc<str>) {
        self.renew_locks(broker);
    }

    fn polled(&self) -> Option<bool> {
        self.polling.as_ref().map(Polling::commits_by_itself)
    }

    fn assigned(&self) -> Option<Assigned> {
        self.polling.as_ref().and_then(Polling::assigned)
    }

    fn is_member(&self) -> bool {
        self.is_member()
    }

    fn has_own_offsets(&self) -> bool {
        self.polling.as_ref().is_some_and(|polling| polling.start_offset().is_some())
    }

    fn ask_program(&self, queue: &MessageQueue, epoch: u64) {
        let question = Question { queue: queue.clone(), epoch };
        self.ready.put(Item::Question(question), Instant::now());
        self.ready.rouse();
    }

    fn is_paused(&self, queue: &MessageQueue) -> bool {
        self.polling.as_ref().is_some_and(|polling| polling.is_paused(queue))
    }

    fn note(&self, queue: &MessageQueue, standing: Standing) {
        if let Some(polling) = &self.polling {
            polling.note(queue, standing);
            self.ready.rouse();
        }
    }

    fn passed(&self) {
        if self.polling.is_some() {
            self.ready.rouse();
        }
    }
}

impl Request {
    /// As the wire has it.
    pub(in crate::consumer) fn into_command(self) -> RemotingCommand {
        match self {
            Self::Pull(_, header) => with(RequestCode::PULL_MESSAGE, &*header),
            Self::SendBack(header) => with(RequestCode::CONSUMER_SEND_MSG_BACK, &header),
            Self::Send(header, body) => with(RequestCode::SEND_MESSAGE_V2, &*header).body(body),
            Self::Members(header) => with(RequestCode::GET_CONSUMER_LIST_BY_GROUP, &header),
            Self::Connections(header) => with(RequestCode::GET_CONSUMER_CONNECTION_LIST, &header),
            Self::RunningInfo(header) => with(RequestCode::GET_CONSUMER_RUNNING_INFO, &header),
            Self::Stored(header) => with(RequestCode::QUERY_CONSUMER_OFFSET, &header),
            Self::Max(header) => with(RequestCode::GET_MAX_OFFSET, &header),
            Self::Min(header) => with(RequestCode::GET_MIN_OFFSET, &header),
            Self::Time(header) => with(RequestCode::SEARCH_OFFSET_BY_TIMESTAMP, &header),
            Self::Commit(header) => with(RequestCode::UPDATE_CONSUMER_OFFSET, &header),
            Self::Lock(body) => RemotingCommand::request(RequestCode::LOCK_BATCH_MQ).body(body.write()),
            Self::Unlock(body) => RemotingCommand::request(RequestCode::UNLOCK_BATCH_MQ).body(body.write()),
        }
    }
}

fn with(code: RequestCode, header: &impl Header) -> RemotingCommand {
    RemotingCommand::with_header(code, header)
}

const PULL_TIMEOUT: Duration = Duration::from_secs(30);
const UNLOCK_TIMEOUT: Duration = Duration::from_secs(1);
