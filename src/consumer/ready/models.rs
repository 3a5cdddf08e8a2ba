use super::*;

#[test]
fn loom_no_queue_is_left_lying_while_a_thread_sleeps() {
    loom::model(|| {
        let born = Instant::now();
        let ready = Arc::new(Ready::<u32>::new(1));
        let other = ready.clone();
        let worker = loom::thread::spawn(move || {
            let parker = Parker::here();
            assert!(matches!(other.next(&parker), Work::Item(7)));
        });
        ready.put(7, born);
        ready.wake(born, Duration::ZERO);
        worker.join().unwrap();
    });
}

#[test]
fn loom_stopping_ends_a_thread_wherever_it_is() {
    loom::model(|| {
        let ready = Arc::new(Ready::<u32>::new(1));
        let other = ready.clone();
        let worker = loom::thread::spawn(move || {
            let parker = Parker::here();
            assert!(matches!(other.next(&parker), Work::End));
        });
        ready.stop();
        worker.join().unwrap();
    });
}

/// A thread of the program, as it polls.
fn poll(ready: &Ready<u32>, is_reached: impl Fn() -> bool) -> Option<u32> {
    let parker = Parker::here();
    loop {
        let rouses = ready.rouses();
        if let Some(queue) = ready.try_next() {
            return Some(queue);
        }
        if ready.is_stopped() || is_reached() {
            return None;
        }
        ready.wait(&parker, rouses, None);
    }
}

#[test]
fn loom_a_polling_thread_hears_of_what_is_not_on_the_list() {
    loom::model(|| {
        let ready = Arc::new(Ready::<u32>::new(0));
        let reached = Arc::new(crate::sync::AtomicBool::new(false));
        let (other, flag) = (ready.clone(), reached.clone());
        let polling = loom::thread::spawn(move || poll(&other, || flag.load(Ordering::Relaxed)));
        reached.store(true, Ordering::Relaxed);
        ready.rouse();
        assert_eq!(polling.join().unwrap(), None);
    });
}

#[test]
fn loom_of_two_polling_threads_one_gets_the_queue_and_both_hear_of_the_end() {
    // Three threads have too many ways to interrupt each other; two interruptions find what can go wrong here.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let born = Instant::now();
        let ready = Arc::new(Ready::<u32>::new(0));
        let polling = [(); 2].map(|()| {
            let ready = ready.clone();
            loom::thread::spawn(move || poll(&ready, || false))
        });
        ready.put(7, born);
        ready.wake(born, Duration::ZERO);
        ready.stop();
        let got = polling.map(|thread| thread.join().unwrap());
        assert!(got.iter().flatten().count() <= 1, "{got:?}");
        assert_eq!(ready.try_next(), None, "after the stop there is nothing");
    });
}

/// The queue is not lost between one that goes to sleep and one that is woken for it and does not want it.
#[test]
fn loom_a_queue_that_is_put_back_is_seen_by_a_polling_thread() {
    loom::model(|| {
        let ready = Arc::new(Ready::<u32>::new(0));
        let other = ready.clone();
        let polling = loom::thread::spawn(move || poll(&other, || false));
        ready.put(7, Instant::now());
        ready.rouse();
        assert_eq!(polling.join().unwrap(), Some(7));
    });
}
