//! What all handles of one producer share, and its membership in the client.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::client::metrics::Timing;
use crate::client::trace::Tracer;
use crate::client::{Instance, Life, Member, MemberKind, Notice, Route, ShutdownReport, bounded_grace};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::ResponseCode;
use crate::protocol::body::ConsumerData;

use super::Compression;
use super::builder::{AfterSend, BeforeSend};
use super::select::RoundRobin;
use super::stats::Recorder;

pub(super) struct Settings {
    pub(super) group: String,
    pub(super) send_timeout: Duration,
    pub(super) attempt_timeout: Duration,
    pub(super) max_attempts: u32,
    pub(super) retry_codes: HashSet<ResponseCode>,
    pub(super) retry_when_not_stored: bool,
    pub(super) max_message_size: usize,
    pub(super) compression: Compression,
    pub(super) compress_over: usize,
    pub(super) template_topic: String,
    pub(super) auto_create_queues: i32,
    pub(super) preload: Vec<String>,
    pub(super) before_send: Option<BeforeSend>,
    pub(super) after_send: Option<AfterSend>,
}

pub(super) struct Core {
    pub(super) instance: Arc<Instance>,
    pub(super) settings: Settings,
    /// As the servers know it.
    pub(super) group: String,
    pub(super) tracer: Option<Arc<Tracer>>,
    pub(super) turns: RoundRobin,
    pub(super) timing: Timing,
    pub(super) recorder: Recorder,
    pub(super) life: Life,
    /// Routes of topics that do not exist yet: made after the template topic, until the real ones are known.
    promised: Mutex<BTreeMap<Arc<str>, Arc<Route>>>,
    quiet: Mutex<()>,
    last_ended: Condvar,
}

impl Core {
    pub(super) fn new(instance: Arc<Instance>, settings: Settings, tracer: Option<Arc<Tracer>>) -> Self {
        Core {
            timing: Timing::new(&instance, &settings.group, "rocketmq_producer_send_seconds"),
            group: instance.namespace().group(&settings.group),
            instance,
            settings,
            tracer,
            turns: RoundRobin::default(),
            recorder: Recorder::default(),
            life: Life::default(),
            promised: Mutex::default(),
            quiet: Mutex::default(),
            last_ended: Condvar::new(),
        }
    }

    /// # Errors
    /// `Closed` after a shutdown.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.life.is_running() {
            return Ok(());
        }
        Err(Error::closed(format!("producer {}", self.settings.group)))
    }

    /// The route of a topic; of one that does not exist, what it will be when a broker has created it. The name is
    /// that of the servers.
    pub(super) fn route(&self, topic: &str, deadline: Instant) -> Result<Arc<Route>> {
        if let Some(route) = self.instance.route(topic) {
            return Ok(route);
        }
        if let Some(route) = self.promised.lock().get(topic) {
            return Ok(route.clone());
        }
        match self.instance.fetch_route(topic, deadline) {
            Err(error) if error.kind() == ErrorKind::TopicNotFound => self.promise(topic, deadline, error),
            result => result,
        }
    }

    pub(super) fn is_promised(&self, topic: &str) -> bool {
        self.promised.lock().contains_key(topic)
    }

    /// There is a route by now, or there never will be one.
    pub(super) fn forget_promise(&self, topic: &str) {
        self.promised.lock().remove(topic);
    }

    /// Copies the route of the template topic: its brokers create a topic when its first message comes.
    fn promise(&self, topic: &str, deadline: Instant, missing: Error) -> Result<Arc<Route>> {
        let template = self.instance.namespace().topic(&self.settings.template_topic);
        let Ok(template) = self.instance.route_or_fetch(&template, deadline) else { return Err(missing) };
        let mut data = template.data().clone();
        for entry in &mut data.queue_datas {
            let queues = self.settings.auto_create_queues.min(entry.read_queue_nums);
            (entry.read_queue_nums, entry.write_queue_nums) = (queues, queues);
        }
        data.order_topic_conf = None;
        let topic: Arc<str> = topic.into();
        let route = Arc::new(Route::new(topic.clone(), data));
        if route.publish().is_empty() {
            return Err(missing);
        }
        log::info!("topic {topic} does not exist yet; brokers are asked to create it");
        self.promised.lock().insert(topic.clone(), route.clone());
        self.instance.want_route(&topic);
        Ok(route)
    }

    /// A send has ended; a shutdown may be waiting for it.
    pub(super) fn send_ended(&self) {
        if self.recorder.in_flight() == 0 && !self.life.is_running() {
            // Under the lock, or the wake-up could fall between the look and the wait of the one who waits.
            drop(self.quiet.lock());
            self.last_ended.notify_all();
        }
    }

    /// Waits until no send is under way; how many still are.
    fn wait_for_sends(&self, until: Instant) -> usize {
        let mut quiet = self.quiet.lock();
        while self.recorder.in_flight() > 0 {
            if self.last_ended.wait_until(&mut quiet, until).timed_out() {
                break;
            }
        }
        self.recorder.in_flight()
    }

    /// Everything in order, once: no new sends, those under way end, brokers are told.
    pub(super) fn end(&self, grace: Duration) -> ShutdownReport {
        let (began, grace) = (Instant::now(), bounded_grace(grace));
        if !self.life.begin_end() {
            let until = began + grace.max(MOMENT);
            return self.life.wait(Some(until)).unwrap_or_else(ShutdownReport::requested);
        }
        let lost = self.wait_for_sends(began + grace);
        let left = grace.saturating_sub(began.elapsed()).min(GOODBYE);
        let goodbye = self.instance.leave(MemberKind::Producer, &self.group, began + grace);
        match goodbye.recv_timeout(left) {
            Ok(failures) => failures.iter().for_each(|failure| log::debug!("goodbye: {failure}")),
            Err(error) => log::debug!("no word on the goodbye of producer {}: {error}", self.settings.group),
        }
        let lost_sends = u64::try_from(lost).unwrap_or(u64::MAX);
        let report = ShutdownReport { elapsed: began.elapsed(), lost_sends, ..ShutdownReport::default() };
        log::info!("producer {}: {report}", self.settings.group);
        self.life.ended(report.clone());
        report
    }
}

impl Member for Core {
    fn kind(&self) -> MemberKind {
        MemberKind::Producer
    }

    fn group(&self) -> &str {
        &self.group
    }

    fn consumer_data(&self) -> Option<ConsumerData> {
        None
    }

    fn topics(&self) -> Vec<String> {
        let preloaded = self.settings.preload.iter().map(|topic| self.instance.namespace().topic(topic));
        let promised: Vec<String> = self.promised.lock().keys().map(|topic| topic.to_string()).collect();
        preloaded.chain(promised).collect()
    }

    fn notice(&self, notice: Notice) {
        match notice {
            Notice::RouteChanged(topic) => self.forget_promise(&topic),
            Notice::Request(incoming) => {
                log::debug!(
                    "{} asks for {}, which this producer does not do",
                    incoming.address(),
                    incoming.code()
                );
            }
            _ => {}
        }
    }

    #[cfg(feature = "metrics")]
    fn publish_metrics(&self) {
        super::metrics::publish(self);
    }

    fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.end(grace)
    }
}

/// How long brokers have for their answer to the goodbye.
const GOODBYE: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(500);
