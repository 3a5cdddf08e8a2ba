//! Certificates, made for a test and gone with it.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// An authority whose certificate is in `ca.pem`, and what it has signed.
pub struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = params.self_signed(&key).expect("it signs itself");
        fs::write(folder.path().join("ca.pem"), own.pem()).expect("the folder is ours");
        Authority { folder, issuer: Issuer::new(params, key) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// Writes `NAME.pem`, for this host, and its key `NAME.key`, over those that are there. The key as a text.
    pub fn sign(&self, name: &str, host: &str) -> String {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([host.to_owned()]).expect("a name or an address");
        let signed = params.signed_by(&key, &self.issuer).expect("the authority signs");
        fs::write(self.path(&format!("{name}.pem")), signed.pem()).expect("the folder is ours");
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).expect("the folder is ours");
        key.serialize_pem()
    }
}
