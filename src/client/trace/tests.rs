use super::parcel::{LONGEST_BODY, LONGEST_KEYS, parcels};
use super::*;

fn sent<'a>(id: &'a str, keys: Option<&'a str>) -> Sent<'a> {
    Sent {
        begun: 1_795_974_977_737,
        region: Some("DefaultRegion"),
        group: "cap-trace-producer",
        topic: "cap-orders",
        id,
        tag: Some("a"),
        keys,
        broker: Some("127.0.0.1:20911"),
        body_length: 6,
        millis: 28,
        kind: Kind::Normal,
        offset_id: Some("7F000001000051AF0000000000002E08"),
        success: true,
    }
}

/// As recorded of the Java client 4.9.7.
#[test]
fn a_send_is_written_as_java_writes_it() {
    let record =
        Record::sent(&sent("FD0000000000000000000000000000020CC15FFD2B27940B70C80024", Some("traced")));
    let fields: Vec<&str> = record.text.strip_suffix('\u{2}').unwrap().split('\u{1}').collect();
    assert_eq!(
        fields,
        [
            "Pub",
            "1795974977737",
            "DefaultRegion",
            "cap-trace-producer",
            "cap-orders",
            "FD0000000000000000000000000000020CC15FFD2B27940B70C80024",
            "a",
            "traced",
            "127.0.0.1:20911",
            "6",
            "28",
            "0",
            "7F000001000051AF0000000000002E08",
            "true"
        ]
    );
    let delayed = Record::sent(&Sent { kind: Kind::Delayed, tag: None, keys: Some(""), ..sent("ID", None) });
    let fields: Vec<&str> = delayed.text.split('\u{1}').collect();
    assert_eq!((fields[6], fields[7], fields[11]), ("null", "null", "3"));
}

/// As recorded of the Java client 5.5.0.
#[test]
fn a_listener_call_is_written_as_java_writes_it() {
    let (group, call) = ("cap-trace-group", "FD0000000000000000000000000000026BA55FFD2B279403F6880038");
    let id = "FD0000000000000000000000000000026BA55FFD2B27940223D10024";
    let keys = Some("lp1");
    let before = Record::consuming(&Consuming {
        begins: 1_795_974_487_688,
        region: Some("DefaultRegion"),
        group,
        call,
        id,
        reconsume_times: 0,
        keys,
    });
    let ended = 1_795_974_487_688;
    let after =
        Record::consumed(&Consumed { call, id, millis: 0, success: true, keys, outcome: 0, ended, group });
    let expected = |fields: &[&str]| format!("{}\u{2}", fields.join("\u{1}"));
    let recorded = ["SubBefore", "1795974487688", "DefaultRegion", group, call, id, "0", "lp1"];
    assert_eq!(before.text, expected(&recorded));
    let recorded = ["SubAfter", call, id, "0", "true", "lp1", "0", "1795974487688", group];
    assert_eq!(after.text, expected(&recorded));
}

#[test]
fn records_share_messages_up_to_their_limits() {
    let records: Vec<Record> =
        (0..2000).map(|n| Record::sent(&sent(&format!("{n:032}"), Some("k1 k2")))).collect();
    let whole: String = records.iter().map(|record| record.text.as_str()).collect();
    let parcels = parcels(records);
    assert!(parcels.len() > 2);
    assert!(parcels.iter().all(|one| one.body.len() <= LONGEST_BODY && one.keys.len() <= LONGEST_KEYS));
    assert_eq!(parcels.iter().map(|one| one.records).sum::<u64>(), 2000);
    assert_eq!(parcels.iter().map(|one| one.body.as_str()).collect::<String>(), whole);
    for one in &parcels {
        let mut words: Vec<&str> = one.keys.split(' ').collect();
        let ids = words.iter().filter(|word| word.len() == 32).count();
        assert_eq!(ids as u64, one.records, "each is found by its id");
        let all = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!((words.len(), all), (all, ids + 2), "each word once");
    }
    assert_eq!(super::parcel::parcels(Vec::new()), []);
}

#[test]
fn keys_that_fill_a_message_are_left_out() {
    let long = "k".repeat(30_000);
    let parcels =
        parcels(vec![Record::sent(&sent("ID", Some(&long))), Record::sent(&sent("ID2", Some("k")))]);
    assert_eq!(parcels.iter().map(|one| one.keys.as_str()).collect::<Vec<_>>(), ["ID ID2 k"]);
    assert!(parcels[0].body.contains(&long), "they are in the record");
}

#[test]
fn a_full_queue_drops_and_wakes_twice() {
    let (wakes, woken) = unbounded();
    let tracer = Tracer { topic: "traces".into(), queue: Mutex::default(), wakes, lost: Arc::default() };
    for n in 0..MOST_RECORDS + 10 {
        tracer.add(Record::sent(&sent(&n.to_string(), None)));
    }
    assert_eq!(tracer.lost.load(Ordering::Relaxed), 10);
    assert_eq!(woken.try_iter().collect::<Vec<_>>(), [Wake::Begun, Wake::Hurry]);
    let taken = tracer.take();
    assert_eq!((taken.len(), taken[0].id.as_str()), (MOST_RECORDS, "0"));
    tracer.add(Record::sent(&sent("again", None)));
    assert_eq!(woken.try_iter().collect::<Vec<_>>(), [Wake::Begun]);
    assert!(tracer.is_for("orders") && !tracer.is_for("traces"));
}
