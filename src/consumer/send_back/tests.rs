use super::*;
use crate::consumer::outside::stub::Stub;

/// Those that wait for their turn go on when the address of their broker is lost meanwhile: then they are no longer
/// asked of that broker, and no answer of it would call for the next one.
#[test]
fn nobody_is_left_in_the_queue_of_a_broker_whose_address_is_lost() {
    let core = Stub::new();
    let queue = core.queue();
    let messages = MOST_IN_FLIGHT as u32 + 10;
    let run = Stub::run(&queue, messages);
    let mut backs = SendBacks::<Stub>::new(());
    for index in 0..messages {
        queue.send_back(&run, index);
        let what = SendBack {
            core: core.clone(),
            queue: queue.clone(),
            run: run.clone(),
            index,
            back: Back::Later,
            times: 0,
        };
        backs.begin(what);
    }
    let asked = core.take_sent();
    assert_eq!(asked.len(), MOST_IN_FLIGHT);
    core.lose_brokers();
    asked.iter().for_each(|tag| assert!(backs.answered(*tag, Err("lost".into())).is_none()));
    assert_eq!(core.timers(), messages as usize, "each waits for its next try");
}

/// A broker that takes nothing for hours must not cost memory for each message that failed meanwhile.
#[test]
fn the_failures_of_messages_that_are_finished_are_forgotten() {
    let core = Stub::new();
    let queue = core.queue();
    let mut backs = SendBacks::<Stub>::new(());
    let run = Stub::run(&queue, 100);
    for index in 0..100 {
        fail(&mut backs, &core, &queue, &run, index);
        // Its listener accepts it the second time.
        run.claims.finish(index);
        queue.settle();
    }
    assert!(backs.failures.len() <= 1, "{} are remembered", backs.failures.len());
}

#[test]
fn the_failures_of_a_queue_that_has_ended_are_forgotten_even_if_they_come_late() {
    let core = Stub::new();
    let queue = core.queue();
    let mut backs = SendBacks::<Stub>::new(());
    let run = Stub::run(&queue, 2);
    fail(&mut backs, &core, &queue, &run, 0);
    queue.close();
    backs.forget(queue.id());
    fail(&mut backs, &core, &queue, &run, 1);
    assert!(backs.failures.is_empty());
}

/// Neither way takes it.
fn fail(
    backs: &mut SendBacks<Stub>,
    core: &Arc<Stub>,
    queue: &Arc<ProcessQueue>,
    run: &Arc<Run>,
    index: u32,
) {
    queue.send_back(run, index);
    let (core, queue, run) = (core.clone(), queue.clone(), run.clone());
    backs.begin(SendBack { core: core.clone(), queue, run, index, back: Back::Later, times: 0 });
    while let Some(tag) = core.take_sent().pop() {
        backs.answered(tag, Err("full".into()));
    }
}

/// Its send-back waits for its next try, or is on its way to a broker that takes it or not.
#[test]
fn what_is_accepted_late_is_finished_unless_a_broker_has_it() {
    for (waits, taken) in [(true, false), (false, false), (false, true)] {
        let core = Stub::new();
        let queue = core.queue();
        let mut backs = SendBacks::<Stub>::new(());
        let run = Stub::run(&queue, 1);
        queue.send_back(&run, 0);
        let (back, times, index) = (Back::Level(3), 0, 0);
        backs.begin(SendBack { core: core.clone(), queue: queue.clone(), run, index, back, times });
        let mut out = core.take_sent();
        while waits && let Some(tag) = out.pop() {
            backs.answered(tag, Err("full".into()));
            out.extend(core.take_sent());
        }
        let is_finished = || queue.watermark() > Offset::ZERO;
        backs.accepted_late(queue.id(), Offset::ZERO);
        assert_eq!(is_finished(), waits, "as far as anybody knows");
        assert_eq!(queue.left().repeated, u64::from(!waits), "or it is told");
        for tag in out {
            backs.answered(tag, if taken { Ok(()) } else { Err("full".into()) });
        }
        assert!(is_finished() && core.take_sent().is_empty(), "it does not go another way either");
        assert!(backs.under_way.is_empty() && backs.failures.is_empty());
        assert_eq!(queue.left().repeated, 0);
        backs.accepted_late(queue.id(), Offset::ZERO);
    }
}

#[test]
fn a_wished_delay_becomes_the_next_level_not_below_it() {
    let levels = [1, 5, 10, 30].map(Duration::from_secs);
    for (seconds, level) in [(0, 1), (1, 1), (2, 2), (10, 3), (29, 4), (31, 4), (9999, 4)] {
        let status = ConsumeStatus::ReconsumeAfter(Duration::from_secs(seconds));
        assert_eq!(Back::of(status, &levels), Back::Level(level), "{seconds} s");
    }
    assert_eq!(Back::of(ConsumeStatus::ReconsumeLater, &levels).delay_level(), 0);
    assert_eq!(Back::of(ConsumeStatus::DeadLetter, &levels).delay_level(), -1);
}
