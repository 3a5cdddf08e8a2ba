//! Message trace: who sent and consumed which message when, in the form that the official console and `mqadmin
//! queryMsgTraceById` read, stored in a topic of its own.
//!
//! Whoever sends or consumes leaves a record in a bounded queue and goes on; `rmq-trace` stores them, many in one
//! message. A queue that is full takes no more: a record that is missing does less harm than a listener that waits.

mod parcel;
mod records;
mod sender;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_channel::{Sender, bounded, unbounded};
use parking_lot::Mutex;

use crate::error::{Error, Result};

use super::instance::Instance;
use sender::{TraceLoop, Wake};

pub(crate) use records::{Consumed, Consuming, Kind, Record, Sent};

/// Takes the records of one client.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// Its name on the servers.
    topic: String,
    queue: Mutex<Queue>,
    /// At most one wake-up of each kind is in it: the first record of a queue that was empty, the one that fills half
    /// of it, and the end.
    wakes: Sender<Wake>,
    /// Records that were dropped or could not be stored. The client keeps it when this is gone.
    lost: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Queue {
    records: Vec<Record>,
    bytes: usize,
    /// It has been full, and that was said, since it was taken last.
    was_full: bool,
}

impl Instance {
    /// Where traces go, if they are wanted.
    ///
    /// # Errors
    /// `Io` if the thread cannot be started.
    pub(crate) fn tracer(self: &Arc<Self>) -> Result<Option<Arc<Tracer>>> {
        match self.config.trace_topic.clone() {
            Some(topic) => self.extension(|| Tracer::start(self, topic)).map(Some),
            None => Ok(None),
        }
    }
}

impl Tracer {
    fn start(instance: &Arc<Instance>, topic: String) -> Result<Arc<Self>> {
        let ((wakes, woken), (end, ended)) = (unbounded(), bounded::<()>(0));
        let tracer =
            Arc::new(Tracer { topic, queue: Mutex::default(), wakes, lost: instance.lost_traces().clone() });
        let trace_loop = TraceLoop::new(instance.clone(), tracer.clone());
        let thread = instance.spawn("rmq-trace", move || {
            trace_loop.run(&woken);
            drop(end);
        });
        let thread = thread.map_err(|error| Error::io("cannot start thread rmq-trace", error))?;
        let (ending, owner) = (tracer.wakes.clone(), instance.clone());
        instance.on_last_shutdown(Box::new(move |grace| {
            let until = Instant::now() + grace;
            let _ = ending.send(Wake::End(until));
            // Nothing comes through it but the end of the thread, with which its sender goes.
            let _ = ended.recv_deadline(until);
            // If it still waits for a broker, that ends when the connections close.
            owner.join_after_close(thread);
        }));
        Ok(tracer)
    }

    /// Whether messages of this topic, as the wire has it, are traced: those that hold traces are not.
    pub(crate) fn is_for(&self, topic: &str) -> bool {
        topic != self.topic
    }

    /// Leaves a record. Never waits; drops it when too many are waiting.
    pub(crate) fn add(&self, record: Record) {
        let mut queue = self.queue.lock();
        if queue.records.len() >= MOST_RECORDS || queue.bytes + record.len() > MOST_BYTES {
            let said = std::mem::replace(&mut queue.was_full, true);
            drop(queue);
            self.lose(1);
            if !said {
                log::warn!("traces come faster than they can be stored: some are dropped");
            }
            return;
        }
        queue.bytes += record.len();
        queue.records.push(record);
        let wake = match queue.records.len() {
            1 => Some(Wake::Begun),
            HALF => Some(Wake::Hurry),
            _ => None,
        };
        drop(queue);
        if let Some(wake) = wake {
            // After the end nobody stores traces any more.
            let _ = self.wakes.send(wake);
        }
    }

    fn take(&self) -> Vec<Record> {
        std::mem::take(&mut *self.queue.lock()).records
    }

    fn lose(&self, records: u64) {
        self.lost.fetch_add(records, Ordering::Relaxed);
    }
}

/// Of consumption at full speed, about a tenth of a second.
const MOST_RECORDS: usize = 8192;
const HALF: usize = MOST_RECORDS / 2;
const MOST_BYTES: usize = 8 << 20;
