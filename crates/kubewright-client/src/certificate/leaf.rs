//! Parses the parts of a certificate that renewal needs.

use std::net::IpAddr;

use kubewright_core::Time;
use kubewright_net::der::{
    BIT_STRING, COMMON_NAME, Certificate, INTEGER, OBJECT_IDENTIFIER, ORGANIZATION, SEQUENCE, any, of,
};

const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];

/// The parts of a certificate that renewal needs.
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

/// The kind of key, if signers accept it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    Rsa { bits: usize },
    Ecdsa { bits: usize },
}

impl KeyKind {
    /// Parses a SubjectPublicKeyInfo.
    pub(super) fn of(mut info: &[u8]) -> Option<Self> {
        let mut info = of(&mut info, SEQUENCE)?;
        let mut algorithm = of(&mut info, SEQUENCE)?;
        let bits = of(&mut info, BIT_STRING)?;
        match of(&mut algorithm, OBJECT_IDENTIFIER)? {
            RSA_ENCRYPTION => {
                // The first byte is the number of unused bits, which is zero.
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

    /// Whether the key is strong enough to be signed.
    pub(super) fn is_strong(self) -> bool {
        match self {
            KeyKind::Rsa { bits } => bits >= 2048,
            KeyKind::Ecdsa { bits } => bits >= 256,
        }
    }
}

impl Leaf {
    /// Parses a certificate in DER; `None` if it is malformed.
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let certificate = Certificate::read(der)?;
        let mut leaf = Leaf {
            not_before: Some(certificate.not_before()?),
            not_after: Some(certificate.not_after()?),
            key: KeyKind::of(certificate.key_info()),
            ..Leaf::default()
        };
        leaf.read_subject(certificate.subject()?)?;
        for (kind, value) in certificate.extensions()? {
            if kind == SUBJECT_ALT_NAME {
                leaf.read_alternative_names(value)?;
            }
        }
        Some(leaf)
    }

    /// Parses the names of a request or certificate.
    #[cfg(test)]
    pub(super) fn read_names(&mut self, names: &[u8]) -> Option<()> {
        self.read_subject(kubewright_net::der::attributes(names)?)
    }

    fn read_subject(&mut self, attributes: Vec<(&[u8], &[u8])>) -> Option<()> {
        for (kind, value) in attributes {
            let text = || String::from_utf8(value.to_vec()).ok();
            match kind {
                COMMON_NAME => self.common_name = text()?,
                ORGANIZATION => self.organizations.push(text()?),
                _ => {}
            }
        }
        Some(())
    }

    fn read_alternative_names(&mut self, mut value: &[u8]) -> Option<()> {
        let mut names = of(&mut value, SEQUENCE)?;
        while !names.is_empty() {
            match any(&mut names)? {
                (DNS_NAME, name) => self.dns_names.push(String::from_utf8(name.to_vec()).ok()?),
                (IP_ADDRESS, bytes) => self.ip_addresses.push(address(bytes)?),
                _ => {}
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
        // Years up to 2049 have two digits, later ones four.
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

    /// The public RSA key with a modulus of all ones.
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
