//! What users of RocketMQ clients suffered, as they told it in public: kinds of fault, each with the name under which
//! they are kept. Each has a test here that holds the right behaviour, and whose name begins with that of the fault.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Of what is not here yet (transactions, POP, the command line) there is none. The letter is the field: offsets,
/// rebalance, locks and order, pulls and threads, retries and dead letters; network, stopping, the wire, producers,
/// security, operation, quick starts, use.
const FAULTS: &[(&str, &str)] = &[
    ("o1", "a read of the stored offset that timed out rewinds the queue"),
    ("o2", "the same while members come and go"),
    ("o3", "a queue that is consumed in order starts elsewhere because its offset is read twice"),
    ("o6", "broadcast: what is sent right after the start is missed"),
    ("o7", "a group that wants only what is new starts at the beginning, and nobody says why"),
    ("o9", "one message is stuck, the others run far ahead, and a restart repeats it all"),
    ("o10", "a broker that comes back with old offsets rolls the group back"),
    ("o11", "an offset that the broker has not got sends the queue back to its beginning"),
    ("o12", "a reset by an operator does nothing, or takes minutes"),
    ("o13", "a damaged file of offsets keeps the program from starting"),
    ("o15", "broadcast: offsets are lost with the restart, for their place has the name of the process"),
    ("r1", "two clients of one id take each other's queues"),
    ("r2", "members of one group subscribe different things, and messages are skipped without a word"),
    ("r3", "the queues of a broker that was away stay unowned"),
    ("r5", "queues that are added are not consumed before the next restart"),
    ("r6", "rounds of rebalancing at the same time leave a queue without pulls, or with two"),
    ("r7", "a flood of notifications slows the start down"),
    ("r8", "each round leaves a thread behind"),
    ("r10", "a queue that is lost and won again is pulled twice at once"),
    ("r12", "a queue that is full or suspended is taken for dead"),
    ("r16", "each restart of a member repeats a lot"),
    ("l1", "the first message in order comes after half a minute"),
    ("l2", "a lock runs out although it is renewed"),
    ("l4", "a message in order is retried for ever, whatever the limit"),
    ("l5", "nobody knows what becomes of a message in order that fails"),
    ("l6", "who has lost a queue keeps its lock"),
    ("l7", "the answer to a lock is compared with the question letter by letter, and no queue is had"),
    ("l9", "messages that belong together are spread over queues"),
    ("p1", "nothing is consumed any more after a loss of the network"),
    ("p3", "one message is stuck for weeks, for whoever looks after it has died"),
    ("p4", "a panic of the listener ends the consumption"),
    ("p5", "a broker that is busy for a moment is left alone for seconds"),
    ("p7", "more threads run than were set"),
    ("p8", "memory grows with the number of queues when listeners are slow"),
    ("p9", "a single message takes seconds to arrive"),
    ("d1", "a message is lost because it could not be sent back"),
    ("d3", "a message is sent back to the address in it, which nobody reaches"),
    ("d4", "a message that was sent back never comes again"),
    ("d5", "a message comes too often, or too seldom"),
    ("d6", "a message that was never begun counts as late"),
    ("d8", "a late listener is noticed twice as late"),
    ("d9", "a whole batch is retried for one message"),
    ("d12", "a dead letter cannot be consumed directly"),
    ("n1", "a broker is somewhere else, and consumers wait for its old address one after the other"),
    ("n3", "a name server that was retired, and knows nothing any more, is believed"),
    ("n5", "an address is refused for its spelling, or kept when its name means another one"),
    ("n6", "whatever is wrong, the error is that there is no route"),
    ("n7", "a broker advertises an address that cannot be reached from here"),
    ("n9", "after an outage the connection is not made again"),
    ("n11", "IPv6 addresses are cut at the wrong colon"),
    ("n12", "two clusters in one process share a connection"),
    ("n13", "who starts before the server or the topic is there never consumes"),
    ("s1", "offsets are stored before the listeners have ended"),
    ("s2", "nobody says what a shutdown left undone"),
    ("s4", "closing one consumer ends the others"),
    ("s5", "after a shutdown nothing can be started again"),
    ("s6", "threads and sockets are left behind"),
    ("s8", "dropping a handle crashes"),
    ("x1", "what brokers write is not quite JSON"),
    ("x2", "one version of a broker does not read what another one wrote"),
    ("x3", "the tools cannot read what a member answers"),
    ("x4", "a body is inflated by the wrong rule, or a damaged one ends the process"),
    ("x6", "bytes that are no frame raise what nobody catches"),
    ("x7", "an answer is neither a result nor an error"),
    ("x10", "an unknown request of a broker ends a loop"),
    ("x11", "a client without an address of the usual kind has no id"),
    ("x12", "two messages have the same id"),
    ("x13", "a request is written in an encoding that cannot hold it"),
    ("w1", "one broker that hangs takes the time of all attempts"),
    ("w2", "a busy broker is not passed by"),
    ("a1", "connections cannot be encrypted, or not plain"),
    ("a2", "some requests are signed wrongly"),
    ("a4", "wrong keys are noticed late"),
    ("m1", "the library prints, or writes files of its own"),
    ("m2", "there are no figures"),
    ("m5", "nobody can see what a slow consumer is doing"),
    ("f1", "a broker is asked before it knows the subscription, and the start takes half a minute"),
    ("f3", "a broker that does nothing is heavy"),
    ("f4", "each producer and consumer has a set of threads of its own"),
    ("u1", "who unsubscribes leaves queues that nobody consumes"),
    ("u2", "members broadcast unless told otherwise"),
    ("u3", "examples do not compile"),
    ("u5", "what threads share is not made for it"),
    ("u6", "there is a hidden async runtime"),
];

#[test]
fn each_fault_has_a_test_of_its_name() {
    let tests = tests_by_name();
    assert!(tests.len() > 500, "the reader of tests finds {}", tests.len());
    let has = |fault: &str| tests.iter().any(|test| test.starts_with(&format!("{fault}_")));
    let missing: Vec<_> = FAULTS.iter().filter(|(fault, _)| !has(fault)).collect();
    assert!(missing.is_empty(), "no test begins with the name of: {missing:#?}");
}

#[test]
fn each_test_of_a_fault_is_of_one_that_is_listed() {
    let listed: BTreeSet<&str> = FAULTS.iter().map(|(fault, _)| *fault).collect();
    assert_eq!(listed.len(), FAULTS.len(), "each once");
    let tests = tests_by_name();
    let strange: Vec<_> =
        tests.iter().filter(|test| fault_of(test).is_some_and(|fault| !listed.contains(fault))).collect();
    assert!(strange.is_empty(), "not listed here: {strange:?}");
}

/// `o12` of `o12_a_reset_is_followed`: a letter and a number.
fn fault_of(test: &str) -> Option<&str> {
    let (name, _) = test.split_once('_')?;
    let number = name.strip_prefix(|letter: char| letter.is_ascii_lowercase())?;
    number.parse::<u32>().is_ok().then_some(name)
}

#[test]
fn the_reader_of_tests_sees_them() {
    let text =
        "#[test]\n#[cfg(unix)]\nfn o1_one() {}\nfn helper() {}\n    #[test]\n    fn two() -> Result<()> {";
    assert_eq!(tests_in(text).collect::<Vec<_>>(), ["o1_one", "two"]);
    assert_eq!(["o12_x_y", "lz4_x", "o_1", "o1"].map(fault_of), [Some("o12"), None, None, None]);
}

fn tests_by_name() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<PathBuf> =
        ["src", "tests"].iter().map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                names.extend(tests_in(&std::fs::read_to_string(path).unwrap()).map(str::to_owned));
            }
        }
    }
    names
}

/// The name of the function after each `#[test]`.
fn tests_in(text: &str) -> impl Iterator<Item = &str> {
    let mut lines = text.lines().map(str::trim_start);
    std::iter::from_fn(move || {
        lines.find(|line| *line == "#[test]")?;
        let function = lines.find_map(|line| line.strip_prefix("fn "))?;
        function.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next()
    })
}
