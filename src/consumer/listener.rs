//! The user's code, in one form whichever way it was given.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;

use super::batch::Batch;
use crate::client::{Verdict, panic_text};

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

/// What of a consumer is the user's.
#[derive(Clone)]
pub(crate) struct Code {
    pub(crate) listener: Listener,
    pub(crate) hooks: Vec<Hook>,
}

impl Code {
    /// Lets go of it; whatever it holds ends here if nobody else has it.
    pub(crate) fn end(self, group: &str) {
        let Self { listener, hooks } = self;
        end_of(listener, group);
        hooks.into_iter().for_each(|hook| end_of(hook, group));
    }
}

/// The code that consume threads take with them when they begin. Nobody else keeps any once the consumer has ended, so
/// that it ends with the last of them, on it: not on whichever thread of the library is the last that knows the consumer.
pub(crate) struct CodeStore(Mutex<Option<Code>>);

impl CodeStore {
    pub(crate) fn new(code: Code) -> Self {
        Self(Mutex::new(Some(code)))
    }

    /// For a consume thread; `None` once the consumer has ended.
    pub(crate) fn get(&self) -> Option<Code> {
        self.0.lock().clone()
    }

    /// The consumer has ended.
    pub(crate) fn end(&self, group: &str) {
        let code = self.0.lock().take();
        if let Some(code) = code {
            code.end(group);
        }
    }
}

/// Drops what the user has given. That is the user's code as well, and may panic.
pub(crate) fn end_of<T>(guest: T, group: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(guest))) {
        log::error!("dropping the listener of {group} panicked: {}", panic_text(&*panic));
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
