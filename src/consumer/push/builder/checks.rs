//! What a program has said of a consumer, checked, and in the form that the loops want.

use std::collections::BTreeMap;

use super::{MAX_RECONSUME_TIMES, PushConsumerBuilder};
use crate::consumer::local::LocalOffsets;
use crate::consumer::settings::{InOrder, Settings};
use crate::error::Mistake;
use crate::message::{ConsumeFrom, Filter, Subscription, group_problem, is_reserved_group, topic_problem};

impl PushConsumerBuilder {
    /// Where a broadcasting consumer keeps its offsets.
    pub(in crate::consumer) fn place_of_offsets(&self) -> Option<LocalOffsets> {
        let local = || self.local_offsets.clone().or_else(LocalOffsets::standard);
        self.settings.is_broadcasting().then(local).flatten()
    }

    /// What is wrong with that.
    pub(in crate::consumer) fn check_offsets(&self, mistakes: &mut Vec<Mistake>) {
        if self.settings.is_broadcasting() && self.place_of_offsets().is_none() {
            let problem = "no home directory is known to keep them in: set a directory";
            mistakes.push(Mistake::new("local_offsets", problem));
        }
    }

    /// The settings, in the form that the loops want. Checked before.
    pub(in crate::consumer) fn settings(&self) -> Settings {
        let mut settings = self.settings.clone();
        settings.max_reconsume_times =
            self.max_reconsume_times.unwrap_or(if self.in_order { u32::MAX } else { MAX_RECONSUME_TIMES });
        settings.order = self
            .in_order
            .then_some(InOrder { suspend_time: self.suspend_time, locks: !settings.is_broadcasting() });
        settings.consume_batch_size = u32::try_from(self.consume_batch_size).unwrap_or(1);
        settings.pull_batch_size = i32::try_from(self.pull_batch_size).unwrap_or(i32::MAX);
        settings.pull_batch_bytes = i32::try_from(self.pull_batch_bytes).unwrap_or(i32::MAX);
        settings
    }

    /// The subscriptions by topic as the program named it, and all mistakes.
    pub(super) fn check(&self) -> (BTreeMap<String, Filter>, Vec<Mistake>) {
        let mut mistakes = self.choice.mistakes();
        let mut note = |setting, problem: String| mistakes.push(Mistake::new(setting, problem));
        if let Some(problem) = group_problem(&self.group) {
            note("group", problem);
        } else if is_reserved_group(&self.group) {
            note("group", format!("{} is reserved for RocketMQ itself: choose another name", self.group));
        }
        match self.modes {
            0 => note("consume_concurrently", no_listener().problem),
            1 => {}
            _ => note("consume_concurrently", "several listeners are given: choose one".into()),
        }
        let topics = check_topics("subscribe", &self.subscriptions, &mut mistakes);
        if topics.is_empty() {
            mistakes.push(Mistake::new("subscribe", "no topic is subscribed"));
        }
        self.check_offsets(&mut mistakes);
        self.check_numbers(&mut mistakes);
        (topics, mistakes)
    }

    pub(in crate::consumer) fn check_numbers(&self, mistakes: &mut Vec<Mistake>) {
        let settings = &self.settings;
        let mut within = |setting, value: u128, least: u128, most: u128, unit: &str| {
            if !(least..=most).contains(&value) {
                let problem = format!("{value}{unit} is not between {least} and {most}{unit}");
                mistakes.push(Mistake::new(setting, problem));
            }
        };
        within("consume_threads", settings.consume_threads as u128, 1, 1000, "");
        within("consume_batch_size", self.consume_batch_size as u128, 1, 1024, "");
        within("pull_batch_size", self.pull_batch_size as u128, 1, 1024, "");
        within("pull_batch_bytes", self.pull_batch_bytes as u128, 1, 128 << 20, " bytes");
        within("pull_interval", settings.pull_interval.as_millis(), 0, 65_535, " ms");
        within("pull_threshold_messages", settings.pull_threshold_messages as u128, 1, 65_535, "");
        within("pull_threshold_bytes", settings.pull_threshold_bytes as u128, 1, 1 << 30, " bytes");
        within("max_span", settings.max_span as u128, 1, 65_535, "");
        within("commit_interval", settings.commit_interval.as_millis(), 100, u128::MAX, " ms");
        within("consume_timeout", settings.consume_timeout.as_millis(), 1, u128::MAX, " ms");
        let most_times = u128::from(self.max_reconsume_times.unwrap_or(MAX_RECONSUME_TIMES));
        within("max_reconsume_times", most_times, 0, i32::MAX as u128, "");
        within("suspend_time", self.suspend_time.as_millis(), 10, 30_000, " ms");
        within("delay_levels", settings.delay_levels.len() as u128, 1, 64, " levels");
        if let ConsumeFrom::Offset(offset) = settings.consume_from
            && offset < 0
        {
            mistakes.push(Mistake::new("consume_from", format!("{offset} is negative")));
        }
    }
}

/// Topics with their filters; `setting` is where they were given.
pub(in crate::consumer) fn check_topics(
    setting: &'static str,
    given: &[(String, Filter)],
    mistakes: &mut Vec<Mistake>,
) -> BTreeMap<String, Filter> {
    let mut note = |problem: String| mistakes.push(Mistake::new(setting, problem));
    let mut topics = BTreeMap::new();
    for (topic, filter) in given {
        if let Some(problem) = topic_problem(topic) {
            note(problem);
        }
        if let Err(problem) = Subscription::parse(topic.as_str(), filter, 0) {
            note(format!("topic {topic}: {problem}"));
        }
        if topics.insert(topic.clone(), filter.clone()).is_some() {
            note(format!("topic {topic} is given twice: join the filters with ||"));
        }
    }
    topics
}

pub(super) fn no_listener() -> Mistake {
    Mistake::new("consume_concurrently", "no listener is given: messages would be fetched and never consumed")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::ErrorKind;

    fn valid() -> PushConsumerBuilder {
        PushConsumerBuilder::new("billing".into())
            .name_servers("127.0.0.1:9876")
            .subscribe("orders", "*")
            .consume_concurrently(|_| ())
    }

    fn mistakes(builder: PushConsumerBuilder) -> Vec<&'static str> {
        builder.check().1.iter().map(|mistake| mistake.setting).collect()
    }

    #[test]
    fn each_bad_setting_is_named() {
        let table: [(&str, PushConsumerBuilder); 19] = [
            ("group", PushConsumerBuilder { group: "no spaces".into(), ..valid() }),
            ("group", PushConsumerBuilder { group: "DEFAULT_CONSUMER".into(), ..valid() }),
            ("subscribe", valid().subscribe("orders", "a")),
            ("subscribe", valid().subscribe("bad topic", "*")),
            ("subscribe", valid().subscribe("stock", "||")),
            ("consume_concurrently", valid().consume_concurrently(|_| ())),
            ("consume_concurrently", valid().consume_orderly(|_| ())),
            ("suspend_time", valid().suspend_time(Duration::from_millis(9))),
            ("suspend_time", valid().suspend_time(Duration::from_secs(31))),
            ("consume_threads", valid().consume_threads(0)),
            ("consume_threads", valid().consume_threads(1001)),
            ("consume_batch_size", valid().consume_batch_size(0)),
            ("pull_batch_size", valid().pull_batch_size(1025)),
            ("pull_interval", valid().pull_interval(Duration::from_secs(66))),
            ("pull_threshold_messages", valid().pull_threshold_messages(0)),
            ("max_span", valid().max_span(65_536)),
            ("commit_interval", valid().commit_interval(Duration::ZERO)),
            ("consume_from", valid().consume_from(-1)),
            ("delay_levels", valid().delay_levels([])),
        ];
        for (setting, builder) in table {
            assert_eq!(mistakes(builder), [setting]);
        }
        assert!(mistakes(valid()).is_empty());
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let error = PushConsumerBuilder::new(String::new()).name_servers("x:y:z").consume_threads(0).start();
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let named: Vec<_> = error.mistakes().iter().map(|mistake| mistake.setting).collect();
        for setting in ["name_servers", "group", "consume_concurrently", "subscribe", "consume_threads"] {
            assert!(named.contains(&setting), "{setting} is missing in {named:?}");
        }
    }
}
