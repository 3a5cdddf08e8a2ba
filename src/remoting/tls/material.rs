//! From files to what a session begins with. Files may hang: the client reads them on `rmq-aux`.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::failure::Hints;
use super::session::Session;
use super::settings::{Identity, Tls, Trust};
use super::trust::{Anybody, Given};
use crate::error::ErrorKind;
use crate::remoting::Cause;

/// With what to open a connection to one server.
#[derive(Clone)]
pub(crate) struct Plan {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    hints: Hints,
}

/// With what to accept connections.
#[derive(Clone)]
pub(crate) struct Acceptor(Arc<ServerConfig>);

impl Tls {
    /// Reads the files, for a connection to this host. Its kind is `Io` for a file that cannot be read and `Config` for
    /// one that cannot be used.
    pub(crate) fn plan(&self, host: &str) -> Result<Plan, Cause> {
        let provider = provider();
        let hints = Hints { trusted: self.trust.origin(), has_certificate: self.identity.is_some() };
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .dangerous()
            .with_custom_certificate_verifier(verifier(&self.trust, provider)?);
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = read_identity(identity)?;
                builder.with_client_auth_cert(chain, key).map_err(|e| not_a_pair(identity, e))?
            }
        };
        let name = server_name(self.server_name.as_deref().unwrap_or(host))?;
        Ok(Plan { config: Arc::new(config), name, hints })
    }
}

impl Plan {
    pub(crate) fn begin(&self) -> Result<Session, Cause> {
        let connection = ClientConnection::new(self.config.clone(), self.name.clone()).map_err(unusable)?;
        Ok(Session::new(connection.into(), self.hints.clone()))
    }
}

impl Acceptor {
    /// Reads the files. With `client_ca`, clients have to show a certificate that one of these authorities signed.
    pub(crate) fn read(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self, Cause> {
        let identity = Identity { certificate: certificate.to_owned(), key: key.to_owned() };
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let (authorities, _) = authorities(&read(path)?, &path.display())?;
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
                builder.with_client_cert_verifier(verifier.build().map_err(unusable)?)
            }
        };
        let (chain, secret) = read_identity(&identity)?;
        let config = builder.with_single_cert(chain, secret).map_err(|e| not_a_pair(&identity, e))?;
        Ok(Self(Arc::new(config)))
    }

    pub(crate) fn begin(&self) -> Result<Session, Cause> {
        let connection = ServerConnection::new(self.0.clone()).map_err(unusable)?;
        Ok(Session::new(connection.into(), Hints::default()))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn verifier(trust: &Trust, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, Cause> {
    let pem = match trust {
        Trust::Anybody => return Ok(Arc::new(Anybody(provider))),
        Trust::File(path) => &read(path)?[..],
        Trust::Pem(bytes) => bytes,
    };
    let (authorities, certificates) = authorities(pem, &trust.origin())?;
    let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(authorities), provider).build();
    Ok(Arc::new(Given { certificates, authorities: authorities.map_err(unusable)? }))
}

fn authorities(
    pem: &[u8],
    origin: &dyn fmt::Display,
) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), Cause> {
    let certificates = certificates(pem, origin)?;
    let mut authorities = RootCertStore::empty();
    for certificate in &certificates {
        authorities
            .add(certificate.clone())
            .map_err(|e| config(format!("a certificate in {origin} cannot be used: {e}")))?;
    }
    Ok((authorities, certificates))
}

fn read_identity(
    identity: &Identity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Cause> {
    let chain = certificates(&read(&identity.certificate)?, &identity.certificate.display())?;
    let path = identity.key.display();
    let pem = read(&identity.key)?;
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
        let encrypted = String::from_utf8_lossy(&pem).contains("ENCRYPTED");
        config(match encrypted {
            true => format!("the key in {path} is encrypted: give one that is not"),
            false => format!("there is no private key in {path} (PEM: PKCS #8, PKCS #1 or SEC 1)"),
        })
    })?;
    Ok((chain, key))
}

fn certificates(pem: &[u8], origin: &dyn fmt::Display) -> Result<Vec<CertificateDer<'static>>, Cause> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(config(format!("there is no certificate in {origin} (PEM: BEGIN CERTIFICATE)"))),
        Err(_) => Err(config(format!("what is in {origin} is no PEM"))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Cause> {
    fs::read(path).map_err(|e| Cause::new(ErrorKind::Io, format!("cannot read {}: {e}", path.display())))
}

pub(super) fn server_name(name: &str) -> Result<ServerName<'static>, Cause> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        config(format!("`{name}` cannot be the name in a certificate: set Tls::server_name to one that can"))
    })
}

fn not_a_pair(identity: &Identity, error: rustls::Error) -> Cause {
    let (certificate, key) = (identity.certificate.display(), identity.key.display());
    config(match error {
        rustls::Error::InconsistentKeys(_) => {
            format!("the key in {key} is not that of the certificate in {certificate}")
        }
        other => format!("the certificate in {certificate} and the key in {key} cannot be used: {other}"),
    })
}

fn unusable(error: impl fmt::Display) -> Cause {
    config(format!("TLS: {error}"))
}

fn config(text: String) -> Cause {
    Cause::new(ErrorKind::Config, text)
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}
