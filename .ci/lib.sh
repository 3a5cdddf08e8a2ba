# Functions for bash: what .ci/run and .ci/full have in common. Sourced in the top folder of a clone.

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$CARGO_TARGET_DIR/ci"
passed=0 failed=0

# check NAME COMMAND...: its output goes to target/ci/NAME.log.
check() {
    local name=$1 log=$CARGO_TARGET_DIR/ci/${1//[ \/]/-}.log begun=$SECONDS
    shift
    if "$@" > "$log" 2>&1 < /dev/null; then
        passed=$((passed + 1))
        printf 'ok    %4d s  %s\n' $((SECONDS - begun)) "$name"
    else
        failed=$((failed + 1))
        printf 'FAIL  %4d s  %s\n' $((SECONDS - begun)) "$name"
        tail -n 80 "$log"
    fi
}

# finish: the last line, and whether all is well.
finish() {
    printf '%d min %02d s\n' $((SECONDS / 60)) $((SECONDS % 60))
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}

skip() { printf '##### SKIPPED: %s\n' "$*"; }

# What needs nothing but cargo, and takes no longer than it takes.
check_the_code() {
    cargo fmt --version > /dev/null 2>&1 || rustup component add rustfmt
    cargo clippy --version > /dev/null 2>&1 || rustup component add clippy
    check "format" cargo fmt --check
    check "format of the fuzz targets" cargo fmt --check --manifest-path fuzz/Cargo.toml
    check "clippy, everything" cargo clippy --all-targets --all-features -- -D warnings
    check "clippy, library" cargo clippy --lib -- -D warnings
    check "clippy, library without default features" cargo clippy --lib --no-default-features -- -D warnings
    check "clippy, suites" clippy_of_the_suites
    check "tests" cargo test
    check "examples" .ci/examples
    check "models under loom" models_under_loom
    check "lock file for the stated rust-version" fresh_lock_file_fits_rust_version
    check "fuzz targets" fuzz_targets_build
    check "docs" env RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --features broker,tls
    check "docs of private items" env RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --features broker,tls --document-private-items
}

# check_under_load SIMULATOR RANDOM BUILD STRESS: the first is what bounds the simulator, as NAME=VALUE, the third the build
# of the second; numbers are seconds.
check_under_load() {
    check "simulator, $1" env "$1" cargo test --release --lib -- sim::promises --nocapture
    check "real threads by seeds, $2 s" .ci/random "$2" "$3"
    check "deadlocks, $4 s" .ci/stress "$4"
}

# check_against VERSION: everything that runs against Apache RocketMQ of this version and its Java client.
check_against() {
    check "Apache RocketMQ $1" tests/apache/run "$1"
    [ ! -e tests/apache/run-slaves ] || check "Apache RocketMQ $1 with slaves" tests/apache/run-slaves "$1"
    check "official Java client $1" tests/java/run "$1"
}

# check_some_against VERSION: what is named in the file, which says why.
check_some_against() {
    check "Apache RocketMQ $1, in part" tests/apache/run "$1" $(scenarios_for apache "$1")
    check "official Java client $1, in part" tests/java/run "$1" $(scenarios_for java "$1")
}

# scenarios_for SUITE VERSION
scenarios_for() {
    awk -v suite="$1" '$1 == suite { print $2 }' ".ci/in-part-$2"
}

# has_java: or says that suites are left out.
has_java() {
    command -v javac > /dev/null && command -v mvn > /dev/null && return
    skip "the suites against Apache RocketMQ and its Java client: they need a JDK and Maven"
    return 1
}

# Each program under tests/ that `cargo test` leaves out, and `--all-targets` with it.
clippy_of_the_suites() {
    local suites
    suites=$(sed -n '/^\[\[test\]\]/,/^$/s/^name = "\(.*\)"/--test \1/p' Cargo.toml)
    cargo clippy --all-features $suites -- -D warnings
}

# Without dev-dependencies, whose crates may want a newer compiler than the library does.
fresh_lock_file_fits_rust_version() {
    local folder=$CARGO_TARGET_DIR/ci/package out
    rm -rf "$folder"
    mkdir -p "$folder/src"
    touch "$folder/src/lib.rs"
    awk '/^\[/ { kept = !/^\[(dev-dependencies|\[)/ } kept' Cargo.toml > "$folder/Cargo.toml"
    out=$(cd "$folder" && { cargo generate-lockfile || cargo generate-lockfile --offline; } 2>&1) || return 1
    # A crate of which no older version would do is named with the compiler that it wants.
    ! grep '(requires Rust' <<< "$out"
}

# Checking does not link: an empty library spares the C++ compiler that libFuzzer wants.
fuzz_targets_build() {
    printf '!<arch>\n' > "$CARGO_TARGET_DIR/ci/libempty.a"
    CUSTOM_LIBFUZZER_PATH=$CARGO_TARGET_DIR/ci/libempty.a cargo check --manifest-path fuzz/Cargo.toml
}

# Their own target folder: the flag holds for every crate.
models_under_loom() {
    local out
    out=$(RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$CARGO_TARGET_DIR/loom cargo test --lib -- loom_ 2>&1) || { echo "$out"; return 1; }
    grep 'loom_.* ok$' <<< "$out"
}
