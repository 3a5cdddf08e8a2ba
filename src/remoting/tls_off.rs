//! In place of `tls` in a build without that feature: the same names, of which there is never a value.

use std::io::{self, Read};

use mio::net::TcpStream;

use super::Cause;
use super::outbox::Outbox;

#[derive(Debug, Clone)]
pub(crate) enum Tls {}

#[derive(Debug, Clone)]
pub(crate) enum Plan {}

#[derive(Debug, Clone)]
pub(crate) enum Acceptor {}

#[derive(Debug)]
pub(crate) enum Session {}

pub(crate) fn cause_of(_: &io::Error) -> Option<Cause> {
    None
}

impl Tls {
    pub(crate) fn plan(&self, _: &str) -> Result<Plan, Cause> {
        match *self {}
    }
}

impl Plan {
    pub(crate) fn begin(&self) -> Result<Session, Cause> {
        match *self {}
    }
}

impl Acceptor {
    pub(crate) fn begin(&self) -> Result<Session, Cause> {
        match *self {}
    }
}

impl Session {
    pub(crate) fn handshake(&mut self, _: &TcpStream) -> Result<bool, Cause> {
        match *self {}
    }

    pub(crate) fn flush(&mut self, _: &Outbox, _: &TcpStream) -> io::Result<bool> {
        match *self {}
    }

    pub(crate) fn is_stuck(&self) -> bool {
        match *self {}
    }

    pub(crate) fn has_unwritten(&self) -> bool {
        match *self {}
    }

    pub(crate) fn reader<'a>(&'a mut self, _: &'a TcpStream) -> impl Read + use<'a> {
        match *self {}
        #[allow(unreachable_code, reason = "gives the type")]
        io::empty()
    }

    pub(crate) fn say_goodbye(&mut self, _: &TcpStream) {
        match *self {}
    }
}
