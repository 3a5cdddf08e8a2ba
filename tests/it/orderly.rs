//! Consumption in order: one batch of a queue at a time, under the lock of its broker, and nothing overtakes.

mod failures;
mod locks;
mod members;
mod order;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{billing, queue};
use crate::wire::Wire;
use rocketmq_sync::broker::Broker;
use rocketmq_sync::consumer::Waiting;
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::body::{LockBatchAnswer, LockBatchRequest};
use rocketmq_sync::{Batch, ConsumeStatus, MessageQueue, PushConsumer, RequestCode, ResponseCode};

const SECOND: Duration = Duration::from_secs(1);
const SHORT: Duration = Duration::from_millis(10);

/// What was accepted of each queue, in order; and whether two calls were ever in one queue at once.
#[derive(Clone, Default)]
struct Lanes(Arc<Mutex<BTreeMap<MessageQueue, Lane>>>);

#[derive(Default)]
struct Lane {
    inside: bool,
    accepted: Vec<i64>,
}

impl Lanes {
    /// For a listener that accepts what `accepts` says.
    fn listener(
        &self,
        accepts: impl Fn(&Batch) -> ConsumeStatus + Send + Sync + 'static,
    ) -> impl Fn(&Batch) -> ConsumeStatus + Send + Sync + 'static {
        let lanes = self.clone();
        move |batch| {
            lanes.of(batch.queue(), |lane| {
                assert!(!lane.inside, "two in {} at once", batch.queue());
                lane.inside = true;
            });
            let status = accepts(batch);
            lanes.of(batch.queue(), |lane| {
                lane.inside = false;
                if status == ConsumeStatus::Success {
                    lane.accepted.extend(batch.iter().map(|message| message.queue_offset()));
                }
            });
            status
        }
    }

    fn of<T>(&self, queue: &MessageQueue, work: impl FnOnce(&mut Lane) -> T) -> T {
        work(self.0.lock().unwrap().entry(queue.clone()).or_default())
    }

    /// So many messages of each queue were accepted, each once, in order.
    fn assert_all(&self, each: i64) {
        for (queue, lane) in self.0.lock().unwrap().iter() {
            assert!(lane.accepted.iter().copied().eq(0..each), "{queue}: {:?}", lane.accepted);
        }
    }
}

fn start(
    broker: &Broker,
    listener: impl Fn(&Batch) -> ConsumeStatus + Send + Sync + 'static,
) -> PushConsumer {
    billing()
        .name_servers(broker.name_server())
        .suspend_time(SHORT)
        .consume_orderly(listener)
        .start()
        .unwrap()
}

fn holder(broker: &Broker, id: i32) -> Option<String> {
    broker.inspect().lock_holder("billing", &queue(id)).map(str::to_owned)
}

/// Asks for the lock of queue 0 as another member would, or gives it back.
fn as_another(broker: &Broker, code: RequestCode) -> bool {
    let request = LockBatchRequest {
        client_id: "another".into(),
        consumer_group: "billing".into(),
        mq_set: vec![queue(0)],
        only_this_broker: None,
    };
    let answer =
        Wire::connect(&broker.name_server()).call(RemotingCommand::request(code).body(request.write()));
    assert_eq!(answer.response_code(), ResponseCode::SUCCESS);
    code == RequestCode::LOCK_BATCH_MQ
        && LockBatchAnswer::read(&answer.body).unwrap().lock_ok_mq_set == [queue(0)]
}

fn all_locked(consumer: &PushConsumer) -> bool {
    // The retry topic comes when its broker has made it.
    let stats = consumer.stats();
    stats.queues.iter().filter(|one| one.queue.topic() == "orders").all(|one| one.locked)
}

fn waiting_for_lock(consumer: &PushConsumer) -> bool {
    let stats = consumer.stats();
    let of_orders = stats.queues.iter().find(|one| one.queue == queue(0));
    of_orders.is_some_and(|one| one.waiting == Some(Waiting::NoLock) && !one.locked)
}
