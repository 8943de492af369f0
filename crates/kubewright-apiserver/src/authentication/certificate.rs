//! The user that a client certificate names: its common name, its organizations as groups, and perhaps a uid.
//!
//! Whether the certificate is genuine has been checked by TLS; here only its subject is read.

use kubewright_core::Str;
use kubewright_core::der::{OBJECT_IDENTIFIER, SEQUENCE, SET, any, of};
use ring::digest::{SHA256, digest};

use super::{CREDENTIAL_ID, User};

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
/// 1.3.6.1.4.1.57683.2, of Kubernetes.
const UID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xc2, 0x53, 0x02];

/// The user of a certificate in DER form, or `None` where it has no common name or cannot be read.
pub(crate) fn subject(der: &[u8]) -> Option<User> {
    let certificate = of(&mut &*der, SEQUENCE)?;
    let to_be_signed = of(&mut { certificate }, SEQUENCE)?;
    let mut fields = to_be_signed;
    // The version has a tag of its own and may be left out.
    if fields.first() == Some(&0xa0) {
        any(&mut fields)?;
    }
    // Serial number, signature, issuer and validity come first.
    for _ in 0..4 {
        any(&mut fields)?;
    }
    let mut names = of(&mut fields, SEQUENCE)?;
    let (mut name, mut uid, mut groups) = (None, Str::new(), Vec::new());
    while !names.is_empty() {
        let mut set = of(&mut names, SET)?;
        while !set.is_empty() {
            let mut attribute = of(&mut set, SEQUENCE)?;
            let kind = of(&mut attribute, OBJECT_IDENTIFIER)?;
            let text = Str::from(std::str::from_utf8(any(&mut attribute)?.1).ok()?);
            match kind {
                COMMON_NAME => name = Some(text),
                ORGANIZATION => groups.push(text),
                UID => uid = text,
                _ => {}
            }
        }
    }
    let user = User::authenticated(name.filter(|name| !name.is_empty())?, uid, groups);
    Some(user.with_extra(CREDENTIAL_ID, format!("X509SHA256={}", fingerprint(der))))
}

/// Whether bytes are just one sequence, as requests and certificates are.
pub(crate) fn is_one_sequence(der: &[u8]) -> bool {
    let mut rest = der;
    of(&mut rest, SEQUENCE).is_some_and(|content| !content.is_empty()) && rest.is_empty()
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
    fn broken_certificates_name_nobody() {
        for der in [&b""[..], b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", b"\x30\x03\x30\x01\xa0"] {
            assert!(subject(der).is_none());
        }
    }
}
