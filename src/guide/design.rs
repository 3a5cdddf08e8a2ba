//! Why it is built as it is.
//!
//! # Rooms
//!
//! Imports go one way, which a test holds: `message` → `protocol` → `error` → `remoting` → `client` → `producer`,
//! `consumer`. `protocol` turns bytes into values and back, and knows no socket, thread or lock. `remoting` knows
//! addresses and numbers of requests, never topics. `client` is what producers and consumers share. The embedded
//! `broker` meets the client on the wire only, so that each tests the other. The first lines of each room say what it
//! must not know.
//!
//! What decides is plain data and functions, which get the present time as an argument: the life of an owned queue
//! (`consumer/assignment.rs`), its next pull (`fetch.rs`), its messages (`process_queue.rs`), who owns what
//! (`rebalance.rs`). Threads carry out what these answer, and bring back what came of it.
//!
//! # One pull, from the socket to the offset
//!
//! 1. `rmq-io` splits the stream into frames, finds by its number who waits for an answer, and hands it over.
//! 2. `rmq-pull` finds the messages in the frame without copying them, drops those of other tags, and keeps them
//!    together as one *run* in the process queue of their queue. It asks for more at once.
//! 3. Consume threads claim messages from the run with one atomic step each. Waking a thread costs more than
//!    everything else about a message: as few are woken as can do the work.
//! 4. A run in which everything is finished lets the offset of its queue advance, up to the oldest unfinished message.
//!    `rmq-rebalance` commits it.
//!
//! With a pull consumer the threads of the program stand in the place of the consume threads. What `poll` hands out is
//! finished as far as the process queue is concerned, in the same step that takes it: a queue that is revoked, reset or
//! left by `seek` has either handed a message out before, or keeps it. How far it may be committed is noted beside that.
//!
//! # Not obvious
//!
//! * A failed message is sent back to its broker, and counts as finished only when the broker has confirmed it.
//! * A queue that was taken away and came back is another process queue: late results of the first come to nothing.
//! * No broker is asked for messages or members before it has acknowledged a heartbeat with the subscription as it is.
//! * In order, the offset of a queue is read after its lock was granted, and the lock goes back after the last commit.
//! * A member believes in a lock for half of its life at the broker, and after a lost connection not at all: then the
//!   lock is asked for first, and after it the stored offset, which tells whether somebody else had the queue meanwhile.
//!   Consume threads compare how often the connection was lost themselves: an allocation strategy that hangs delays
//!   whatever `rmq-rebalance` decides, but not that.
//! * A queue may always hold one answer, whatever the limits say: otherwise one stuck listener would stop all others.
//! * With TLS nobody but `rmq-io` encrypts or writes: callers leave their bytes in the outbox and wake it.
//! * Locks are held one at a time, and never while user code runs.
//! * Library threads never wait for an answer, so that a server that hangs holds up nothing but its own queues.
//!
//! # How the promises are held
//!
//! `cargo test` runs the deciding parts of several consumers against model brokers, in virtual time and by seeds, and
//! asks at every step whether a promise is broken; mistakes that are put in on purpose show that the questions find
//! them (`consumer/sim.rs`). `ROCKETMQ_SIM_SECONDS=60 cargo test --release --lib sim::promises` runs more of it, and
//! `ROCKETMQ_SIM_SEED` repeats one run and tells all that happened. What it cannot see is tried with real threads and
//! sockets (`tests/it/*random.rs`, longer with `.ci/random`), who waits for whom by many threads that do everything at once
//! while deadlocks are looked for (`.ci/stress`), and the memory order of what threads share by
//! models under loom.
