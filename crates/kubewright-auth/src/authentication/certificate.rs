//! Reads the user from a client certificate: common name, organizations as groups, and an optional
//! UID.
//!
//! TLS has already verified the certificate.

use kubewright_core::Str;
use kubewright_net::der::{COMMON_NAME, Certificate, ORGANIZATION};
use ring::digest::{SHA256, digest};

use super::CREDENTIAL_ID;
use crate::User;

/// The OID 1.3.6.1.4.1.57683.2 of Kubernetes.
const UID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xc2, 0x53, 0x02];

/// The user of a DER certificate. `None` if it is malformed or has no common name.
pub fn subject(der: &[u8]) -> Option<User> {
    let (mut name, mut uid, mut groups) = (None, Str::new(), Vec::new());
    for (kind, value) in Certificate::read(der)?.subject()? {
        let text = Str::from(std::str::from_utf8(value).ok()?);
        match kind {
            COMMON_NAME => name = Some(text),
            ORGANIZATION => groups.push(text),
            UID => uid = text,
            _ => {}
        }
    }
    let user = User::authenticated(name.filter(|name| !name.is_empty())?, uid, groups);
    Some(user.with_extra(CREDENTIAL_ID, format!("X509SHA256={}", fingerprint(der))))
}

fn fingerprint(der: &[u8]) -> String {
    digest(&SHA256, der).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_organizations_become_user_and_groups() {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
        params.distinguished_name.push(rcgen::DnType::CommonName, "jane");
        let uid = rcgen::DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
        params.distinguished_name.push(uid, "7");
        let key = rcgen::KeyPair::generate().expect("keys can be made");
        let certificate = params.self_signed(&key).expect("the parameters are fine");
        let user = subject(certificate.der()).expect("it has a subject");
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "7"));
        let shown = &user.extra[CREDENTIAL_ID][0];
        assert!(shown.starts_with("X509SHA256=") && shown.len() == "X509SHA256=".len() + 64, "{shown}");
        assert!(user.is_in("system:masters"));
    }

    #[test]
    fn malformed_certificates_have_no_user() {
        for der in [&b""[..], b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", b"\x30\x03\x30\x01\xa0"] {
            assert!(subject(der).is_none());
        }
    }
}
