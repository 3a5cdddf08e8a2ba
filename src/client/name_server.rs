//! The list of name servers: how people write it, and which one is asked.

use std::collections::HashSet;
use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::random;

/// The name servers of one client. One is chosen and kept while it works; when it fails, the next one is.
pub(crate) struct NameServers {
    state: Mutex<State>,
}

struct State {
    servers: Vec<Arc<str>>,
    chosen: usize,
}

impl NameServers {
    /// In a random order, so that the clients of a cluster spread over its name servers.
    pub(crate) fn new(servers: Vec<Arc<str>>) -> Self {
        NameServers { state: Mutex::new(State { servers: shuffled(servers), chosen: 0 }) }
    }

    /// All of them, the one to be asked first in front.
    pub(crate) fn in_order(&self) -> Vec<Arc<str>> {
        let state = self.state.lock();
        let (before, from) = state.servers.split_at(state.chosen.min(state.servers.len()));
        from.iter().chain(before).cloned().collect()
    }

    /// This one answered: it is asked first from now on.
    pub(crate) fn worked(&self, server: &str) {
        let mut state = self.state.lock();
        if let Some(at) = state.servers.iter().position(|known| &**known == server) {
            state.chosen = at;
        }
    }

    /// This one did not answer. Only the chosen one moves the choice: others may have failed since.
    pub(crate) fn failed(&self, server: &str) {
        let mut state = self.state.lock();
        let count = state.servers.len();
        if state.servers.get(state.chosen).is_some_and(|chosen| &**chosen == server) {
            state.chosen = (state.chosen + 1) % count;
        }
    }

    pub(crate) fn contains(&self, server: &str) -> bool {
        self.state.lock().servers.iter().any(|known| &**known == server)
    }

    /// Takes a new list over, unless it is empty; the order of an unchanged one stays. Returns those that left.
    pub(crate) fn replace(&self, servers: Vec<Arc<str>>) -> Vec<Arc<str>> {
        let mut state = self.state.lock();
        let new: HashSet<&str> = servers.iter().map(|server| &**server).collect();
        let old: HashSet<&str> = state.servers.iter().map(|server| &**server).collect();
        if servers.is_empty() || new == old {
            return Vec::new();
        }
        let gone = state.servers.iter().filter(|server| !new.contains(&***server)).cloned().collect();
        let chosen = state.servers.get(state.chosen).cloned();
        state.servers = shuffled(servers);
        let kept = state.servers.iter().position(|server| Some(server) == chosen.as_ref());
        state.chosen = kept.unwrap_or(0);
        gone
    }
}

impl fmt::Debug for NameServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.in_order()).finish()
    }
}

/// Reads a list as people write it: `host:port` items, separated by `;`, `,` or spaces. Repeated ones count once.
///
/// # Errors
/// One line for each item that cannot be read.
pub(crate) fn parse_list(list: &str) -> Result<Vec<Arc<str>>, Vec<String>> {
    let (mut servers, mut problems) = (Vec::<Arc<str>>::new(), Vec::new());
    for item in
        list.split(|c: char| c == ';' || c == ',' || c.is_whitespace()).filter(|item| !item.is_empty())
    {
        match parse_address(item) {
            Ok(server) if servers.iter().any(|known| **known == *server) => {}
            Ok(server) => servers.push(server.into()),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(servers) } else { Err(problems) }
}

/// One address in the form that the sockets want: `host:port`, `[v6]:port`.
pub(crate) fn parse_address(item: &str) -> Result<String, String> {
    let plain = without_scheme(item);
    let Some((host, port)) = plain.rsplit_once(':') else {
        return Err(format!("`{item}` has no port (name servers usually listen on 9876)"));
    };
    let port = match port.parse::<u16>() {
        Ok(port) if port > 0 => port,
        _ => return Err(format!("`{item}` does not end with a port between 1 and 65535")),
    };
    if host.contains(':') {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        // The zone of a link-local address means nothing to anybody but this machine's resolver.
        let address = inner.split('%').next().unwrap_or(inner);
        return match address.parse::<Ipv6Addr>() {
            Ok(address) => Ok(format!("[{address}]:{port}")),
            Err(_) => Err(format!("`{item}` is not host:port, nor [IPv6 address]:port")),
        };
    }
    if host.is_empty() || !host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')) {
        return Err(format!("`{item}` is not host:port"));
    }
    Ok(format!("{host}:{port}"))
}

/// As in Java, `http://anything/host:port` means what follows the last slash.
fn without_scheme(item: &str) -> &str {
    let Some((scheme, rest)) = item.split_once("://") else { return item };
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return item;
    }
    let rest = rest.trim_end_matches('/');
    rest.rsplit('/').next().unwrap_or(rest)
}

fn shuffled(mut servers: Vec<Arc<str>>) -> Vec<Arc<str>> {
    for at in (1..servers.len()).rev() {
        servers.swap(at, random::below(at + 1));
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(list: &str) -> Vec<String> {
        parse_list(list).unwrap().iter().map(|server| server.to_string()).collect()
    }

    #[test]
    fn n5_every_usual_spelling_is_read() {
        let table: [(&str, &[&str]); 14] = [
            ("127.0.0.1:9876", &["127.0.0.1:9876"]),
            ("a:9876;b:9876", &["a:9876", "b:9876"]),
            (" a:9876 ; b:9876;", &["a:9876", "b:9876"]),
            ("a:9876,b:9877", &["a:9876", "b:9877"]),
            ("a:9876 b:9876\tc:1\n", &["a:9876", "b:9876", "c:1"]),
            ("a:9876;a:9876", &["a:9876"]),
            ("http://10.0.0.1:9876", &["10.0.0.1:9876"]),
            ("HTTP://10.0.0.1:9876/", &["10.0.0.1:9876"]),
            ("http://x/y/mq-inst.example.com:80", &["mq-inst.example.com:80"]),
            ("rocketmq_namesrv.svc.cluster.local:9876", &["rocketmq_namesrv.svc.cluster.local:9876"]),
            ("[::1]:9876", &["[::1]:9876"]),
            ("::1:9876", &["[::1]:9876"]),
            ("fe80::1%enp1s0:9876", &["[fe80::1]:9876"]),
            ("[fe80:0:0::1%2]:9876;fd00::2:9876", &["[fe80::1]:9876", "[fd00::2]:9876"]),
        ];
        for (list, servers) in table {
            assert_eq!(parsed(list), servers, "{list}");
        }
        assert!(parsed(" ; ,").is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for bad in [
            "localhost",
            "a:",
            "a:0",
            "a:99999",
            "a:b",
            ":9876",
            "fd00::2",
            "[::1]",
            "ftp://a:1",
            "a b/c:1",
            "täg:1",
        ] {
            let problems = parse_list(bad).unwrap_err();
            assert!(!problems.is_empty(), "{bad}");
        }
        assert_eq!(parse_list("localhost;a:1;b:x").unwrap_err().len(), 2);
    }

    #[test]
    fn the_chosen_one_is_kept_while_it_works() {
        let servers = NameServers::new(parse_list("a:1;b:1;c:1").unwrap());
        let first = servers.in_order();
        assert_eq!(servers.in_order(), first);
        servers.failed(&first[0]);
        let second = servers.in_order();
        assert_eq!(second, [first[1].clone(), first[2].clone(), first[0].clone()]);
        servers.failed(&first[0]);
        assert_eq!(servers.in_order(), second, "a late failure of another one changes nothing");
        servers.worked(&first[2]);
        assert_eq!(servers.in_order()[0], first[2]);
        servers.failed(&first[2]);
        assert_eq!(servers.in_order(), first, "after the last comes the first");
    }

    #[test]
    fn a_new_list_keeps_the_choice_if_it_can_and_an_empty_one_is_ignored() {
        let servers = NameServers::new(parse_list("a:1;b:1").unwrap());
        servers.worked("b:1");
        assert!(servers.replace(Vec::new()).is_empty());
        assert!(servers.replace(parse_list("b:1 a:1").unwrap()).is_empty());
        assert_eq!(&*servers.in_order()[0], "b:1");
        let gone = servers.replace(parse_list("c:1 b:1 d:1").unwrap());
        assert_eq!(gone, ["a:1".into()]);
        assert_eq!((&*servers.in_order()[0], servers.in_order().len()), ("b:1", 3));
    }
}
