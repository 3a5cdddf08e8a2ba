//! From the address of a server to sockets to dial. What may hang (DNS, the user's address map, certificates in files)
//! runs on `rmq-aux`, anew for each connection: the answer may have changed.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::Cause;
use super::address::{Target, parse};
use super::config::RemotingConfig;
use super::connection::Conn;
use super::reactor::Command;
use super::shared::Shared;
use super::tls::Plan;

/// Where a server is, or why that is not known.
pub(super) type Resolved = Result<Found, Cause>;

/// The addresses of a server, and how to begin TLS with it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) plan: Option<Plan>,
}

/// The address, where nothing has to be looked up.
pub(super) fn at_once(config: &RemotingConfig, address: &str) -> Option<SocketAddr> {
    let asks_nobody = config.address_map.is_none() && config.tls.is_none();
    match parse(address) {
        Ok(Target::Socket(socket)) if asks_nobody => Some(socket),
        _ => None,
    }
}

/// Has the address looked up; the result comes as a command.
pub(super) fn on_aux(shared: &Arc<Shared>, conn: &Arc<Conn>) {
    let config = shared.config.clone();
    let conn = conn.clone();
    // Weak: a look-up that hangs must not keep the sockets of a client that is gone.
    let shared_later = Arc::downgrade(shared);
    shared.aux.run(move || {
        let resolved = resolve(&config, &conn.address);
        if let Some(shared) = shared_later.upgrade() {
            shared.command(Command::Resolved(conn, resolved));
        }
    });
}

fn resolve(config: &RemotingConfig, address: &str) -> Resolved {
    let mapped = match &config.address_map {
        None => address.to_owned(),
        Some(map) => catch_unwind(AssertUnwindSafe(|| map(address))).map_err(|_| {
            log::warn!("the address map panicked for {address}");
            "the address map panicked"
        })?,
    };
    let (host, addresses) = match parse(&mapped)? {
        Target::Socket(socket) => (socket.ip().to_string(), vec![socket]),
        Target::Name { host, port } => {
            let found = (config.resolver)(&host, port);
            let addresses = found.map_err(|e| format!("cannot look up {host}: {e}"))?;
            (host, addresses)
        }
    };
    let plan = config.tls.as_ref().map(|tls| tls.plan(&host)).transpose()?;
    Ok(Found { addresses, plan })
}
