//! Asking name servers, and what follows from their answers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::protocol::body::TopicRouteData;
use crate::protocol::headers::GetRoute;
use crate::protocol::{Frame, RemotingCommand, RequestCode, ResponseCode};
use crate::remoting::CallError;

use super::super::ClientConfig;
use super::super::member::Notice;
use super::super::name_server;
use super::super::routes::{Asked, Change, Moved};
use super::super::threads::panic_text;
use super::questions::Before;
use super::{Control, Input, Question};

/// How often the name servers themselves are looked up.
pub(super) const LOOK_UP_INTERVAL: Duration = Duration::from_secs(120);

/// The request for the route of a topic.
pub(crate) fn route_request(topic: &str) -> RemotingCommand {
    let header = GetRoute { topic: topic.to_owned(), ..GetRoute::default() };
    RemotingCommand::with_header(RequestCode::GET_ROUTEINFO_BY_TOPIC, &header)
}

/// What a name server said about a topic.
pub(crate) enum RouteAnswer {
    Found(TopicRouteData),
    Missing,
    /// Its queues are logical ones, which move between brokers.
    Static,
    /// Not an answer to the question: another server may do better.
    Useless(String),
}

pub(crate) fn route_answer(frame: &Frame) -> RouteAnswer {
    let command = match frame.command_without_body() {
        Ok(command) => command,
        Err(error) => return RouteAnswer::Useless(format!("an answer that cannot be decoded: {error}")),
    };
    match command.response_code() {
        ResponseCode::SUCCESS => match TopicRouteData::read(frame.body()) {
            Ok(data) if data.topic_queue_mapping_by_broker.as_ref().is_some_and(|map| !map.is_empty()) => {
                RouteAnswer::Static
            }
            Ok(data) => RouteAnswer::Found(data),
            Err(error) => RouteAnswer::Useless(format!("a route that cannot be decoded: {error}")),
        },
        ResponseCode::TOPIC_NOT_EXIST => RouteAnswer::Missing,
        code => RouteAnswer::Useless(format!("{code}: {}", command.remark.unwrap_or_default())),
    }
}

/// Offsets of logical queues are translated by whichever broker has the queue at the time, which changes.
pub(crate) const STATIC: &str =
    "it is a static topic, whose logical queues this client does not read or write";

impl Control {
    pub(super) fn ask_for_due_routes(&mut self, now: Instant) {
        for topic in self.watch.take_due(now) {
            if self.is_still_needed(&topic) {
                self.ask_next_server(topic, Before::default(), now);
            } else {
                log::debug!("topic {topic} is no longer used; its route is forgotten");
                self.watch.answered(&topic, Asked::Failed, now);
                self.watch.retain(|watched| *watched != topic);
                self.instance.routes.lock().forget(&topic);
                self.choose_brokers_to_tell(now);
            }
        }
    }

    pub(super) fn route_answered(
        &mut self,
        topic: Arc<str>,
        server: Arc<str>,
        mut before: Before,
        outcome: Result<Frame, CallError>,
        now: Instant,
    ) {
        let useless = match outcome.as_ref().map(route_answer) {
            Ok(RouteAnswer::Found(data)) => {
                self.instance.name_servers.worked(&server);
                let change = self.instance.routes.lock().apply(&topic, data);
                self.watch.answered(&topic, Asked::Found { lost_broker: change.lost_broker }, now);
                self.route_changed(change);
                return self.choose_brokers_to_tell(now);
            }
            Ok(RouteAnswer::Missing) => {
                // One that was retired, or has just been started, knows no topic at all.
                log::debug!("name server {server} knows no topic {topic}");
                before.missing = true;
                before.asked.push(server);
                return self.ask_next_server(topic, before, now);
            }
            Ok(RouteAnswer::Static) => {
                self.instance.name_servers.worked(&server);
                log::warn!("topic {topic} cannot be used: {STATIC}");
                self.watch.answered(&topic, Asked::Missing, now);
                return self.tell_all(&Notice::TopicUnusable { topic, why: STATIC });
            }
            Ok(RouteAnswer::Useless(text)) => text,
            Err(error) => error.to_string(),
        };
        log::debug!("name server {server} does not tell the route of {topic}: {useless}");
        self.instance.name_servers.failed(&server);
        before.asked.push(server);
        self.ask_next_server(topic, before, now);
    }

    fn ask_next_server(&mut self, topic: Arc<str>, before: Before, now: Instant) {
        let servers = self.instance.name_servers.in_order();
        let Some(server) = servers.into_iter().find(|server| !before.asked.contains(server)) else {
            return self.no_server_knows(topic, &before, now);
        };
        let timeout = self.instance.config.request_timeout;
        let command = route_request(&topic);
        let question = Question::Route { topic, server: server.clone(), before };
        self.ask(&server, command, timeout, question);
    }

    fn no_server_knows(&mut self, topic: Arc<str>, before: &Before, now: Instant) {
        if before.missing {
            self.watch.answered(&topic, Asked::Missing, now);
            return self.tell_all(&Notice::RouteMissing(topic));
        }
        log::warn!("no name server tells the route of topic {topic}; asked: {:?}", before.asked);
        self.watch.answered(&topic, Asked::Failed, now);
        self.tell_all(&Notice::RouteFailed(topic));
    }

    pub(super) fn route_changed(&mut self, change: Change) {
        for Moved { broker, from, keeper } in change.moved {
            // If that server is gone without a word, what was asked of it would be waited for until the last moment.
            log::info!("broker {broker} is no longer at {from}");
            if keeper {
                self.tell_all(&Notice::BrokerMoved { name: broker });
            }
            self.instance.remoting.close(&from);
        }
        if change.changed {
            log::debug!("the route of topic {} changed", change.topic);
            self.tell_all(&Notice::RouteChanged(change.topic));
        }
    }

    pub(super) fn watch_topics_of_members(&mut self, now: Instant) {
        for topic in self.topics_of_members() {
            if !self.watch.is_watched(&topic) {
                self.watch.want(&topic.into(), now);
            }
        }
    }

    /// Wanted by a member, or looked at since it was last asked for.
    fn is_still_needed(&self, topic: &str) -> bool {
        let route = self.instance.routes.lock().route(topic).cloned();
        // Of a topic that nothing is known of, whoever asked is waiting for the first answer.
        let looked_at = route.map_or_else(|| !self.watch.is_missing(topic), |route| route.take_used());
        looked_at || self.topics_of_members().contains(topic)
    }

    fn topics_of_members(&self) -> HashSet<String> {
        self.instance.members().iter().flat_map(|member| member.topics()).collect()
    }

    /// Looks the name servers up on a thread that may hang.
    pub(super) fn look_up_name_servers(&mut self, now: Instant) {
        self.look_up_at = None;
        let Some(look_up) = self.instance.config.look_up.clone() else { return };
        self.look_up_at = Some(now + LOOK_UP_INTERVAL);
        let inbox = self.instance.inbox.clone();
        self.instance.remoting.aux().run(move || {
            let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| look_up()));
            let found = found.unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_text(&*panic))));
            drop(inbox.send(Input::NameServers(found)));
        });
    }

    pub(super) fn found_name_servers(&mut self, found: Result<String, String>, now: Instant) {
        let servers =
            found.and_then(|list| name_server::parse_list(&list).map_err(|problems| problems.join("; ")));
        let servers = match servers {
            Ok(servers) if servers.is_empty() => {
                return self.found_nothing("it found none", now);
            }
            Ok(servers) => servers,
            Err(problem) => return self.found_nothing(&problem, now),
        };
        let first = self.knows_no_name_server();
        for server in self.instance.name_servers.replace(servers) {
            log::info!("name server {server} is no longer one");
            self.instance.remoting.close(&server);
        }
        if first {
            // Nothing could be asked so far.
            let topics: Vec<Arc<str>> = self.topics_of_members().into_iter().map(Arc::from).collect();
            topics.iter().for_each(|topic| self.watch.want(topic, now));
        }
    }

    fn found_nothing(&mut self, problem: &str, now: Instant) {
        log::warn!("the look-up of the name servers failed, the old addresses stay: {problem}");
        if self.knows_no_name_server() {
            self.look_up_at = Some(now + LOOK_UP_PAUSE);
        }
    }

    fn knows_no_name_server(&self) -> bool {
        self.instance.name_servers.in_order().is_empty()
    }
}

/// A client that connects in the background has not looked them up yet.
pub(super) fn first_look_up(config: &ClientConfig, now: Instant) -> Option<Instant> {
    let pause = if config.in_background { Duration::ZERO } else { LOOK_UP_INTERVAL };
    config.look_up.as_ref().map(|_| now + pause)
}

/// After one that failed, as long as no name server is known.
const LOOK_UP_PAUSE: Duration = Duration::from_secs(5);
