//! What reading the same bytes off a loopback socket costs: the floor under every drain.
//!
//! A thread per side, nothing but sockets: the server answers each request of 300 bytes with an answer as long as a
//! pull of 32 messages with bodies of 128 bytes; the client reads it, looks for the end, and asks again.
//! `loopback_floor [--count 1000000] [--pulls-per-s 0]` prints CPU seconds of the reading thread per million messages.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

/// 32 stored messages of 346 bytes, and a header.
const ANSWER: usize = 32 * 346 + 220;
const REQUEST: usize = 300;
const PER_ANSWER: u64 = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut count: u64 = 1_000_000;
    let mut pulls_per_s: u64 = 0;
    let mut words = std::env::args().skip(1);
    while let Some(name) = words.next() {
        let value = words.next().ok_or(format!("{name} has no value"))?.parse()?;
        match name.as_str() {
            "--count" => count = value,
            "--pulls-per-s" => pulls_per_s = value,
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let pulls = count.div_ceil(PER_ANSWER);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut socket = TcpStream::connect(listener.local_addr()?)?;
    socket.set_nodelay(true)?;
    let server = std::thread::spawn(move || serve(&listener, pulls, pulls_per_s));

    let (mut answer, request) = (vec![0; ANSWER], [0; REQUEST]);
    let (begun, used) = (Instant::now(), cpu()?);
    let mut sum = 0_u64;
    for _ in 0..pulls {
        socket.write_all(&request)?;
        socket.read_exact(&mut answer)?;
        sum += u64::from(answer[ANSWER - 1]);
    }
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu()? - used);
    server.join().map_err(|_| "the server panicked")??;
    assert_eq!(sum, pulls, "every answer was read to its end");
    println!(
        "{{\"op\":\"floor\",\"messages\":{},\"seconds\":{seconds:.3},\"pulls_per_s\":{:.0},\"cpu_s_per_million\":{:.3}}}",
        pulls * PER_ANSWER,
        pulls as f64 / seconds,
        cpu / ((pulls * PER_ANSWER) as f64 / 1e6),
    );
    Ok(())
}

fn serve(listener: &TcpListener, pulls: u64, pulls_per_s: u64) -> std::io::Result<()> {
    let (mut socket, _) = listener.accept()?;
    socket.set_nodelay(true)?;
    let (mut request, mut answer) = ([0; REQUEST], vec![0; ANSWER]);
    answer[ANSWER - 1] = 1;
    let begun = Instant::now();
    for n in 0..pulls {
        socket.read_exact(&mut request)?;
        if let Some(nanos) = n.saturating_mul(1_000_000_000).checked_div(pulls_per_s) {
            let due = begun + Duration::from_nanos(nanos);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        socket.write_all(&answer)?;
    }
    Ok(())
}

/// Of this thread.
fn cpu() -> nix::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD)?;
    let times = [usage.user_time(), usage.system_time()];
    Ok(times.iter().map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6).sum())
}
