//! Encrypted connections of clients: where certificate and key are. They are read at each start.

#[cfg(feature = "tls")]
use std::path::PathBuf;

use super::settings::Settings;
use crate::Result;
use crate::remoting::tls::Acceptor;

#[cfg(feature = "tls")]
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    /// Certificate, maybe with those that lead to an authority, and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    pub(crate) client_ca: Option<PathBuf>,
}

/// With what to accept connections, if they are to be encrypted.
#[cfg(feature = "tls")]
pub(super) fn acceptor(settings: &Settings) -> Result<Option<Acceptor>> {
    use crate::error::{Error, ErrorKind, Mistake};

    let Some((certificate, key)) = &settings.tls.identity else { return Ok(None) };
    match Acceptor::read(certificate, key, settings.tls.client_ca.as_deref()) {
        Ok(acceptor) => Ok(Some(acceptor)),
        Err(cause) if cause.kind() == ErrorKind::Config => {
            Err(Error::config(vec![Mistake::new("tls_files", cause.to_string())]))
        }
        Err(cause) => Err(Error::new(cause.kind(), cause.to_string())),
    }
}

#[cfg(not(feature = "tls"))]
pub(super) fn acceptor(_: &Settings) -> Result<Option<Acceptor>> {
    Ok(None)
}
