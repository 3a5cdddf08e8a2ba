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
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared(_) => "Listener::Shared",
            Self::PerThread(_) => "Listener::PerThread",
        })
    }
}
