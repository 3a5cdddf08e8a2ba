//! What is wrong with the settings of a client, and what the environment adds to them.

use std::sync::Arc;
use std::time::Duration;

use super::{ClientBuilder, ClientConfig};
use crate::client::name_server;
use crate::error::Mistake;
use crate::message::topic_problem;
use crate::remoting::{Credentials, Tls};

impl ClientBuilder {
    /// Checks the settings and completes them from the environment: all mistakes at once.
    pub(crate) fn check(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<ClientConfig, Vec<Mistake>> {
        let mut check =
            Check { mistakes: Vec::new(), environment: Environment::new(self.prefix.as_deref(), &variable) };
        let name_servers = check.name_servers(self);
        let credentials = check.credentials(self.credentials.as_ref());
        let tls = check.tls(self.tls.as_ref());
        let (namespace, namespace_v2) = check.namespaces(self);
        check.numbers(self);
        if check.mistakes.is_empty() {
            Ok(ClientConfig {
                name_servers,
                look_up: self.look_up.clone(),
                credentials,
                tls,
                namespace,
                namespace_v2,
                client_ip: self.client_ip,
                instance_name: self.instance_name.clone(),
                address_map: self.address_map.clone(),
                connect_timeout: self.connect_timeout,
                request_timeout: self.request_timeout,
                start_timeout: self.start_timeout,
                in_background: self.in_background,
                route_interval: self.route_interval,
                heartbeat_interval: self.heartbeat_interval,
                cache_limit: self.cache_limit,
                max_frame_size: self.max_frame_size,
                trace_topic: self.trace_topic.clone(),
                clock: self.clock.clone(),
                encoding: self.encoding,
            })
        } else {
            Err(check.mistakes)
        }
    }
}

struct Check<'a> {
    mistakes: Vec<Mistake>,
    environment: Environment<'a>,
}

impl Check<'_> {
    fn mistake(&mut self, setting: &'static str, problem: impl Into<String>) {
        self.mistakes.push(Mistake::new(setting, problem));
    }

    fn name_servers(&mut self, builder: &ClientBuilder) -> Vec<Arc<str>> {
        if builder.look_up.is_some() {
            if builder.name_servers.is_some() {
                self.mistake("name_servers_from", "name_servers is set as well: set one of them");
            }
            return Vec::new();
        }
        let (list, origin) = match &builder.name_servers {
            Some(list) => (Some(list.clone()), "name_servers".to_owned()),
            None => self.environment.name_servers(),
        };
        let Some(list) = list else {
            self.mistake("name_servers", format!("none given, and {origin} set in the environment"));
            return Vec::new();
        };
        match name_server::parse_list(&list) {
            Ok(servers) if servers.is_empty() => {
                self.mistake("name_servers", format!("{origin} names no server"));
                servers
            }
            Ok(servers) => servers,
            Err(problems) => {
                problems.into_iter().for_each(|problem| self.mistake("name_servers", problem));
                Vec::new()
            }
        }
    }

    fn credentials(&mut self, set: Option<&Credentials>) -> Option<Credentials> {
        let credentials = match set {
            Some(credentials) => Some(credentials.clone()),
            None => self.credentials_from_environment(),
        }?;
        if credentials.access_key.is_empty() {
            self.mistake("credentials", "the access key is empty");
        }
        if credentials.secret_key.is_empty() {
            self.mistake("credentials", "the secret key is empty");
        }
        if !cfg!(feature = "acl") {
            self.mistake("credentials", "requests cannot be signed: this build is without the feature `acl`");
        }
        Some(credentials)
    }

    fn credentials_from_environment(&mut self) -> Option<Credentials> {
        let (access, secret) = (self.environment.get("ACCESS_KEY"), self.environment.get("SECRET_KEY"));
        match (access, secret) {
            (Some(access), Some(secret)) => {
                let credentials = Credentials::new(access, secret);
                Some(match self.environment.get("SECURITY_TOKEN") {
                    Some(token) => credentials.security_token(token),
                    None => credentials,
                })
            }
            (None, None) => None,
            (Some(_), None) => {
                self.mistake("environment", "there is an access key, but no secret key");
                None
            }
            (None, Some(_)) => {
                self.mistake("environment", "there is a secret key, but no access key");
                None
            }
        }
    }

    #[cfg(feature = "tls")]
    fn tls(&mut self, set: Option<&Tls>) -> Option<Tls> {
        let tls = set.cloned().or_else(|| self.environment.get("TLS_CA").map(Tls::ca_file))?;
        if let Some(problem) = tls.problem() {
            self.mistake("tls", problem);
        }
        Some(tls)
    }

    #[cfg(not(feature = "tls"))]
    fn tls(&mut self, set: Option<&Tls>) -> Option<Tls> {
        if self.environment.get("TLS_CA").is_some() {
            let problem = "a TLS authority is given, but this build is without the feature `tls`";
            self.mistake("environment", problem);
        }
        set.cloned()
    }

    fn namespaces(&mut self, builder: &ClientBuilder) -> (Option<String>, Option<String>) {
        let v2 = builder.namespace_v2.clone();
        let v1 = match &builder.namespace {
            None if v2.is_none() => self.environment.get("NAMESPACE"),
            set => set.clone(),
        };
        if v1.is_some() && v2.is_some() {
            self.mistake("namespace", "namespace_v2 is set as well: at most one of them");
        }
        for (setting, name) in [("namespace", &v1), ("namespace_v2", &v2)] {
            if let Some(problem) = name.as_deref().and_then(namespace_problem) {
                self.mistake(setting, problem);
            }
        }
        (v1, v2)
    }

    fn numbers(&mut self, builder: &ClientBuilder) {
        if builder.instance_name.as_deref().is_some_and(|name| name.trim().is_empty()) {
            self.mistake("instance_name", "is empty");
        }
        for (setting, timeout) in [
            ("connect_timeout", builder.connect_timeout),
            ("request_timeout", builder.request_timeout),
            ("start_timeout", builder.start_timeout),
        ] {
            self.between(setting, timeout, Duration::from_millis(1), Duration::from_secs(3600));
        }
        self.between("route_interval", builder.route_interval, SHORTEST_INTERVAL, Duration::from_secs(3600));
        self.between("heartbeat_interval", builder.heartbeat_interval, SHORTEST_INTERVAL, LONGEST_HEARTBEAT);
        if let Some(problem) = builder.trace_topic.as_deref().and_then(topic_problem) {
            self.mistake("trace_topic", problem);
        }
        if builder.cache_limit == 0 {
            self.mistake("cache_limit", "0 bytes hold no message");
        }
        if !(SMALLEST_FRAME..=LARGEST_FRAME).contains(&builder.max_frame_size) {
            let size = builder.max_frame_size;
            self.mistake("max_frame_size", format!("{size} bytes: between 64 KiB and 1 GiB are possible"));
        }
    }

    fn between(&mut self, setting: &'static str, value: Duration, least: Duration, most: Duration) {
        if !(least..=most).contains(&value) {
            self.mistake(setting, format!("{value:?}: between {least:?} and {most:?} are possible"));
        }
    }
}

/// The variables `PREFIX_NAME`; empty ones do not count.
struct Environment<'a> {
    prefix: Option<&'a str>,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Environment<'a> {
    fn new(prefix: Option<&'a str>, variable: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Environment { prefix, variable }
    }

    fn get(&self, name: &str) -> Option<String> {
        self.read(&format!("{}_{name}", self.prefix?))
    }

    /// `PREFIX_NAMESRV`, else `NAMESRV_ADDR`; and where one would have to look.
    fn name_servers(&self) -> (Option<String>, String) {
        let own = self.prefix.map(|prefix| format!("{prefix}_NAMESRV"));
        for name in own.iter().map(String::as_str).chain([NAMESRV_ADDR]) {
            if let Some(list) = self.read(name) {
                return (Some(list), name.to_owned());
            }
        }
        let wanted = own
            .map_or(format!("{NAMESRV_ADDR} is not"), |own| format!("neither {own} nor {NAMESRV_ADDR} is"));
        (None, wanted)
    }

    fn read(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.trim().is_empty())
    }
}

fn namespace_problem(name: &str) -> Option<String> {
    let wrong = name.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-'));
    match wrong {
        Some(wrong) => {
            Some(format!("`{name}` contains {wrong:?}: letters, digits, `_` and `-` are possible"))
        }
        None if name.is_empty() => Some("is empty".into()),
        None => None,
    }
}

const NAMESRV_ADDR: &str = "NAMESRV_ADDR";
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);
/// Brokers forget a client that has been silent for 120 s.
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(100);
const SMALLEST_FRAME: usize = 64 << 10;
const LARGEST_FRAME: usize = 1 << 30;
