//! The scenarios once more, over IPv6.

use crate::scenarios::embedded::Embedded;
use crate::scenarios::{crash, everything, filters, in_order, pulling, resume, retries, sending};

fn target() -> Embedded {
    Embedded::on("[::1]:0")
}

#[test]
fn n11_over_ipv6_everything_sent_is_consumed_once() {
    everything::everything_sent_is_consumed_once(&target());
}

#[test]
fn n11_over_ipv6_order_holds_through_failures_members_and_a_restart() {
    in_order::order_holds_through_failures_members_and_a_restart(&target());
}

#[test]
fn n11_over_ipv6_every_way_of_sending_arrives() {
    sending::every_way_of_sending_arrives(&target());
}

#[test]
fn n11_over_ipv6_retries_end_as_a_dead_letter() {
    retries::retries_end_as_a_dead_letter(&target());
}

#[test]
fn n11_over_ipv6_a_killed_broker_loses_nothing() {
    crash::a_killed_broker_loses_nothing(&target());
}

#[test]
fn n11_over_ipv6_a_group_resumes_from_its_committed_offsets() {
    resume::a_group_resumes_from_its_committed_offsets(&target());
}

#[test]
fn n11_over_ipv6_a_filter_lets_the_same_messages_through_everywhere() {
    filters::a_filter_lets_the_same_messages_through_everywhere(&target());
}

#[test]
fn n11_over_ipv6_a_topic_is_read_to_its_end() {
    pulling::a_topic_is_read_to_its_end(&target());
}
