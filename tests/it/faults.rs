//! Faults of the embedded broker, each reaction seen from the other end of the wire.

use std::time::{Duration, Instant};

use crate::wire::{End, SOON, Wire, message, messages, pull};
use rocketmq_sync::broker::{Broker, Fault, Reaction};
use rocketmq_sync::testing::protocol::RemotingCommand;
use rocketmq_sync::testing::protocol::headers::{GetMaxOffset, PullMessageAnswer, SendAnswer};
use rocketmq_sync::{Message, MessageQueue, RequestCode, ResponseCode};

fn broker() -> (Broker, Wire) {
    let broker = Broker::builder().topic("t", 1).start().unwrap();
    let wire = Wire::connect(&broker.name_server());
    (broker, wire)
}

fn send() -> RemotingCommand {
    RemotingCommand::with_header(RequestCode::SEND_MESSAGE_V2, &message("t", 0)).body(b"x".to_vec())
}

fn on_send(reaction: Reaction) -> Fault {
    Fault::on(RequestCode::SEND_MESSAGE, reaction)
}

#[test]
fn an_answer_with_a_code_does_nothing_else() {
    let (broker, mut wire) = broker();
    let fault = broker.fault(on_send(Reaction::Reply(ResponseCode::SYSTEM_BUSY)).times(2));
    assert_eq!(wire.call(send()).response_code(), ResponseCode::SYSTEM_BUSY);
    assert_eq!(wire.call(send()).response_code(), ResponseCode::SYSTEM_BUSY);
    assert_eq!(wire.call(send()).response_code(), ResponseCode::SUCCESS);
    fault.wait_hits(2, SOON).unwrap();
    assert_eq!(broker.inspect().depth("t"), 1);
    let answers: Vec<_> = broker.requests().iter().map(|request| request.answer).collect();
    assert_eq!(answers.last(), Some(&Some(ResponseCode::SUCCESS)));
    assert_eq!(answers.first(), Some(&Some(ResponseCode::SYSTEM_BUSY)));
}

#[test]
fn a_message_not_yet_safe_is_stored_all_the_same() {
    let (broker, mut wire) = broker();
    broker.fault(on_send(Reaction::Reply(ResponseCode::FLUSH_DISK_TIMEOUT)));
    let answer = wire.call(send());
    assert_eq!(answer.response_code(), ResponseCode::FLUSH_DISK_TIMEOUT);
    assert_eq!(answer.header::<SendAnswer>().unwrap().queue_offset, 0);
    assert_eq!(broker.inspect().depth("t"), 1);
}

#[test]
fn a_faulted_pull_has_the_offsets_that_clients_read() {
    let (broker, mut wire) = broker();
    broker.put(&Message::new("t", "x")).unwrap();
    broker.fault(Fault::on(RequestCode::PULL_MESSAGE, Reaction::Reply(ResponseCode::PULL_OFFSET_MOVED)));
    let answer = wire.ask(RequestCode::PULL_MESSAGE, &pull("g", "t", 0, 9));
    assert_eq!(answer.response_code(), ResponseCode::PULL_OFFSET_MOVED);
    let offsets: PullMessageAnswer = answer.header().unwrap();
    assert_eq!((offsets.next_begin_offset, offsets.max_offset), (1, 1));
}

#[test]
fn delayed_ignored_and_cut_requests() {
    let (broker, mut wire) = broker();
    broker.fault(on_send(Reaction::Delay(Duration::from_millis(60))));
    let begun = Instant::now();
    assert_eq!(wire.call(send()).response_code(), ResponseCode::SUCCESS);
    assert!(begun.elapsed() >= Duration::from_millis(60));
    broker.fault(on_send(Reaction::Ignore));
    wire.send(send());
    let max = GetMaxOffset { topic: "t".into(), queue_id: 0, ..GetMaxOffset::default() };
    let answer = wire.ask(RequestCode::GET_MAX_OFFSET, &max);
    assert_eq!(answer.fields.get("offset"), Some("1"), "neither answered nor carried out");
    broker.fault(on_send(Reaction::Disconnect));
    wire.send(send());
    assert!(wire.is_closed());
    assert_eq!(broker.inspect().depth("t"), 1);
    let mut wire = Wire::connect(&broker.name_server());
    broker.fault(on_send(Reaction::DisconnectAfterwards));
    wire.send(send());
    assert!(wire.is_closed());
    assert_eq!(broker.inspect().depth("t"), 2, "stored, and nobody was told");
}

#[test]
fn mistreated_answers() {
    let (broker, mut wire) = broker();
    broker.fault(on_send(Reaction::Twice));
    let opaque = wire.send(send());
    assert_eq!((wire.answer(opaque).opaque, wire.answer(opaque).opaque), (opaque, opaque));
    broker.fault(on_send(Reaction::WrongOpaque));
    let opaque = wire.send(send());
    assert_ne!(wire.answer_within(SOON).unwrap().opaque, opaque);
    broker.fault(on_send(Reaction::Corrupt));
    wire.send(send());
    assert!(wire.frame(SOON).unwrap().command().is_err(), "no body, so the header is hit");
    broker.fault(Fault::on(RequestCode::VIEW_MESSAGE_BY_ID, Reaction::Corrupt));
    let view = rocketmq_sync::testing::protocol::headers::ViewMessage { offset: 0, topic: None };
    wire.send(RemotingCommand::with_header(RequestCode::VIEW_MESSAGE_BY_ID, &view));
    let frame = wire.frame(SOON).unwrap();
    assert!(frame.command().is_ok() && frame.body()[0] == 0xff);
    broker.fault(on_send(Reaction::CutFrame(20)));
    wire.send(send());
    assert_eq!(wire.frame(SOON), Err(End::Closed));
}

#[test]
fn a_trickle_holds_up_what_comes_after_it() {
    let (broker, mut wire) = broker();
    let every = Duration::from_millis(1);
    broker.fault(on_send(Reaction::Trickle { bytes: 7, every }));
    let begun = Instant::now();
    let (first, second) = (wire.send(send()), wire.send(send()));
    assert_eq!(wire.answer(first).response_code(), ResponseCode::SUCCESS);
    assert!(begun.elapsed() >= 20 * every, "an answer has some 250 bytes");
    assert_eq!(wire.answer(second).header::<SendAnswer>().unwrap().queue_offset, 1);
}

#[test]
fn a_held_pull_keeps_its_fault() {
    let (broker, mut wire) = broker();
    wire.heartbeat("c", "g", "t", &["*"]);
    broker.fault(Fault::on(RequestCode::PULL_MESSAGE, Reaction::Twice).group("g").client_id("c"));
    let opaque = wire.send(RemotingCommand::with_header(RequestCode::PULL_MESSAGE, &pull("g", "t", 0, 0)));
    broker.wait(SOON, |state| state.waiting_pulls("g") == 1).unwrap();
    broker.put(&Message::new("t", "x").queue(&MessageQueue::new("t", "broker-a", 0))).unwrap();
    for _ in 0..2 {
        assert_eq!(messages(&wire.answer(opaque).body).len(), 1);
    }
}

#[test]
fn requests_are_recorded_with_what_they_were_about() {
    let (broker, mut wire) = broker();
    wire.heartbeat("c", "g", "t", &["*"]);
    wire.publish(&message("t", 0), b"x");
    wire.ask(RequestCode::PULL_MESSAGE, &pull("g", "t", 0, 0));
    let seen = broker.requests();
    assert_eq!((seen[0].client_id.as_deref(), seen[0].group.as_deref()), (Some("c"), Some("g")));
    assert_eq!((seen[1].topic.as_deref(), seen[1].group.as_deref()), (Some("t"), Some("producers")));
    let last = &seen[2];
    assert_eq!((last.code, last.queue_id, last.offset), (RequestCode::PULL_MESSAGE, Some(0), Some(0)));
    assert_eq!((last.client_id.as_deref(), last.answer), (Some("c"), Some(ResponseCode::SUCCESS)));
    assert_eq!(broker.inspect().requests(RequestCode::SEND_MESSAGE), 1);
}
