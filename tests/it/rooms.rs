//! What the source may not do, read from the source itself: import against the direction of the rooms, print, or
//! grow more dependencies than the README says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each room and what it may import, itself apart. Client and broker meet on the wire only, so that each tests the
/// other honestly; the handles of the users do not know each other, what two of them need is moved down.
const ROOMS: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("sync", &[]),
    ("message", &["clock", "sync"]),
    ("protocol", &["clock", "sync", "message"]),
    ("error", &["clock", "sync", "message", "protocol"]),
    ("remoting", &["clock", "sync", "message", "protocol", "error"]),
    ("client", &["clock", "sync", "message", "protocol", "error", "remoting"]),
    ("producer", &["clock", "sync", "message", "protocol", "error", "remoting", "client"]),
    ("consumer", &["clock", "sync", "message", "protocol", "error", "remoting", "client"]),
    ("admin", &["clock", "sync", "message", "protocol", "error", "remoting", "client"]),
    ("broker", &["clock", "sync", "message", "protocol", "error", "remoting"]),
];

#[test]
fn imports_go_one_way() {
    let exports = root_exports();
    let mut wrong = Vec::new();
    for file in sources() {
        let Some((_, allowed)) = ROOMS.iter().find(|(room, _)| *room == file.room) else { continue };
        for (line, name) in file.crate_paths() {
            let room = exports.get(&name).unwrap_or(&name);
            if *room != file.room && !allowed.contains(&room.as_str()) {
                wrong.push(format!("{}:{line} uses crate::{name}", file.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "against the direction of the rooms:\n{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_imports_sees_them() {
    let text = "use crate::{\n    client::{a, b}, // crate::x\n    error::E,\n};\nfn f() { crate::clock::now(); my_crate::g() }\n";
    let file = Source { path: PathBuf::new(), room: String::new(), text: text.to_string() };
    let seen: Vec<_> = file.crate_paths().into_iter().map(|(line, name)| format!("{line} {name}")).collect();
    assert_eq!(seen, ["1 client", "1 error", "5 clock"]);
    assert_eq!(root_exports().get("Client").map_or("client", String::as_str), "client");
}

#[test]
fn every_file_of_the_library_is_in_a_room() {
    let known: BTreeSet<&str> = ROOMS.iter().map(|(room, _)| *room).chain(["lib", "bin", "guide"]).collect();
    let strays: Vec<_> = sources().into_iter().filter(|file| !known.contains(file.room.as_str())).collect();
    assert!(strays.is_empty(), "no room in this test: {strays:?}");
}

#[test]
fn the_protocol_knows_no_socket_thread_or_lock() {
    let banned = ["mio::", "std::thread", "crossbeam", "parking_lot", "TcpStream", "TcpListener", "Mutex"];
    for file in sources().iter().filter(|file| file.room == "protocol" && !file.is_test()) {
        for (line, text) in file.code_before_tests() {
            let found = banned.iter().find(|word| text.contains(*word));
            assert_eq!(found, None, "{}:{line}", file.path.display());
        }
    }
}

#[test]
fn m1_the_library_prints_nothing() {
    for file in sources().iter().filter(|file| file.room != "bin") {
        for (line, text) in file.code() {
            let found = ["println!(", "print!(", "dbg!("].iter().find(|word| text.contains(*word));
            assert_eq!(found, None, "{}:{line}", file.path.display());
        }
    }
}

/// What threads share is made for it by the compiler's word, and no block takes that word back.
#[test]
fn u5_nothing_is_unsafe() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(manifest.contains("unsafe_code = \"forbid\""));
    for file in sources() {
        let blocks: Vec<_> = file.code().filter(|(_, text)| text.contains("unsafe {")).collect();
        assert!(blocks.is_empty(), "{}: {blocks:?}", file.path.display());
    }
}

#[test]
fn u6_dependencies_stay_few_and_none_is_an_async_runtime() {
    let (default, bare) = (crates(&[]), crates(&["--no-default-features"]));
    assert!(default.len() <= 36, "{} crates by default: {default:?}", default.len());
    assert!(bare.len() <= 24, "{} crates without default features: {bare:?}", bare.len());
    for name in crates(&["--all-features"]) {
        let runtime =
            ["tokio", "async-std", "smol", "async-executor", "futures"].iter().find(|r| name == **r);
        assert_eq!(runtime, None);
    }
}

#[derive(Debug)]
struct Source {
    path: PathBuf,
    room: String,
    text: String,
}

impl Source {
    /// The lines without their comments, numbered from one.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .map(|line| line.split("//").next().unwrap_or(""))
            .enumerate()
            .map(|(n, l)| (n + 1, l))
    }

    /// Tests may do what the library may not.
    fn code_before_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code().take_while(|(_, text)| !text.starts_with("mod tests {"))
    }

    fn is_test(&self) -> bool {
        self.path.iter().any(|part| part == "tests" || part == "tests.rs")
    }

    /// The first name of each path that begins with `crate::`, with its line; of `crate::{a, b}` both.
    fn crate_paths(&self) -> Vec<(usize, String)> {
        let mut paths = Vec::new();
        let code: Vec<_> = self.code().collect();
        for (at, (line, text)) in code.iter().enumerate() {
            for (start, found) in text.match_indices("crate::") {
                let rest = &text[start + found.len()..];
                // `$crate::` in a macro goes the same way as `crate::`; `some_crate::` is something else.
                if text[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                    continue;
                }
                let following = code[at + 1..].iter().flat_map(|(_, text)| text.chars().chain(['\n']));
                let names = if rest.starts_with('{') {
                    first_names_of_group(rest.chars().skip(1).chain(['\n']).chain(following))
                } else {
                    vec![identifier(rest)]
                };
                paths.extend(names.into_iter().map(|name| (*line, name)));
            }
        }
        paths
    }
}

/// `a::b, c::{d, e}, f}` gives a, c, f.
fn first_names_of_group(text: impl Iterator<Item = char>) -> Vec<String> {
    let (mut depth, mut element, mut names) = (0, String::new(), Vec::new());
    for c in text {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(std::mem::take(&mut element)),
            _ if depth == 0 => element.push(c),
            _ => {}
        }
    }
    names.push(element);
    names.iter().map(|name| identifier(name.trim())).filter(|name| !name.is_empty()).collect()
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// What lib.rs re-exports and the room it comes from: a lower room may not reach an upper one this way either.
fn root_exports() -> BTreeMap<String, String> {
    let lib = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let mut exports = BTreeMap::new();
    for statement in lib.split("pub use ").skip(1) {
        let path = statement.split(';').next().unwrap_or("");
        let room = identifier(path.trim_start_matches("crate::"));
        for name in path.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty()) {
            if !ROOMS.iter().any(|(room, _)| *room == name) {
                exports.insert(name.to_string(), room.clone());
            }
        }
    }
    exports
}

fn sources() -> Vec<Source> {
    let (mut files, mut folders) = (Vec::new(), vec![root().join("src")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(root().join("src")).unwrap().to_path_buf();
                let room =
                    inside.iter().next().and_then(|first| first.to_str()).unwrap().trim_end_matches(".rs");
                let text = std::fs::read_to_string(&path).unwrap();
                files.push(Source { room: room.to_string(), path: inside, text });
            }
        }
    }
    assert!(!files.is_empty());
    files
}

/// The crates of a build with these features for this machine, this one included.
fn crates(features: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .args(features)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    tree.lines().map(|line| line.trim_end_matches(" (*)").to_string()).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
