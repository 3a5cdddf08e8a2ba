//! The user's code, in one form whichever way it was given.

use std::fmt;
use std::sync::Arc;

use super::batch::Batch;
use crate::client::Verdict;

/// What a consume thread calls.
pub(crate) type Call = Box<dyn FnMut(&Batch) -> Verdict>;

/// Where a consume thread gets its listener from.
#[derive(Clone)]
pub(crate) enum Listener {
    /// One for all threads.
    Shared(Arc<dyn Fn(&Batch) -> Verdict + Send + Sync>),
    /// Made on each thread, with its number; it need not be `Send`.
    PerThread(Arc<dyn Fn(usize) -> Call + Send + Sync>),
    /// Nobody is called: threads of the program poll.
    Polled,
}

impl Listener {
    /// The listener of the calling thread. Runs user code if it is made per thread.
    pub(crate) fn make(&self, thread: usize) -> Call {
        match self {
            Self::Shared(listener) => {
                let listener = listener.clone();
                Box::new(move |batch| listener(batch))
            }
            Self::PerThread(make) => make(thread),
            Self::Polled => Box::new(|_| Verdict::failed("messages of this consumer are polled")),
        }
    }
}

/// User code around the listener.
pub(crate) type Hook = Arc<dyn Fn(&Batch, Next<'_>) -> Verdict + Send + Sync>;

/// The rest of the chain of hooks, with the listener at its end.
pub struct Next<'a> {
    batch: &'a Batch,
    hooks: &'a [Hook],
    listener: &'a mut Call,
}

impl<'a> Next<'a> {
    pub(super) fn new(batch: &'a Batch, hooks: &'a [Hook], listener: &'a mut Call) -> Self {
        Self { batch, hooks, listener }
    }

    /// Calls the next hook, or the listener if there is none. A hook that does not call it answers in its place.
    pub fn run(self) -> Verdict {
        match self.hooks.split_first() {
            Some((hook, rest)) => hook(self.batch, Next { hooks: rest, ..self }),
            None => (self.listener)(self.batch),
        }
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Next({} hooks)", self.hooks.len())
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared(_) => "Listener::Shared",
            Self::PerThread(_) => "Listener::PerThread",
            Self::Polled => "Listener::Polled",
        })
    }
}
