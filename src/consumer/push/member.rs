//! A consumer as its client sees it.

use std::time::Duration;

use super::end::Inner;
use crate::client::{Member, MemberKind, Notice, ShutdownReport};
use crate::consumer::rebalance_loop::RebalanceEvent;
use crate::consumer::settings::MessageModel as Model;
use crate::consumer::{losses, requests};
use crate::message::ConsumeFrom;
use crate::protocol::body::{ConsumeFromWhere, ConsumeType, ConsumerData, MessageModel, SubscriptionData};

/// The client keeps this; it goes when the consumer leaves.
pub(in crate::consumer) struct Membership(pub(in crate::consumer) std::sync::Arc<Inner>);

impl Member for Membership {
    fn kind(&self) -> MemberKind {
        MemberKind::Consumer
    }

    fn group(&self) -> &str {
        &self.0.core.group
    }

    fn consumer_data(&self) -> Option<ConsumerData> {
        let core = &self.0.core;
        if !core.is_member() {
            return None;
        }
        let from = match core.settings.consume_from {
            ConsumeFrom::FirstOffset => ConsumeFromWhere::FirstOffset,
            ConsumeFrom::Timestamp(_) => ConsumeFromWhere::Timestamp,
            // The wire has no word for the others; it is only shown to operators.
            _ => ConsumeFromWhere::LastOffset,
        };
        Some(ConsumerData {
            consume_from_where: from,
            consume_type: if core.polling.is_some() { ConsumeType::Actively } else { ConsumeType::Passively },
            group_name: core.group.to_string(),
            message_model: match core.settings.message_model {
                Model::Clustering => MessageModel::Clustering,
                Model::Broadcasting => MessageModel::Broadcasting,
            },
            subscription_data_set: core
                .subscriptions()
                .values()
                .map(|one| SubscriptionData::from(&**one))
                .collect(),
            unit_mode: false,
        })
    }

    fn topics(&self) -> Vec<String> {
        self.0.core.subscriptions().keys().map(|topic| topic.to_string()).collect()
    }

    fn notice(&self, notice: Notice) {
        let core = &self.0.core;
        match notice {
            Notice::Request(incoming) => requests::answer(core, &incoming),
            notice => {
                losses::look(&**core, &notice);
                core.post_rebalance(RebalanceEvent::Notice(core.clone(), notice));
            }
        }
    }

    #[cfg(feature = "metrics")]
    fn publish_metrics(&self) {
        crate::consumer::metrics::publish(&self.0.core);
    }

    fn shutdown(&self, grace: Duration) -> ShutdownReport {
        Inner::shutdown(&self.0, grace)
    }
}
