//! The keys of service account tokens, in the files that kube-apiserver accepts.
//!
//! A token is signed by one key, and may be verified by several: other servers of the same cluster,
//! or earlier keys. Keys are elliptic (P-256 and P-384) or RSA of at least 2048 bits.

use std::{fmt, io};

use kubewright_core::{ByteString, Value};
use kubewright_net::der::{self, BIT_STRING, Certificate, INTEGER, OBJECT_IDENTIFIER, SEQUENCE};
use kubewright_objects::object::tree;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED, ECDSA_P384_SHA384_FIXED_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair,
    UnparsedPublicKey, VerificationAlgorithm,
};
use rustls_pki_types::pem::{PemObject, SectionKind};

/// The identifier of elliptic keys.
const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// The curve P-256.
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
/// The curve P-384.
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
/// The identifier of RSA keys.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const NULL: &[u8] = &[0x05, 0x00];
const OCTET_STRING: u8 = 0x04;
/// The parameters of an elliptic private key (RFC 5915).
const CURVE: u8 = 0xa0;

/// How a key signs, by the names of JSON Web Tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignatureAlgorithm {
    Es256,
    Es384,
    Rs256,
}

impl SignatureAlgorithm {
    fn name(self) -> &'static str {
        match self {
            SignatureAlgorithm::Es256 => "ES256",
            SignatureAlgorithm::Es384 => "ES384",
            SignatureAlgorithm::Rs256 => "RS256",
        }
    }

    fn verification(self) -> &'static dyn VerificationAlgorithm {
        match self {
            SignatureAlgorithm::Es256 => &ECDSA_P256_SHA256_FIXED,
            SignatureAlgorithm::Es384 => &ECDSA_P384_SHA384_FIXED,
            SignatureAlgorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        }
    }
}

/// A private key that signs tokens.
pub(super) struct SigningKey {
    pair: SigningPair,
    public: VerificationKey,
    random: SystemRandom,
}

enum SigningPair {
    Elliptic(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
}

impl SigningKey {
    /// A new P-256 key, in PKCS #8.
    pub(super) fn generate() -> io::Result<Vec<u8>> {
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        key.map(|key| key.as_ref().to_vec()).map_err(|_| io::Error::other("the key cannot be generated"))
    }

    /// Reads a key from the first private key of a PEM file.
    pub(super) fn from_pem(pem: &[u8]) -> io::Result<Self> {
        let keys = sections(pem)?.into_iter().filter_map(|(kind, der)| SigningKey::from_section(kind, &der));
        keys.into_iter().next().unwrap_or_else(|| Err(unusable("there is no private key (PEM) in it")))
    }

    /// `None` if the section is no private key.
    fn from_section(kind: SectionKind, der: &[u8]) -> Option<io::Result<Self>> {
        match kind {
            SectionKind::PrivateKey => Some(SigningKey::from_pkcs8(der)),
            SectionKind::EcPrivateKey => Some(
                elliptic_to_pkcs8(der)
                    .ok_or_else(|| unusable("the elliptic key is malformed"))
                    .and_then(|der| SigningKey::from_pkcs8(&der)),
            ),
            SectionKind::RsaPrivateKey => {
                Some(RsaKeyPair::from_der(der).map(SigningKey::rsa).map_err(|error| unusable(&error.to_string())))
            }
            _ => None,
        }
    }

    /// Reads a key in PKCS #8.
    pub(super) fn from_pkcs8(der: &[u8]) -> io::Result<Self> {
        let random = SystemRandom::new();
        let elliptic = |algorithm: &'static EcdsaSigningAlgorithm| EcdsaKeyPair::from_pkcs8(algorithm, der, &random);
        if let Ok(pair) = elliptic(&ECDSA_P256_SHA256_FIXED_SIGNING) {
            return Ok(SigningKey::elliptic(pair, SignatureAlgorithm::Es256, P256));
        }
        if let Ok(pair) = elliptic(&ECDSA_P384_SHA384_FIXED_SIGNING) {
            return Ok(SigningKey::elliptic(pair, SignatureAlgorithm::Es384, P384));
        }
        let why = "only keys of P-256, P-384 and RSA with at least 2048 bits can sign";
        RsaKeyPair::from_pkcs8(der).map(SigningKey::rsa).map_err(|error| unusable(&format!("{error}; {why}")))
    }

    fn elliptic(pair: EcdsaKeyPair, algorithm: SignatureAlgorithm, curve: &[u8]) -> Self {
        let kind = [der::element(OBJECT_IDENTIFIER, ELLIPTIC), der::element(OBJECT_IDENTIFIER, curve)].concat();
        let public = VerificationKey::new(algorithm, &kind, pair.public_key().as_ref());
        SigningKey { pair: SigningPair::Elliptic(Box::new(pair)), public, random: SystemRandom::new() }
    }

    fn rsa(pair: RsaKeyPair) -> Self {
        let public = VerificationKey::rsa(pair.public_key().as_ref());
        SigningKey { pair: SigningPair::Rsa(Box::new(pair)), public, random: SystemRandom::new() }
    }

    /// The public part.
    pub(super) fn public(&self) -> &VerificationKey {
        &self.public
    }

    /// Signs a message.
    pub(super) fn sign(&self, message: &[u8]) -> io::Result<Vec<u8>> {
        let refused = |_| io::Error::other("the token cannot be signed");
        match &self.pair {
            SigningPair::Elliptic(pair) => {
                pair.sign(&self.random, message).map(|signature| signature.as_ref().to_vec()).map_err(refused)
            }
            SigningPair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &self.random, message, &mut signature).map_err(refused)?;
                Ok(signature)
            }
        }
    }
}

/// A public key that verifies tokens.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct VerificationKey {
    algorithm: SignatureAlgorithm,
    /// The key as ring reads it: a point of the curve, or an RSAPublicKey.
    key: Vec<u8>,
    /// SubjectPublicKeyInfo.
    info: Vec<u8>,
}

impl VerificationKey {
    /// `kind` is the content of an AlgorithmIdentifier.
    fn new(algorithm: SignatureAlgorithm, kind: &[u8], key: &[u8]) -> Self {
        let bits = der::element(BIT_STRING, &[&[0], key].concat());
        let info = der::element(SEQUENCE, &[der::element(SEQUENCE, kind), bits].concat());
        VerificationKey { algorithm, key: key.to_vec(), info }
    }

    fn rsa(key: &[u8]) -> Self {
        let kind = [&der::element(OBJECT_IDENTIFIER, RSA)[..], NULL].concat();
        VerificationKey::new(SignatureAlgorithm::Rs256, &kind, key)
    }

    /// Reads all keys of a PEM file: public keys, certificates, and the public parts of private
    /// keys.
    pub(super) fn all_from_pem(pem: &[u8]) -> io::Result<Vec<Self>> {
        let mut keys = Vec::new();
        for (kind, der) in sections(pem)? {
            keys.push(match kind {
                SectionKind::PublicKey => VerificationKey::from_info(&der)?,
                SectionKind::Certificate => {
                    let certificate = Certificate::read(&der).ok_or_else(|| unusable("a certificate is malformed"))?;
                    VerificationKey::from_info(certificate.key_info())?
                }
                kind => match SigningKey::from_section(kind, &der) {
                    Some(key) => key?.public,
                    None => continue,
                },
            });
        }
        if keys.is_empty() {
            Err(unusable("there is no public key, private key or certificate (PEM) in it"))
        } else {
            Ok(keys)
        }
    }

    fn from_info(info: &[u8]) -> io::Result<Self> {
        let read = || {
            let mut fields = der::of(&mut { info }, SEQUENCE)?;
            let mut kind = der::of(&mut fields, SEQUENCE)?;
            let bits = der::of(&mut fields, BIT_STRING)?;
            let key = bits.strip_prefix(&[0])?;
            let identifier = der::of(&mut kind, OBJECT_IDENTIFIER)?;
            Some((identifier, der::any(&mut kind).map(|(_, parameter)| parameter), key))
        };
        let elliptic = |algorithm, curve, key| {
            let kind = [der::element(OBJECT_IDENTIFIER, ELLIPTIC), der::element(OBJECT_IDENTIFIER, curve)].concat();
            Ok(VerificationKey::new(algorithm, &kind, key))
        };
        match read() {
            Some((ELLIPTIC, Some(P256), key)) => elliptic(SignatureAlgorithm::Es256, P256, key),
            Some((ELLIPTIC, Some(P384), key)) => elliptic(SignatureAlgorithm::Es384, P384, key),
            Some((RSA, _, key)) => Ok(VerificationKey::rsa(key)),
            Some(_) => Err(unusable("only keys of P-256, P-384 and RSA can verify tokens")),
            None => Err(unusable("a public key is malformed")),
        }
    }

    /// The name of its algorithm in tokens.
    pub(super) fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// The key ID in tokens: the SHA-256 digest of SubjectPublicKeyInfo, as in kube-apiserver.
    pub(super) fn id(&self) -> String {
        base64url(digest(&SHA256, &self.info).as_ref())
    }

    /// Whether the signature of a message is from this key.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(self.algorithm.verification(), &self.key).verify(message, signature).is_ok()
    }

    /// The JSON Web Key.
    pub(super) fn json_web_key(&self) -> Value {
        let mut key = tree::map([("use", "sig".into())]);
        let mut set = |field, value: String| tree::set(&mut key, &[field], value);
        match (self.algorithm, rsa_numbers(&self.key)) {
            (SignatureAlgorithm::Rs256, Some((modulus, exponent))) => {
                set("kty", "RSA".into());
                set("n", base64url(modulus));
                set("e", base64url(exponent));
            }
            (algorithm, _) => {
                // An uncompressed curve point: one byte for the format, then the two coordinates.
                let point = self.key.get(1..).unwrap_or_default();
                let (x, y) = point.split_at(point.len() / 2);
                set("kty", "EC".into());
                set("crv", if algorithm == SignatureAlgorithm::Es384 { "P-384" } else { "P-256" }.into());
                set("x", base64url(x));
                set("y", base64url(y));
            }
        }
        set("kid", self.id());
        set("alg", self.algorithm().into());
        key
    }
}

impl fmt::Debug for VerificationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} key {}", self.algorithm(), self.id())
    }
}

/// Modulus and exponent of an RSAPublicKey, without leading zeros.
fn rsa_numbers(mut key: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut numbers = der::of(&mut key, SEQUENCE)?;
    let mut number = || {
        let number = der::of(&mut numbers, INTEGER)?;
        Some(&number[number.iter().take_while(|byte| **byte == 0).count()..])
    };
    Some((number()?, number()?))
}

/// Wraps an elliptic private key (RFC 5915) as PKCS #8.
fn elliptic_to_pkcs8(der: &[u8]) -> Option<Vec<u8>> {
    let mut content = der;
    let mut fields = der::of(&mut content, SEQUENCE)?;
    der::of(&mut fields, INTEGER)?;
    der::of(&mut fields, OCTET_STRING)?;
    let mut curve = der::of(&mut fields, CURVE)?;
    let curve = der::of(&mut curve, OBJECT_IDENTIFIER)?;
    let kind = [der::element(OBJECT_IDENTIFIER, ELLIPTIC), der::element(OBJECT_IDENTIFIER, curve)].concat();
    let parts = [der::element(INTEGER, &[0]), der::element(SEQUENCE, &kind), der::element(OCTET_STRING, der)];
    Some(der::element(SEQUENCE, &parts.concat()))
}

fn sections(pem: &[u8]) -> io::Result<Vec<(SectionKind, Vec<u8>)>> {
    let sections: Result<Vec<(SectionKind, Vec<u8>)>, _> = PemObject::pem_slice_iter(pem).collect();
    sections.map_err(|error| unusable(&error.to_string()))
}

fn unusable(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a key for service account tokens: {why}"))
}

/// Unpadded base64url.
pub(super) fn base64url(bytes: &[u8]) -> String {
    let text = ByteString::from(bytes.to_vec()).to_base64();
    text.trim_end_matches('=').replace('+', "-").replace('/', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELLIPTIC_KEY: &str = include_str!("../../tests/keys/elliptic.pem");
    const RSA_KEY: &str = include_str!("../../tests/keys/rsa.pem");
    const RSA_PUBLIC_KEY: &str = include_str!("../../tests/keys/rsa_public.pem");

    fn certificate(key: &rcgen::KeyPair) -> String {
        let params = rcgen::CertificateParams::new(vec!["tokens".to_owned()]).expect("a name");
        params.self_signed(key).expect("the parameters are fine").pem()
    }

    #[test]
    fn a_certificate_verifies_what_its_key_signed() {
        for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384] {
            let pair = rcgen::KeyPair::generate_for(algorithm).expect("keys can be made");
            let key = SigningKey::from_pem(pair.serialize_pem().as_bytes()).expect("it is a private key");
            let [public] = &VerificationKey::all_from_pem(certificate(&pair).as_bytes()).expect("a certificate")[..]
            else {
                panic!("there is one certificate");
            };
            let signature = key.sign(b"token").expect("it signs");
            assert!(public.verifies(b"token", &signature) && !public.verifies(b"other", &signature));
            assert_eq!(public, key.public());
            assert_eq!(public.json_web_key(), key.public().json_web_key());
        }
    }

    #[test]
    fn keys_of_openssl_are_read() {
        let key = SigningKey::from_pem(ELLIPTIC_KEY.as_bytes()).expect("an elliptic key");
        let publics = VerificationKey::all_from_pem(ELLIPTIC_KEY.as_bytes()).expect("its public part");
        assert!(publics[0].verifies(b"token", &key.sign(b"token").expect("it signs")));
        assert_eq!(key.public().algorithm(), "ES256");
        let rsa = SigningKey::from_pem(RSA_KEY.as_bytes()).expect("an RSA key");
        assert!(rsa.public().verifies(b"token", &rsa.sign(b"token").expect("it signs")));
        let published = rsa.public().json_web_key();
        assert_eq!((tree::text(&published, &["kty"]), tree::text(&published, &["e"])), ("RSA", "AQAB"));
        let public = VerificationKey::all_from_pem(RSA_PUBLIC_KEY.as_bytes()).expect("a public key");
        assert_eq!(public[0].id(), rsa.public().id());
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        let refused = |pem: &str| SigningKey::from_pem(pem.as_bytes()).err().expect("no key").to_string();
        assert!(refused("").contains("there is no private key"), "{}", refused(""));
        let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        assert!(refused(broken).contains("only keys of P-256"), "{}", refused(broken));
        let error = VerificationKey::all_from_pem(b"").expect_err("no key").to_string();
        assert!(error.contains("no public key"), "{error}");
    }
}
