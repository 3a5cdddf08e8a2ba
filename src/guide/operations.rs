//! Running it: what to tune, and what a line of the log means.
//!
//! # Tuning
//!
//! | wish | setting |
//! |---|---|
//! | a listener that waits for others | more `consume_threads`: as many as calls should wait side by side |
//! | a listener that computes | `consume_threads` near the number of cores |
//! | one database transaction for many messages | `consume_batch_size`; a batch never spans two queues; only an orderly one spans pulls |
//! | less memory | `cache_limit` of the client (all queues together), `pull_threshold_bytes` (each queue) |
//! | fewer repeats after a crash | `commit_interval`, `max_span` |
//! | fewer duplicates when members come and go | listeners that are short, or look at `Batch::is_cancelled` |
//!
//! `PushConsumer::stats` shows for each queue its lag, and why it is not pulling if it is not. Much `wait_time` with all
//! threads busy asks for more threads or a faster listener; a lag without either, for more queues or members.
//!
//! # Metrics
//!
//! With the feature `metrics` a client publishes these through the facade of that name, every ten seconds and when a
//! handle ends; times are told as they are taken. Install the recorder before the first client starts. All have the
//! label `client` (its id), those of producers and consumers `group`, and some `topic`.
//!
//! | name | kind | what |
//! |---|---|---|
//! | `rocketmq_client_connections`, `…_pending_requests`, `…_cached_bytes`, `…_threads` | gauge | as in `ClientStats` |
//! | `rocketmq_client_received_bytes_total`, `…_sent_bytes_total`, `…_lost_traces_total` | counter | likewise |
//! | `rocketmq_producer_sent_messages_total`, `…_failed_messages_total`, `…_retries_total` | counter | as in `ProducerStats` |
//! | `rocketmq_producer_in_flight_messages`, `…_in_flight_bytes` | gauge | likewise |
//! | `rocketmq_producer_send_seconds` | histogram | from the call to the final result; a batch counts once |
//! | `rocketmq_consumer_threads`, `…_busy_threads`, `…_cached_messages`, `…_cached_bytes` | gauge | as in `ConsumerStats` |
//! | `rocketmq_consumer_reconsumed_messages_total`, `…_dead_letters_total` | counter | likewise |
//! | `rocketmq_consumer_pulled_messages_total`, `…_succeeded_messages_total`, `…_failed_messages_total` | counter, by topic | likewise |
//! | `rocketmq_consumer_queues`, `…_waiting_queues`, `…_lag_messages` | gauge, by topic | queues owned, those that are not pulling, and how far they are behind |
//! | `rocketmq_consumer_listener_seconds` | histogram | each listener call, hooks included |
//!
//! # The log
//!
//! | line | meaning, and what to do |
//! |---|---|
//! | `topic … does not exist` (event, error of `start`) | nobody has created it: create it, or let the brokers create topics |
//! | `broker … is no longer at …` | it has moved, as its route says; what was asked of its old address is asked anew |
//! | `broker … refuses the heartbeat` | permissions, or the group does not exist there |
//! | `… has not moved for about …` | a queue stands still; the reason follows, and is in `stats()` too |
//! | `… has been in its listener on … and is sent back` | the listener was slower than `consume_timeout`: the message comes again while the first call still runs; if no broker took it until that accepts it, it does not |
//! | `… could not be sent back, next try in …` | no broker takes the failed message; it stays here, and the offset behind it |
//! | `… has lost the lock of … to another member` | its broker forgot its locks, or this member was away for a minute: what it had in hand is repeated there |
//! | `… did not renew the locks of …` | tried again after 3 s; after 30 s without a renewal nothing of these queues starts |
//! | `… became a dead letter of …` | all retries failed: look at the topic `%DLQ%group` |
//! | `… is given up by … after … retries` | broadcasting: the listener did not accept it, and in this mode nobody keeps it |
//! | `… is damaged and was put aside as …` | the file of local offsets (power loss, full disk): the one before it is used if there is one, else `consume_from` |
//! | `… does not exist, going on at …` | the broker has deleted what was to be read next, or lost its end |
//! | `the last offset of … was not confirmed` | the next owner of the queue repeats what was consumed since |
//! | `the certificate of the server …` (error of a call) | what to add or set is in the line; until then no connection is made |
//! | `… demands a client certificate` | `Tls::client_certificate`; it is noticed just after the connection is open |
//! | `TLS without a look at certificates` | `Tls::insecure`, which is for tests |
//! | `traces come faster than they can be stored`, `traces cannot be stored` | records of the message trace are missing, nothing else; `ClientStats::lost_traces` says how many |
//! | `… is subscribed … here and … by another member …` | members of one group subscribe different things, or have different filters: make them the same; in a rolling deploy it passes |
//! | `another client in the group has the id …` | `instance_name` is the same in two processes: leave it alone, or give each its own |
//! | `topic … cannot be used: it is a static topic …` (event, error of `start`) | its queues are logical ones, which this client does not know |
//! | `… panicked` | with "listener", "strategy" or "address map": your code; else a bug of ours, which we want to hear of |
//!
//! # Broadcasting
//!
//! Each member keeps its offsets in `<directory>/<group>.json` (`LocalOffsets`, by default in `~/.rocketmq_offsets`), where
//! a restart finds them again; a container needs a volume there, or `LocalOffsets::Memory`. Two consumers of one group on
//! one machine need a directory each: the second one is told so by `start`. The first start takes over the newest file
//! that a Java client has left for the group under the same directory. A write goes to a new file, which then takes the
//! place of the old one, and that stays as `.bak`.
//!
//! # Polling
//!
//! A program that polls with automatic commits has said that it is done with a message when it polls again, or shuts
//! down: a crash in between repeats what the last poll returned. With `auto_commit(false)`, `commit` and
//! `commit_offsets` return when the brokers have confirmed. A queue that goes to another member waits three seconds for
//! that commit; later ones fail, and name the queue. `TOOLS_GROUP` with `assign_topic` reads a topic and leaves nothing
//! behind.
//!
//! # Certificates
//!
//! With the feature `tls`, `Tls` says whom to believe. Its files are read again for each new connection: to replace a
//! certificate, replace the file, and the next connection uses it. Those that are open stay as they are.
//!
//! # Ending
//!
//! Call `shutdown` with a grace longer than a usual listener call, and look at `ShutdownReport::is_clean`. A killed
//! process repeats what it had not committed; if it consumed in order, its queues come to others when their locks
//! expire, a minute after the last renewal.
