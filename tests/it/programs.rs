//! Programs as users write them, made before the library was: they compile as they stand, and their tests run. Those
//! whose servers can be chosen run in `programs_run.rs`.

/// One whose `main` is called.
macro_rules! program {
    ($name:ident, $file:literal) => {
        pub mod $name {
            include!($file);

            pub fn run() -> std::process::ExitCode {
                std::process::Termination::report(main())
            }
        }
    };
}

program!(answer_with_result, "../programs/answer_with_result.rs");
program!(batch_job, "../programs/batch_job.rs");
program!(broadcast_config, "../programs/broadcast_config.rs");
program!(dead_letters, "../programs/dead_letters.rs");
program!(hooks, "../programs/hooks.rs");
program!(orderly, "../programs/orderly.rs");
program!(own_offsets, "../programs/own_offsets.rs");
#[allow(unused_must_use, reason = "as its author wrote it")]
mod with_a_warning {
    program!(sql_and_timestamp, "../programs/sql_and_timestamp.rs");
}
pub use with_a_warning::sql_and_timestamp;
program!(tail, "../programs/tail.rs");
#[cfg(all(feature = "acl", feature = "tls"))]
program!(tls_acl, "../programs/tls_acl.rs");

#[allow(dead_code, reason = "a program whose `main` nobody calls here")]
#[path = "../programs/answers.rs"]
mod answers;
#[allow(dead_code, reason = "a program whose `main` nobody calls here")]
#[path = "../programs/metrics.rs"]
mod metrics;
#[allow(dead_code, reason = "a program whose `main` nobody calls here")]
#[path = "../programs/readme.rs"]
mod readme;
#[allow(dead_code, reason = "a program whose `main` nobody calls here")]
#[path = "../programs/shared_client.rs"]
mod shared_client;
#[allow(dead_code, reason = "a program whose `main` nobody calls here")]
#[allow(clippy::redundant_closure, reason = "as its author wrote it")]
#[path = "../programs/stopper_and_threads.rs"]
mod stopper_and_threads;
#[allow(dead_code, reason = "a program whose `main` nobody calls here")]
#[path = "../programs/thread_bench.rs"]
mod thread_bench;
#[path = "../programs/unit_test.rs"]
mod unit_test;
#[allow(dead_code, reason = "a program whose `main` nobody calls here")]
#[path = "../programs/web_service.rs"]
mod web_service;

/// What a reader of the documentation copies is compiled here, and run by the checks.
#[test]
fn u3_every_example_and_program_is_compiled_and_run() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    let here = std::fs::read_to_string(root.join("tests/it/programs.rs")).unwrap();
    for program in names("tests/programs") {
        assert!(here.contains(&format!("programs/{program}.rs")), "{program}");
    }
    let run = std::fs::read_to_string(root.join(".ci/examples")).unwrap();
    for example in names("examples") {
        assert!(run.contains(&format!("\"$examples/{example}\"")), "{example}");
    }
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    for block in readme.lines().filter(|line| line.starts_with("```rust")) {
        assert!(["```rust", "```rust,no_run"].contains(&block), "{block} is not compiled");
    }
    let lib = std::fs::read_to_string(root.join("src/lib.rs")).unwrap();
    assert!(lib.contains("include_str!(\"../README.md\")"));
}
