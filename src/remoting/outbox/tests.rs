use super::*;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

/// Takes `room` bytes, then refuses; with `broken` it fails.
#[derive(Default)]
struct Pipe {
    room: Cell<usize>,
    got: RefCell<Vec<u8>>,
    broken: Cell<bool>,
    writes: Cell<usize>,
}

impl Pipe {
    fn with_room(room: usize) -> Self {
        let pipe = Self::default();
        pipe.room.set(room);
        pipe
    }

    fn got(&self) -> String {
        String::from_utf8(self.got.borrow().clone()).unwrap()
    }
}

impl Socket for Pipe {
    fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        self.writes.set(self.writes.get() + 1);
        if self.broken.get() {
            return Err(ErrorKind::ConnectionReset.into());
        }
        let n = bytes.len().min(self.room.get());
        if n == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.room.set(self.room.get() - n);
        self.got.borrow_mut().extend_from_slice(&bytes[..n]);
        Ok(n)
    }
}

fn open(limit: usize, pipe: &Pipe) -> Outbox {
    let outbox = Outbox::new(limit);
    outbox.open(pipe);
    outbox
}

fn append(outbox: &Outbox, frame: &str, opaque: i32) -> Result<bool, Refused> {
    let encode = |bytes: &mut Vec<u8>| {
        bytes.extend_from_slice(frame.as_bytes());
        Ok::<(), ()>(())
    };
    outbox.append(Some(opaque), encode).map(|taken| taken.unwrap())
}

fn send(outbox: &Outbox, frame: &str, opaque: i32, pipe: &Pipe) -> Result<Taken, Refused> {
    outbox.send(frame.as_bytes(), Some(opaque), pipe, None)
}

#[test]
fn a_frame_goes_straight_through_with_one_write() {
    let pipe = Pipe::with_room(100);
    let outbox = open(50, &pipe);
    send(&outbox, "hello", 1, &pipe).unwrap();
    assert_eq!((pipe.got().as_str(), pipe.writes.get(), outbox.len()), ("hello", 1, 0));
    assert!(!outbox.is_blocked());
}

#[test]
fn what_the_socket_refuses_is_written_later_and_in_order() {
    let pipe = Pipe::with_room(3);
    let outbox = open(50, &pipe);
    send(&outbox, "hello", 1, &pipe).unwrap();
    assert!(outbox.is_blocked());
    let writes = pipe.writes.get();
    send(&outbox, " world", 2, &pipe).unwrap();
    assert_eq!(pipe.writes.get(), writes, "a full socket is not asked again");
    pipe.room.set(4);
    outbox.writable(&pipe);
    assert_eq!(pipe.got(), "hello w");
    assert!(outbox.is_blocked());
    pipe.room.set(100);
    outbox.writable(&pipe);
    assert_eq!(pipe.got(), "hello world");
    assert!(!outbox.is_blocked());
}

#[test]
fn what_is_collected_before_the_connection_opens_goes_out_then() {
    let pipe = Pipe::with_room(100);
    let outbox = Outbox::new(50);
    send(&outbox, "one", 1, &pipe).unwrap();
    send(&outbox, "two", 2, &pipe).unwrap();
    outbox.open(&pipe);
    assert_eq!((pipe.got().as_str(), pipe.writes.get()), ("onetwo", 1));
}

#[test]
fn appended_frames_go_out_with_one_write() {
    let pipe = Pipe::with_room(100);
    let outbox = open(50, &pipe);
    assert!(append(&outbox, "a", 1).unwrap());
    assert!(!append(&outbox, "b", 2).unwrap());
    outbox.flush(&pipe);
    assert_eq!((pipe.got().as_str(), pipe.writes.get()), ("ab", 1));
    assert!(append(&outbox, "c", 3).unwrap(), "has to be announced again");
    send(&outbox, "d", 4, &pipe).unwrap();
    assert_eq!(pipe.got(), "abcd", "a direct send takes the appended ones along, in order");
}

#[test]
fn a_frame_that_cannot_be_encoded_leaves_nothing() {
    let pipe = Pipe::with_room(100);
    let outbox = open(50, &pipe);
    let encode = |bytes: &mut Vec<u8>| {
        bytes.push(7);
        Err("too long")
    };
    assert_eq!(outbox.append(Some(1), encode), Ok(Err("too long")));
    assert!(append(&outbox, "a", 2).unwrap());
    outbox.flush(&pipe);
    assert_eq!(pipe.got(), "a");
}

#[test]
fn takes_up_to_the_limit_plus_one_frame() {
    let pipe = Pipe::with_room(0);
    let outbox = open(4, &pipe);
    send(&outbox, "123", 1, &pipe).unwrap();
    send(&outbox, "456789", 2, &pipe).unwrap();
    assert_eq!(send(&outbox, "x", 3, &pipe).unwrap_err(), Refused::Full);
    pipe.room.set(6);
    outbox.writable(&pipe);
    send(&outbox, "x", 3, &pipe).unwrap();
}

#[test]
fn a_waiter_gets_the_room_that_a_flush_makes() {
    let outbox = Arc::new(Outbox::new(1));
    append(&outbox, "xx", 0).unwrap();
    let waiter = std::thread::spawn({
        let outbox = outbox.clone();
        move || {
            let by = Instant::now() + Duration::from_secs(10);
            let pipe = Pipe::with_room(100);
            outbox.send(b"yy", None, &pipe, Some(by)).map(|_| pipe.got())
        }
    });
    let pipe = Pipe::with_room(100);
    while outbox.state.lock().waiters == 0 {
        std::thread::yield_now();
    }
    outbox.open(&pipe);
    assert_eq!(waiter.join().unwrap(), Ok("yy".to_owned()));
    assert_eq!(pipe.got(), "xx");
}

#[test]
fn a_waiter_gives_up_at_its_deadline_and_at_the_end() {
    let outbox = Arc::new(Outbox::new(1));
    append(&outbox, "xx", 0).unwrap();
    let by = Instant::now() + Duration::from_millis(20);
    assert_eq!(outbox.send(b"y", None, &Pipe::default(), Some(by)).unwrap_err(), Refused::Full);
    assert!(Instant::now() >= by);
    let waiter = std::thread::spawn({
        let outbox = outbox.clone();
        move || outbox.send(b"yy", None, &Pipe::default(), Some(by + Duration::from_secs(10))).map(drop)
    });
    while outbox.state.lock().waiters == 0 {
        std::thread::yield_now();
    }
    outbox.close();
    assert_eq!(waiter.join().unwrap(), Err(Refused::Closed));
}

#[test]
fn a_frame_can_be_taken_back_until_its_first_byte_is_out() {
    let pipe = Pipe::with_room(1);
    let outbox = open(50, &pipe);
    send(&outbox, "aaa", 1, &pipe).unwrap();
    send(&outbox, "bbb", 2, &pipe).unwrap();
    send(&outbox, "ccc", 3, &pipe).unwrap();
    assert!(!outbox.cancel(1), "partly written");
    assert!(outbox.cancel(2));
    assert!(!outbox.cancel(2));
    pipe.room.set(100);
    outbox.writable(&pipe);
    assert_eq!(pipe.got(), "aaaccc");
    assert!(!outbox.cancel(3), "written");
}

#[test]
fn close_names_what_was_not_written_as_a_whole() {
    let pipe = Pipe::with_room(4);
    let outbox = open(50, &pipe);
    send(&outbox, "aaa", 1, &pipe).unwrap();
    send(&outbox, "bbb", 2, &pipe).unwrap();
    append(&outbox, "push", 9).unwrap();
    send(&outbox, "ccc", 3, &pipe).unwrap();
    assert_eq!(outbox.close(), vec![2, 9, 3]);
    assert_eq!(send(&outbox, "d", 4, &pipe).unwrap_err(), Refused::Closed);
    assert_eq!(outbox.len(), 0);
}

#[test]
fn a_broken_socket_is_told_once_and_keeps_the_frame_as_unwritten() {
    let pipe = Pipe::with_room(100);
    let outbox = open(50, &pipe);
    pipe.broken.set(true);
    assert!(matches!(send(&outbox, "aaa", 1, &pipe), Ok(Taken::Broken(_))));
    assert_eq!(send(&outbox, "bbb", 2, &pipe).unwrap_err(), Refused::Closed);
    assert_eq!(outbox.close(), vec![1]);
}

#[test]
fn any_sequence_of_sends_and_cancels_keeps_frames_whole() {
    // A small deterministic generator: the pattern of room, sends, appends and cancels is what matters.
    let mut seed = 7u32;
    let mut random = |n: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) % n
    };
    let pipe = Pipe::with_room(0);
    let outbox = open(10_000, &pipe);
    let mut expected = Vec::new();
    for i in 0..5_000i32 {
        let frame: String = format!("<{i}:{}>", "x".repeat(random(20) as usize));
        match random(3) {
            0 => drop(append(&outbox, &frame, i)),
            _ => drop(send(&outbox, &frame, i, &pipe)),
        }
        expected.push((i, frame));
        if random(4) == 0 {
            let victim = i - random(10) as i32;
            if outbox.cancel(victim) {
                expected.retain(|(opaque, _)| *opaque != victim);
            }
        }
        pipe.room.set(pipe.room.get() + random(30) as usize);
        if outbox.is_blocked() {
            outbox.writable(&pipe);
        }
    }
    pipe.room.set(usize::MAX);
    outbox.writable(&pipe);
    let expected: String = expected.into_iter().map(|(_, frame)| frame).collect();
    assert_eq!(pipe.got(), expected);
}

#[test]
fn where_the_io_thread_alone_writes_the_first_sender_tells_it() {
    let pipe = Pipe::with_room(100);
    let outbox = Outbox::relayed(8);
    assert!(matches!(send(&outbox, "early", 1, &pipe), Ok(Taken::Accepted)), "it is not open yet");
    assert!(matches!(outbox.open(&pipe), Taken::Left));
    assert!(matches!(send(&outbox, "more", 2, &pipe), Ok(Taken::Accepted)), "somebody has told it");
    assert_eq!(send(&outbox, "x", 3, &pipe).unwrap_err(), Refused::Full);

    let mut taken = Vec::new();
    assert!(outbox.relay(&mut taken, 6), "there is more");
    assert!(!outbox.cancel(2), "some of it is out");
    assert!(!outbox.relay(&mut taken, 6));
    assert_eq!((&taken[..], outbox.len(), outbox.is_blocked()), (&b"earlymore"[..], 0, false));

    assert_eq!(append(&outbox, "third", 4), Ok(true));
    assert!(matches!(outbox.flush(&pipe), Taken::Left));
    assert!(outbox.cancel(4));
    assert!(!outbox.relay(&mut taken, 6));
    assert_eq!((taken.len(), pipe.writes.get()), (9, 0));
    assert!(outbox.close().is_empty());
}
