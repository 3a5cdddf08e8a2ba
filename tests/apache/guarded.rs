//! A second pair of servers, which speak TLS only and want signed requests.

use crate::scenarios::certificates::Authority;
use crate::scenarios::{Target, eventually};
use crate::variable;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// They live in a folder of the others, with which they are gone if this program ends before its time.
pub struct GuardedApache {
    home: String,
    name_server: String,
    broker: String,
}

impl GuardedApache {
    pub fn start(authority: &Authority) -> Self {
        let home = format!("{}/guarded", variable("RMQ_APACHE_HOME"));
        let folder = authority.ca().parent().map(Path::to_owned).expect("it is in a folder");
        let version = variable("RMQ_APACHE_VERSION");
        let settings = servers(&["start-guarded", &version, &home, &folder.display().to_string()]);
        let setting = |name: &str| {
            let line = settings.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.unwrap_or_else(|| panic!("no {name} in {settings}")).to_owned()
        };
        let (name_server, broker) = (setting("namesrv"), setting("broker"));
        GuardedApache { home, name_server, broker }
    }
}

impl Drop for GuardedApache {
    fn drop(&mut self) {
        // Kept for a look at its logs when the test has failed; the script removes it.
        if !std::thread::panicking() {
            servers(&["stop", &self.home]);
        }
    }
}

impl Target for GuardedApache {
    fn name_server(&self) -> String {
        self.name_server.clone()
    }

    fn broker(&self) -> String {
        self.broker.clone()
    }

    fn pass_until(&self, limit: Duration, what: &str, done: &dyn Fn() -> bool) {
        eventually(limit, what, done);
    }

    fn kill_broker(&self) {
        servers(&["kill-broker", &self.home]);
    }

    fn start_broker(&self) {
        servers(&["start-broker", &self.home]);
    }

    fn restart_broker(&self) {
        servers(&["end-broker", &self.home]);
        servers(&["start-broker", &self.home]);
    }
}

/// What it prints.
fn servers(arguments: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/apache/servers");
    let output = Command::new(script).args(arguments).output().expect("bash is there");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "servers {arguments:?}: {}\n{err}", output.status);
    out.into_owned()
}
