//! The outside as it is: a client with its sockets and clock, and the loops with their channels.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::{Outside, Request, Subscriptions};
use crate::client::{Namespace, Role, random};
use crate::consumer::budget::Budget;
use crate::consumer::core::{Core, Item, Totals};
use crate::consumer::events::Event;
use crate::consumer::local::LocalStore;
use crate::consumer::process_queue::ProcessQueue;
use crate::consumer::pull_loop::PullEvent;
use crate::consumer::rebalance_loop::RebalanceEvent;
use crate::consumer::settings::Settings;
use crate::consumer::stats::Waiting;
use crate::consumer::timer_loop::TimerEvent;
use crate::message::MessageQueue;
use crate::protocol::{Header, RemotingCommand, RequestCode};
use crate::remoting::ReplySink;

impl Outside for Core {
    type Sink = ReplySink;

    fn send(&self, address: &str, request: Request, sink: &ReplySink, tag: u64) {
        let command = match request {
            Request::Pull(link, header) => {
                let command = with(RequestCode::PULL_MESSAGE, &*header);
                return self.instance.queue_on(address, link, command, PULL_TIMEOUT, sink.reply(tag));
            }
            Request::SendBack(header) => with(RequestCode::CONSUMER_SEND_MSG_BACK, &header),
            Request::Send(header, body) => with(RequestCode::SEND_MESSAGE_V2, &*header).body(body),
            Request::Members(header) => with(RequestCode::GET_CONSUMER_LIST_BY_GROUP, &header),
            Request::Connections(header) => with(RequestCode::GET_CONSUMER_CONNECTION_LIST, &header),
            Request::RunningInfo(header) => with(RequestCode::GET_CONSUMER_RUNNING_INFO, &header),
            Request::Stored(header) => with(RequestCode::QUERY_CONSUMER_OFFSET, &header),
            Request::Max(header) => with(RequestCode::GET_MAX_OFFSET, &header),
            Request::Min(header) => with(RequestCode::GET_MIN_OFFSET, &header),
            Request::Time(header) => with(RequestCode::SEARCH_OFFSET_BY_TIMESTAMP, &header),
            Request::Commit(header) => with(RequestCode::UPDATE_CONSUMER_OFFSET, &header),
            Request::Lock(body) => RemotingCommand::request(RequestCode::LOCK_BATCH_MQ).body(body.write()),
            Request::Unlock(body) => {
                let command = RemotingCommand::request(RequestCode::UNLOCK_BATCH_MQ).body(body.write());
                return self.instance.invoke(address, command, UNLOCK_TIMEOUT, sink.reply(tag));
            }
        };
        let timeout = self.instance.config().request_timeout;
        self.instance.invoke(address, command, timeout, sink.reply(tag));
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
        self.instance.told_on(address, &self.group, topic, version)
    }

    fn own_address(&self, address: &str) -> Option<SocketAddr> {
        self.instance.remoting().local_address(address)
    }

    fn heartbeat_interval(&self) -> Duration {
        self.instance.config().heartbeat_interval
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

    fn renew_locks(&self, broker: &Arc<str>) {
        self.renew_locks(broker);
    }
}

fn with(code: RequestCode, header: &impl Header) -> RemotingCommand {
    RemotingCommand::with_header(code, header)
}

const PULL_TIMEOUT: Duration = Duration::from_secs(30);
const UNLOCK_TIMEOUT: Duration = Duration::from_secs(1);
