//! Looks for threads that wait for each other, and for calls that do not return.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::deadlock::check_deadlock;

/// Longer than any call takes on a loaded machine: each of them has a deadline of its own, at most 10 s.
const LONGEST: Duration = Duration::from_secs(90);

/// What threads are doing.
#[derive(Default)]
pub struct Watched {
    calls: Mutex<Vec<Call>>,
    pub over: AtomicBool,
}

#[derive(Clone, Debug, PartialEq)]
struct Call {
    what: &'static str,
    thread: String,
    since: Instant,
}

impl Watched {
    pub fn call<R>(&self, what: &'static str, body: impl FnOnce() -> R) -> R {
        let thread = thread::current().name().unwrap_or_default().to_owned();
        let call = Call { what, thread, since: Instant::now() };
        self.calls.lock().unwrap().push(call.clone());
        let result = body();
        self.calls.lock().unwrap().retain(|other| *other != call);
        result
    }

    fn longest(&self) -> Option<Call> {
        self.calls.lock().unwrap().iter().min_by_key(|call| call.since).cloned()
    }
}

/// Until it is over. Whoever is found waits for ever, so that the process has to be ended.
pub fn run(watched: &Watched) {
    while !watched.over.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(100));
        let circles = check_deadlock();
        for circle in &circles {
            println!("a deadlock of {} threads:", circle.len());
            for waiting in circle {
                println!("  {:?}:", waiting.thread_id());
                ours(&format!("{:?}", waiting.backtrace())).for_each(|line| println!("    {line}"));
            }
        }
        let late = watched.longest().filter(|call| call.since.elapsed() > LONGEST);
        if let Some(call) = &late {
            println!("{} of {} has not returned for {LONGEST:?}", call.what, call.thread);
        }
        if late.is_some() || !circles.is_empty() {
            println!("threads: {}", threads().join(", "));
            std::process::exit(101);
        }
    }
}

/// The functions of the library and of this test, and where they stand. That of the thread itself comes last.
fn ours(backtrace: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<&str> = backtrace.lines().map(str::trim).collect();
    let ours = |line: &str| {
        ["rocketmq_sync", "stress::", "/src/", "/tests/"].iter().any(|part| line.contains(part))
            && !line.contains("/.cargo/")
            && !line.contains("/rustc/")
            && !line.contains("std::thread")
    };
    lines.into_iter().filter(move |line| ours(line))
}

/// The names of all threads, and what each waits for in the kernel, where it tells.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let text = |task: &std::fs::DirEntry, file: &str| {
        std::fs::read_to_string(task.path().join(file)).unwrap_or_default().trim().to_owned()
    };
    tasks.map(|task| format!("{} ({})", text(&task, "comm"), text(&task, "wchan"))).collect()
}
