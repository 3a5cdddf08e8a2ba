//! The scenarios against the embedded broker. `tests/apache/run` runs the same ones against Apache RocketMQ.

use crate::scenarios::embedded::Embedded;
#[cfg(all(feature = "acl", feature = "tls"))]
use crate::scenarios::guarded;
use crate::scenarios::{
    broadcast, crash, everything, filters, in_order, pulling, resume, retries, sending, subscriptions,
};

#[test]
fn everything_sent_is_consumed_once() {
    everything::everything_sent_is_consumed_once(&Embedded::start());
}

#[test]
fn order_holds_through_failures_members_and_a_restart() {
    in_order::order_holds_through_failures_members_and_a_restart(&Embedded::start());
}

#[test]
fn every_way_of_sending_arrives() {
    sending::every_way_of_sending_arrives(&Embedded::start());
}

#[test]
fn retries_end_as_a_dead_letter() {
    retries::retries_end_as_a_dead_letter(&Embedded::start());
}

#[test]
fn a_killed_broker_loses_nothing() {
    crash::a_killed_broker_loses_nothing(&Embedded::start());
}

#[test]
fn a_group_resumes_from_its_committed_offsets() {
    resume::a_group_resumes_from_its_committed_offsets(&Embedded::start());
}

#[test]
fn a_filter_lets_the_same_messages_through_everywhere() {
    filters::a_filter_lets_the_same_messages_through_everywhere(&Embedded::start());
}

#[test]
fn every_member_gets_everything() {
    broadcast::every_member_gets_everything(&Embedded::start());
}

#[cfg(all(feature = "acl", feature = "tls"))]
#[test]
fn only_who_proves_who_he_is_is_served() {
    let authority = guarded::certificates();
    guarded::only_who_proves_who_he_is_is_served(&Embedded::guarded(&authority), &authority);
}

#[test]
fn a_topic_is_read_to_its_end() {
    pulling::a_topic_is_read_to_its_end(&Embedded::start());
}

#[test]
fn a_reader_on_its_own_goes_where_it_likes() {
    pulling::a_reader_on_its_own_goes_where_it_likes(&Embedded::start());
}

#[test]
fn a_topic_given_up_by_one_member_is_read_by_the_other() {
    subscriptions::a_topic_given_up_by_one_member_is_read_by_the_other(&Embedded::start());
}
