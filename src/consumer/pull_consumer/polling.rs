//! What a consumer knows beside its core when threads of the program poll: the program's wishes, which the loops look
//! up, and what the loops have to say, which the polling threads look up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::consumer::failure::Failure;
use crate::consumer::offset::Offset;
use crate::consumer::process_queue::ProcessQueue;
use crate::error::Error;
use crate::message::MessageQueue;

/// Where the program keeps its own offsets: `None` if it has none of this queue.
pub(in crate::consumer) type StartOffset =
    Arc<dyn Fn(&MessageQueue) -> Result<Option<i64>, String> + Send + Sync>;

/// The queues that a program reads whatever others do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assigned {
    /// All queues of these, new ones too.
    pub(crate) topics: BTreeSet<Arc<str>>,
    pub(crate) queues: BTreeSet<MessageQueue>,
}

impl Assigned {
    /// Every topic that something is read of.
    pub(crate) fn all_topics(&self) -> BTreeSet<Arc<str>> {
        let of_queues = self.queues.iter().map(|queue| queue.shared_topic().clone());
        self.topics.iter().cloned().chain(of_queues).collect()
    }
}

/// How it stands with a queue.
#[derive(Clone, Debug)]
pub(crate) enum Standing {
    /// It is ours now.
    Wanted,
    /// Its start position is known.
    Found,
    /// Its start position could not be found out; it is tried again.
    Failing(Failure),
    /// It is not ours any more. `lost`: the program did not commit what it got of it.
    Gone {
        /// See above.
        lost: bool,
    },
}

/// A queue whose start only the program knows.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) queue: MessageQueue,
    /// Which life of it.
    pub(crate) epoch: u64,
}

/// See above. Every lock is held for a look-up.
pub(crate) struct Polling {
    auto_commit: bool,
    /// `None` for a member of the group.
    assigned: Option<Mutex<Assigned>>,
    start_offset: Option<StartOffset>,
    paused: Mutex<BTreeSet<MessageQueue>>,
    /// The queues that it has, and what is wrong with those that have no start position.
    held: Mutex<BTreeMap<MessageQueue, Option<Failure>>>,
    /// Queues that went to others before the program had committed.
    lost: Mutex<Vec<MessageQueue>>,
    /// Messages that cannot be read, to be told by the next poll.
    unread: Mutex<VecDeque<Error>>,
    /// Queues of which messages were handed out since the last poll began.
    handed: Mutex<Vec<Arc<ProcessQueue>>>,
}

impl Polling {
    pub(super) fn new(auto_commit: bool, assigned: Option<Assigned>, own: Option<StartOffset>) -> Self {
        Self {
            auto_commit,
            assigned: assigned.map(Mutex::new),
            start_offset: own,
            paused: Mutex::default(),
            held: Mutex::default(),
            lost: Mutex::default(),
            unread: Mutex::default(),
            handed: Mutex::default(),
        }
    }

    /// Whether what was handed out is committed without being asked to.
    pub(crate) fn commits_by_itself(&self) -> bool {
        self.auto_commit
    }

    pub(crate) fn is_assigning(&self) -> bool {
        self.assigned.is_some()
    }

    pub(crate) fn assigned(&self) -> Option<Assigned> {
        self.assigned.as_ref().map(|assigned| assigned.lock().clone())
    }

    pub(super) fn assign(&self, what: Assigned) {
        if let Some(assigned) = &self.assigned {
            *assigned.lock() = what;
        }
    }

    pub(in crate::consumer) fn start_offset(&self) -> Option<&StartOffset> {
        self.start_offset.as_ref()
    }

    pub(crate) fn is_paused(&self, queue: &MessageQueue) -> bool {
        self.paused.lock().contains(queue)
    }

    pub(super) fn pause(&self, queues: impl Iterator<Item = MessageQueue>) {
        self.paused.lock().extend(queues);
    }

    pub(super) fn resume(&self, queues: impl Iterator<Item = MessageQueue>) {
        let mut paused = self.paused.lock();
        for queue in queues {
            paused.remove(&queue);
        }
    }

    pub(crate) fn note(&self, queue: &MessageQueue, standing: Standing) {
        let mut held = self.held.lock();
        match standing {
            Standing::Wanted | Standing::Found => drop(held.insert(queue.clone(), None)),
            Standing::Failing(failure) => {
                if let Some(known) = held.get_mut(queue) {
                    *known = Some(failure);
                }
            }
            Standing::Gone { lost } => {
                held.remove(queue);
                drop(held);
                if lost {
                    self.lost.lock().push(queue.clone());
                }
            }
        }
    }

    /// Every queue that it has, with what is wrong with its start position.
    pub(super) fn held(&self) -> BTreeMap<MessageQueue, Option<Failure>> {
        self.held.lock().clone()
    }

    pub(super) fn holds(&self, queue: &MessageQueue) -> bool {
        self.held.lock().contains_key(queue)
    }

    pub(super) fn take_lost(&self) -> Vec<MessageQueue> {
        std::mem::take(&mut self.lost.lock())
    }

    pub(super) fn cannot_read(&self, queue: &MessageQueue, offset: Offset, why: impl fmt::Display) {
        let text =
            format!("the message at offset {offset} of {queue} cannot be read and is passed over: {why}");
        log::error!("{text}");
        self.unread.lock().push_back(Error::new(crate::error::ErrorKind::Protocol, text));
    }

    pub(super) fn take_unread(&self) -> Option<Error> {
        self.unread.lock().pop_front()
    }

    pub(super) fn note_handed(&self, queue: &Arc<ProcessQueue>) {
        let mut handed = self.handed.lock();
        if !handed.iter().any(|known| Arc::ptr_eq(known, queue)) {
            handed.push(queue.clone());
        }
    }

    pub(super) fn take_handed(&self) -> Vec<Arc<ProcessQueue>> {
        std::mem::take(&mut self.handed.lock())
    }
}

impl fmt::Debug for Polling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Polling(auto_commit {}, {:?})", self.auto_commit, self.assigned)
    }
}
