//! The user that a client certificate names: its common name, and its organizations as groups.
//!
//! Whether the certificate is genuine has been checked by TLS; here only its subject is read.

use kubewright_core::Str;

use super::User;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;

/// The user of a certificate in DER form, or `None` where it has no common name or cannot be read.
pub(crate) fn subject(der: &[u8]) -> Option<User> {
    let certificate = Element::of(&mut &*der, SEQUENCE)?;
    let to_be_signed = Element::of(&mut { certificate }, SEQUENCE)?;
    let mut fields = to_be_signed;
    // The version has a tag of its own and may be left out.
    if fields.first() == Some(&0xa0) {
        Element::any(&mut fields)?;
    }
    // Serial number, signature, issuer and validity come first.
    for _ in 0..4 {
        Element::any(&mut fields)?;
    }
    let mut names = Element::of(&mut fields, SEQUENCE)?;
    let (mut name, mut groups) = (None, Vec::new());
    while !names.is_empty() {
        let mut set = Element::of(&mut names, SET)?;
        while !set.is_empty() {
            let mut attribute = Element::of(&mut set, SEQUENCE)?;
            let kind = Element::of(&mut attribute, OBJECT_IDENTIFIER)?;
            let text = Str::from(std::str::from_utf8(Element::any(&mut attribute)?.1).ok()?);
            match kind {
                COMMON_NAME => name = Some(text),
                ORGANIZATION => groups.push(text),
                _ => {}
            }
        }
    }
    Some(User::authenticated(name.filter(|name| !name.is_empty())?, "", groups))
}

/// One element of DER: tag, length, content.
struct Element;

impl Element {
    /// Takes an element of any kind: its tag and content.
    fn any<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = bytes.split_first()?;
        let (&length, mut rest) = rest.split_first()?;
        let mut length = usize::from(length);
        if length >= 0x80 {
            let (digits, after) = rest.split_at_checked(length & 0x7f)?;
            if digits.len() > 4 {
                return None;
            }
            length = digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit));
            rest = after;
        }
        let (content, rest) = rest.split_at_checked(length)?;
        *bytes = rest;
        Some((tag, content))
    }

    /// Takes the content of an element of this kind.
    fn of<'a>(bytes: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
        Element::any(bytes).filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
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
        let key = rcgen::KeyPair::generate().expect("keys can be made");
        let certificate = params.self_signed(&key).expect("the parameters are fine");
        let user = subject(certificate.der()).expect("it has a subject");
        assert_eq!(user.name, "jane");
        assert!(user.is_in("system:masters"));
    }

    #[test]
    fn broken_certificates_name_nobody() {
        for der in [&b""[..], b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", b"\x30\x03\x30\x01\xa0"] {
            assert!(subject(der).is_none());
        }
    }
}
