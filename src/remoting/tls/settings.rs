use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// How connections are encrypted, and whom to believe that it is the server. For
/// [`ClientBuilder::tls`](crate::ClientBuilder::tls).
///
/// All connections of the client use it, those to name servers and those to brokers. TLS 1.2 and 1.3 are spoken. Files
/// are PEM, and are read again for each new connection, so that certificates can be replaced while a program runs.
///
/// A server is believed if its certificate is for the host that was dialled, or for
/// [`server_name`](Self::server_name), and was signed by one of the given authorities. It may also be one of the given
/// certificates itself, as self-signed ones are; its dates do not count then, as in Java.
///
/// ```
/// use rocketmq_sync::{Client, Tls};
///
/// let settings = Client::builder()
///     .name_servers("mq.example.com:9876")
///     .tls(Tls::ca_file("ca.pem").client_certificate("me.pem", "me.key"));
/// ```
#[derive(Clone)]
#[must_use]
pub struct Tls {
    pub(super) trust: Trust,
    pub(super) identity: Option<Identity>,
    pub(super) server_name: Option<String>,
}

/// Who is believed to be the server.
#[derive(Clone)]
pub(super) enum Trust {
    File(PathBuf),
    Pem(Arc<[u8]>),
    Anybody,
}

/// Who we are.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Tls {
    /// Believes servers whose certificate was signed by one of the authorities in this file. Java:
    /// `tls.client.trustCertPath`, with `tls.client.authServer`.
    ///
    /// Those that the system trusts are in such a file, too: `/etc/ssl/certs/ca-certificates.crt` on Debian and Alpine,
    /// `/etc/pki/tls/certs/ca-bundle.crt` on Fedora and its kin.
    pub fn ca_file(path: impl Into<PathBuf>) -> Self {
        Self::new(Trust::File(path.into()))
    }

    /// The same with the contents of such a file.
    pub fn ca_pem(bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(Trust::Pem(bytes.into().into()))
    }

    /// Believes anybody: what is sent cannot be read on its way, but whoever is on that way can pose as the server.
    /// For tests. A client that starts with this logs a warning. Java: `tls.test.mode.enable`.
    pub fn insecure() -> Self {
        Self::new(Trust::Anybody)
    }

    /// Shows this certificate to servers that ask for one; the file may hold the whole chain. The key must not be
    /// encrypted. Default: none. Java: `tls.client.certPath` and `tls.client.keyPath`.
    pub fn client_certificate(mut self, file: impl Into<PathBuf>, key_file: impl Into<PathBuf>) -> Self {
        self.identity = Some(Identity { certificate: file.into(), key: key_file.into() });
        self
    }

    /// The name that certificates of servers have to be for, a DNS name or an IP address. Default: the host that is
    /// dialled. Brokers often advertise an address that is not in their certificate.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    fn new(trust: Trust) -> Self {
        Self { trust, identity: None, server_name: None }
    }

    /// What is wrong with it, as far as that shows without a file.
    pub(crate) fn problem(&self) -> Option<String> {
        let name = self.server_name.as_deref()?;
        super::material::server_name(name).err().map(|cause| cause.to_string())
    }

    pub(crate) fn believes_anybody(&self) -> bool {
        matches!(self.trust, Trust::Anybody)
    }
}

impl Trust {
    /// Where the authorities are from, for texts.
    pub(super) fn origin(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Pem(_) => "what Tls::ca_pem was given".to_owned(),
            Self::Anybody => "(nothing)".to_owned(),
        }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            // Whatever it was given by mistake: a key is PEM, too.
            Self::Pem(bytes) => write!(f, "Pem({} bytes)", bytes.len()),
            Self::Anybody => f.write_str("Anybody"),
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("trust", &self.trust)
            .field("client_certificate", &self.identity)
            .field("server_name", &self.server_name)
            .finish()
    }
}
