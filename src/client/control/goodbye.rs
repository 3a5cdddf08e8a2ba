//! Saying goodbye: a group leaves every broker that knows it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use crate::error::{Attempt, ErrorKind};
use crate::protocol::headers::UnregisterClient;
use crate::protocol::{Frame, RemotingCommand, RequestCode, ResponseCode};
use crate::remoting::CallError;

use super::super::call::failed_attempt;
use super::super::member::MemberKind;
use super::{Control, Question};

/// The wish of a group to leave.
#[derive(Debug)]
pub(crate) struct Goodbye {
    pub(crate) kind: MemberKind,
    pub(crate) group: String,
    pub(crate) deadline: Instant,
    /// Gets what went wrong, when every broker has answered.
    pub(crate) done: Sender<Vec<Attempt>>,
}

/// All goodbyes under way.
#[derive(Debug, Default)]
pub(super) struct Farewells {
    next_id: u64,
    open: HashMap<u64, Farewell>,
}

#[derive(Debug)]
struct Farewell {
    goodbye: Goodbye,
    began: Instant,
    /// Brokers whose heartbeat is out: the goodbye follows it.
    waiting: HashSet<Arc<str>>,
    /// Goodbyes that are out.
    asked: usize,
    failures: Vec<Attempt>,
}

impl Control {
    pub(super) fn say_goodbye(&mut self, goodbye: Goodbye, now: Instant) {
        let addresses: HashSet<Arc<str>> =
            self.instance.brokers().into_iter().map(|(_, _, address)| address).collect();
        let known: HashSet<Arc<str>> = addresses
            .into_iter()
            .filter(|address| self.beats.is_out(address) || self.instance.told.knows(address))
            .collect();
        let id = self.farewells.next_id;
        self.farewells.next_id += 1;
        let farewell = Farewell {
            goodbye,
            began: Instant::now(),
            waiting: known.clone(),
            asked: 0,
            failures: Vec::new(),
        };
        self.farewells.open.insert(id, farewell);
        for address in known {
            self.say_goodbye_to(id, &address);
        }
        self.farewells.finish_if_over(id);
        self.choose_brokers_to_tell(now);
    }

    /// The heartbeat that was out is answered: now the goodbyes to that broker can go.
    pub(super) fn goodbyes_after_heartbeat(&mut self, address: &Arc<str>, _now: Instant) {
        let waiting = |farewell: &&Farewell| farewell.waiting.contains(address);
        let ids: Vec<u64> =
            self.farewells.open.iter().filter(|(_, farewell)| waiting(farewell)).map(|(id, _)| *id).collect();
        for id in ids {
            self.say_goodbye_to(id, address);
            self.farewells.finish_if_over(id);
        }
    }

    fn say_goodbye_to(&mut self, id: u64, address: &Arc<str>) {
        if !self.beats.hold(address) {
            return; // It stays among those that wait.
        }
        let Some(farewell) = self.farewells.open.get_mut(&id) else { return };
        farewell.waiting.remove(address);
        farewell.asked += 1;
        let (kind, group) = (farewell.goodbye.kind, farewell.goodbye.group.clone());
        let timeout = farewell.goodbye.deadline.saturating_duration_since(Instant::now()).max(SHORTEST);
        self.instance.told.forget_group(address, kind, &group);
        let (producer_group, consumer_group) = match kind {
            MemberKind::Producer => (Some(group), None),
            MemberKind::Consumer => (None, Some(group)),
        };
        let header = UnregisterClient { client_id: self.instance.id.clone(), producer_group, consumer_group };
        let command = RemotingCommand::with_header(RequestCode::UNREGISTER_CLIENT, &header);
        self.ask(address, command, timeout, Question::Goodbye { address: address.clone(), id });
    }

    pub(super) fn goodbye_answered(
        &mut self,
        address: &Arc<str>,
        id: u64,
        outcome: Result<Frame, CallError>,
        now: Instant,
    ) {
        self.beats.released(address, now);
        let Some(farewell) = self.farewells.open.get_mut(&id) else { return };
        farewell.asked -= 1;
        let elapsed = farewell.began.elapsed();
        match outcome {
            Ok(frame) => match frame.command_without_body() {
                Ok(answer) if answer.response_code() == ResponseCode::SUCCESS => {}
                Ok(answer) => farewell.failures.push(Attempt::answered(
                    &**address,
                    answer.response_code(),
                    answer.remark.as_deref(),
                    elapsed,
                )),
                Err(error) => {
                    let attempt = Attempt::new(&**address, ErrorKind::Protocol, error.to_string(), elapsed);
                    farewell.failures.push(attempt);
                }
            },
            Err(error) => farewell.failures.push(failed_attempt(address, &error, elapsed)),
        }
        self.farewells.finish_if_over(id);
    }
}

impl Farewells {
    fn finish_if_over(&mut self, id: u64) {
        if self.open.get(&id).is_some_and(|farewell| farewell.asked == 0 && farewell.waiting.is_empty())
            && let Some(farewell) = self.open.remove(&id)
        {
            farewell.finish();
        }
    }

    /// Nothing more will be answered.
    pub(super) fn give_up(&mut self, why: &str) {
        for (_, mut farewell) in self.open.drain() {
            let elapsed = farewell.began.elapsed();
            let waiting = std::mem::take(&mut farewell.waiting);
            let lost =
                waiting.iter().map(|address| Attempt::new(&**address, ErrorKind::Closed, why, elapsed));
            farewell.failures.extend(lost);
            farewell.finish();
        }
    }
}

impl Farewell {
    fn finish(self) {
        // Whoever asked may have stopped waiting.
        drop(self.goodbye.done.try_send(self.failures));
    }
}

/// A goodbye that comes late is sent all the same: nobody may wait for it, but the brokers should know.
const SHORTEST: Duration = Duration::from_millis(100);
