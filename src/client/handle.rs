//! The handle of a client, and how it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

use super::control::Input;
use super::instance::Instance;
use super::life::bounded_grace;
use super::member::{Member, MemberKind};
use super::threads::on_library_thread;
use super::{ClientBuilder, ShutdownReport, config, start};

/// The connection to one RocketMQ cluster: name servers, brokers, routes, heartbeats, and the memory for fetched
/// messages. Producers and consumers can share it.
///
/// All clones are one client. It has two threads, `rmq-io` and `rmq-control` (`rmq-aux` comes and goes), however many
/// producers and consumers use it. When the last handle is dropped, those in producers and consumers included, the
/// client shuts down as [`shutdown`](Client::shutdown) does, within 2 s.
#[derive(Clone, Debug)]
#[must_use = "a client ends when its last handle is dropped"]
pub struct Client {
    guard: Arc<Guard>,
}

/// Figures about a client at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientStats {
    /// Open connections, to name servers and brokers.
    pub connections: usize,
    /// Requests without an answer so far, long polls among them.
    pub pending_requests: usize,
    /// Since the start.
    pub bytes_received: u64,
    /// Since the start.
    pub bytes_sent: u64,
    /// Bytes of fetched messages that are held at present.
    pub cached_bytes: usize,
    /// Records of the message trace that were dropped or could not be stored, since the start.
    pub lost_traces: u64,
    /// Threads of this client, its producers and consumers.
    pub threads: usize,
}

impl Client {
    /// The settings of a new client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }

    /// The name under which brokers know this client: `ip@pid#random`, unless it was named by
    /// [`instance_name`](ClientBuilder::instance_name). The same for as long as the client lives.
    pub fn client_id(&self) -> &str {
        &self.guard.instance.id
    }

    /// Figures about this client now.
    pub fn stats(&self) -> ClientStats {
        self.guard.instance.stats()
    }

    /// Ends everything: the consumers side by side, then the producers, then the connections and threads. Returns
    /// by the end of the grace (and a moment for the threads), with a report; a second call gets the same one.
    /// Handles that are still held answer `Closed` afterwards.
    ///
    /// In code that the library calls, such as a listener, it returns at once, and the rest happens in the background.
    pub fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.guard.instance.clone().shutdown(grace)
    }

    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.guard.instance
    }

    /// Ends the client if it belongs to a producer or consumer and that was the last one on it. Called by the one
    /// that has just left.
    pub(crate) fn release(&self, grace: Duration) {
        let instance = self.instance();
        if instance.implicit.load(Ordering::Relaxed) && instance.members().is_empty() {
            drop(instance.clone().shutdown(grace));
        }
    }

    pub(super) fn mark_implicit(&self) {
        self.instance().implicit.store(true, Ordering::Relaxed);
    }
}

impl ClientBuilder {
    /// Starts the client. Returns when a name server has answered; with credentials, also when a broker has
    /// accepted a signed request; with [`connect_in_background`](Self::connect_in_background), at once.
    ///
    /// # Errors
    /// `Config` with all mistakes. `Unreachable` or `Timeout` with every name server that was tried and what came of
    /// it, within `start_timeout`. `Refused` if the credentials are.
    pub fn start(self) -> Result<Client> {
        let config = self.check(config::process_environment).map_err(Error::config)?;
        let instance = start::start(config)?;
        Ok(Client { guard: Arc::new(Guard { instance }) })
    }
}

/// Goes with the last handle. The threads hold the instance, not this.
#[derive(Debug)]
struct Guard {
    instance: Arc<Instance>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.instance.is_running() {
            return;
        }
        let instance = self.instance.clone();
        if thread::panicking() {
            instance.shutdown_in_background(DROP_GRACE);
            return;
        }
        let report = instance.shutdown(DROP_GRACE);
        if !report.is_clean() && !report.in_background {
            log::warn!("client {} was dropped: {report}", self.instance.id);
        }
    }
}

impl Instance {
    pub(super) fn shutdown(self: Arc<Self>, grace: Duration) -> ShutdownReport {
        let grace = bounded_grace(grace);
        if on_library_thread() {
            // It would wait for the thread that it runs on.
            self.shutdown_in_background(grace);
            return ShutdownReport::requested();
        }
        if self.life.begin_end() {
            return self.end(grace);
        }
        // Somebody else has begun; that one keeps to its own grace.
        let until = Instant::now() + grace.max(MOMENT);
        self.life.wait(Some(until)).unwrap_or_else(ShutdownReport::requested)
    }

    pub(super) fn shutdown_in_background(self: Arc<Self>, grace: Duration) {
        if !self.life.begin_end() {
            return;
        }
        let instance = self.clone();
        // Not one of the counted threads: it waits for those to end.
        let started =
            thread::Builder::new().name("rmq-shutdown".into()).spawn(move || drop(instance.end(grace)));
        if let Err(error) = started {
            log::error!("cannot start thread rmq-shutdown, the client goes on: {error}");
            self.life.ended(ShutdownReport::requested());
        }
    }

    /// Everything in order. Called once.
    fn end(&self, grace: Duration) -> ShutdownReport {
        let began = Instant::now();
        let left = || grace.saturating_sub(began.elapsed());
        let mut report = ShutdownReport::default();
        for kind in [MemberKind::Consumer, MemberKind::Producer] {
            let members = self.members().into_iter().filter(|member| member.kind() == kind).collect();
            end_side_by_side(members, left()).into_iter().for_each(|part| report.merge(part));
        }
        self.members.lock().clear();
        let hooks = self.at_end.lock().take();
        for hook in hooks.into_iter().flatten() {
            hook(left());
        }
        self.publish();
        drop(self.inbox.send(Input::Stop));
        let control = self.control.lock().take();
        if control.is_some_and(|thread| thread.join().is_err()) {
            log::error!("thread rmq-control panicked");
        }
        self.remoting.shutdown(FLUSH);
        for thread in std::mem::take(&mut *self.late_threads.lock()) {
            if thread.join().is_err() {
                log::error!("a thread of client {} panicked", self.id);
            }
        }
        self.drop_extensions();
        report.elapsed = began.elapsed();
        log::info!("client {}: {report}", self.id);
        self.life.ended(report.clone());
        report
    }
}

/// Each on a thread of its own, so that one that takes its time does not take the others'.
fn end_side_by_side(members: Vec<Arc<dyn Member>>, grace: Duration) -> Vec<ShutdownReport> {
    if let [member] = &*members {
        return vec![member.shutdown(grace)];
    }
    thread::scope(|scope| {
        let start = |member: &Arc<dyn Member>| {
            let one = member.clone();
            let thread = thread::Builder::new().name("rmq-shutdown".into());
            thread.spawn_scoped(scope, move || one.shutdown(grace))
        };
        let threads: Vec<_> = members.iter().map(|member| (member, start(member))).collect();
        let mut reports = Vec::new();
        for (member, thread) in threads {
            match thread.map(|thread| thread.join()) {
                Ok(Ok(report)) => reports.push(report),
                Ok(Err(_)) => log::error!("the shutdown of {} {} panicked", member.kind(), member.group()),
                // Without a thread, then one after the other.
                Err(_) => reports.push(member.shutdown(grace)),
            }
        }
        reports
    })
}

const DROP_GRACE: Duration = Duration::from_secs(2);
/// For what waits to be written when the connections close.
const FLUSH: Duration = Duration::from_millis(100);
const MOMENT: Duration = Duration::from_millis(500);
