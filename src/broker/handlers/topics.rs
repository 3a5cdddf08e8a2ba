//! Administration of topics.

use std::collections::BTreeMap;

use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::settings::Version;
use super::super::state::State;
use crate::message::{is_system_topic, topic_problem};
use crate::protocol::body::{TopicConfig, TopicConfigList, TopicConfigTable, TopicList};
use crate::protocol::headers::{CreateTopic, GetAllTopicConfigAnswer, GetTopicConfig, Topic};
use crate::protocol::{RemotingCommand, ResponseCode};

/// More queues than anybody has; a typing error must not fill the routes.
const MOST_QUEUES: i32 = 65_536;
/// The bits that a permission may have.
const PERMISSIONS: std::ops::Range<i32> = 0..8;

/// 17.
pub(crate) fn create(state: &mut State, request: &Request) -> Handled {
    let header: CreateTopic = request.header()?;
    let mut config = TopicConfig {
        topic_name: header.topic,
        read_queue_nums: header.read_queue_nums,
        write_queue_nums: header.write_queue_nums,
        perm: header.perm,
        topic_filter_type: header.topic_filter_type,
        topic_sys_flag: header.topic_sys_flag.unwrap_or(0),
        order: header.order.unwrap_or(false),
        ..TopicConfig::default()
    };
    check(state, &config)?;
    if state.settings.version.is_5() {
        let known = state.topics.get(&config.topic_name).and_then(|known| known.attributes.clone());
        config.attributes =
            Some(changed(known.unwrap_or_default(), header.attributes.as_deref().unwrap_or_default()));
    }
    state.set_topic(config);
    Answer::ok()
}

/// 18.
pub(crate) fn create_several(state: &mut State, request: &Request) -> Handled {
    let list = TopicConfigList::read(&request.command.body)?.topic_config_list;
    list.iter().try_for_each(|config| check(state, config))?;
    list.into_iter().for_each(|config| state.set_topic(config));
    Answer::ok()
}

/// 215.
pub(crate) fn delete(state: &mut State, request: &Request) -> Handled {
    let topic = request.header::<Topic>()?.topic;
    if is_system_topic(&topic) {
        return Err(state.invalid(format_args!("the topic[{topic}] is conflict with system topic.")));
    }
    state.delete_topic(&topic);
    Answer::ok()
}

/// 21.
pub(crate) fn all(state: &State) -> Handled {
    let table = TopicConfigTable {
        data_version: Some(state.data_version()),
        mapping_data_version: state.settings.version.is_5().then(|| state.data_version()),
        topic_config_table: state.topics.clone(),
    };
    let total_topic_num = state.total(state.topics.len());
    let answer = RemotingCommand::response(ResponseCode::SUCCESS, 0).body(table.write());
    Ok(Answer::Now(answer.header_fields(&GetAllTopicConfigAnswer { total_topic_num })))
}

/// 351.
pub(crate) fn one(state: &State, request: &Request) -> Handled {
    let topic = request.header::<GetTopicConfig>()?.topic;
    let config = state.topics.get(&topic).ok_or_else(|| Refusal::no_topic(&topic))?;
    Answer::body(config.write())
}

/// 305.
pub(crate) fn system_topics(state: &State) -> Handled {
    let system = state.topics.keys().filter(|topic| is_system_topic(topic)).cloned();
    Answer::body(
        TopicList { broker_addr: Some(state.host.to_string()), topic_list: system.collect() }.write(),
    )
}

fn check(state: &State, config: &TopicConfig) -> Result<(), Refusal> {
    let topic = &config.topic_name;
    if let Some(problem) = topic_problem(topic) {
        return Err(state.invalid(format_args!("{problem}")));
    }
    if is_system_topic(topic) {
        return Err(state.invalid(format_args!("the topic[{topic}] is conflict with system topic.")));
    }
    let queues = [config.read_queue_nums, config.write_queue_nums];
    if queues.iter().any(|n| !(0..=MOST_QUEUES).contains(n)) || !PERMISSIONS.contains(&config.perm) {
        return Err(
            state.invalid(format_args!("the topic[{topic}] has {queues:?} queues, perm {}", config.perm))
        );
    }
    Ok(())
}

/// The attributes after a change such as `+message.type=FIFO,-reserve.time`.
fn changed(mut attributes: BTreeMap<String, String>, change: &str) -> BTreeMap<String, String> {
    for part in change.split(',') {
        match (part.strip_prefix('+').and_then(|set| set.split_once('=')), part.strip_prefix('-')) {
            (Some((name, value)), _) => drop(attributes.insert(name.to_owned(), value.to_owned())),
            (None, Some(name)) => drop(attributes.remove(name)),
            _ => {}
        }
    }
    attributes
}

impl State {
    /// How many entries a table has, for brokers that hand it out in parts; here the first part is all of it.
    pub(crate) fn total(&self, entries: usize) -> Option<i32> {
        (self.settings.version >= Version::V5_5).then(|| i32::try_from(entries).unwrap_or(i32::MAX))
    }

    /// Deletes a topic with its messages and everybody's offsets in it.
    pub(crate) fn delete_topic(&mut self, topic: &str) {
        if self.topics.remove(topic).is_some() {
            log::info!("topic {topic} is deleted");
            self.names.remove_topic(&self.settings.name, topic);
            self.store.delete_topic(topic);
            self.offsets.delete_topic(topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_set_and_removed() {
        let known = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let after = changed(known, "+message.type=FIFO,-a,nonsense,+b");
        assert_eq!(after, BTreeMap::from([("message.type".to_owned(), "FIFO".to_owned())]));
        assert!(changed(BTreeMap::new(), "").is_empty());
    }
}
