//! The promises, tried over thousands of random runs in virtual time.
//!
//! A run is a few members of one group, one or two model brokers, and a network that delays, drops, reorders and cuts,
//! all driven by one agenda and one seed. They consume concurrently, in order or by polling, or broadcast, one on
//! each of a few machines, started again and again. Programs that poll may choose their queues, and keep offsets,
//! themselves. Members join, leave and are killed; brokers restart with older offsets, or move to other addresses;
//! operators reset; listeners fail, hang and come back late. What decides is the real thing: [`Groups`](super::rebalance_loop) with
//! their assignments, [`Pulls`](super::pulls) with fetching and sifting, [`SendBacks`](super::send_back), process queues
//! with their runs and claims, and of the client what brokers were told and when heartbeats go. What is played instead:
//! sockets, channels and threads (`net`, `loops`), the consume threads (`worker`), routes, and brokers. In order,
//! the renewals of [`Locks`](super::lock_loop), leases and turns are real as well (`locks`, `in_order`); brokers refuse
//! locks, forget them, with their connections or without a word, and let them end.
//!
//! At every step the ledger is asked whether a promise is broken: 1 (no commit passes an unfinished message), 2 (no
//! made-up offset), 3 (one pull in flight, and answers to former generations change nothing), 4 (a queue that is not
//! pulling has a reason), 5 (limits), 7 (no duplicate after a clean leave), 12 (told before asked); in order also 8 (a
//! queue is unlocked when its listener has ended and its offset is stored), and that nothing is overtaken, that one
//! member at a time is inside of a queue, beside those whose lock the broker forgot and who have not heard of it
//! yet, and that it believes in its lock. In the end, when nothing has gone wrong for a while, everything must have been
//! consumed and committed, on each machine of those that broadcast.
//!
//! A run that fails says its seed. `ROCKETMQ_SIM_SEED=n` runs that one alone and prints all that happened. How many are
//! run, and from which on, say the variables of [`stretch`].

mod broker;
mod checks;
mod choosing;
mod core;
mod deeds;
mod disk;
mod end;
mod faults;
mod in_order;
mod inbox;
mod ledger;
mod locks;
mod loops;
mod member;
mod moves;
mod mutants;
mod net;
mod plan;
mod polling;
mod rng;
mod service;
mod stretch;
mod told;
mod worker;
mod world;

use std::io::Write;
use std::time::Instant;

use mutants::Mutant;
use stretch::{Stretch, number};
use world::World;

/// A run that broke a promise.
#[derive(Debug)]
#[allow(dead_code, reason = "shown when a test fails")]
struct Failure {
    seed: u64,
    what: String,
    /// What happened last.
    events: Vec<String>,
}

/// Runs one seed. A failing one is run once more, to tell what happened: the last so many lines.
fn simulate(seed: u64, mutant: Option<Mutant>, lines: usize) -> Result<u64, Failure> {
    let base = Instant::now();
    let mut world = World::new(seed, mutant, base, false);
    let Err(what) = world.run() else { return Ok(world.steps) };
    let mut again = World::new(seed, mutant, base, true);
    let told_again = again.run();
    assert_eq!(told_again, Err(what.clone()), "seed {seed} does not repeat itself");
    Err(Failure { seed, what, events: again.last_lines(lines) })
}

#[test]
fn promises_hold_over_thousands_of_runs() {
    if let Some(seed) = number("ROCKETMQ_SIM_SEED") {
        return show(simulate(seed, None, usize::MAX).err().into_iter().collect());
    }
    let stretch = Stretch::from_environment();
    let done = stretch.run(None);
    if stretch.was_asked_for {
        // Past what the test harness catches: who asks for a stretch wants to know how far it came.
        let _ = writeln!(std::io::stderr(), "{done}");
    }
    show(done.failures);
}

fn show(failures: Vec<Failure>) {
    let shown = failures.iter().map(|Failure { seed, what, events }| {
        format!("seed {seed}: {what}\n{}\nrun it alone with ROCKETMQ_SIM_SEED={seed}", events.join("\n"))
    });
    let shown: Vec<String> = shown.collect();
    assert!(shown.is_empty(), "{}", shown.join("\n\n"));
}
