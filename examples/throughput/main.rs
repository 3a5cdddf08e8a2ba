//! Measures a drain, to be put beside other clients: `throughput fill|drain|idle|member|footprint|broker --name value …`.
//!
//! Each command prints one JSON line, `footprint` one for each mode and number of queues. See the README, section "Speed", for what to run.

mod args;
mod broker;
mod drain;
mod fill;
mod footprint;
mod members;
mod meter;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match args::Args::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => return usage(&problem),
    };
    let done = match arguments.command() {
        "fill" => fill::run(&arguments),
        "drain" => drain::run(&arguments),
        "idle" => members::idle(&arguments),
        "member" => members::member(&arguments),
        "footprint" => footprint::run(&arguments),
        "broker" => broker::run(&arguments),
        other => return usage(&format!("unknown command {other:?}")),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("throughput: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage(problem: &str) -> ExitCode {
    eprintln!(
        "throughput: {problem}
usage: throughput fill   --namesrv N --topic T --count C [--size 128] [--batch 32] [--lanes 4]
       throughput drain  --namesrv N --topic T --count C [--mode push|pull] [--consume-batch 1] [--threads 20] [--pull-batch 32] [--timeout-s 120]
       throughput idle   --namesrv N --topic T [--queues 16] [--threads 20] [--settle-s 15] [--seconds 60]
       throughput member --namesrv N --topic T --group G
       throughput footprint [--cache-mib 64] [--settle-s 3]
       throughput broker --listen HOST:PORT --topic T:QUEUES [--topic …]"
    );
    ExitCode::from(2)
}

/// What every command comes back with: whether it did all it should.
type Outcome = Result<bool, Box<dyn std::error::Error>>;
