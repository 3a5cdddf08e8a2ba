use super::*;

/// A store with `n` messages in queue 0 of topic `t`; each record is a head with its offsets, store time 100 ms apart
/// and tag code `offset % 2`.
fn store(n: i64) -> Store {
    let mut store = Store::new(Arc::new(Memory));
    for i in 0..n {
        put(&mut store, 100, i % 2, 1000 + i * 100);
    }
    store
}

fn put(store: &mut Store, size: u32, tag: i64, time: i64) -> Placed {
    let encode = |offset: i64, position: u64, out: &mut Vec<u8>| {
        out.resize(size as usize, 0);
        out[..4].copy_from_slice(&size.to_be_bytes());
        out[4..8].copy_from_slice(&MAGICS[0].to_be_bytes());
        out[20..28].copy_from_slice(&offset.to_be_bytes());
        out[28..36].copy_from_slice(&position.to_be_bytes());
        out[56..64].copy_from_slice(&time.to_be_bytes());
        io::Result::Ok(())
    };
    store.append("t", 0, tag, encode).unwrap()
}

/// What is found, in how many messages and bytes.
fn look(store: &Store, offset: i64, max: usize) -> (Found, usize, usize) {
    let (mut entries, mut out) = (Vec::new(), Vec::new());
    let found = store.look_up("t", 0, offset, max, |_| true, &mut entries).unwrap();
    store.read_all(&entries, &mut out).unwrap();
    (found, entries.len(), out.len())
}

#[test]
fn positions_and_offsets_follow_each_other() {
    let mut store = store(2);
    assert_eq!(put(&mut store, 150, 0, 0), Placed { position: 200, size: 150, queue_offset: 2 });
    assert_eq!(store.range("t", 0), (0, 3));
    assert_eq!(store.range("t", 1), (0, 0));
    assert_eq!(store.entry("t", 0, 1), Some(Entry { position: 100, size: 100, tag: 1 }));
}

#[test]
fn the_table_of_look_ups() {
    let mut store = store(10);
    store.truncate("t", 0, 3, 10).unwrap();
    let cases = [
        (2, Status::OffsetTooSmall, 3),
        (3, Status::Found, 10),
        (9, Status::Found, 10),
        (10, Status::OffsetOverflowOne, 10),
        (11, Status::OffsetOverflowBadly, 10),
        (i64::MAX, Status::OffsetOverflowBadly, 10),
        (i64::MIN, Status::OffsetTooSmall, 3),
    ];
    for (offset, status, next) in cases {
        let (found, _, _) = look(&store, offset, 32);
        assert_eq!((found.status, found.next, found.min, found.max), (status, next, 3, 10), "at {offset}");
    }
    let nowhere = store.look_up("t", 5, 0, 32, |_| true, &mut Vec::new()).unwrap();
    assert_eq!(nowhere.status, Status::NoMatchedLogicQueue);
    store.truncate("t", 0, 0, 0).unwrap();
    assert_eq!(look(&store, 4, 32).0.status, Status::NoMessageInQueue);
}

#[test]
fn a_pull_is_bounded_in_messages_and_bytes() {
    let mut store = store(100);
    assert_eq!(look(&store, 0, 7).2, 700);
    assert_eq!(look(&store, 0, 1000).0.next, 32);
    for size in [300 * 1024, 100, 256 * 1024 - 100, 100] {
        put(&mut store, size, 0, 0);
    }
    assert_eq!(look(&store, 100, 32).1, 1);
    assert_eq!(look(&store, 101, 32).1, 2);
    assert_eq!(look(&store, 103, 32).1, 1);
}

#[test]
fn a_filter_goes_over_what_it_drops() {
    let store = store(2000);
    let look = |offset, wanted: i64| {
        let mut entries = Vec::new();
        let found = store.look_up("t", 0, offset, 32, |entry| entry.tag == wanted, &mut entries).unwrap();
        (found.status, found.next, entries.len())
    };
    assert_eq!(look(0, 0), (Status::Found, 64, 32));
    assert_eq!(look(0, 7), (Status::NoMatchedMessage, 800, 0));
    assert_eq!(look(1500, 7), (Status::NoMatchedMessage, 2000, 0));
}

#[test]
fn a_time_leads_to_the_first_message_stored_then_or_later() {
    let store = store(10);
    for (millis, offset) in [(0, 0), (1000, 0), (1001, 1), (1900, 9), (1901, 10), (i64::MAX, 10)] {
        assert_eq!(store.offset_at_or_after("t", 0, millis), offset, "at {millis}");
    }
    assert_eq!(store.offset_at_or_after("t", 3, 5), 0);
}

#[test]
fn only_the_beginning_of_a_record_is_a_record() {
    let store = store(3);
    assert_eq!(store.record_at(100).map(|record| record.len()), Some(100));
    for position in [1, 50, 300, u64::MAX] {
        assert_eq!(store.record_at(position), None, "at {position}");
    }
}

#[test]
fn messages_come_in_order_from_wherever_they_lie() {
    let mut store = store(3);
    let elsewhere = |_, _, out: &mut Vec<u8>| {
        out.extend_from_slice(&[9; 50]);
        io::Result::Ok(())
    };
    store.append("u", 0, 0, elsewhere).unwrap();
    put(&mut store, 100, 0, 0);
    let mut entries = Vec::new();
    store.look_up("t", 0, 0, 32, |_| true, &mut entries).unwrap();
    let mut out = Vec::new();
    store.read_all(&entries, &mut out).unwrap();
    let offsets: Vec<u8> = out.chunks(100).map(|record| record[27]).collect();
    assert_eq!(offsets, [0, 1, 2, 3]);
}
