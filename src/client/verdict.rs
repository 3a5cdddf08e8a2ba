//! What user code says about a message: a status, and the text of its error where there was one.

use std::fmt;
use std::time::Duration;

/// What becomes of a consumed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConsumeStatus {
    /// Done: it does not come again.
    Success,
    /// It comes again later: after the usual delay of its next retry (concurrent), or after `suspend_time`
    /// (orderly). Java: `RECONSUME_LATER`, `SUSPEND_CURRENT_QUEUE_A_MOMENT`.
    ReconsumeLater,
    /// It comes again after at least this long. Concurrent: at the next delay level not below it. Orderly: the
    /// queue waits that long. Java: `delayLevelWhenNextConsume`, `suspendCurrentQueueTimeMillis` of the context.
    ReconsumeAfter(Duration),
    /// It goes to the dead letters of the group at once. Java: `delayLevelWhenNextConsume` −1.
    DeadLetter,
}

/// What becomes of a half message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransactionStatus {
    /// It becomes visible to consumers.
    Commit,
    /// It is dropped.
    Rollback,
    /// Not decided: the broker asks again later. Java: `UNKNOW`.
    Unknown,
}

/// A status with the reason for it.
///
/// User code rarely names this type: it returns a status, `()`, or a `Result` of either, and each becomes a verdict
/// by `into()`. Returning normally means success; an `Err` means "later" (in transactions: unknown) and its text
/// goes to the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Verdict<S = ConsumeStatus> {
    status: S,
    error: Option<Box<str>>,
}

impl<S: Copy> Verdict<S> {
    /// The status itself.
    pub fn status(&self) -> S {
        self.status
    }

    /// The text of the error that led to it, if user code returned one.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}

impl<S: Outcome> Verdict<S> {
    /// What an error with this text (or a panic) amounts to.
    pub(crate) fn failed(error: impl Into<String>) -> Self {
        Verdict { status: S::FAILED, error: Some(error.into().into_boxed_str()) }
    }
}

impl<S: Outcome> From<S> for Verdict<S> {
    fn from(status: S) -> Self {
        Verdict { status, error: None }
    }
}

impl<S: Outcome> From<()> for Verdict<S> {
    fn from((): ()) -> Self {
        Verdict { status: S::DONE, error: None }
    }
}

impl<S: Outcome, T: Into<Verdict<S>>, E: fmt::Display> From<Result<T, E>> for Verdict<S> {
    /// `{:#}` makes error types that know their chain of causes print it.
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(done) => done.into(),
            Err(error) => Verdict::failed(format!("{error:#}")),
        }
    }
}

/// A status that knows what returning normally and what failing mean. Implemented here only.
pub trait Outcome: Copy {
    #[doc(hidden)]
    const DONE: Self;
    #[doc(hidden)]
    const FAILED: Self;
}

impl Outcome for ConsumeStatus {
    const DONE: Self = ConsumeStatus::Success;
    const FAILED: Self = ConsumeStatus::ReconsumeLater;
}

impl Outcome for TransactionStatus {
    const DONE: Self = TransactionStatus::Commit;
    const FAILED: Self = TransactionStatus::Unknown;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(answer: impl Into<Verdict>) -> Verdict {
        answer.into()
    }

    #[test]
    fn everything_a_listener_may_return_is_a_verdict() {
        assert_eq!(of(()).status(), ConsumeStatus::Success);
        assert_eq!(of(ConsumeStatus::DeadLetter).status(), ConsumeStatus::DeadLetter);
        assert_eq!(of(Ok::<_, String>(())).status(), ConsumeStatus::Success);
        let later = ConsumeStatus::ReconsumeAfter(Duration::from_secs(1));
        assert_eq!(of(Ok::<_, String>(later)).status(), later);
        assert_eq!(of(later).error(), None);
        assert_eq!(of(of(later)), of(later));
    }

    #[test]
    fn an_error_means_later_and_keeps_its_text() {
        let failed = of(Err::<(), _>("database is down"));
        assert_eq!(failed.status(), ConsumeStatus::ReconsumeLater);
        assert_eq!(failed.error(), Some("database is down"));
    }

    #[test]
    fn in_a_transaction_normal_return_commits_and_an_error_leaves_it_open() {
        let verdict: Verdict<TransactionStatus> = ().into();
        assert_eq!(verdict.status(), TransactionStatus::Commit);
        let verdict: Verdict<TransactionStatus> = Err::<(), _>("deadlock").into();
        assert_eq!((verdict.status(), verdict.error()), (TransactionStatus::Unknown, Some("deadlock")));
    }
}
