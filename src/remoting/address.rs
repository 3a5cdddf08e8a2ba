//! `host:port` in its spellings.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// What an address asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Socket(SocketAddr),
    /// Has to be looked up.
    Name {
        host: String,
        port: u16,
    },
}

/// Reads `host:port`, `1.2.3.4:port`, `[v6]:port`, and a bare `v6:port`, as brokers advertise it, whose port follows
/// the last colon. A zone (`%eth0`) is dropped: it names an interface of the machine that wrote it.
///
/// The error says what is wrong with the text.
pub(crate) fn parse(address: &str) -> Result<Target, String> {
    let problem = |what: &str| format!("`{address}` is no address: {what}");
    let (host, port) = address.trim().rsplit_once(':').ok_or_else(|| problem("a port is missing"))?;
    let port: u16 =
        port.parse().ok().filter(|port| *port > 0).ok_or_else(|| problem("the port is no number"))?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if let Some(ip) = numeric(bare.unwrap_or(host)) {
        return Ok(Target::Socket(SocketAddr::new(ip, port)));
    }
    if host.is_empty() {
        return Err(problem("a host is missing"));
    }
    if bare.is_some() || host.contains([':', '[', ']', '/', ' ']) {
        return Err(problem("the host is neither a name nor an IP address"));
    }
    Ok(Target::Name { host: host.to_owned(), port })
}

fn numeric(host: &str) -> Option<IpAddr> {
    if let Ok(ip) = host.parse() {
        return Some(ip);
    }
    let (ip, _zone) = host.split_once('%')?;
    ip.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n5_every_usual_spelling() {
        for (text, expected) in [
            ("127.0.0.1:9876", "127.0.0.1:9876"),
            (" 127.0.0.1:9876 ", "127.0.0.1:9876"),
            ("[::1]:10911", "[::1]:10911"),
            ("::1:10911", "[::1]:10911"),
            ("fe80::1%enp1s0:10911", "[fe80::1]:10911"),
            ("[fe80::1%2]:10911", "[fe80::1]:10911"),
            ("2001:db8:0:0:0:0:0:7:10911", "[2001:db8::7]:10911"),
        ] {
            assert_eq!(parse(text), Ok(Target::Socket(expected.parse().unwrap())), "{text}");
        }
        for (text, host) in [("broker-a:10911", "broker-a"), ("mq.example.com:80", "mq.example.com")] {
            let Ok(Target::Name { host: found, .. }) = parse(text) else { panic!("{text}") };
            assert_eq!(found, host);
        }
    }

    #[test]
    fn what_is_no_address_says_why() {
        for text in [
            "",
            "host",
            "host:",
            "host:0",
            "host:port",
            "host:65536",
            ":9876",
            "[::1:9876",
            "a b:1",
            "http://x:1",
        ] {
            let problem = parse(text).unwrap_err();
            assert!(problem.contains("is no address"), "{text}: {problem}");
        }
    }
}
