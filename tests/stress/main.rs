//! Clients, consumers of every mode and producers, started, changed and stopped from many threads at once, while deadlocks
//! are looked for. In a build of its own, in which each lock knows who waits for it: `.ci/stress [SECONDS]`.
//!
//! `RMQ_STRESS_SECONDS` says how long (default 30).

#![allow(clippy::unwrap_used, reason = "a helper that unwraps has failed its test, and says where")]

mod actions;
mod pool;
#[path = "../it/seeded.rs"]
#[allow(dead_code, reason = "another program uses the rest of it")]
mod seeded;
mod watch;
#[path = "../it/wire.rs"]
#[allow(dead_code, reason = "another program uses the rest of it")]
mod wire;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use actions::World;
use seeded::{Random, seed, variable};

/// Threads that act at once; listeners and the one that plays the broker's operator come on top.
const ACTORS: u64 = 8;

#[test]
fn nobody_waits_for_ever() {
    let seconds = Duration::from_secs(variable("RMQ_STRESS_SECONDS").unwrap_or(30));
    let seed = seed();
    let world = Arc::new(World::new());
    let watched = world.clone();
    let watch = thread::spawn(move || watch::run(&watched.watched));
    let end = Instant::now() + seconds;
    let act = |name: String, seed: u64, act: fn(&Arc<World>, &mut Random)| {
        let (world, mut random) = (world.clone(), Random(seed));
        let body = move || {
            while Instant::now() < end {
                act(&world, &mut random);
            }
        };
        thread::Builder::new().name(name).spawn(body).unwrap()
    };
    let mut actors: Vec<_> = (0..ACTORS).map(|n| act(format!("actor-{n}"), seed ^ n, World::act)).collect();
    actors.push(act("operator".to_owned(), seed ^ ACTORS, World::operate));
    for actor in actors {
        actor.join().unwrap();
    }
    world.end();
    world.watched.over.store(true, Ordering::SeqCst);
    watch.join().unwrap();
    world.assert_all_was_tried();
}
