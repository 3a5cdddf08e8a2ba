//! From settings to a running client.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

#[cfg(feature = "tls")]
use crate::error::Mistake;
use crate::error::{Attempt, Error, ErrorKind, Result};
use crate::protocol::body::{ClusterInfo, HeartbeatData};
use crate::protocol::{Frame, RemotingCommand, RequestCode, ResponseCode};
use crate::remoting::{CallError, Incoming, LinkEvent, Remoting, RemotingConfig};

use super::call::failed_attempt;
use super::control::{Control, Input, PROBE_TOPIC, route_request};
use super::fetch::{Unwanted, ask_in_turn};
use super::heartbeat::Told;
use super::instance::{Instance, Parts};
use super::name_server::{self, NameServers};
use super::wakes::Wakes;
use super::{ClientConfig, random};

/// Starts a client: its threads, and unless it connects in the background, the first answer of a name server.
pub(super) fn start(config: ClientConfig) -> Result<Arc<Instance>> {
    let deadline = Instant::now() + config.start_timeout;
    let (inbox, outbox) = unbounded();
    let told = Arc::new(Told::default());
    let wakes = Arc::new(Wakes::new(inbox.clone()));
    let queued_requests = Arc::new(AtomicUsize::new(0));
    let remoting = start_remoting(&config, &inbox, &told, &wakes, &queued_requests)?;
    let starting = Starting { config: &config, remoting: &remoting, deadline };
    starting.try_certificates()?;
    let name_servers = starting.name_servers()?;
    let local = if config.in_background { None } else { Some(starting.connect(&name_servers)?) };
    if config.credentials.is_some() && !config.in_background {
        starting.try_credentials(&name_servers)?;
    }
    let ip = config.client_ip.or(local.map(|local| local.ip())).or_else(|| address_towards(&name_servers));
    let id = client_id(&config, ip);
    let parts = Parts { id, ip, config, remoting, name_servers, told, wakes, inbox };
    let instance = Arc::new(Instance::new(parts));
    run_control(&instance, outbox, queued_requests)?;
    log::info!("client {} started, name servers {:?}", instance.id, instance.name_servers);
    Ok(instance)
}

fn run_control(
    instance: &Arc<Instance>,
    outbox: Receiver<Input>,
    queued_requests: Arc<AtomicUsize>,
) -> Result<()> {
    let control = Control::new(instance.clone(), outbox, queued_requests);
    let thread = instance.spawn("rmq-control", move || control.run());
    let thread = thread.map_err(|error| Error::io("cannot start thread rmq-control", error))?;
    *instance.control.lock() = Some(thread);
    Ok(())
}

fn start_remoting(
    config: &ClientConfig,
    inbox: &Sender<Input>,
    told: &Arc<Told>,
    wakes: &Arc<Wakes>,
    queued_requests: &Arc<AtomicUsize>,
) -> Result<Remoting> {
    let (links, told) = (inbox.clone(), told.clone());
    let on_link = move |event: LinkEvent| {
        // At once, and not when the control loop comes to it: nobody may take the broker for told meanwhile.
        match &event {
            LinkEvent::Up { address, link, .. } => told.connection_began(address, *link),
            LinkEvent::Down { address, .. } => told.connection_ended(address),
        }
        drop(links.send(Input::Link(event)));
    };
    let (requests, wakes, queued) = (inbox.clone(), wakes.clone(), queued_requests.clone());
    let on_request = move |incoming: Incoming| match incoming.code() {
        RequestCode::NOTIFY_CONSUMER_IDS_CHANGED => wakes.add(|pending| pending.ids_changed = true),
        _ if queued.fetch_add(1, Ordering::Relaxed) >= MOST_REQUESTS => {
            queued.fetch_sub(1, Ordering::Relaxed);
            let answer = RemotingCommand::response(ResponseCode::SYSTEM_BUSY, 0);
            incoming.respond(answer.remark("too many requests wait in this client"));
        }
        _ => drop(requests.send(Input::Request(incoming))),
    };
    let remoting = RemotingConfig {
        connect_timeout: config.connect_timeout,
        max_frame: config.max_frame_size,
        encoding: config.encoding,
        address_map: config.address_map.clone(),
        credentials: config.credentials.clone(),
        tls: config.tls.clone(),
        namespace_v2: config.namespace_v2.clone(),
        on_link: Arc::new(on_link),
        on_request: Arc::new(on_request),
        ..RemotingConfig::default()
    };
    Remoting::start(remoting).map_err(|error| Error::io("cannot start thread rmq-io", error))
}

struct Starting<'a> {
    config: &'a ClientConfig,
    remoting: &'a Remoting,
    deadline: Instant,
}

impl Starting<'_> {
    fn name_servers(&self) -> Result<NameServers> {
        let Some(look_up) = self.config.look_up.clone() else {
            return Ok(NameServers::new(self.config.name_servers.clone()));
        };
        if self.config.in_background {
            // The control loop looks them up, as it does later.
            return Ok(NameServers::new(Vec::new()));
        }
        let (tell, found) = bounded(1);
        self.remoting.aux().run(move || drop(tell.send(look_up())));
        let list = match found.recv_deadline(self.deadline) {
            Ok(Ok(list)) => list,
            Ok(Err(problem)) => {
                let text = format!("looking up the name servers: {problem}");
                return Err(Error::new(ErrorKind::Unreachable, text));
            }
            Err(error) if error.is_disconnected() => {
                return Err(Error::new(ErrorKind::Unreachable, "the look-up of the name servers panicked"));
            }
            Err(_) => return Err(Error::timeout("the look-up of the name servers took too long")),
        };
        match name_server::parse_list(&list) {
            Ok(servers) if !servers.is_empty() => Ok(NameServers::new(servers)),
            Ok(_) => Err(Error::new(ErrorKind::Unreachable, "the look-up of the name servers found none")),
            Err(problems) => {
                let text = format!("the look-up of the name servers found: {}", problems.join("; "));
                Err(Error::new(ErrorKind::Unreachable, text))
            }
        }
    }

    /// What is wrong with the files of certificates is not left to the first connection to find out.
    #[cfg(feature = "tls")]
    fn try_certificates(&self) -> Result<()> {
        let Some(tls) = self.config.tls.clone() else { return Ok(()) };
        if tls.believes_anybody() {
            log::warn!("TLS without a look at certificates: anybody on the way can pose as the server");
        }
        if self.config.in_background {
            return Ok(());
        }
        let (tell, told) = bounded(1);
        self.remoting.aux().run(move || drop(tell.send(tls.plan("localhost").map(drop))));
        match told.recv_deadline(self.deadline) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(cause)) if cause.kind() == ErrorKind::Config => {
                Err(Error::config(vec![Mistake::new("tls", cause.to_string())]))
            }
            Ok(Err(cause)) => Err(Error::new(cause.kind(), format!("tls: {cause}"))),
            Err(_) => Err(Error::timeout("reading the files with the certificates took too long")),
        }
    }

    #[cfg(not(feature = "tls"))]
    fn try_certificates(&self) -> Result<()> {
        Ok(())
    }

    /// Any answer of a name server will do. Our end of that connection.
    fn connect(&self, servers: &NameServers) -> Result<SocketAddr> {
        let (server, ()) = self
            .ask(servers, || route_request(PROBE_TOPIC), |_| Ok(()))
            .map_err(|attempts| Error::failed("connecting to the name servers", attempts))?;
        let local = self.remoting.local_address(&server);
        // The connection may be gone again; the address only names this client.
        Ok(local.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0))))
    }

    /// Name servers do not look at signatures: a broker has to be asked. A heartbeat that names no group changes
    /// nothing there.
    fn try_credentials(&self, servers: &NameServers) -> Result<()> {
        let mut attempts = Vec::new();
        for address in self.masters(servers)? {
            let began = Instant::now();
            let command = RemotingCommand::request(RequestCode::HEART_BEAT).body(self.empty_heartbeat());
            let until = self.deadline.min(began + self.config.request_timeout);
            let attempt = match self.remoting.call(&address, command, until) {
                Ok(frame) => match verdict_on_credentials(&address, &frame, began.elapsed()) {
                    None => return Ok(()),
                    Some(attempt) => attempt,
                },
                Err(error) => failed_attempt(&address, &error, began.elapsed()),
            };
            let refused = attempt.kind == ErrorKind::Refused;
            attempts.push(attempt);
            if refused {
                return Err(Error::failed("trying the credentials", attempts));
            }
        }
        match attempts.is_empty() {
            true => log::warn!("there is no broker to try the credentials on"),
            false => return Err(Error::failed("trying the credentials", attempts)),
        }
        Ok(())
    }

    fn masters(&self, servers: &NameServers) -> Result<Vec<String>> {
        let request = || RemotingCommand::request(RequestCode::GET_BROKER_CLUSTER_INFO);
        let read = |frame: &Frame| {
            ClusterInfo::read(frame.body()).map_err(|error| Unwanted::useless(error.to_string()))
        };
        let (_, cluster) = self
            .ask(servers, request, read)
            .map_err(|attempts| Error::failed("looking for brokers", attempts))?;
        let masters = cluster.broker_addr_table.values().filter_map(|broker| broker.broker_addrs.get(&0));
        Ok(masters.cloned().collect())
    }

    /// Only the client id is in it; the address part is not known yet and nobody keeps it.
    fn empty_heartbeat(&self) -> Vec<u8> {
        HeartbeatData { client_id: client_id(self.config, self.config.client_ip), ..Default::default() }
            .write()
    }

    fn ask<T>(
        &self,
        servers: &NameServers,
        request: impl Fn() -> RemotingCommand,
        accept: impl Fn(&Frame) -> Result<T, Unwanted>,
    ) -> Result<(Arc<str>, T), Vec<Attempt>> {
        ask_in_turn(self.remoting, servers, request, accept, self.config.request_timeout, self.deadline)
    }
}

/// `None`: accepted.
fn verdict_on_credentials(address: &str, frame: &Frame, elapsed: Duration) -> Option<Attempt> {
    match frame.command_without_body() {
        Ok(answer) if answer.response_code() == ResponseCode::SUCCESS => None,
        Ok(answer) => {
            Some(Attempt::answered(address, answer.response_code(), answer.remark.as_deref(), elapsed))
        }
        Err(error) => Some(failed_attempt(address, &CallError::Decode(error), elapsed)),
    }
}

/// `ip@name`, in the form that brokers and allocation strategies take apart. Unique unless the user named it.
fn client_id(config: &ClientConfig, ip: Option<IpAddr>) -> String {
    let ip = match ip.unwrap_or(IpAddr::from([127, 0, 0, 1])) {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    match &config.instance_name {
        Some(name) => format!("{ip}@{name}"),
        None => format!("{ip}@{}#{}", std::process::id(), random::number()),
    }
}

/// The address of this machine from which the first server with a numeric address would be reached. Nothing is sent:
/// connecting a UDP socket only asks the routing table.
fn address_towards(servers: &NameServers) -> Option<IpAddr> {
    servers.in_order().iter().find_map(|server| {
        let server: SocketAddr = server.parse().ok()?;
        let any: IpAddr = if server.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(server).ok()?;
        Some(socket.local_addr().ok()?.ip())
    })
}

/// Requests of brokers that may wait for the control loop. It handles one in microseconds, so more than this is a
/// flood, and may not fill the memory.
const MOST_REQUESTS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ClientBuilder;
    use crate::protocol::ids::UniqueIds;

    fn config(builder: ClientBuilder) -> ClientConfig {
        builder.check(|_| None).unwrap()
    }

    #[test]
    fn ids_are_unique_and_name_the_address() {
        let config = config(ClientBuilder::new().name_servers("127.0.0.1:1"));
        let ip = Some("10.1.2.3".parse().unwrap());
        let (one, two) = (client_id(&config, ip), client_id(&config, ip));
        assert_ne!(one, two);
        let prefix = format!("10.1.2.3@{}#", std::process::id());
        assert!(one.starts_with(&prefix) && two.starts_with(&prefix), "{one}");
    }

    #[test]
    fn x11_ids_need_no_address_of_this_machine() {
        let config = config(ClientBuilder::new().name_servers("127.0.0.1:1"));
        let prefix = format!("127.0.0.1@{}#", std::process::id());
        assert!(client_id(&config, None).starts_with(&prefix));
        let prefix = format!("[fe80::1]@{}#", std::process::id());
        assert!(client_id(&config, Some("fe80::1".parse().unwrap())).starts_with(&prefix));
        assert_ne!(client_id(&config, None), client_id(&config, None));
        // Known by names only, or nothing leads there.
        for list in ["broker:1", "255.255.255.255:1", "[ff00::]:1;broker:1"] {
            let servers = NameServers::new(name_server::parse_list(list).unwrap());
            let id = client_id(&config, address_towards(&servers));
            assert!(id.contains(&format!("@{}#", std::process::id())), "{list}: {id}");
        }
        let ids = UniqueIds::new(None, 1);
        assert_ne!(ids.next(0), ids.next(0));
    }

    #[test]
    fn ids_can_be_named() {
        let named = config(ClientBuilder::new().name_servers("127.0.0.1:1").instance_name("billing-1"));
        assert_eq!(client_id(&named, Some("fd00::2".parse().unwrap())), "[fd00::2]@billing-1");
    }

    #[test]
    fn the_address_towards_a_server_needs_no_connection() {
        let servers = NameServers::new(name_server::parse_list("nowhere.invalid:1;127.0.0.1:1").unwrap());
        assert_eq!(address_towards(&servers), Some([127, 0, 0, 1].into()));
    }
}
