# Functions for bash: what .ci/run and .ci/full have in common. Sourced in the top folder of a clone.

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$CARGO_TARGET_DIR/ci"
results=$CARGO_TARGET_DIR/ci/results
: > "$results"

# check NAME COMMAND...: its output goes to target/ci/NAME.log.
check() {
    local name=$1 log=$CARGO_TARGET_DIR/ci/${1//[ \/]/-}.log begun=$SECONDS result=ok shown=
    shift
    "$@" > "$log" 2>&1 < /dev/null || { result=FAIL; shown=$'\n'$(tail -n 80 "$log"); }
    echo $result >> "$results"
    # At once, for another check may run beside this one.
    printf '%-4s  %4d s  %s%s\n' $result $((SECONDS - begun)) "$name" "$shown"
}

# side_by_side FUNCTION FUNCTION: two rows of checks that mostly wait. Their servers take ports of their own.
side_by_side() {
    # What runs in the background hears nothing of Ctrl-C.
    trap 'trap - INT; kill -TERM 0' INT
    "$1" &
    RMQ_APACHE_PORTS=26000 "$2"
    wait $!
    trap - INT
}

# finish: the last line, and whether all is well.
finish() {
    local passed failed
    passed=$(grep -c ok "$results" || true) failed=$(grep -c FAIL "$results" || true)
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

# check_under_load BUILD SIMULATOR RANDOM STRESS: release or debug, what bounds the simulator, as NAME=VALUE, and the seconds
# of the others.
check_under_load() {
    check "simulator, $1, $2" simulator "$1" "$2"
    check "real threads by seeds, $1, $3 s" .ci/random "$3" "$1"
    check "deadlocks, $4 s" .ci/stress "$4"
}

# simulator BUILD BOUND
simulator() {
    local build=
    [ "$1" = debug ] || build=--$1
    env "$2" cargo test $build --lib -- sim::promises --nocapture
}

# check_scenarios VERSION
check_scenarios() {
    check "Apache RocketMQ $1" tests/apache/run "$1"
}

# check_the_rest VERSION: what else runs against Apache RocketMQ of this version and its Java client.
check_the_rest() {
    check "Apache RocketMQ $1 with slaves" tests/apache/run-slaves "$1"
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
