//! The threads of a client: named, counted, and none ends without a word.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

/// The threads that a client runs at present, by name.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    running: Mutex<Vec<String>>,
}

impl Threads {
    pub(crate) fn running(&self) -> usize {
        self.running.lock().len()
    }

    /// In the order in which they were started.
    pub(crate) fn names(&self) -> Vec<String> {
        self.running.lock().clone()
    }

    /// Starts a thread of the library. If it panics, that is logged; who depends on it notices that its channel
    /// is gone.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let alive = Alive::new(self.clone(), name);
        let title = name.to_owned();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _alive = alive;
            IS_OURS.set(true);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
                log::error!("thread {title} ended by a panic: {}", panic_text(&*panic));
            }
        })
    }
}

/// Whether the present thread is one of the library's: user code that runs here must not wait for the library.
pub(crate) fn on_library_thread() -> bool {
    IS_OURS.get()
}

/// The text of a panic, where it has one.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}

thread_local! {
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

/// Counts from before the thread runs until it has ended, or could not be started.
struct Alive {
    threads: Arc<Threads>,
    name: String,
}

impl Alive {
    fn new(threads: Arc<Threads>, name: &str) -> Self {
        let name = name.to_owned();
        threads.running.lock().push(name.clone());
        Alive { threads, name }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        let mut running = self.threads.running.lock();
        // Which of several of one name makes no difference: they are only shown.
        if let Some(at) = running.iter().position(|name| *name == self.name) {
            running.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;

    #[test]
    fn threads_are_counted_while_they_run_and_know_that_they_are_ours() {
        let threads = Arc::new(Threads::default());
        let (go, wait) = bounded::<()>(0);
        let (tell, told) = bounded(1);
        let thread = threads
            .spawn("rmq-test", move || {
                tell.send((on_library_thread(), thread::current().name().map(str::to_owned))).unwrap();
                wait.recv().ok();
            })
            .unwrap();
        assert_eq!(told.recv().unwrap(), (true, Some("rmq-test".to_owned())));
        assert_eq!((threads.running(), threads.names()), (1, vec!["rmq-test".to_owned()]));
        drop(go);
        thread.join().unwrap();
        assert_eq!(threads.running(), 0);
        assert!(!on_library_thread());
    }

    #[test]
    fn a_panic_ends_the_thread_and_nothing_else() {
        let threads = Arc::new(Threads::default());
        threads.spawn("rmq-test", || panic!("on purpose")).unwrap().join().unwrap();
        assert_eq!(threads.running(), 0);
    }
}
