//! Warnings about TLS secrets whose certificate and key do not fit, with the messages of Go.

use kubewright_core::{ByteString, Value};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use kubewright_objects::object::tree;
use kubewright_resources::catalog::Resource;

/// The problem with the certificate and the key of a TLS secret, if there is one.
pub(super) fn warning(resource: &Resource, secret: &Value) -> Option<String> {
    if !resource.is("", "secrets") || tree::text(secret, &["type"]) != "kubernetes.io/tls" {
        return None;
    }
    let data =
        |field: &str| ByteString::from_base64(tree::text(secret, &["data", field]).as_bytes()).unwrap_or_default();
    check(&data("tls.crt"), &data("tls.key")).err()
}

fn check(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let certificate = find_certificate(certificate)?;
    let key = find_key(key)?;
    let key = any_supported_type(&key).map_err(|_| "tls: failed to parse private key")?;
    match CertifiedKey::new(vec![certificate], key).keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => Err("tls: private key does not match public key".to_owned()),
        Err(_) => Err("x509: malformed certificate".to_owned()),
    }
}

fn find_certificate(pem: &[u8]) -> Result<CertificateDer<'static>, String> {
    let input = "certificate input";
    match CertificateDer::from_pem_slice(pem) {
        Ok(certificate) => Ok(certificate),
        Err(_) => Err(match &types(pem)[..] {
            [] => format!("tls: failed to find any PEM data in {input}"),
            [only] if only.ends_with("PRIVATE KEY") => format!(
                "tls: failed to find certificate PEM data in {input}, but did find a private key; \
                 PEM inputs may have been switched"
            ),
            others => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in {input} after skipping PEM blocks \
                 of the following types: [{}]",
                others.join(" ")
            ),
        }),
    }
}

fn find_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    match PrivateKeyDer::from_pem_slice(pem) {
        Ok(key) => Ok(key),
        Err(_) => Err(match &types(pem)[..] {
            [] => "tls: failed to find any PEM data in key input".to_owned(),
            ["CERTIFICATE"] => "tls: found a certificate rather than a key in the PEM for the private key".to_owned(),
            others => format!(
                "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input \
                 after skipping PEM blocks of the following types: [{}]",
                others.join(" ")
            ),
        }),
    }
}

/// The types of the PEM blocks in a text.
fn types(pem: &[u8]) -> Vec<&str> {
    let Ok(text) = std::str::from_utf8(pem) else { return Vec::new() };
    let is_ended = |label: &str| text.contains(&format!("-----END {label}-----"));
    let labels = text.lines().filter_map(|line| line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----"));
    labels.filter(|label| is_ended(label)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_must_belong_to_their_certificate() {
        let [key, other] = [(); 2].map(|()| rcgen::KeyPair::generate().expect("a key"));
        let signed = rcgen::CertificateParams::default().self_signed(&key).expect("a certificate").pem();
        let check = |certificate: &str, key: &str| check(certificate.as_bytes(), key.as_bytes()).err();
        let (key, other) = (key.serialize_pem(), other.serialize_pem());
        assert_eq!(check(&signed, &key), None);
        let problems = [
            (check(&signed, &other), "tls: private key does not match public key"),
            (check("", &key), "tls: failed to find any PEM data in certificate input"),
            (check(&signed, "foo"), "tls: failed to find any PEM data in key input"),
            (
                check(&key, &signed),
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; \
                 PEM inputs may have been switched",
            ),
            (check(&signed, &signed), "tls: found a certificate rather than a key in the PEM for the private key"),
        ];
        for (problem, expected) in problems {
            assert_eq!(problem.as_deref(), Some(expected));
        }
    }
}
