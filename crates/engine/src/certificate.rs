//! Certificate of a run.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{CertificateParams, KeyPair};
use regatta_control::TlsMaterial;

use crate::error::EngineError;

/// Name in the certificate.
const SERVER_NAME: &str = "receiver.regatta.invalid";

/// Makes a certificate with a key of its own. It is kept in memory, for one run; the connecting end
/// accepts no other.
pub(crate) fn make() -> Result<TlsMaterial, EngineError> {
    let key = KeyPair::generate()?;
    let params = CertificateParams::new(vec![SERVER_NAME.to_owned()])?;
    let certificate = params.self_signed(&key)?;
    Ok(TlsMaterial {
        certificate_der_base64: STANDARD.encode(certificate.der()),
        key_der_base64: Some(STANDARD.encode(key.serialize_der())),
        server_name: SERVER_NAME.to_owned(),
    })
}
