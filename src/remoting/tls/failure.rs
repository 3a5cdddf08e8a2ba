//! From what went wrong to a text that says what to do.

use std::fmt;
use std::io;

use rustls::{AlertDescription as Alert, CertificateError, Error};

use crate::error::ErrorKind;
use crate::remoting::Cause;

/// What a text has to know of our side.
#[derive(Debug, Clone, Default)]
pub(super) struct Hints {
    /// Where the authorities are from.
    pub(super) trusted: String,
    /// Whether we have a certificate to show.
    pub(super) has_certificate: bool,
}

/// A failure on its way through an `io::Error`.
#[derive(Debug)]
struct Failure(Cause);

pub(super) fn as_io(cause: Cause) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Failure(cause))
}

/// Why TLS failed, if it was TLS.
pub(crate) fn cause_of(error: &io::Error) -> Option<Cause> {
    error.get_ref()?.downcast_ref::<Failure>().map(|failure| failure.0.clone())
}

/// `early`: the handshake is not through.
pub(super) fn explain(error: &Error, hints: &Hints, early: bool) -> Cause {
    match error {
        Error::InvalidCertificate(problem) => refused(certificate(problem, hints)),
        Error::AlertReceived(alert) => told(*alert, hints),
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } if early => protocol(
            "the server does not speak TLS here: switch TLS on there, or leave it out here (ClientBuilder::tls)",
        ),
        Error::PeerIncompatible(why) => {
            protocol(format!("TLS 1.2 and 1.3 are spoken here, and nothing is in common: {why:?}"))
        }
        other => protocol(format!("TLS: {other}")),
    }
}

/// The server hung up during the handshake.
pub(super) fn hung_up() -> Cause {
    "the server closed the connection in the TLS handshake: one without TLS does that, too".into()
}

fn certificate(problem: &CertificateError, hints: &Hints) -> String {
    match problem {
        // The latter if an authority of the same name has another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "the certificate of the server was signed by none of the authorities in {}: add the one that did",
            hints.trusted
        ),
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "the certificate of the server is for {}, not for {}: if it is the right server, set Tls::server_name",
            presented.join(", "),
            expected.to_str()
        ),
        other => format!("the certificate of the server cannot be accepted: {other}"),
    }
}

fn told(alert: Alert, hints: &Hints) -> Cause {
    match alert {
        Alert::CertificateRequired => refused(DEMANDED.to_owned()),
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied
        | Alert::DecryptError
            if hints.has_certificate =>
        {
            refused(format!("the server does not accept our client certificate: {alert:?}"))
        }
        Alert::BadCertificate | Alert::AccessDenied | Alert::CertificateUnknown => {
            refused(format!("{DEMANDED} ({alert:?})"))
        }
        Alert::HandshakeFailure if !hints.has_certificate => refused(BROKEN_OFF.to_owned()),
        _ => protocol(format!("the server broke off TLS: {alert:?}")),
    }
}

const BROKEN_OFF: &str =
    "the server broke off the TLS handshake: if it demands a client certificate, set Tls::client_certificate";
const DEMANDED: &str = "the server demands a client certificate: set Tls::client_certificate";

fn refused(text: String) -> Cause {
    Cause::new(ErrorKind::Refused, text)
}

fn protocol(text: impl Into<String>) -> Cause {
    Cause::new(ErrorKind::Protocol, text.into())
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Failure {}
