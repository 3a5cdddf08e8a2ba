use super::{bodies, wire_enums};
use crate::message::tags::java_hash;
use crate::message::{Subscription, SubscriptionKind};

wire_enums! {
    /// How a consumer gets its messages.
    ConsumeType {
        /// Pull consumers.
        Actively = "CONSUME_ACTIVELY",
        /// Push consumers.
        Passively = "CONSUME_PASSIVELY",
        /// Pop consumers (5.x).
        Pop = "CONSUME_POP",
    }
    /// Whether the members of a group share the messages, or each gets all.
    MessageModel {
        /// Each gets all.
        Broadcasting = "BROADCASTING",
        /// They share.
        Clustering = "CLUSTERING",
    }
    /// Where a new group begins.
    ConsumeFromWhere {
        /// At the end.
        LastOffset = "CONSUME_FROM_LAST_OFFSET",
        /// Obsolete.
        LastOffsetAndFromMinWhenBootFirst = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        /// Obsolete.
        MinOffset = "CONSUME_FROM_MIN_OFFSET",
        /// Obsolete.
        MaxOffset = "CONSUME_FROM_MAX_OFFSET",
        /// At the beginning.
        FirstOffset = "CONSUME_FROM_FIRST_OFFSET",
        /// At a time.
        Timestamp = "CONSUME_FROM_TIMESTAMP",
    }
}

bodies! {
    /// Request 34: who is there, and what it wants.
    HeartbeatData {
        client_id: String = "clientID",
        consumer_data_set: Vec<ConsumerData> = "consumerDataSet",
        heartbeat_fingerprint: Option<i32> = "heartbeatFingerprint",
        producer_data_set: Vec<ProducerData> = "producerDataSet",
        without_sub: Option<bool> = "withoutSub",
    }
    /// One consumer group of a client.
    ConsumerData {
        consume_from_where: ConsumeFromWhere = "consumeFromWhere",
        consume_type: ConsumeType = "consumeType",
        group_name: String = "groupName",
        message_model: MessageModel = "messageModel",
        subscription_data_set: Vec<SubscriptionData> = "subscriptionDataSet",
        unit_mode: bool = "unitMode",
    }
    /// One producer group of a client.
    ProducerData {
        group_name: String = "groupName",
    }
    /// What is wanted of one topic.
    SubscriptionData {
        class_filter_mode: bool = "classFilterMode",
        code_set: Vec<i32> = "codeSet",
        expression_type: Option<String> = "expressionType",
        sub_string: String = "subString",
        sub_version: i64 = "subVersion",
        tags_set: Vec<String> = "tagsSet",
        topic: String = "topic",
    }
    /// Request 46: can this broker serve that filter?
    CheckClientConfig {
        client_id: String = "clientId",
        group: String = "group",
        namespace: Option<String> = "namespace",
        subscription_data: Option<SubscriptionData> = "subscriptionData",
    }
}

impl HeartbeatData {
    /// The number by which brokers from 5.1.3 on tell that nothing has changed since the last heartbeat.
    pub fn fingerprint(&self) -> i32 {
        let mut plain = self.clone();
        plain.client_id.clear();
        plain.heartbeat_fingerprint = Some(0);
        plain.without_sub = Some(false);
        for subscription in
            plain.consumer_data_set.iter_mut().flat_map(|data| &mut data.subscription_data_set)
        {
            subscription.sub_version = 0;
        }
        java_hash(&String::from_utf8_lossy(&plain.write()))
    }
}

impl SubscriptionData {
    /// Whether the topic's messages are chosen by an expression over properties.
    pub fn is_sql92(&self) -> bool {
        self.expression_type.as_deref() == Some(SubscriptionKind::Sql92.name())
    }
}

impl From<&Subscription> for SubscriptionData {
    fn from(subscription: &Subscription) -> Self {
        Self {
            class_filter_mode: subscription.kind == SubscriptionKind::Class,
            code_set: subscription.codes.iter().copied().collect(),
            expression_type: Some(subscription.kind.name().to_owned()),
            sub_string: subscription.expression.clone(),
            sub_version: subscription.version,
            tags_set: subscription.tags.iter().cloned().collect(),
            topic: subscription.topic.clone(),
        }
    }
}
