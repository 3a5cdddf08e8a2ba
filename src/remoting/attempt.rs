//! Dialling: one address after the other, until one answers or the time is over.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use mio::net::TcpStream;

use super::Cause;
use crate::error::ErrorKind;

/// The addresses of one server that are still to be tried.
#[derive(Debug)]
pub(super) struct Candidates {
    rest: VecDeque<SocketAddr>,
    deadline: Instant,
    failures: Vec<(SocketAddr, Cause)>,
}

impl Candidates {
    pub(super) fn new(addresses: impl IntoIterator<Item = SocketAddr>, deadline: Instant) -> Self {
        Self { rest: addresses.into_iter().collect(), deadline, failures: Vec::new() }
    }

    /// The next address and how long it may take: a fair share of what is left, so that one that swallows
    /// everything leaves time for the others.
    pub(super) fn next(&mut self, now: Instant) -> Option<(SocketAddr, Instant)> {
        let tries = u32::try_from(self.rest.len()).unwrap_or(u32::MAX).max(1);
        let address = self.rest.pop_front()?;
        Some((address, now + self.deadline.saturating_duration_since(now) / tries))
    }

    pub(super) fn failed(&mut self, address: SocketAddr, why: impl Into<Cause>) {
        self.failures.push((address, why.into()));
    }

    /// What came of all of them. That one of them is not accepted says more than that others cannot be reached.
    pub(super) fn cause(&self) -> Cause {
        let causes = self.failures.iter().map(|(_, cause)| cause);
        let Some(telling) =
            causes.reduce(|best, next| if next.kind() == ErrorKind::Unreachable { best } else { next })
        else {
            return "the host has no address".into();
        };
        let each: Vec<_> =
            self.failures.iter().map(|(address, cause)| format!("{address}: {cause}")).collect();
        telling.with_text(each.join(", "))
    }
}

/// Whether a connecting socket is through; mio's contract: writable, then no error, then a peer.
pub(super) fn is_through(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(e) if in_progress(&e) => Ok(false),
        Err(e) => Err(e),
    }
}

fn in_progress(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_address_gets_its_share_of_the_time() {
        let now = Instant::now();
        let ms = Duration::from_millis;
        let [a, b] = ["[::1]:1", "127.0.0.1:1"].map(|text| text.parse().unwrap());
        let mut candidates = Candidates::new([a, b], now + ms(3000));
        assert_eq!(candidates.next(now), Some((a, now + ms(1500))));
        candidates.failed(a, "refused");
        assert_eq!(
            candidates.next(now + ms(100)),
            Some((b, now + ms(3000))),
            "what the first left over is the second's"
        );
        candidates.failed(b, "timed out");
        assert_eq!(candidates.next(now), None);
        assert_eq!(&*candidates.cause(), "[::1]:1: refused, 127.0.0.1:1: timed out");
    }
}
