//! Questions that the broker passes on to a client, and the answers on their way back.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::PeerId;
use super::request::{Refusal, ReplyTo};
use super::state::State;
use crate::protocol::{RemotingCommand, ResponseCode};

/// How long a client has for its answer, by real time.
const PATIENCE: Duration = Duration::from_secs(10);

/// The questions that clients have not answered yet, by connection and opaque.
#[derive(Debug, Default)]
pub(crate) struct Relays {
    pending: HashMap<(PeerId, i32), (ReplyTo, Instant)>,
    next_opaque: i32,
}

impl Relays {
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.pending.values().map(|(_, deadline)| *deadline).min()
    }

    pub(crate) fn clear(&mut self) {
        self.pending.clear();
    }

    fn take(&mut self, wanted: impl Fn(PeerId, &ReplyTo, Instant) -> bool) -> Vec<(PeerId, ReplyTo)> {
        let pending = &mut self.pending;
        let taken = pending.extract_if(|(peer, _), (to, deadline)| wanted(*peer, to, *deadline));
        taken.map(|((peer, _), (to, _))| (peer, to)).collect()
    }
}

impl State {
    /// The number of a request of the broker's own.
    pub(crate) fn own_opaque(&mut self) -> i32 {
        self.relays.next_opaque = self.relays.next_opaque.wrapping_add(1);
        self.relays.next_opaque
    }

    /// Asks a client; what it answers, answers `to`.
    pub(crate) fn relay(&mut self, to: &ReplyTo, peer: PeerId, mut command: RemotingCommand) {
        command.opaque = self.own_opaque();
        let deadline = self.now.real + PATIENCE;
        self.relays.pending.insert((peer, command.opaque), (to.clone(), deadline));
        self.send_request(peer, &command);
    }

    /// An answer of a client, passed on as it is.
    pub(crate) fn relayed(&mut self, peer: PeerId, command: RemotingCommand) {
        match self.relays.pending.remove(&(peer, command.opaque)) {
            Some((to, _)) => self.answer(&to, command),
            None => log::debug!("an answer that nobody waits for: {command:?}"),
        }
    }

    pub(crate) fn expire_relays(&mut self) {
        let now = self.now.real;
        for (_, to) in self.relays.take(|_, _, deadline| deadline <= now) {
            let refusal =
                Refusal::new(ResponseCode::CONSUME_MSG_TIMEOUT, "the client has not answered within 10 s");
            self.answer(&to, refusal.into_command());
        }
    }

    /// A connection is gone: who asked there hears of it, and who asked from there need not be answered.
    pub(crate) fn fail_relays_of(&mut self, peer: PeerId) {
        for (asked, to) in self.relays.take(|asked, to, _| asked == peer || to.peer == peer) {
            if asked == peer && to.peer != peer {
                self.answer(&to, Refusal::error("the client has closed its connection").into_command());
            }
        }
    }
}
