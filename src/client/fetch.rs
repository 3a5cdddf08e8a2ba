//! Asking the name servers from a thread that may wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Attempt, Error, ErrorKind, Result};
use crate::protocol::{Frame, RemotingCommand};
use crate::remoting::Remoting;

use super::call::failed_attempt;
use super::control::{RouteAnswer, STATIC, route_answer, route_request};
use super::instance::Instance;
use super::name_server::NameServers;
use super::routes::Route;

impl Instance {
    /// The route of a topic, from a name server, and keeps it fresh from then on. For threads that may wait; those
    /// of the library use [`want_route`](Instance::want_route).
    ///
    /// # Errors
    /// `TopicNotFound` if a name server said so; else every server that was asked, with what came of it.
    pub(crate) fn fetch_route(&self, topic: &str, deadline: Instant) -> Result<Arc<Route>> {
        let name = self.namespace.strip(topic);
        let began = Instant::now();
        let asked = ask_in_turn(
            &self.remoting,
            &self.name_servers,
            || route_request(topic),
            |frame| match route_answer(frame) {
                RouteAnswer::Useless(text) => Err(text),
                answer => Ok(answer),
            },
            self.config.request_timeout,
            deadline,
        );
        let (server, answer) = asked.map_err(|attempts| {
            let note = if attempts.is_empty() { ": no name server is known yet" } else { "" };
            Error::failed(format!("looking for topic {name}"), attempts).with_note(note).with_topic(&name)
        })?;
        match answer {
            RouteAnswer::Found(data) => {
                let topic: Arc<str> = topic.into();
                let mut routes = self.routes.lock();
                let change = routes.apply(&topic, data);
                let route = routes.route(&topic).cloned();
                drop(routes);
                self.wakes.add(|pending| pending.fetched.push(change));
                route.ok_or_else(|| Error::topic_not_found(&name, Vec::new()))
            }
            RouteAnswer::Static => {
                let text = format!("topic {name}: {STATIC}");
                Err(Error::invalid_input(text).with_topic(&name))
            }
            _ => {
                let text = "there is no such topic";
                let attempt = Attempt::new(&*server, ErrorKind::TopicNotFound, text, began.elapsed());
                Err(Error::topic_not_found(&name, vec![attempt]))
            }
        }
    }

    /// The route as it is known, else from a name server.
    pub(crate) fn route_or_fetch(&self, topic: &str, deadline: Instant) -> Result<Arc<Route>> {
        match self.route(topic) {
            Some(route) => Ok(route),
            None => self.fetch_route(topic, deadline),
        }
    }
}

/// Asks one name server after the other, beginning with the chosen one, until one gives an answer that `accept`
/// takes. The time is shared out: a server that hangs leaves something for the others.
pub(super) fn ask_in_turn<T>(
    remoting: &Remoting,
    servers: &NameServers,
    request: impl Fn() -> RemotingCommand,
    accept: impl Fn(&Frame) -> Result<T, String>,
    longest: Duration,
    deadline: Instant,
) -> Result<(Arc<str>, T), Vec<Attempt>> {
    let order = servers.in_order();
    let mut attempts = Vec::new();
    for (at, server) in order.iter().enumerate() {
        let began = Instant::now();
        let left = deadline.saturating_duration_since(began);
        let share = left / u32::try_from(order.len() - at).unwrap_or(u32::MAX);
        match remoting.call(server, request(), began + share.min(longest)) {
            Ok(frame) => match accept(&frame) {
                Ok(answer) => {
                    servers.worked(server);
                    return Ok((server.clone(), answer));
                }
                Err(text) => {
                    attempts.push(Attempt::new(&**server, ErrorKind::Broker, text, began.elapsed()));
                }
            },
            Err(error) => attempts.push(failed_attempt(server, &error, began.elapsed())),
        }
        servers.failed(server);
    }
    Err(attempts)
}
