//! What a shutdown leaves behind.

use std::fmt;
use std::time::Duration;

use super::namespace::Namespace;
use crate::message::MessageQueue;

/// What came of a shutdown. `Display` puts it into one line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct ShutdownReport {
    /// How long the shutdown took.
    pub elapsed: Duration,
    /// Listener calls that were running at the beginning and ended within the grace.
    pub finished: u64,
    /// Messages that were fetched but not begun: the next owner of their queue gets them.
    pub released: u64,
    /// Messages still in a listener when the grace was over, by queue and queue offset.
    pub abandoned: Vec<(MessageQueue, i64)>,
    /// The offset of each queue that a broker (or the local store) has confirmed.
    pub committed: Vec<(MessageQueue, i64)>,
    /// Queues whose last offset was not confirmed, and why.
    pub uncommitted: Vec<(MessageQueue, String)>,
    /// Sends that had no answer yet.
    pub lost_sends: u64,
    /// The shutdown was asked for by code that it has to wait for, so it goes on in the background.
    pub in_background: bool,
}

impl ShutdownReport {
    /// Nothing abandoned, every offset confirmed, no send lost: the next owner sees no duplicate.
    pub fn is_clean(&self) -> bool {
        self.abandoned.is_empty()
            && self.uncommitted.is_empty()
            && self.lost_sends == 0
            && !self.in_background
    }

    /// What a listener gets that shuts down its own consumer: the rest happens when it has returned.
    pub(crate) fn requested() -> Self {
        ShutdownReport { in_background: true, ..ShutdownReport::default() }
    }

    /// Names queues as the program knows them.
    pub(crate) fn without(&mut self, namespace: &Namespace) {
        let with_offset = self.abandoned.iter_mut().chain(&mut self.committed).map(|(queue, _)| queue);
        let all = with_offset.chain(self.uncommitted.iter_mut().map(|(queue, _)| queue));
        all.for_each(|queue| namespace.strip_from(queue));
    }

    /// Adds what another handle left behind; the longer time counts.
    pub(crate) fn merge(&mut self, other: ShutdownReport) {
        self.elapsed = self.elapsed.max(other.elapsed);
        self.finished += other.finished;
        self.released += other.released;
        self.abandoned.extend(other.abandoned);
        self.committed.extend(other.committed);
        self.uncommitted.extend(other.uncommitted);
        self.lost_sends += other.lost_sends;
        self.in_background |= other.in_background;
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.in_background {
            return f.write_str("shutdown requested, goes on in the background");
        }
        let word = if self.is_clean() { "clean" } else { "not clean" };
        write!(
            f,
            "{word} shutdown in {:.1?}: {} running calls finished, {} messages released, {} offsets committed",
            self.elapsed,
            self.finished,
            self.released,
            self.committed.len()
        )?;
        list(f, "abandoned in a listener", &self.abandoned, |f, (queue, offset)| {
            write!(f, "{queue} offset {offset}")
        })?;
        list(f, "offsets not confirmed", &self.uncommitted, |f, (queue, why)| write!(f, "{queue}: {why}"))?;
        if self.lost_sends > 0 {
            write!(f, "; {} sends without an answer", self.lost_sends)?;
        }
        Ok(())
    }
}

/// The number, and the first few of them: a line of a thousand queues helps nobody.
fn list<T>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    items: &[T],
    show: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    write!(f, "; {} {what} (", items.len())?;
    for (at, item) in items.iter().take(SHOWN).enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        show(f, item)?;
    }
    f.write_str(if items.len() > SHOWN { ", …)" } else { ")" })
}

const SHOWN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_one_line() {
        let mut report = ShutdownReport { finished: 2, released: 7, ..ShutdownReport::default() };
        assert!(report.is_clean());
        assert_eq!(
            report.to_string(),
            "clean shutdown in 0.0ns: 2 running calls finished, 7 messages released, 0 offsets committed"
        );
        let queue = MessageQueue::new("orders", "broker-a", 3);
        report.abandoned = (0..5).map(|offset| (queue.clone(), offset)).collect();
        report.uncommitted.push((queue, "timeout".into()));
        assert!(!report.is_clean());
        let text = report.to_string();
        assert!(
            text.contains(
                "5 abandoned in a listener (orders@broker-a:3 offset 0, orders@broker-a:3 offset 1"
            ),
            "{text}"
        );
        assert!(text.contains("1 offsets not confirmed (orders@broker-a:3: timeout)"), "{text}");
        assert!(!text.contains('\n'));
    }

    #[test]
    fn merging_keeps_everything_and_the_longer_time() {
        let mut whole =
            ShutdownReport { elapsed: Duration::from_secs(1), lost_sends: 1, ..Default::default() };
        whole.merge(ShutdownReport { elapsed: Duration::from_secs(2), finished: 3, ..Default::default() });
        assert_eq!((whole.elapsed, whole.finished, whole.lost_sends), (Duration::from_secs(2), 3, 1));
    }

    #[test]
    fn a_shutdown_that_goes_on_in_the_background_is_not_clean_yet() {
        assert!(!ShutdownReport::requested().is_clean());
    }
}
