//! From the address of a server to sockets to dial. What may hang (DNS, the user's address map) runs on `rmq-aux`,
//! anew for each connection: the answer may have changed.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::address::{Target, parse};
use super::config::{AddressMap, RemotingConfig, Resolver};
use super::connection::Conn;
use super::reactor::Command;
use super::shared::Shared;

/// The addresses of a host, or why there are none.
pub(super) type Resolved = Result<Vec<SocketAddr>, String>;

/// The address, where nothing has to be looked up.
pub(super) fn at_once(config: &RemotingConfig, address: &str) -> Option<SocketAddr> {
    match parse(address) {
        Ok(Target::Socket(socket)) if config.address_map.is_none() => Some(socket),
        _ => None,
    }
}

/// Has the address looked up; the result comes as a command.
pub(super) fn on_aux(shared: &Arc<Shared>, conn: &Arc<Conn>) {
    let (map, resolver) = (shared.config.address_map.clone(), shared.config.resolver.clone());
    let conn = conn.clone();
    // Weak: a look-up that hangs must not keep the sockets of a client that is gone.
    let shared_later = Arc::downgrade(shared);
    shared.aux.run(move || {
        let resolved = resolve(map.as_ref(), &resolver, &conn.address);
        if let Some(shared) = shared_later.upgrade() {
            shared.command(Command::Resolved(conn, resolved));
        }
    });
}

fn resolve(map: Option<&AddressMap>, resolver: &Resolver, address: &str) -> Resolved {
    let mapped = match map {
        None => address.to_owned(),
        Some(map) => catch_unwind(AssertUnwindSafe(|| map(address))).map_err(|_| {
            log::warn!("the address map panicked for {address}");
            "the address map panicked".to_owned()
        })?,
    };
    match parse(&mapped)? {
        Target::Socket(socket) => Ok(vec![socket]),
        Target::Name { host, port } => {
            resolver(&host, port).map_err(|e| format!("cannot look up {host}: {e}"))
        }
    }
}
