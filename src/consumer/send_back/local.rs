//! Failed messages of a broadcasting consumer. No broker takes them back, since every member would get them again: they
//! are tried again here, and then given up.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Back, LONGEST_WAIT, SendBack, SendBacks, Stage, UnderWay};
use crate::consumer::events::Event;
use crate::consumer::outside::Outside;
use crate::consumer::timer_loop::{Due, TimerEvent};

impl<S: Outside> SendBacks<S> {
    /// The listener sees it again later, if it may; until then it pins the offset of its queue.
    pub(super) fn keep_here(&mut self, what: SendBack<S>) {
        let core = what.core.clone();
        let never_again = matches!(what.back, Back::DeadLetter | Back::Exhausted);
        if never_again || what.times >= core.settings().max_reconsume_times {
            return give_up(&what);
        }
        self.next += 1;
        let id = self.next;
        let delay = delay(what.back, what.times, &core.settings().delay_levels);
        let settled = what.queue.wait_for_retry();
        core.settled(&what.queue, settled);
        self.under_way.insert(id, UnderWay { what, stage: Stage::Waiting, tries: 0, accepted: false });
        core.post_timer(TimerEvent::At(core.now() + delay, Due::Retry(id)));
    }
}

fn give_up<S: Outside>(what: &SendBack<S>) {
    let core = &what.core;
    core.totals().given_up.fetch_add(1, Ordering::Relaxed);
    if let Some(mut view) = what.run.view(what.index) {
        view.set_reconsume_times(what.times);
        let (id, queue, times) = (view.message_id(), what.queue.queue(), what.times);
        log::warn!("message {id} of {queue} is given up by {} after {times} retries", core.plain_group());
        core.emit(Event::GivenUp { message: view.detached() });
    }
    let settled = what.queue.sent_back(&what.run, what.index);
    core.settled(&what.queue, settled);
}

/// As the listener wished, else ever more slowly.
fn delay(back: Back, times: u32, levels: &[Duration]) -> Duration {
    let wished = match back {
        Back::Level(level) => {
            usize::try_from(level).ok().and_then(|level| levels.get(level.saturating_sub(1)))
        }
        Back::Later | Back::DeadLetter | Back::Exhausted => None,
    };
    wished.copied().unwrap_or_else(|| FIRST_RETRY.saturating_mul(1 << times.min(8)).min(LONGEST_WAIT))
}

const FIRST_RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_come_ever_more_slowly_unless_the_listener_wished_otherwise() {
        let levels = [1, 5, 10].map(Duration::from_secs);
        for (back, times, seconds) in [
            (Back::Later, 0, 1),
            (Back::Later, 1, 2),
            (Back::Later, 5, 32),
            (Back::Later, 9, 60),
            (Back::Level(2), 7, 5),
            (Back::Level(9), 0, 1),
        ] {
            assert_eq!(delay(back, times, &levels), Duration::from_secs(seconds), "{back:?}, {times}");
        }
    }
}
