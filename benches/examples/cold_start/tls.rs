//! A self-signed certificate, and a TLS server that uses it.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

/// Where systems store their trusted certificates in one file.
const BUNDLES: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// A certificate for loopback, and files of roots that contain it.
pub(crate) struct Certificates {
    directory: TempDir,
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        let directory = tempfile::tempdir().expect("a directory");
        let one = made.cert.pem();
        let bundle =
            BUNDLES.into_iter().find(|path| Path::new(path).exists()).expect("the system's certificates");
        let all = fs::read_to_string(bundle).expect("the system's certificates") + &one;
        fs::write(directory.path().join("one.pem"), one).expect("a file");
        fs::write(directory.path().join("all.pem"), all).expect("a file");
        Self { directory, certificate: made.cert.into(), key: made.signing_key.serialize_der().into() }
    }

    pub(crate) fn one_root(&self) -> String {
        self.directory.path().join("one.pem").display().to_string()
    }

    pub(crate) fn all_roots(&self) -> String {
        self.directory.path().join("all.pem").display().to_string()
    }

    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key().into());
        Arc::new(config.expect("a certificate"))
    }
}

pub(crate) fn accept(
    server: Arc<ServerConfig>,
    stream: TcpStream,
) -> StreamOwned<ServerConnection, TcpStream> {
    StreamOwned::new(ServerConnection::new(server).expect("a connection"), stream)
}
