//! What can be said about a message before it is sent.

use crate::error::{Error, Result};
use crate::message::{Message, RETRY_PREFIX, is_unsendable_topic, topic_problem};

/// What no broker would take, or what would be lost on the way.
pub(super) fn check(message: &Message, largest: usize) -> Result<()> {
    let topic = message.topic();
    if let Some(problem) = topic_problem(topic).or_else(|| message.problem()) {
        return Err(Error::invalid_input(problem).with_topic(topic));
    }
    if is_unsendable_topic(topic) {
        return Err(Error::invalid_input(format!("messages cannot be sent to the system topic {topic}"))
            .with_topic(topic));
    }
    let size = message.body().len();
    if size == 0 {
        return Err(Error::invalid_input("the message has no body").with_topic(topic));
    }
    if size > largest {
        let text = format!("the body has {size} bytes, at most {largest} are allowed (max_message_size)");
        return Err(Error::invalid_input(text).with_topic(topic));
    }
    if let Some(queue) = message.target()
        && queue.topic() != topic
    {
        let text = format!("queue {queue} does not belong to topic {topic}");
        return Err(Error::invalid_input(text).with_topic(topic));
    }
    Ok(())
}

/// What the messages of one batch must have in common.
pub(super) fn check_batch(messages: &[Message], largest: usize) -> Result<&Message> {
    let Some(first) = messages.first() else {
        return Err(Error::invalid_input("a batch needs at least one message"));
    };
    for message in messages {
        check(message, largest)?;
        if let Some(problem) = difference(first, message) {
            return Err(Error::invalid_input(format!("a batch {problem}")).with_topic(first.topic()));
        }
    }
    Ok(first)
}

fn difference(first: &Message, message: &Message) -> Option<String> {
    let topic = message.topic();
    if topic != first.topic() {
        return Some(format!("goes to one topic, not to {} and {topic}", first.topic()));
    }
    if topic.starts_with(RETRY_PREFIX) {
        return Some(format!("cannot go to the retry topic {topic}"));
    }
    if message.is_delayed() {
        return Some("cannot have messages for a later time".into());
    }
    if message.waits_for_store() != first.waits_for_store() {
        return Some("has one wait_store_ok for all its messages".into());
    }
    if message.target() != first.target() || message.shard() != first.shard() {
        return Some("goes to one queue: all its messages need the same queue or sharding key".into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::message::MessageQueue;

    fn problem(message: &Message) -> String {
        let error = check(message, 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    }

    #[test]
    fn messages_that_no_broker_takes() {
        assert!(check(&Message::new("orders", "0123456789"), 10).is_ok());
        let foreign = MessageQueue::new("other", "broker-a", 0);
        for (message, says) in [
            (Message::new("", "x"), "no name"),
            (Message::new("or ders", "x"), "' '"),
            (Message::new("SCHEDULE_TOPIC_XXXX", "x"), "system topic"),
            (Message::new("orders", ""), "no body"),
            (Message::new("orders", "01234567890"), "at most 10"),
            (Message::new("orders", "x").property("UNIQ_KEY", "y"), "UNIQ_KEY"),
            (Message::new("orders", "x").delay_level(19), "19"),
            (Message::new("orders", "x").queue(&foreign), "does not belong"),
        ] {
            let text = problem(&message);
            assert!(text.contains(says), "{text}");
        }
    }

    #[test]
    fn what_a_batch_has_in_common() {
        let one = || Message::new("orders", "x");
        let queue = MessageQueue::new("orders", "broker-a", 0);
        assert!(check_batch(&[one(), one().tag("a")], 10).is_ok());
        for (messages, says) in [
            (vec![], "at least one"),
            (vec![one(), Message::new("other", "x")], "one topic"),
            (vec![one(), one().delay_level(1)], "later time"),
            (vec![one().wait_store_ok(false), one()], "wait_store_ok"),
            (vec![one(), one().queue(&queue)], "one queue"),
            (vec![one().sharding_key("a"), one().sharding_key("b")], "one queue"),
            (vec![Message::new("%RETRY%g", "x")], "retry topic"),
            (vec![one(), Message::new("orders", "")], "no body"),
        ] {
            let error = check_batch(&messages, 10).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
