//! The broker's one thread, and the lock around its state.
//!
//! Requests are handled on the server's thread, calls of the API on their callers'; both hold the same lock for the
//! length of one step, and carry out what came of it on the connections before they let go, so that answers leave in
//! the order in which they were decided.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use super::PeerId;
use super::pulse::Pulse;
use super::request::Effect;
use super::state::{Now, State};
use crate::clock::Clock;
use crate::protocol::Frame;
use crate::remoting::server::{Handler, Peer, ServerWaker};

/// What the server's thread and the handle share.
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// Apart from the state: whoever moves the clock holds that.
    waker: Mutex<Option<ServerWaker>>,
    clock: Clock,
    pub(crate) pulse: Arc<Pulse>,
}

/// The state with the connections that it acts on.
pub(crate) struct Core {
    pub(crate) state: State,
    peers: HashMap<PeerId, Lane>,
    /// A paused broker takes nothing in and lets nothing out.
    paused: bool,
    running: bool,
}

/// A connection, and what a fault makes wait before it may be written.
struct Lane {
    peer: Peer,
    waiting: VecDeque<Piece>,
    due: Instant,
}

enum Piece {
    /// Written when the pause since the one before is over.
    Bytes(Vec<u8>, Duration),
    Close,
}

impl Shared {
    pub(crate) fn new(state: State, clock: Clock, pulse: Arc<Pulse>) -> Self {
        let core = Core { state, peers: HashMap::new(), paused: false, running: false };
        Self { core: Mutex::new(core), waker: Mutex::new(None), clock, pulse }
    }

    /// One step: `f` on the state at the present time, and then what came of it on the connections.
    pub(crate) fn step<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let mut core = self.lock();
        let result = f(&mut core.state);
        core.act();
        drop(core);
        self.pulse.beat();
        result
    }

    /// As [`step`](Self::step), by another thread than the server's: afterwards that looks at its deadlines anew.
    pub(crate) fn step_outside<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let result = self.step(f);
        self.wake();
        result
    }

    /// The state, at the present time. What the time has brought is done first, so that whoever moves the clock sees
    /// what he has done.
    pub(crate) fn present(&self) -> MutexGuard<'_, Core> {
        let mut core = self.lock();
        if core.running && !core.paused {
            core.state.tick();
            core.act();
        }
        core
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        let mut core = self.core.lock();
        core.state.now = Now::of(&self.clock);
        core
    }

    /// Makes the server look at its deadlines. Takes no lock that is held for long.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.lock() {
            waker.wake();
        }
    }

    /// Before the server starts: from then on its thread may call.
    pub(crate) fn begin(&self) {
        let mut core = self.lock();
        (core.running, core.paused) = (true, false);
        core.state.register();
    }

    pub(crate) fn begun(&self, waker: ServerWaker) {
        *self.waker.lock() = Some(waker);
        self.wake();
    }

    /// After the server has ended: what only lived in connections is gone.
    pub(crate) fn end(&self) {
        *self.waker.lock() = None;
        let mut core = self.lock();
        core.running = false;
        core.peers.clear();
        core.state.forget_connections();
        drop(core);
        self.pulse.beat();
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        let mut core = self.lock();
        core.paused = paused;
        core.peers.values().for_each(|lane| lane.peer.pause_reading(paused));
        if !paused {
            core.act();
        }
        drop(core);
        self.wake();
    }

    pub(crate) fn cut_connections(&self) {
        self.lock().peers.values().for_each(|lane| lane.peer.close());
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Core {
    /// Whether it serves anybody.
    pub(crate) fn is_working(&self) -> bool {
        self.running && !self.paused
    }

    /// Carries out what the state wants done. A paused broker keeps it for later.
    fn act(&mut self) {
        if self.paused {
            return;
        }
        for effect in self.state.take_effects() {
            match effect {
                Effect::Send { peer, bytes } => {
                    self.with(peer, |lane| lane.push(Piece::Bytes(bytes, Duration::ZERO)))
                }
                Effect::Trickle { peer, bytes, size, every } => self.with(peer, |lane| {
                    let pieces = bytes.chunks(size).map(|piece| Piece::Bytes(piece.to_vec(), every));
                    pieces.for_each(|piece| lane.push(piece));
                }),
                Effect::Close { peer } => self.with(peer, |lane| lane.push(Piece::Close)),
            }
        }
    }

    /// Effects for connections that are gone come to nothing.
    fn with(&mut self, peer: PeerId, f: impl FnOnce(&mut Lane)) {
        if let Some(lane) = self.peers.get_mut(&peer) {
            f(lane);
        }
    }

    fn next_deadline(&self, clock: &Clock) -> Option<Instant> {
        if self.paused {
            return None;
        }
        let (real, by_clock) = self.state.next_deadlines();
        // A manual clock wakes the loop when it is moved; until then nothing on it comes due.
        let by_clock = by_clock.filter(|_| !clock.is_manual()).map(|millis| {
            let left = millis.saturating_sub(clock.millis()).max(0).unsigned_abs();
            Instant::now() + Duration::from_millis(left)
        });
        let lanes = self.peers.values().filter(|lane| !lane.waiting.is_empty()).map(|lane| lane.due);
        lanes.chain(real).chain(by_clock).min()
    }
}

impl Lane {
    /// Writes a piece, or puts it behind those that wait.
    fn push(&mut self, piece: Piece) {
        if self.waiting.is_empty() {
            match &piece {
                Piece::Bytes(bytes, pause) if pause.is_zero() => return self.peer.send_bytes(bytes),
                Piece::Close => return self.peer.close_after_flush(),
                Piece::Bytes(..) => self.due = Instant::now(),
            }
        }
        self.waiting.push_back(piece);
    }

    fn write_due(&mut self, now: Instant) {
        while self.due <= now {
            match self.waiting.pop_front() {
                Some(Piece::Bytes(bytes, pause)) => {
                    self.peer.send_bytes(&bytes);
                    self.due = now + pause;
                }
                Some(Piece::Close) => self.peer.close_after_flush(),
                None => return,
            }
        }
    }
}

/// The side that the server calls.
#[derive(Debug)]
pub(crate) struct Connections(pub(crate) Arc<Shared>);

impl Handler for Connections {
    fn opened(&mut self, peer: &Peer) {
        let mut core = self.0.lock();
        peer.pause_reading(core.paused);
        let lane = Lane { peer: peer.clone(), waiting: VecDeque::new(), due: Instant::now() };
        core.peers.insert(peer.id(), lane);
        core.state.opened(peer.id(), peer.remote());
        drop(core);
        self.0.pulse.beat();
    }

    fn frame(&mut self, peer: &Peer, frame: Frame) {
        self.0.step(|state| state.frame(peer.id(), peer.remote(), &frame));
    }

    fn closed(&mut self, peer: &Peer) {
        self.0.step(|state| state.closed(peer.id()));
        self.0.lock().peers.remove(&peer.id());
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.0.core.lock().next_deadline(&self.0.clock)
    }

    fn tick(&mut self) {
        let mut core = self.0.present();
        let now = Instant::now();
        core.peers.values_mut().for_each(|lane| lane.write_due(now));
        drop(core);
        self.0.pulse.beat();
    }
}
