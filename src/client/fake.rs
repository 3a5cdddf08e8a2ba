//! A name server and broker for the tests of this room: answers what it is told to, and notes what it was asked.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::protocol::body::{
    BrokerData, ConsumerData, HeartbeatData, QueueData, SubscriptionData, TopicRouteData,
};
use crate::protocol::headers::GetRoute;
use crate::protocol::{Frame, RemotingCommand, RequestCode, ResponseCode};
use crate::remoting::server::{Handler, Peer, Server, ServerConfig};

use super::ShutdownReport;
use super::member::{Member, MemberKind, Notice};

type Answer = Arc<dyn Fn(&Peer, &RemotingCommand) -> Option<RemotingCommand> + Send + Sync>;

pub(super) struct Fake {
    pub(super) address: String,
    shared: Arc<Shared>,
    server: Option<Server>,
}

#[derive(Default)]
struct Shared {
    routes: Mutex<HashMap<String, TopicRouteData>>,
    answers: Mutex<HashMap<i32, Answer>>,
    seen: Mutex<Vec<RemotingCommand>>,
    peers: Mutex<Vec<Peer>>,
}

impl Fake {
    pub(super) fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), Arc::default())
    }

    pub(super) fn start_at(address: &str) -> Self {
        Self::on(TcpListener::bind(address).unwrap(), Arc::default())
    }

    fn on(listener: TcpListener, shared: Arc<Shared>) -> Self {
        let address = listener.local_addr().unwrap().to_string();
        let server = Server::start(listener, ServerConfig::default(), Script(shared.clone())).unwrap();
        Fake { address, shared, server: Some(server) }
    }

    /// Closes the port and every connection.
    pub(super) fn stop(&mut self) {
        self.server = None;
    }

    /// Comes back at the same address.
    pub(super) fn start_again(&mut self) {
        *self = Self::on(TcpListener::bind(&self.address).unwrap(), self.shared.clone());
    }

    /// Answers requests of this code so; `None`: not at all.
    pub(super) fn answer(
        &self,
        code: RequestCode,
        answer: impl Fn(&Peer, &RemotingCommand) -> Option<RemotingCommand> + Send + Sync + 'static,
    ) {
        self.shared.answers.lock().insert(code.0, Arc::new(answer));
    }

    /// This server has the topic, with so many queues, as broker-a.
    pub(super) fn add_topic(&self, topic: &str, queues: i32) {
        self.add_topic_at(topic, queues, &self.address);
    }

    pub(super) fn add_topic_at(&self, topic: &str, queues: i32, address: &str) {
        self.shared.routes.lock().insert(topic.to_owned(), route(queues, address));
    }

    pub(super) fn seen(&self, code: RequestCode) -> Vec<RemotingCommand> {
        self.shared.seen.lock().iter().filter(|command| command.request_code() == code).cloned().collect()
    }

    pub(super) fn peers(&self) -> Vec<Peer> {
        self.shared.peers.lock().clone()
    }
}

pub(super) fn route(queues: i32, address: &str) -> TopicRouteData {
    TopicRouteData {
        queue_datas: vec![QueueData {
            broker_name: "broker-a".into(),
            perm: 6,
            read_queue_nums: queues,
            write_queue_nums: queues,
            ..QueueData::default()
        }],
        broker_datas: vec![BrokerData {
            broker_name: "broker-a".into(),
            cluster: "c".into(),
            broker_addrs: [(0, address.to_owned())].into(),
            ..BrokerData::default()
        }],
        ..TopicRouteData::default()
    }
}

pub(super) fn ok() -> RemotingCommand {
    RemotingCommand::response(ResponseCode::SUCCESS, 0)
}

struct Script(Arc<Shared>);

impl Script {
    fn usual(&self, command: &RemotingCommand) -> RemotingCommand {
        match command.request_code() {
            RequestCode::GET_ROUTEINFO_BY_TOPIC => {
                let topic = command.header::<GetRoute>().unwrap().topic;
                match self.0.routes.lock().get(&topic) {
                    Some(route) => ok().body(route.write()),
                    None => RemotingCommand::response(ResponseCode::TOPIC_NOT_EXIST, 0),
                }
            }
            RequestCode::HEART_BEAT | RequestCode::UNREGISTER_CLIENT => ok(),
            _ => RemotingCommand::response(ResponseCode::REQUEST_CODE_NOT_SUPPORTED, 0),
        }
    }
}

impl Handler for Script {
    fn opened(&mut self, peer: &Peer) {
        self.0.peers.lock().push(peer.clone());
    }

    fn frame(&mut self, peer: &Peer, frame: Frame) {
        let command = frame.command().unwrap();
        self.0.seen.lock().push(command.clone());
        if command.is_response() || command.is_oneway() {
            return;
        }
        let special = self.0.answers.lock().get(&command.code).cloned();
        let answer = match special {
            Some(answer) => answer(peer, &command),
            None => Some(self.usual(&command)),
        };
        if let Some(mut answer) = answer {
            answer.opaque = command.opaque;
            peer.send(&answer);
        }
    }

    fn closed(&mut self, peer: &Peer) {
        self.0.peers.lock().retain(|known| known.id() != peer.id());
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn tick(&mut self) {}
}

/// A member that notes what it hears.
pub(super) struct Listener {
    kind: MemberKind,
    group: String,
    topics: Vec<String>,
    pub(super) version: Mutex<i64>,
    pub(super) heard: Mutex<Vec<Notice>>,
}

impl Listener {
    pub(super) fn consumer(group: &str, topic: &str) -> Arc<Self> {
        Arc::new(Listener {
            kind: MemberKind::Consumer,
            group: group.into(),
            topics: vec![topic.into()],
            version: Mutex::new(1),
            heard: Mutex::default(),
        })
    }

    pub(super) fn producer(group: &str) -> Arc<Self> {
        Arc::new(Listener {
            kind: MemberKind::Producer,
            group: group.into(),
            topics: Vec::new(),
            version: Mutex::new(1),
            heard: Mutex::default(),
        })
    }

    pub(super) fn count(&self, which: impl Fn(&Notice) -> bool) -> usize {
        self.heard.lock().iter().filter(|notice| which(notice)).count()
    }
}

impl Member for Listener {
    fn kind(&self) -> MemberKind {
        self.kind
    }

    fn group(&self) -> &str {
        &self.group
    }

    fn consumer_data(&self) -> Option<ConsumerData> {
        let subscription = |topic: &String| SubscriptionData {
            topic: topic.clone(),
            sub_string: "*".into(),
            sub_version: *self.version.lock(),
            ..SubscriptionData::default()
        };
        (self.kind == MemberKind::Consumer).then(|| ConsumerData {
            group_name: self.group.clone(),
            subscription_data_set: self.topics.iter().map(subscription).collect(),
            ..ConsumerData::default()
        })
    }

    fn topics(&self) -> Vec<String> {
        self.topics.clone()
    }

    fn notice(&self, notice: Notice) {
        self.heard.lock().push(notice);
    }

    fn shutdown(&self, _grace: Duration) -> ShutdownReport {
        ShutdownReport { released: 1, ..ShutdownReport::default() }
    }
}

/// What the heartbeats said, in order.
pub(super) fn heartbeats(fake: &Fake) -> Vec<HeartbeatData> {
    fake.seen(RequestCode::HEART_BEAT).iter().map(|beat| HeartbeatData::read(&beat.body).unwrap()).collect()
}

pub(super) fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::yield_now();
    }
}
