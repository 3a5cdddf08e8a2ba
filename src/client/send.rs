//! A send as the wire has it: for producers, and for consumers that hand a message back.

use crate::error::ErrorKind;
use crate::message::{Message, properties};
use crate::protocol::headers::{SendAnswer, SendMessage};
use crate::protocol::{DecodeError, Frame, RemotingCommand, RequestCode, ResponseCode};

/// One message, or one batch, for one queue. Names are those of the servers.
#[derive(Debug, Clone)]
pub(crate) struct Sending<'a> {
    pub(crate) group: &'a str,
    pub(crate) topic: &'a str,
    pub(crate) broker_name: &'a str,
    /// Negative: the broker chooses.
    pub(crate) queue_id: i32,
    /// As it is sent: compressed, if `sys_flag` says so, or the elements of a batch.
    pub(crate) body: &'a [u8],
    pub(crate) sys_flag: i32,
    pub(crate) flag: i32,
    pub(crate) born_millis: i64,
    /// The property string.
    pub(crate) properties: &'a str,
    pub(crate) batch: bool,
    /// How often the message has been delivered already: not 0 when a consumer hands it back to its retry topic.
    pub(crate) reconsume_times: i32,
    /// Only on the way to a retry topic.
    pub(crate) max_reconsume_times: Option<i32>,
    /// Where a topic that does not exist yet is copied from, and with how many queues.
    pub(crate) template_topic: &'a str,
    pub(crate) template_queues: i32,
}

impl<'a> Sending<'a> {
    /// A message with the defaults of Java; the rest is set field by field.
    pub(crate) fn new(
        group: &'a str,
        topic: &'a str,
        broker_name: &'a str,
        queue_id: i32,
        body: &'a [u8],
    ) -> Self {
        Sending {
            group,
            topic,
            broker_name,
            queue_id,
            body,
            sys_flag: 0,
            flag: 0,
            born_millis: 0,
            properties: "",
            batch: false,
            reconsume_times: 0,
            max_reconsume_times: None,
            template_topic: TEMPLATE_TOPIC,
            template_queues: TEMPLATE_QUEUES,
        }
    }

    pub(crate) fn command(&self) -> RemotingCommand {
        let header = SendMessage {
            producer_group: self.group.to_owned(),
            topic: self.topic.to_owned(),
            default_topic: self.template_topic.to_owned(),
            default_topic_queue_nums: self.template_queues,
            queue_id: self.queue_id,
            sys_flag: self.sys_flag,
            born_timestamp: self.born_millis,
            flag: self.flag,
            properties: Some(self.properties.to_owned()),
            reconsume_times: Some(self.reconsume_times),
            unit_mode: Some(false),
            max_reconsume_times: self.max_reconsume_times,
            batch: Some(self.batch),
            broker_name: Some(self.broker_name.to_owned()),
        };
        let code = if self.batch { RequestCode::SEND_BATCH_MESSAGE } else { RequestCode::SEND_MESSAGE_V2 };
        RemotingCommand::with_header(code, &header).body(self.body.to_vec())
    }
}

/// What a broker answered to a send.
#[derive(Debug)]
pub(crate) enum Sent {
    /// Stored. A code other than success says how safely.
    Stored(ResponseCode, SendAnswer),
    Refused(ResponseCode, Option<String>),
    Undecodable(DecodeError),
}

impl Sent {
    pub(crate) fn read(frame: &Frame) -> Self {
        let answer = match frame.command_without_body() {
            Ok(answer) => answer,
            Err(error) => return Sent::Undecodable(error),
        };
        match answer.response_code() {
            code if is_stored(code) => match answer.header::<SendAnswer>() {
                Ok(header) => Sent::Stored(code, header),
                Err(error) => Sent::Undecodable(error),
            },
            code => Sent::Refused(code, answer.remark),
        }
    }
}

/// The property string of a message with this id. Without the id for a batch as a whole, since some brokers write the
/// properties of the batch into each of its messages.
pub(crate) fn property_string(message: &Message, id: Option<&str>) -> Result<String, ErrorKind> {
    let mut bytes = Vec::with_capacity(128);
    message.write_properties(&mut bytes);
    if let Some(id) = id.filter(|_| message.get(properties::UNIQ_KEY).is_none()) {
        properties::push(&mut bytes, properties::UNIQ_KEY, id);
    }
    if bytes.len() > LONGEST_PROPERTIES {
        return Err(ErrorKind::InvalidInput);
    }
    String::from_utf8(bytes).map_err(|_| ErrorKind::InvalidInput)
}

fn is_stored(code: ResponseCode) -> bool {
    matches!(
        code,
        ResponseCode::SUCCESS
            | ResponseCode::FLUSH_DISK_TIMEOUT
            | ResponseCode::SLAVE_NOT_AVAILABLE
            | ResponseCode::FLUSH_SLAVE_TIMEOUT
    )
}

pub(crate) const TEMPLATE_TOPIC: &str = "TBW102";
pub(crate) const TEMPLATE_QUEUES: i32 = 4;
/// The broker stores the length in two bytes.
pub(crate) const LONGEST_PROPERTIES: usize = i16::MAX as usize;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Encoding, Header, encode};

    fn header(sending: &Sending<'_>) -> (RequestCode, SendMessage) {
        let command = sending.command();
        (command.request_code(), SendMessage::read(&command.fields).unwrap())
    }

    #[test]
    fn a_message_is_sent_with_short_names_and_a_batch_under_its_own_code() {
        let mut sending = Sending::new("g", "orders", "broker-a", 3, b"body");
        sending.properties = "KEYS\u{1}k\u{2}";
        let (code, single) = header(&sending);
        assert_eq!(code, RequestCode::SEND_MESSAGE_V2);
        assert_eq!((single.queue_id, single.batch, single.reconsume_times), (3, Some(false), Some(0)));
        assert_eq!(single.broker_name.as_deref(), Some("broker-a"));
        assert_eq!((&*single.default_topic, single.default_topic_queue_nums), ("TBW102", 4));
        assert_eq!(single.max_reconsume_times, None);
        sending.batch = true;
        assert_eq!(header(&sending).0, RequestCode::SEND_BATCH_MESSAGE);
    }

    #[test]
    fn a_message_that_is_handed_back_says_how_often_it_was_delivered() {
        let mut sending = Sending::new("g", "%RETRY%g", "broker-a", 0, b"body");
        (sending.reconsume_times, sending.max_reconsume_times) = (3, Some(16));
        let (_, header) = header(&sending);
        assert_eq!((header.reconsume_times, header.max_reconsume_times), (Some(3), Some(16)));
    }

    #[test]
    fn the_id_is_added_once() {
        let message = Message::new("orders", "x").key("k");
        let text = property_string(&message, Some("ID")).unwrap();
        assert_eq!(properties::find_str(text.as_bytes(), "UNIQ_KEY"), Some("ID"));
        assert_eq!(properties::find_str(text.as_bytes(), "WAIT"), Some("true"));
        let mut again = message.clone();
        again.set(properties::UNIQ_KEY, "OWN".into());
        let text = property_string(&again, Some("ID")).unwrap();
        assert_eq!(properties::find_str(text.as_bytes(), "UNIQ_KEY"), Some("OWN"));
        assert!(!property_string(&message, None).unwrap().contains("UNIQ_KEY"));
    }

    #[test]
    fn properties_that_no_broker_can_store_are_refused() {
        let message = Message::new("orders", "x").property("p", "v".repeat(40_000));
        assert_eq!(property_string(&message, None), Err(ErrorKind::InvalidInput));
    }

    fn sent(answer: RemotingCommand) -> Sent {
        let mut bytes = Vec::new();
        encode(&answer, Encoding::Json, &mut bytes).unwrap();
        Sent::read(&Frame::parse(bytes).unwrap())
    }

    #[test]
    fn answers_are_stored_refused_or_nonsense() {
        let header = SendAnswer { msg_id: "A".into(), queue_id: 1, queue_offset: 7, ..SendAnswer::default() };
        for code in [0, 10, 11, 12] {
            let answer = RemotingCommand::response(ResponseCode(code), 1).header_fields(&header);
            assert!(matches!(sent(answer), Sent::Stored(at, found) if at.0 == code && found == header));
        }
        let refused = RemotingCommand::response(ResponseCode::SYSTEM_BUSY, 1).remark("later");
        assert!(
            matches!(sent(refused), Sent::Refused(ResponseCode::SYSTEM_BUSY, Some(text)) if text == "later")
        );
        let empty = RemotingCommand::response(ResponseCode::SUCCESS, 1);
        assert!(matches!(sent(empty), Sent::Undecodable(_)));
    }
}
