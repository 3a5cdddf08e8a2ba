use super::*;
use std::sync::mpsc;
use std::thread;

fn worker(ready: &Arc<Ready<u32>>, seen: &mpsc::Sender<Option<u32>>) -> thread::JoinHandle<()> {
    let (ready, seen) = (ready.clone(), seen.clone());
    thread::spawn(move || {
        let parker = Parker::here();
        loop {
            let work = match ready.next(&parker) {
                Work::Item(queue) => Some(queue),
                Work::End => None,
            };
            if seen.send(work).is_err() || work.is_none() {
                return;
            }
        }
    })
}

fn wait_idle(ready: &Ready<u32>, idle: usize) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while ready.threads().1 != idle {
        assert!(Instant::now() < deadline, "never {idle} idle threads");
        thread::yield_now();
    }
}

#[test]
fn nobody_awake_means_somebody_is_woken() {
    let ready = Arc::new(Ready::new(1));
    let (seen, saw) = mpsc::channel();
    let thread = worker(&ready, &seen);
    wait_idle(&ready, 1);
    ready.put(7, Instant::now());
    assert!(!ready.wake(Instant::now(), Duration::ZERO).again);
    assert_eq!(saw.recv_timeout(Duration::from_secs(10)), Ok(Some(7)));
    ready.stop();
    thread.join().unwrap();
    assert_eq!(saw.recv(), Ok(None));
}

#[test]
fn a_second_thread_is_woken_for_much_work_or_an_old_message_only() {
    let ready = Arc::new(Ready::<u32>::new(2));
    let (seen, _saw) = mpsc::channel();
    let threads = [worker(&ready, &seen), worker(&ready, &seen)];
    wait_idle(&ready, 2);
    // One of them is awake, as if inside a listener.
    let busy = ready.state.lock().idle.pop().unwrap();
    let now = Instant::now();
    ready.state.lock().queues.push_back((1, now));
    ready.came(10);
    let rule = ready.wake(now, Duration::from_micros(1));
    assert!(rule.again, "10 µs of work wake nobody, but somebody looks again");
    assert_eq!(ready.threads().1, 1);
    ready.wake(now, Duration::from_micros(50));
    wait_idle(&ready, 1);
    ready.went(10);
    let later = Instant::now();
    ready.state.lock().queues.push_back((2, later));
    assert!(ready.wake(later, Duration::ZERO).again);
    assert!(!ready.wake(later + LOOK_AGAIN, Duration::ZERO).again, "an old message wakes");
    busy.unpark();
    ready.stop();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_queue_put_back_is_looked_after_though_nobody_was_idle_when_its_messages_came() {
    let ready = Arc::new(Ready::<u32>::new(2));
    let now = Instant::now();
    ready.put(1, now);
    ready.came(2);
    assert!(!ready.wake(now, Duration::ZERO).again, "nobody is idle: the pull thread stops looking");
    let busy = Parker::here();
    assert!(matches!(ready.next(&busy), Work::Item(1)));
    let (seen, saw) = mpsc::channel();
    let thread = worker(&ready, &seen);
    wait_idle(&ready, 1);
    ready.put(1, now);
    assert!(ready.wake_in_passing(now, Duration::ZERO).again, "somebody must look again");
    assert!(!ready.wake_in_passing(now, Duration::ZERO).again, "and has been told to");
    assert!(!ready.wake(now + LOOK_AGAIN, Duration::ZERO).again);
    assert_eq!(saw.recv_timeout(Duration::from_secs(10)), Ok(Some(1)));
    ready.stop();
    thread.join().unwrap();
}

#[test]
fn threads_that_could_not_be_started_are_not_counted() {
    let ready = Ready::<u32>::new(1);
    assert_eq!(ready.resize(5), 4);
    ready.not_started(3);
    assert_eq!(ready.threads(), (2, 0));
    assert_eq!(ready.resize(5), 3);
}

#[test]
fn after_the_stop_nothing_is_taken_whoever_puts_it_there() {
    let ready = Ready::<u32>::new(0);
    ready.stop();
    ready.put(7, Instant::now());
    assert_eq!(ready.try_next(), None);
}

#[test]
fn p7_the_number_of_threads_is_exact() {
    let ready = Arc::new(Ready::<u32>::new(3));
    let (seen, saw) = mpsc::channel();
    let threads: Vec<_> = (0..3).map(|_| worker(&ready, &seen)).collect();
    wait_idle(&ready, 3);
    assert_eq!(ready.resize(1), 0);
    for _ in 0..2 {
        assert_eq!(saw.recv_timeout(Duration::from_secs(10)), Ok(None));
    }
    assert_eq!(ready.threads(), (1, 1));
    assert_eq!(ready.resize(4), 3);
    ready.stop();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
