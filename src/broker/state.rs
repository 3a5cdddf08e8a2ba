//! Everything a broker knows, and the ways in and out of it.
//!
//! Plain data without a socket or a thread: requests go in, [`Effect`]s come out, and the time is told. All the logic
//! of the handlers runs against this under one lock, so every test and every look from outside sees one moment.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::delay::Delays;
use super::faults::{Faults, Reaction};
use super::filters::Filters;
use super::handlers;
use super::hold::Holds;
use super::keys::Keys;
use super::locks::Locks;
use super::members::Members;
use super::names::NameServer;
use super::offsets::Offsets;
use super::pull_answer::Pull;
use super::relay::Relays;
use super::request::{Answer, Effect, Refusal, ReplyTo, Request};
use super::requests::RequestLog;
use super::settings::{MASTER, REGION, Settings};
use super::store::{Entry, Memory, Store};
use super::topics::{first_groups, first_topics};
use super::{PeerId, record};
use crate::clock::Clock;
use crate::protocol::body::{SubscriptionGroupConfig, TopicConfig};
use crate::protocol::{Encoding, Frame, RemotingCommand, RequestCode, ResponseCode, UniqueIds, encode};

/// The present: by the broker's clock in ms since 1970, and by the machine's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) millis: i64,
    pub(crate) real: Instant,
}

impl Now {
    pub(crate) fn of(clock: &Clock) -> Self {
        Self { millis: clock.millis(), real: Instant::now() }
    }
}

/// How often the heartbeats are looked through, in ms. Java: `scanNotActiveChannel`.
const SCAN: i64 = 10_000;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) now: Now,
    /// When it was made, in ms.
    pub(crate) booted: i64,
    /// The address that messages and routes name.
    pub(crate) host: SocketAddr,
    /// What routes name in its place, if that is to be something else.
    pub(crate) advertised: Option<String>,
    pub(crate) names: Arc<NameServer>,
    pub(crate) store: Store,
    /// Counts the disks it has lost: nothing on an older one is what it holds now.
    pub(crate) store_number: u64,
    pub(crate) delays: Delays,
    pub(crate) topics: BTreeMap<String, TopicConfig>,
    pub(crate) groups: BTreeMap<String, SubscriptionGroupConfig>,
    pub(crate) offsets: Offsets,
    pub(crate) locks: Locks,
    pub(crate) members: Members,
    pub(crate) filters: Filters,
    pub(crate) holds: Holds<Pull>,
    pub(crate) relays: Relays,
    pub(crate) keys: Keys,
    /// What tools have set, by the names of `BrokerConfig`.
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) faults: Faults,
    pub(crate) requests: RequestLog,
    pub(crate) connections: BTreeMap<PeerId, SocketAddr>,
    /// What the last look-up found; kept for its capacity.
    pub(crate) entries: Vec<Entry>,
    /// Queues that got messages, with these, whose waiting pulls are not yet looked at.
    pub(super) arrivals: BTreeMap<(String, i32), Vec<Entry>>,
    pub(super) round_robin: u32,
    pub(super) ids: UniqueIds,
    effects: Vec<Effect>,
    /// Requests that a fault holds back.
    postponed: VecDeque<(Instant, Request)>,
    next_scan: i64,
}

impl State {
    pub(crate) fn new(settings: Settings, names: Arc<NameServer>, now: Now) -> Self {
        Self {
            now,
            booted: now.millis,
            host: SocketAddr::from(([127, 0, 0, 1], 0)),
            advertised: None,
            names,
            store: Store::new(Arc::new(Memory)),
            store_number: 0,
            delays: Delays::new(&settings.delay_levels),
            topics: first_topics(&settings),
            groups: first_groups(),
            offsets: Offsets::default(),
            locks: Locks::default(),
            members: Members::default(),
            filters: Filters::default(),
            holds: Holds::default(),
            relays: Relays::default(),
            keys: Keys::default(),
            config: BTreeMap::new(),
            faults: Faults::default(),
            requests: RequestLog::default(),
            connections: BTreeMap::new(),
            entries: Vec::new(),
            arrivals: BTreeMap::new(),
            round_robin: 0,
            ids: UniqueIds::new(None, std::process::id()),
            effects: Vec::new(),
            postponed: VecDeque::new(),
            next_scan: now.millis + SCAN,
            settings,
        }
    }

    /// Enters the broker and its topics with the name server.
    pub(crate) fn register(&self) {
        let address = self.advertised.clone().unwrap_or_else(|| self.host.to_string());
        let Settings { name, id, .. } = &self.settings;
        if self.is_slave() {
            self.names.register_slave(name, *id, &address, &self.topics);
        } else {
            self.names.register(name, *id, &address, &self.topics);
        }
        if !self.settings.classes.is_empty() {
            self.names.set_filter_server(name, *id);
        }
    }

    pub(crate) fn is_slave(&self) -> bool {
        self.settings.id != MASTER
    }

    pub(crate) fn opened(&mut self, peer: PeerId, remote: SocketAddr) {
        self.connections.insert(peer, remote);
    }

    pub(crate) fn closed(&mut self, peer: PeerId) {
        self.connections.remove(&peer);
        self.holds.drop_peer(peer);
        self.postponed.retain(|(_, request)| request.peer() != peer);
        self.fail_relays_of(peer);
        for group in self.members.remove_peer(peer) {
            self.notify_members(&group);
        }
    }

    /// Everything that comes from a connection. What cannot be read closes it, as with Java's servers.
    pub(crate) fn frame(&mut self, peer: PeerId, remote: SocketAddr, frame: &Frame) {
        match frame.command() {
            Ok(command) if command.is_response() => self.relayed(peer, command),
            Ok(command) => self.request(peer, remote, command, frame.encoding()),
            Err(error) => {
                log::debug!("closing the connection of {remote}: {error}");
                self.effects.push(Effect::Close { peer });
            }
        }
    }

    /// What time brings: held pulls whose patience is over, messages that are due, clients that are gone.
    pub(crate) fn tick(&mut self) {
        while self.postponed.front().is_some_and(|(at, _)| *at <= self.now.real) {
            if let Some((_, request)) = self.postponed.pop_front() {
                self.carry_out(request);
            }
        }
        self.deliver_due();
        for held in self.holds.expired(self.now.real) {
            self.answer_held(held.pull);
        }
        self.expire_relays();
        self.expire_members();
    }

    /// When something is due next: by the machine's clock, and by the broker's, in ms.
    pub(crate) fn next_deadlines(&self) -> (Option<Instant>, Option<i64>) {
        let postponed = self.postponed.front().map(|(at, _)| *at);
        let real = [postponed, self.holds.next_deadline(), self.relays.next_deadline()];
        let scan = (!self.members.is_empty()).then_some(self.next_scan);
        let due = self.delays.next_due();
        (real.into_iter().flatten().min(), scan.into_iter().chain(due).min())
    }

    /// What has to be done on connections by now.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(super) fn forget_effects(&mut self) {
        self.effects.clear();
        self.postponed.clear();
        self.arrivals.clear();
    }

    pub(crate) fn close(&mut self, peer: PeerId) {
        self.effects.push(Effect::Close { peer });
    }

    /// Sends a request of the broker's own to a client; its answer, if one is wanted, is told by the opaque.
    pub(crate) fn send_request(&mut self, peer: PeerId, command: &RemotingCommand) {
        let mut bytes = Vec::new();
        match encode(command, Encoding::Json, &mut bytes) {
            Ok(()) => self.effects.push(Effect::Send { peer, bytes }),
            Err(error) => log::error!("a request to a client cannot be written: {error}"),
        }
    }

    /// Sends an answer.
    pub(crate) fn answer(&mut self, to: &ReplyTo, mut command: RemotingCommand) {
        if let (Some(Reaction::Reply(code)), ResponseCode::SUCCESS) = (&to.twist, command.response_code()) {
            command.code = code.0;
        }
        let code = command.response_code();
        command.opaque = to.wire_opaque();
        command.version = self.settings.version.number();
        let mut bytes = Vec::new();
        if let Err(error) = encode(&command, to.encoding, &mut bytes) {
            let refusal = Refusal::error(error).into_command();
            let refusal = RemotingCommand { opaque: command.opaque, version: command.version, ..refusal };
            // Short, so it fits whatever did not.
            drop(encode(&refusal, to.encoding, &mut bytes));
        }
        self.answer_bytes(to, code, bytes);
    }

    /// Sends an answer that is encoded already.
    pub(crate) fn answer_bytes(&mut self, to: &ReplyTo, code: ResponseCode, mut bytes: Vec<u8>) {
        let peer = to.peer;
        if to.oneway {
            if to.twist == Some(Reaction::DisconnectAfterwards) {
                self.effects.push(Effect::Close { peer });
            }
            return;
        }
        self.requests.answered(to.number, code);
        match to.twist {
            Some(Reaction::DisconnectAfterwards) => self.effects.push(Effect::Close { peer }),
            Some(Reaction::Trickle { bytes: size, every }) => {
                self.effects.push(Effect::Trickle { peer, bytes, size: size.max(1), every });
            }
            Some(Reaction::CutFrame(length)) => {
                bytes.truncate(length);
                self.effects.push(Effect::Send { peer, bytes });
                self.effects.push(Effect::Close { peer });
            }
            Some(Reaction::Corrupt) => {
                corrupt(&mut bytes);
                self.effects.push(Effect::Send { peer, bytes });
            }
            Some(Reaction::Twice) => {
                self.effects.push(Effect::Send { peer, bytes: bytes.clone() });
                self.effects.push(Effect::Send { peer, bytes });
            }
            _ => self.effects.push(Effect::Send { peer, bytes }),
        }
    }

    fn request(&mut self, peer: PeerId, remote: SocketAddr, command: RemotingCommand, encoding: Encoding) {
        let client_id = self.members.client_of(peer);
        let seen = record::of(&command, remote, client_id, &self.settings.clock);
        let twist = self.faults.decide(&seen);
        let number = self.requests.add(seen);
        let oneway = command.is_oneway();
        let reply = ReplyTo { peer, opaque: command.opaque, encoding, oneway, twist, number };
        self.admit(Request { remote, command, reply });
    }

    /// Carries a request out, unless a fault is in the way.
    fn admit(&mut self, request: Request) {
        match request.reply.twist.clone() {
            Some(Reaction::Ignore) => {}
            Some(Reaction::Disconnect) => self.close(request.peer()),
            Some(Reaction::Delay(by)) => self.postpone(request, by),
            Some(Reaction::Reply(code)) if !(is_send(&request) && is_stored(code)) => {
                let answer = handlers::faulted(self, &request, code);
                self.answer(&request.reply, answer);
            }
            _ => self.carry_out(request),
        }
    }

    fn postpone(&mut self, request: Request, by: Duration) {
        let at = self.now.real + by;
        let index = self.postponed.partition_point(|(other, _)| *other <= at);
        self.postponed.insert(index, (at, request));
    }

    fn carry_out(&mut self, request: Request) {
        log::trace!("{} from {}", request.command.request_code(), request.remote);
        match handlers::handle(self, &request) {
            Ok(Answer::Now(command)) => self.answer(&request.reply, command),
            Ok(Answer::Later) => {}
            Err(refusal) => {
                log::debug!("{} from {}: {}", request.command.request_code(), request.remote, refusal.remark);
                let mut answer = refusal.into_command();
                if is_send(&request) {
                    answer = answer.field("MSG_REGION", REGION).field("TRACE_ON", "true");
                }
                self.answer(&request.reply, answer);
            }
        }
        self.wake_holds();
    }

    fn expire_members(&mut self) {
        if self.now.millis < self.next_scan {
            return;
        }
        self.next_scan = self.now.millis + SCAN;
        for peer in self.members.expired(self.now.millis) {
            log::info!("closing the connection of a client that has sent no heartbeat for 120 s");
            for group in self.members.remove_peer(peer) {
                self.notify_members(&group);
            }
            self.close(peer);
        }
    }
}

fn is_send(request: &Request) -> bool {
    let code = request.command.request_code();
    matches!(code, RequestCode::SEND_MESSAGE | RequestCode::SEND_MESSAGE_V2 | RequestCode::SEND_BATCH_MESSAGE)
}

/// Whether the code says that a message is stored, though not as safely as wished.
fn is_stored(code: ResponseCode) -> bool {
    let stored = [
        ResponseCode::FLUSH_DISK_TIMEOUT,
        ResponseCode::FLUSH_SLAVE_TIMEOUT,
        ResponseCode::SLAVE_NOT_AVAILABLE,
    ];
    stored.contains(&code)
}

/// Inverts the first byte of the body, or of the header if there is no body.
fn corrupt(frame: &mut [u8]) {
    const PREFIX: usize = 8;
    let header = frame.get(5..8).map_or(0, |b| b.iter().fold(0, |n, byte| n << 8 | usize::from(*byte)));
    let at = if frame.len() > PREFIX + header { PREFIX + header } else { PREFIX };
    if let Some(byte) = frame.get_mut(at) {
        *byte = !*byte;
    }
}
