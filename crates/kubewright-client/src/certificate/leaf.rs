//! What a certificate says about itself, as far as renewal needs to know.

use std::net::IpAddr;

use kubewright_core::Time;

use kubewright_core::der::{BIT_STRING, INTEGER, OBJECT_IDENTIFIER, SEQUENCE, SET, any, of};

const OCTET_STRING: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version and the extensions have tags of their own.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

pub(super) const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
pub(super) const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];

/// The parts of a certificate that renewal looks at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Leaf {
    pub(super) not_before: Option<Time>,
    pub(super) not_after: Option<Time>,
    pub(super) common_name: String,
    pub(super) organizations: Vec<String>,
    pub(super) dns_names: Vec<String>,
    pub(super) ip_addresses: Vec<IpAddr>,
    pub(super) key: Option<KeyKind>,
}

/// What kind of key it is, where that is one which signers take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    Rsa { bits: usize },
    Ecdsa { bits: usize },
}

impl KeyKind {
    /// Reads a SubjectPublicKeyInfo.
    pub(super) fn of(mut info: &[u8]) -> Option<Self> {
        let mut info = of(&mut info, SEQUENCE)?;
        let mut algorithm = of(&mut info, SEQUENCE)?;
        let bits = of(&mut info, BIT_STRING)?;
        match of(&mut algorithm, OBJECT_IDENTIFIER)? {
            RSA_ENCRYPTION => {
                // The first byte counts the bits that are not used, of which there are none.
                let mut key = of(&mut bits.get(1..)?, SEQUENCE)?;
                let modulus = of(&mut key, INTEGER)?;
                let zeros: usize = modulus.iter().take_while(|byte| **byte == 0).count();
                let first = modulus.get(zeros)?;
                Some(KeyKind::Rsa { bits: (modulus.len() - zeros) * 8 - first.leading_zeros() as usize })
            }
            EC_PUBLIC_KEY => match of(&mut algorithm, OBJECT_IDENTIFIER)? {
                P256 => Some(KeyKind::Ecdsa { bits: 256 }),
                P384 => Some(KeyKind::Ecdsa { bits: 384 }),
                P521 => Some(KeyKind::Ecdsa { bits: 521 }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a key like this is strong enough for anybody to sign it.
    pub(super) fn is_strong(self) -> bool {
        match self {
            KeyKind::Rsa { bits } => bits >= 2048,
            KeyKind::Ecdsa { bits } => bits >= 256,
        }
    }
}

impl Leaf {
    /// Reads a certificate in DER form, or `None` where it is none.
    pub(super) fn read(mut der: &[u8]) -> Option<Self> {
        let mut certificate = of(&mut der, SEQUENCE)?;
        let mut fields = of(&mut certificate, SEQUENCE)?;
        if fields.first() == Some(&VERSION) {
            any(&mut fields)?;
        }
        // Serial number, signature and issuer come first.
        for _ in 0..3 {
            any(&mut fields)?;
        }
        let mut leaf = Leaf::default();
        let mut validity = of(&mut fields, SEQUENCE)?;
        leaf.not_before = Some(time(any(&mut validity)?)?);
        leaf.not_after = Some(time(any(&mut validity)?)?);
        leaf.read_subject(of(&mut fields, SEQUENCE)?)?;
        let info = fields;
        let (_, content) = any(&mut fields)?;
        leaf.key = KeyKind::of(&info[..info.len() - fields.len()]).filter(|_| !content.is_empty());
        while !fields.is_empty() {
            if let (EXTENSIONS, mut wrapped) = any(&mut fields)? {
                leaf.read_extensions(of(&mut wrapped, SEQUENCE)?)?;
            }
        }
        Some(leaf)
    }

    pub(super) fn read_subject(&mut self, mut names: &[u8]) -> Option<()> {
        while !names.is_empty() {
            let mut set = of(&mut names, SET)?;
            while !set.is_empty() {
                let mut attribute = of(&mut set, SEQUENCE)?;
                let kind = of(&mut attribute, OBJECT_IDENTIFIER)?;
                let text = || String::from_utf8(any(&mut { attribute })?.1.to_vec()).ok();
                match kind {
                    COMMON_NAME => self.common_name = text()?,
                    ORGANIZATION => self.organizations.push(text()?),
                    _ => {}
                }
            }
        }
        Some(())
    }

    fn read_extensions(&mut self, mut extensions: &[u8]) -> Option<()> {
        while !extensions.is_empty() {
            let mut extension = of(&mut extensions, SEQUENCE)?;
            if of(&mut extension, OBJECT_IDENTIFIER)? != SUBJECT_ALT_NAME {
                continue;
            }
            // Whether it is critical may stand in between.
            let mut value = loop {
                if let (OCTET_STRING, value) = any(&mut extension)? {
                    break value;
                }
            };
            let mut names = of(&mut value, SEQUENCE)?;
            while !names.is_empty() {
                match any(&mut names)? {
                    (DNS_NAME, name) => self.dns_names.push(String::from_utf8(name.to_vec()).ok()?),
                    (IP_ADDRESS, bytes) => self.ip_addresses.push(address(bytes)?),
                    _ => {}
                }
            }
        }
        Some(())
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(<[u8; 4]>::try_from(bytes).ok()?.into()),
        16 => Some(<[u8; 16]>::try_from(bytes).ok()?.into()),
        _ => None,
    }
}

/// A point in time, in either of its two forms.
fn time((tag, text): (u8, &[u8])) -> Option<Time> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.is_ascii())?;
    let (century, rest) = match tag {
        // Two digits mean the years from 1950 to 2049.
        UTC_TIME => (if text.get(..2)? < "50" { "20" } else { "19" }, text),
        GENERALIZED_TIME => (text.get(..2)?, text.get(2..)?),
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2);
    let text = format!("{century}{}-{}-{}T{}:{}:{}Z", part(0)?, part(2)?, part(4)?, part(6)?, part(8)?, part(10)?);
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData, SanType};

    use super::*;

    #[test]
    fn a_certificate_is_read_as_it_was_written() {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, "system:node:n1");
        params.not_before = rcgen::date_time_ymd(2026, 2, 28);
        params.not_after = rcgen::date_time_ymd(2051, 12, 31);
        params.subject_alt_names = vec![
            SanType::DnsName("n1.example".try_into().expect("a name")),
            SanType::IpAddress([10, 0, 0, 1].into()),
            SanType::IpAddress("fd00::1".parse().expect("an address")),
        ];
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("keys can be made");
        let der = params.self_signed(&key).expect("fine").der().to_vec();
        let leaf = Leaf::read(&der).expect("it can be read");
        assert_eq!(leaf.common_name, "system:node:n1");
        assert_eq!(leaf.organizations, ["system:nodes"]);
        assert_eq!(leaf.dns_names, ["n1.example"]);
        assert_eq!(leaf.ip_addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.1", "fd00::1"]);
        // Years up to 2049 are written with two digits, later ones with four.
        assert_eq!(leaf.not_before.map(|time| time.to_string()).as_deref(), Some("2026-02-28T00:00:00Z"));
        assert_eq!(leaf.not_after.map(|time| time.to_string()).as_deref(), Some("2051-12-31T00:00:00Z"));
        assert_eq!(leaf.key, Some(KeyKind::Ecdsa { bits: 384 }));
        for cut in 0..der.len() {
            assert_eq!(Leaf::read(&der[..cut]), None, "cut at {cut}");
        }
    }

    // CM-1
    #[test]
    fn keys_are_strong_from_2048_bits_of_rsa_and_256_of_a_curve_on() {
        let strong = |kind: KeyKind| kind.is_strong();
        assert!(strong(KeyKind::Rsa { bits: 2048 }) && strong(KeyKind::Ecdsa { bits: 256 }));
        assert!(!strong(KeyKind::Rsa { bits: 2047 }) && !strong(KeyKind::Ecdsa { bits: 224 }));
        let info = KeyPair::generate().expect("keys can be made").subject_public_key_info();
        assert_eq!(KeyKind::of(&info), Some(KeyKind::Ecdsa { bits: 256 }));
        let other = KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("keys can be made");
        assert_eq!(KeyKind::of(&other.subject_public_key_info()), None, "signers do not take it");
        assert_eq!(KeyKind::of(&rsa_info(1024)), Some(KeyKind::Rsa { bits: 1024 }));
        assert_eq!(KeyKind::of(&rsa_info(4096)), Some(KeyKind::Rsa { bits: 4096 }));
    }

    /// The public half of an RSA key whose modulus is all ones.
    fn rsa_info(bits: usize) -> Vec<u8> {
        let wrap = |tag: u8, content: &[u8]| {
            let length = u16::try_from(content.len()).expect("short").to_be_bytes();
            [&[tag, 0x82], &length[..], content].concat()
        };
        let modulus = [vec![0], vec![0xff; bits / 8]].concat();
        let key = wrap(SEQUENCE, &[wrap(INTEGER, &modulus), wrap(INTEGER, &[1, 0, 1])].concat());
        let algorithm = wrap(SEQUENCE, &wrap(OBJECT_IDENTIFIER, RSA_ENCRYPTION));
        let bits = wrap(BIT_STRING, &[vec![0], key].concat());
        wrap(SEQUENCE, &[algorithm, bits].concat())
    }
}
