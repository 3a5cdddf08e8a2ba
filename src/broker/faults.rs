//! Trouble on demand: rules that say which request gets which reaction.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::requests::{RequestRecord, forms_of};
use crate::Result;
use crate::clock::from_now;
use crate::error::Error;
use crate::protocol::{RequestCode, ResponseCode};

/// A rule for requests: those that pass all its filters get its reaction. It answers **one** request unless told
/// otherwise, so that tests stay deterministic; of several rules that fit the oldest decides.
///
/// ```
/// use rocketmq_sync::broker::{Fault, Reaction};
/// use rocketmq_sync::{RequestCode, ResponseCode};
///
/// let busy = Reaction::Reply(ResponseCode::SYSTEM_BUSY);
/// let fault = Fault::on(RequestCode::CONSUMER_SEND_MSG_BACK, busy).group("billing").times(3);
/// # let _ = fault;
/// ```
#[derive(Clone)]
#[must_use = "a fault does nothing until a broker has it"]
pub struct Fault {
    code: Option<RequestCode>,
    reaction: Reaction,
    topic: Option<String>,
    queue_id: Option<i32>,
    group: Option<String>,
    client_id: Option<String>,
    when: Option<Predicate>,
    skip: u64,
    /// `None`: for ever.
    times: Option<u64>,
}

/// What happens to a request that a [`Fault`] is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reaction {
    /// It is counted and carried out as usual; later rules still apply.
    Observe,
    /// It is answered with this code and not carried out. Only the codes of a send that is stored but not yet safe
    /// (`FLUSH_DISK_TIMEOUT`, `SLAVE_NOT_AVAILABLE`, `FLUSH_SLAVE_TIMEOUT`) store the message first.
    Reply(ResponseCode),
    /// It is carried out that much later, by real time.
    Delay(Duration),
    /// It is neither carried out nor answered.
    Ignore,
    /// It is not carried out, and the connection is closed.
    Disconnect,
    /// It is carried out; in place of the answer the connection is closed.
    DisconnectAfterwards,
    /// It is carried out, and the answer written so many bytes at a time.
    Trickle {
        /// The size of a piece.
        bytes: usize,
        /// The pause after each.
        every: Duration,
    },
    /// It is carried out; after so many bytes of the answer's frame the connection is closed.
    CutFrame(usize),
    /// It is carried out; the first byte of the answer's body (without one, of its header) is inverted.
    Corrupt,
    /// It is carried out, and answered twice.
    Twice,
    /// It is carried out; the answer belongs to a request that was never made.
    WrongOpaque,
}

type Predicate = Arc<dyn Fn(&RequestRecord) -> bool + Send + Sync>;

impl Fault {
    /// A rule for requests of one code. `SEND_MESSAGE` also means its V2 and batch form, `PULL_MESSAGE` the lite form.
    pub fn on(code: RequestCode, reaction: Reaction) -> Self {
        Self { code: Some(code), ..Self::on_any(reaction) }
    }

    /// A rule for requests of any code.
    pub fn on_any(reaction: Reaction) -> Self {
        Self {
            code: None,
            reaction,
            topic: None,
            queue_id: None,
            group: None,
            client_id: None,
            when: None,
            skip: 0,
            times: Some(1),
        }
    }

    /// Only requests about this topic.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Only requests about queues of this number.
    pub fn queue_id(mut self, id: i32) -> Self {
        self.queue_id = Some(id);
        self
    }

    /// Only requests of this group, or about it.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Only requests of this client, once it has said its id.
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.client_id = Some(id.into());
        self
    }

    /// Only requests for which `predicate` is true. It is called on the broker's thread and must not call the broker.
    pub fn when(mut self, predicate: impl Fn(&RequestRecord) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(predicate));
        self
    }

    /// Lets the first `n` requests pass.
    pub fn skip(mut self, n: u64) -> Self {
        self.skip = n;
        self
    }

    /// For `n` requests; 1 unless said.
    pub fn times(mut self, n: u64) -> Self {
        self.times = Some(n);
        self
    }

    /// Until it is removed.
    pub fn forever(mut self) -> Self {
        self.times = None;
        self
    }

    fn fits(&self, request: &RequestRecord) -> bool {
        let same = |wanted: &Option<String>, is: &Option<String>| wanted.is_none() || wanted == is;
        self.code.is_none_or(|code| code == request.code || forms_of(code).contains(&request.code))
            && same(&self.topic, &request.topic)
            && same(&self.group, &request.group)
            && same(&self.client_id, &request.client_id)
            && (self.queue_id.is_none() || self.queue_id == request.queue_id)
            && self.when.as_ref().is_none_or(|when| ask(when, request))
    }
}

fn ask(when: &Predicate, request: &RequestRecord) -> bool {
    catch_unwind(AssertUnwindSafe(|| when(request))).unwrap_or_else(|_| {
        log::error!("the predicate of a fault panicked; its rule does not apply to {request:?}");
        false
    })
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault")
            .field("code", &self.code)
            .field("reaction", &self.reaction)
            .field("topic", &self.topic)
            .field("queue_id", &self.queue_id)
            .field("group", &self.group)
            .field("client_id", &self.client_id)
            .field("skip", &self.skip)
            .field("times", &self.times)
            .finish_non_exhaustive()
    }
}

/// A rule in force. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct FaultHandle(Arc<Counter>);

#[derive(Debug, Default)]
struct Counter {
    state: Mutex<Count>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Count {
    hits: u64,
    removed: bool,
}

impl FaultHandle {
    /// How many requests got the reaction so far.
    pub fn hits(&self) -> u64 {
        self.0.state.lock().hits
    }

    /// Waits until `n` requests got the reaction.
    ///
    /// # Errors
    /// `Timeout`, with the number of those that did.
    pub fn wait_hits(&self, n: u64, timeout: Duration) -> Result<()> {
        let deadline = from_now(timeout);
        let mut state = self.0.state.lock();
        while state.hits < n {
            if self.0.changed.wait_until(&mut state, deadline).timed_out() && state.hits < n {
                let hits = state.hits;
                return Err(Error::timeout(format!(
                    "{hits} of {n} requests met the fault within {timeout:?}"
                )));
            }
        }
        Ok(())
    }

    /// Takes the rule back.
    pub fn remove(&self) {
        self.0.state.lock().removed = true;
    }
}

/// The rules in force, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    rules: Vec<(Fault, FaultHandle)>,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) -> FaultHandle {
        let handle = FaultHandle(Arc::default());
        self.rules.push((fault, handle.clone()));
        handle
    }

    /// What is to happen to a request; `None` for the usual.
    pub(crate) fn decide(&mut self, request: &RequestRecord) -> Option<Reaction> {
        self.rules.retain(|(fault, handle)| fault.times != Some(0) && !handle.0.state.lock().removed);
        for (fault, handle) in &mut self.rules {
            if !fault.fits(request) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            if fault.times == Some(0) {
                continue;
            }
            fault.times = fault.times.map(|times| times - 1);
            handle.0.state.lock().hits += 1;
            handle.0.changed.notify_all();
            if fault.reaction != Reaction::Observe {
                return Some(fault.reaction.clone());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::requests::record_for_test;
    use super::*;

    fn pull(topic: &str, queue_id: i32) -> RequestRecord {
        let mut record = record_for_test(RequestCode::PULL_MESSAGE);
        (record.topic, record.queue_id, record.group) =
            (Some(topic.into()), Some(queue_id), Some("g".into()));
        record
    }

    #[test]
    fn a_rule_answers_once_unless_told_otherwise() {
        let mut faults = Faults::default();
        let once = faults.add(Fault::on(RequestCode::PULL_MESSAGE, Reaction::Ignore));
        assert_eq!(faults.decide(&pull("t", 0)), Some(Reaction::Ignore));
        assert_eq!(faults.decide(&pull("t", 0)), None);
        assert_eq!(once.hits(), 1);
        let some = faults.add(Fault::on_any(Reaction::Twice).skip(1).times(2));
        let reactions: Vec<_> = (0..4).map(|_| faults.decide(&pull("t", 0)).is_some()).collect();
        assert_eq!((reactions.as_slice(), some.hits()), (&[false, true, true, false][..], 2));
        assert!(faults.rules.len() <= 1);
    }

    #[test]
    fn every_filter_must_fit() {
        let fault = Fault::on(RequestCode::PULL_MESSAGE, Reaction::Corrupt)
            .topic("t")
            .queue_id(2)
            .group("g")
            .when(|request| request.offset.is_none())
            .forever();
        let mut faults = Faults::default();
        let handle = faults.add(fault);
        assert!(faults.decide(&pull("t", 2)).is_some());
        assert!(faults.decide(&pull("t", 1)).is_none() && faults.decide(&pull("u", 2)).is_none());
        assert!(faults.decide(&RequestRecord { offset: Some(1), ..pull("t", 2) }).is_none());
        assert!(faults.decide(&RequestRecord { code: RequestCode::HEART_BEAT, ..pull("t", 2) }).is_none());
        assert!(
            faults.decide(&RequestRecord { code: RequestCode::LITE_PULL_MESSAGE, ..pull("t", 2) }).is_some()
        );
        handle.remove();
        assert!(faults.decide(&pull("t", 2)).is_none());
        assert_eq!(handle.hits(), 2);
    }

    #[test]
    fn observers_let_later_rules_decide() {
        let mut faults = Faults::default();
        let seen = faults.add(Fault::on_any(Reaction::Observe).forever());
        faults.add(Fault::on_any(Reaction::Disconnect).when(|_| panic!("on purpose")).forever());
        faults.add(Fault::on_any(Reaction::Ignore));
        assert_eq!(faults.decide(&pull("t", 0)), Some(Reaction::Ignore));
        assert_eq!(seen.hits(), 1);
        assert!(seen.wait_hits(1, Duration::ZERO).is_ok());
        assert!(seen.wait_hits(2, Duration::ZERO).unwrap_err().to_string().contains("1 of 2"));
    }
}
