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
    /// `TopicNotFound` if a name server said so, and no other one knows the topic: a server that was retired or has just
    /// been started knows none. Else every server that was asked, with what came of it.
    pub(crate) fn fetch_route(&self, topic: &str, deadline: Instant) -> Result<Arc<Route>> {
        let name = self.namespace.strip(topic);
        let asked = ask_in_turn(
            &self.remoting,
            &self.name_servers,
            || route_request(topic),
            |frame| match route_answer(frame) {
                RouteAnswer::Found(data) => Ok(Some(data)),
                RouteAnswer::Static => Ok(None),
                RouteAnswer::Missing => Err(Unwanted::missing()),
                RouteAnswer::Useless(text) => Err(Unwanted::useless(text)),
            },
            self.config.request_timeout,
            deadline,
        );
        let (_, found) = asked.map_err(|attempts| no_route(&name, attempts))?;
        match found {
            Some(data) => {
                let topic: Arc<str> = topic.into();
                let mut routes = self.routes.lock();
                let change = routes.apply(&topic, data);
                let route = routes.route(&topic).cloned();
                drop(routes);
                self.wakes.add(|pending| pending.fetched.push(change));
                route.ok_or_else(|| Error::topic_not_found(&name, Vec::new()))
            }
            None => Err(Error::invalid_input(format!("topic {name}: {STATIC}")).with_topic(&name)),
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

/// The word of one that answered counts, whatever became of the others.
fn no_route(name: &str, attempts: Vec<Attempt>) -> Error {
    if attempts.iter().any(|attempt| attempt.kind == ErrorKind::TopicNotFound) {
        return Error::topic_not_found(name, attempts);
    }
    let note = if attempts.is_empty() { ": no name server is known yet" } else { "" };
    Error::failed(format!("looking for topic {name}"), attempts).with_note(note).with_topic(name)
}

/// Why an answer is not the one that was wanted.
pub(super) struct Unwanted {
    kind: ErrorKind,
    text: String,
}

impl Unwanted {
    /// It is an answer; another server may have a better one.
    fn missing() -> Self {
        Unwanted { kind: ErrorKind::TopicNotFound, text: "there is no such topic".into() }
    }

    /// It is none, and the server is no longer the chosen one.
    pub(super) fn useless(text: impl Into<String>) -> Self {
        Unwanted { kind: ErrorKind::Broker, text: text.into() }
    }
}

/// Asks one name server after the other, beginning with the chosen one, until one gives an answer that `accept`
/// takes. The time is shared out: a server that hangs leaves something for the others, and when one has given an
/// answer that may be all there is, for what its caller makes of it.
pub(super) fn ask_in_turn<T>(
    remoting: &Remoting,
    servers: &NameServers,
    request: impl Fn() -> RemotingCommand,
    accept: impl Fn(&Frame) -> Result<T, Unwanted>,
    longest: Duration,
    deadline: Instant,
) -> Result<(Arc<str>, T), Vec<Attempt>> {
    let order = servers.in_order();
    let (mut attempts, mut answered) = (Vec::new(), 0);
    for (at, server) in order.iter().enumerate() {
        let began = Instant::now();
        let left = deadline.saturating_duration_since(began);
        let share = left / u32::try_from(order.len() - at + answered).unwrap_or(u32::MAX);
        match remoting.call(server, request(), began + share.min(longest)) {
            Ok(frame) => match accept(&frame) {
                Ok(answer) => {
                    servers.worked(server);
                    return Ok((server.clone(), answer));
                }
                Err(unwanted) => {
                    let Unwanted { kind, text } = unwanted;
                    attempts.push(Attempt::new(&**server, kind, text, began.elapsed()));
                    if kind == ErrorKind::TopicNotFound {
                        answered = 1;
                        continue;
                    }
                }
            },
            Err(error) => attempts.push(failed_attempt(server, &error, began.elapsed())),
        }
        servers.failed(server);
    }
    Err(attempts)
}
