//! The scenarios once more, with headers in the binary form, in which servers then answer.

use crate::scenarios::embedded::Embedded;
use crate::scenarios::{everything, filters, in_order, pulling, retries, sending};
use rocketmq_sync::testing::protocol::Encoding;

fn target() -> Embedded {
    Embedded::told_in(Encoding::Binary)
}

#[test]
fn x13_in_binary_everything_sent_is_consumed_once() {
    everything::everything_sent_is_consumed_once(&target());
}

#[test]
fn x13_in_binary_order_holds_through_failures_members_and_a_restart() {
    in_order::order_holds_through_failures_members_and_a_restart(&target());
}

#[test]
fn x13_in_binary_every_way_of_sending_arrives() {
    sending::every_way_of_sending_arrives(&target());
}

#[test]
fn x13_in_binary_retries_end_as_a_dead_letter() {
    retries::retries_end_as_a_dead_letter(&target());
}

#[test]
fn x13_in_binary_a_filter_lets_the_same_messages_through_everywhere() {
    filters::a_filter_lets_the_same_messages_through_everywhere(&target());
}

#[test]
fn x13_in_binary_a_reader_on_its_own_goes_where_it_likes() {
    pulling::a_reader_on_its_own_goes_where_it_likes(&target());
}
