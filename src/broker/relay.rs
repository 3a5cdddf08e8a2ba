//! Questions that the broker passes on to clients, and the answers on their way back.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::PeerId;
use super::request::{Refusal, ReplyTo};
use super::state::State;
use crate::protocol::body::GetConsumerStatusBody;
use crate::protocol::{RemotingCommand, ResponseCode, StoredMessage};

/// How long a client has for its answer, by real time.
const PATIENCE: Duration = Duration::from_secs(10);

/// The questions that clients have not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Relays {
    /// By connection and opaque.
    pending: HashMap<(PeerId, i32), Pending>,
    /// Answers of several clients that make one.
    surveys: HashMap<u64, Survey>,
    next_opaque: i32,
    next_survey: u64,
}

#[derive(Debug)]
struct Pending {
    for_whom: Asker,
    deadline: Instant,
}

/// On whose behalf a client is asked.
#[derive(Debug)]
pub(crate) enum Asker {
    /// Gets the answer as it is.
    Tool(ReplyTo),
    /// One of several answers.
    Survey { id: u64, client_id: String },
    /// Has answered a request, and wants to know whether that arrived.
    Replier { to: ReplyTo, message: Box<StoredMessage<'static>> },
}

#[derive(Debug)]
struct Survey {
    to: ReplyTo,
    missing: usize,
    answers: GetConsumerStatusBody,
}

impl Relays {
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.pending.values().map(|pending| pending.deadline).min()
    }

    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        self.surveys.clear();
    }

    fn take(&mut self, wanted: impl Fn(PeerId, &Pending) -> bool) -> Vec<Asker> {
        let taken = self.pending.extract_if(|(peer, _), pending| wanted(*peer, pending));
        taken.map(|(_, pending)| pending.for_whom).collect()
    }
}

impl State {
    /// Asks a client; what it answers, answers `to`.
    pub(crate) fn relay(&mut self, to: &ReplyTo, peer: PeerId, command: RemotingCommand) {
        self.ask(Asker::Tool(to.clone()), peer, command);
    }

    /// Asks several clients for their offsets; when all have answered, or had time to, `to` gets them in one table.
    pub(crate) fn survey(&mut self, to: &ReplyTo, clients: Vec<(PeerId, String)>, command: &RemotingCommand) {
        let id = self.relays.next_survey;
        self.relays.next_survey += 1;
        let answers = GetConsumerStatusBody::default();
        self.relays.surveys.insert(id, Survey { to: to.clone(), missing: clients.len(), answers });
        for (peer, client_id) in clients {
            self.ask(Asker::Survey { id, client_id }, peer, command.clone());
        }
    }

    /// An answer of a client.
    pub(crate) fn relayed(&mut self, peer: PeerId, command: RemotingCommand) {
        match self.relays.pending.remove(&(peer, command.opaque)) {
            Some(Pending { for_whom: Asker::Tool(to), .. }) => self.answer(&to, command),
            Some(Pending { for_whom: Asker::Survey { id, client_id }, .. }) => {
                let offsets = GetConsumerStatusBody::read(&command.body).unwrap_or_default();
                self.count(id, Some((client_id, offsets)));
            }
            Some(Pending { for_whom: Asker::Replier { to, message }, .. }) => {
                let answer = self.replied(*message, &command);
                self.answer(&to, answer);
                self.wake_holds();
            }
            None => log::debug!("an answer that nobody waits for: {command:?}"),
        }
    }

    pub(crate) fn expire_relays(&mut self) {
        let now = self.now.real;
        for asker in self.relays.take(|_, pending| pending.deadline <= now) {
            let text = "the client has not answered within 10 s";
            self.give_up(asker, Refusal::new(ResponseCode::CONSUME_MSG_TIMEOUT, text));
        }
    }

    /// A connection is gone: who asked there hears of it.
    pub(crate) fn fail_relays_of(&mut self, peer: PeerId) {
        for asker in self.relays.take(|asked, _| asked == peer) {
            self.give_up(asker, Refusal::error("the client has closed its connection"));
        }
    }

    pub(crate) fn ask(&mut self, for_whom: Asker, peer: PeerId, mut command: RemotingCommand) {
        self.relays.next_opaque = self.relays.next_opaque.wrapping_add(1);
        command.opaque = self.relays.next_opaque;
        let deadline = self.now.real + PATIENCE;
        self.relays.pending.insert((peer, command.opaque), Pending { for_whom, deadline });
        self.send_request(peer, &command);
    }

    fn give_up(&mut self, asker: Asker, refusal: Refusal) {
        match asker {
            Asker::Tool(to) | Asker::Replier { to, .. } => self.answer(&to, refusal.into_command()),
            Asker::Survey { id, .. } => self.count(id, None),
        }
    }

    /// One answer less is missing.
    fn count(&mut self, id: u64, answer: Option<(String, GetConsumerStatusBody)>) {
        let Some(survey) = self.relays.surveys.get_mut(&id) else { return };
        survey.missing = survey.missing.saturating_sub(1);
        if let Some((client_id, offsets)) = answer {
            survey.answers.consumer_table.insert(client_id, offsets.message_queue_table);
        }
        if survey.missing == 0
            && let Some(survey) = self.relays.surveys.remove(&id)
        {
            let answer = RemotingCommand::response(ResponseCode::SUCCESS, 0).body(survey.answers.write());
            self.answer(&survey.to, answer);
        }
    }
}
