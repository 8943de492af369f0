//! The fields of X.509 certificates.

use kubewright_core::Time;

use super::element::{OBJECT_IDENTIFIER, SEQUENCE, SET, any, of};

const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const OCTET_STRING: u8 = 0x04;
/// Context-specific tags of version and extensions.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

/// The attribute `CN` of a name.
pub const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// The attribute `O` of a name.
pub const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// A certificate, split into its fields. Its signature is not verified.
#[derive(Debug, Clone, Copy)]
pub struct Certificate<'a> {
    validity: &'a [u8],
    subject: &'a [u8],
    key_info: &'a [u8],
    /// The fields after the key, all of them optional.
    rest: &'a [u8],
}

impl<'a> Certificate<'a> {
    /// Splits a certificate in DER; `None` if it is malformed.
    pub fn read(mut der: &'a [u8]) -> Option<Self> {
        let mut certificate = of(&mut der, SEQUENCE)?;
        let mut fields = of(&mut certificate, SEQUENCE)?;
        // Absent in version 1.
        if fields.first() == Some(&VERSION) {
            any(&mut fields)?;
        }
        // Serial number, signature and issuer come first.
        for _ in 0..3 {
            any(&mut fields)?;
        }
        let ((_, validity), (_, subject)) = (any(&mut fields)?, any(&mut fields)?);
        let key_info = fields;
        of(&mut fields, SEQUENCE)?;
        let key_info = &key_info[..key_info.len() - fields.len()];
        Some(Certificate { validity, subject, key_info, rest: fields })
    }

    /// The time from which it is valid; `None` if it is malformed.
    pub fn not_before(&self) -> Option<Time> {
        time(any(&mut { self.validity })?)
    }

    /// The time until which it is valid; `None` if it is malformed.
    pub fn not_after(&self) -> Option<Time> {
        let mut validity = self.validity;
        any(&mut validity)?;
        time(any(&mut validity)?)
    }

    /// The attributes of its subject: their types and values; `None` if one is malformed.
    pub fn subject(&self) -> Option<Vec<(&'a [u8], &'a [u8])>> {
        attributes(self.subject)
    }

    /// Its public key, as SubjectPublicKeyInfo.
    pub fn key_info(&self) -> &'a [u8] {
        self.key_info
    }

    /// Its extensions: their types and values; `None` if one is malformed.
    pub fn extensions(&self) -> Option<Vec<(&'a [u8], &'a [u8])>> {
        let (mut rest, mut found) = (self.rest, Vec::new());
        while !rest.is_empty() {
            let (EXTENSIONS, mut wrapped) = any(&mut rest)? else { continue };
            let mut extensions = of(&mut wrapped, SEQUENCE)?;
            while !extensions.is_empty() {
                let mut extension = of(&mut extensions, SEQUENCE)?;
                let kind = of(&mut extension, OBJECT_IDENTIFIER)?;
                // An optional critical flag precedes the value.
                let value = loop {
                    if let (OCTET_STRING, value) = any(&mut extension)? {
                        break value;
                    }
                };
                found.push((kind, value));
            }
        }
        Some(found)
    }
}

/// The attributes of a name: their types and values; `None` if one is malformed.
pub fn attributes(mut names: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut found = Vec::new();
    while !names.is_empty() {
        let mut set = of(&mut names, SET)?;
        while !set.is_empty() {
            let mut attribute = of(&mut set, SEQUENCE)?;
            found.push((of(&mut attribute, OBJECT_IDENTIFIER)?, any(&mut attribute)?.1));
        }
    }
    Some(found)
}

/// A time in either of its two formats.
fn time((tag, text): (u8, &[u8])) -> Option<Time> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.is_ascii())?;
    let (century, rest) = match tag {
        // Two-digit years are 1950 to 2049.
        UTC_TIME => (if text.get(..2)? < "50" { "20" } else { "19" }, text),
        GENERALIZED_TIME => (text.get(..2)?, text.get(2..)?),
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2);
    let text = format!("{century}{}-{}-{}T{}:{}:{}Z", part(0)?, part(2)?, part(4)?, part(6)?, part(8)?, part(10)?);
    text.parse().ok()
}
