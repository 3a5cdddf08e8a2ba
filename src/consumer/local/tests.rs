use std::fs;
use std::path::Path;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};

use super::*;

const SOON: Duration = Duration::from_secs(30);

fn queue(id: i32) -> MessageQueue {
    MessageQueue::new("orders", "broker-a", id)
}

fn at(wire: i64) -> Offset {
    Offset::new(wire).unwrap()
}

type Outcomes = Receiver<(u64, Result<(), String>)>;

fn open_with(place: &LocalOffsets, aux: &Aux) -> Result<(Arc<LocalStore>, Outcomes)> {
    let (sender, outcomes) = unbounded();
    let written = Box::new(move |tag, result| drop(sender.send((tag, result))));
    LocalStore::open(place, "watch", aux, Instant::now() + SOON, written).map(|store| (store, outcomes))
}

fn open(directory: &Path) -> Result<(Arc<LocalStore>, Outcomes)> {
    open_with(&LocalOffsets::Directory(directory.to_owned()), &Aux::new())
}

/// The offset of queue 0 that a new consumer finds.
fn found(directory: &Path) -> Option<i64> {
    let (store, _) = open(directory).unwrap();
    let stored = store.stored(&queue(0)).map(Offset::wire);
    store.close();
    stored
}

fn commit(store: &Arc<LocalStore>, outcomes: &Outcomes, offset: i64) {
    store.commit(&queue(0), at(offset), 7);
    assert_eq!(outcomes.recv_timeout(SOON), Ok((7, Ok(()))));
}

/// A directory in which `older`, then `newer` was committed.
fn written(older: i64, newer: i64) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let (store, outcomes) = open(directory.path()).unwrap();
    commit(&store, &outcomes, older);
    commit(&store, &outcomes, newer);
    store.close();
    directory
}

#[test]
fn what_was_confirmed_is_found_again() {
    let directory = written(5, 8);
    assert_eq!(found(directory.path()), Some(8));
    let (store, _) = open(directory.path()).unwrap();
    assert_eq!(store.stored(&queue(1)), None);
}

#[test]
fn what_is_in_the_file_is_json_for_everybody() {
    let directory = written(5, 8);
    let text = fs::read(directory.path().join("watch.json")).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(value["offsetTable"][0]["offset"], 8);
}

#[test]
fn a_group_has_one_holder_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = open(directory.path()).unwrap();
    let error = open(directory.path()).unwrap_err();
    assert_eq!((error.kind(), error.mistakes()[0].setting), (ErrorKind::Config, "local_offsets"));
    store.close();
    open(directory.path()).unwrap();
}

#[test]
fn a_closed_store_takes_nothing() {
    let directory = written(5, 8);
    let (store, outcomes) = open(directory.path()).unwrap();
    store.close();
    store.commit(&queue(0), at(9), 1);
    assert!(outcomes.recv_timeout(SOON).unwrap().1.is_err());
    assert_eq!(found(directory.path()), Some(8));
}

#[test]
fn commits_during_a_write_go_together_with_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let (store, outcomes) = open(directory.path()).unwrap();
    for offset in 0..500 {
        store.commit(&queue(0), at(offset), offset.unsigned_abs());
    }
    for _ in 0..500 {
        assert!(outcomes.recv_timeout(SOON).unwrap().1.is_ok());
    }
    store.close();
    assert_eq!(found(directory.path()), Some(499));
}

#[test]
fn a_disk_that_refuses_is_told_and_the_next_commit_tries_again() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("offsets");
    let (store, outcomes) = open(&directory).unwrap();
    fs::rename(&directory, root.path().join("away")).unwrap();
    store.commit(&queue(0), at(3), 1);
    let problem = outcomes.recv_timeout(SOON).unwrap().1.unwrap_err();
    assert!(problem.contains("watch.json"), "{problem}");
    assert_eq!(store.stored(&queue(0)), None, "it is not in the file");
    fs::rename(root.path().join("away"), &directory).unwrap();
    commit(&store, &outcomes, 4);
    store.close();
    assert_eq!(found(&directory), Some(4));
}

/// A file that ends at any byte, or is full of zeros, is put aside and named, and its backup counts.
#[test]
fn o13_a_damaged_file_never_keeps_the_consumer_from_starting() {
    let whole = fs::read(written(5, 8).path().join("watch.json")).unwrap();
    let cut = (0..whole.len()).map(|end| whole[..end].to_vec());
    for damaged in cut.chain([vec![0; whole.len()], b"{}".to_vec(), b"\xff\xfe".to_vec()]) {
        let directory = written(5, 8);
        let path = directory.path().join("watch.json");
        fs::write(&path, &damaged).unwrap();
        assert_eq!(found(directory.path()), Some(5), "{damaged:?}");
        assert_eq!(fs::read(directory.path().join("watch.json.damaged")).unwrap(), damaged);
        // The next damage overwrites nothing.
        fs::write(&path, b"once more").unwrap();
        fs::write(directory.path().join("watch.json.bak"), b"and here").unwrap();
        assert_eq!(found(directory.path()), None);
        assert!(directory.path().join("watch.json.damaged-1").exists());
        assert!(directory.path().join("watch.json.bak.damaged").exists());
    }
}

#[test]
fn a_crash_between_the_two_renames_leaves_the_backup() {
    let directory = written(5, 8);
    fs::rename(directory.path().join("watch.json"), directory.path().join("watch.json.bak")).unwrap();
    assert_eq!(found(directory.path()), Some(8));
}

#[test]
fn a_file_that_cannot_be_read_is_not_taken_for_none() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("watch.json")).unwrap();
    let error = open(directory.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("watch.json"), "{error}");
}

fn java(directory: &Path, client: &str, offset: i64) -> std::path::PathBuf {
    let home = directory.join(client).join("watch");
    fs::create_dir_all(&home).unwrap();
    let path = home.join("offsets.json");
    let text = format!(
        "{{\n\t\"offsetTable\":{{{{\n\t\t\t\"brokerName\":\"broker-a\",\n\t\t\t\"queueId\":0,\n\t\t\t\"topic\":\"orders\"\n\t\t}}:{offset}\n\t}}\n}}"
    );
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn the_newest_file_of_a_java_client_is_taken_over_once() {
    let directory = tempfile::tempdir().unwrap();
    let old = java(directory.path(), "10.0.0.1@DEFAULT", 3);
    fs::File::options().write(true).open(old).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    java(directory.path(), "10.0.0.2@DEFAULT", 4);
    fs::create_dir_all(directory.path().join("somebody else")).unwrap();
    assert_eq!(found(directory.path()), Some(4));
    java(directory.path(), "10.0.0.3@DEFAULT", 9);
    assert_eq!(found(directory.path()), Some(4), "once");
}

#[test]
fn a_damaged_file_of_a_java_client_is_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let old = java(directory.path(), "10.0.0.1@DEFAULT", 3);
    fs::File::options().write(true).open(old).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    fs::write(java(directory.path(), "10.0.0.2@DEFAULT", 4), [0; 40]).unwrap();
    assert_eq!(found(directory.path()), Some(3));
}

#[test]
fn memory_confirms_at_once_and_forgets() {
    let (store, outcomes) = open_with(&LocalOffsets::Memory, &Aux::new()).unwrap();
    commit(&store, &outcomes, 5);
    assert_eq!(store.stored(&queue(0)), Some(at(5)));
    let (other, _) = open_with(&LocalOffsets::Memory, &Aux::new()).unwrap();
    assert_eq!(other.stored(&queue(0)), None);
}
