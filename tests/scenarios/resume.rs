//! A group goes on where it stood: its next member after a clean shutdown, a running one after its broker was killed,
//! and another one after that.

use super::{SOON, Target, client, member, producer, send_numbers, tally::Tally};

const GROUP: &str = "resume-group";

pub fn a_group_resumes_from_its_committed_offsets(target: &dyn Target) {
    target.create_topic("resume", 4);
    let client = client(target);
    let producer = producer(&client);
    send_numbers(&producer, "resume", 0..1000);
    let first = Tally::new();
    let consumer = member(&client, GROUP, "resume", &first);
    first.wait_for(1000, SOON);
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");

    target.restart_broker();
    send_numbers(&producer, "resume", 1000..2000);
    let second = Tally::new();
    let consumer = member(&client, GROUP, "resume", &second);
    second.wait_for(1000, SOON);

    target.kill_broker();
    target.start_broker();
    send_numbers(&producer, "resume", 2000..3000);
    second.wait_for(2000, SOON);
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");

    send_numbers(&producer, "resume", 3000..3100);
    let third = Tally::new();
    let consumer = member(&client, GROUP, "resume", &third);
    third.wait_for(100, SOON);
    let report = consumer.shutdown(SOON);
    assert!(report.is_clean(), "{report}");

    first.assert_exactly(0..1000);
    second.assert_exactly(1000..3000);
    third.assert_exactly(3000..3100);
    assert_eq!((first.duplicates(), second.duplicates(), third.duplicates()), (0, 0, 0));
}
