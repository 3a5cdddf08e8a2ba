//! What was asked, by whom, and what came of it.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::SystemTime;

use crate::protocol::{RequestCode, ResponseCode};

/// How many requests are kept; the counts by code go back to the start.
const KEPT: usize = 10_000;

/// One request as the broker saw it. What a request does not have is `None`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestRecord {
    /// When it came, by the broker's clock.
    pub time: SystemTime,
    /// What it asked for.
    pub code: RequestCode,
    /// Where it came from.
    pub client: SocketAddr,
    /// The client's id, if it has said one, in this request or in a heartbeat.
    pub client_id: Option<String>,
    /// The consumer or producer group.
    pub group: Option<String>,
    /// The topic.
    pub topic: Option<String>,
    /// The queue.
    pub queue_id: Option<i32>,
    /// The offset that was asked for or is to be stored.
    pub offset: Option<i64>,
    /// What was answered; `None` for one-way requests, and as long as nothing was.
    pub answer: Option<ResponseCode>,
}

/// The last requests in order, and how many of each code there ever were.
#[derive(Debug, Default)]
pub(crate) struct RequestLog {
    records: VecDeque<RequestRecord>,
    /// The number of the first one kept.
    first: u64,
    counts: BTreeMap<RequestCode, u64>,
}

impl RequestLog {
    /// Adds a request and gives it a number.
    pub(crate) fn add(&mut self, record: RequestRecord) -> u64 {
        *self.counts.entry(record.code).or_default() += 1;
        if self.records.len() >= KEPT {
            self.records.pop_front();
            self.first += 1;
        }
        self.records.push_back(record);
        self.first + self.records.len() as u64 - 1
    }

    pub(crate) fn answered(&mut self, number: u64, code: ResponseCode) {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(record) = index.and_then(|index| self.records.get_mut(index)) {
            record.answer = Some(code);
        }
    }

    pub(crate) fn to_vec(&self) -> Vec<RequestRecord> {
        self.records.iter().cloned().collect()
    }

    pub(crate) fn counts(&self) -> &BTreeMap<RequestCode, u64> {
        &self.counts
    }
}

/// The codes that a rule or a question about `code` also means: sending has three forms, pulling two.
pub(crate) fn forms_of(code: RequestCode) -> &'static [RequestCode] {
    match code {
        RequestCode::SEND_MESSAGE => &[RequestCode::SEND_MESSAGE_V2, RequestCode::SEND_BATCH_MESSAGE],
        RequestCode::PULL_MESSAGE => &[RequestCode::LITE_PULL_MESSAGE],
        _ => &[],
    }
}

#[cfg(test)]
pub(crate) fn record_for_test(code: RequestCode) -> RequestRecord {
    RequestRecord {
        time: SystemTime::UNIX_EPOCH,
        code,
        client: SocketAddr::from(([127, 0, 0, 1], 1)),
        client_id: None,
        group: None,
        topic: None,
        queue_id: None,
        offset: None,
        answer: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_dropped_and_the_counts_stay() {
        let mut log = RequestLog::default();
        for _ in 0..KEPT + 5 {
            log.add(record_for_test(RequestCode::HEART_BEAT));
        }
        let number = log.add(record_for_test(RequestCode::PULL_MESSAGE));
        log.answered(0, ResponseCode::SUCCESS);
        log.answered(number, ResponseCode::PULL_NOT_FOUND);
        log.answered(u64::MAX, ResponseCode::SUCCESS);
        let records = log.to_vec();
        assert_eq!(records.len(), KEPT);
        assert!(records[0].answer.is_none());
        assert_eq!(records[KEPT - 1].answer, Some(ResponseCode::PULL_NOT_FOUND));
        assert_eq!(log.counts()[&RequestCode::HEART_BEAT], KEPT as u64 + 5);
    }
}
