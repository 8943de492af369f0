//! Issues and verifies service account tokens.
//!
//! A token is an ES256 JSON Web Token with the claims of the real server. It is bound to a service
//! account, and optionally to a further object. It is valid until it expires or one of these
//! objects is deleted; their UIDs are compared.

use std::path::Path;
use std::{fmt, io};

use kubewright_core::{ByteString, Str, Time, Value};
use kubewright_net::clock;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};

use super::CREDENTIAL_ID;
use crate::user::User;
use kubewright_objects::lookup::ObjectReader;
use kubewright_objects::object::{Meta, to_json, tree};
use kubewright_storage::private_file;

use kubewright_objects::random;

/// The issuer of tokens, and their default audience.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The path of the JSON Web Key Set.
pub(crate) const KEY_SET_PATH: &str = "/openid/v1/jwks";
/// The signature algorithm.
const ALGORITHM: &str = "ES256";
/// Size of a P-256 coordinate, in bytes.
const COORDINATE: usize = 32;
/// The DER encoding of a P-256 public key up to the point itself (RFC 5480).
const SUBJECT_PUBLIC_KEY_INFO: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The file with the signing key of a persistent server.
const KEY_FILE: &str = "service-accounts.key";

/// The signing key of service account tokens.
pub(crate) struct Accounts {
    key: EcdsaKeyPair,
    random: SystemRandom,
}

/// The account and the properties of a token.
pub(crate) struct TokenClaims<'a> {
    pub(crate) account: &'a Value,
    pub(crate) audiences: &'a [Str],
    pub(crate) seconds: i64,
    /// Further objects that the token is bound to. For a pod, its node follows.
    pub(crate) bound: Vec<BoundObject>,
}

/// An object that a token is bound to.
pub(crate) struct BoundObject {
    /// `Pod`, `Secret` or `Node`.
    pub(crate) kind: Str,
    pub(crate) name: Str,
    /// Empty for the node of a pod if the node does not exist.
    pub(crate) uid: Str,
}

impl Accounts {
    /// A new key, loaded in memory only.
    pub(crate) fn generate() -> io::Result<Self> {
        Accounts::from_pkcs8(&new_key()?)
    }

    /// Loads the key from a directory, or creates it there.
    ///
    /// # Errors
    ///
    /// The file can be neither read nor created. The error contains its path.
    pub(crate) fn load_or_create(directory: &Path) -> io::Result<Self> {
        let path = directory.join(KEY_FILE);
        let loaded = match std::fs::read(&path) {
            // An empty file is left when the server stops or the disk is full during its creation.
            // Replace it.
            Ok(key) if !key.is_empty() => Accounts::from_pkcs8(&key),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => new_key().and_then(|key| {
                private_file::write(&path, &key)?;
                Accounts::from_pkcs8(&key)
            }),
        };
        loaded.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }

    fn from_pkcs8(key: &[u8]) -> io::Result<Self> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key, &random);
        let unusable = |_| io::Error::new(io::ErrorKind::InvalidData, "not a private key for service account tokens");
        Ok(Accounts { key: key.map_err(unusable)?, random })
    }

    /// Issues a token. Returns it with its expiry time.
    pub(crate) fn issue(&self, grant: &TokenClaims<'_>) -> io::Result<(String, Time)> {
        let now = clock::now().as_unix();
        let (namespace, name) = (grant.account.namespace(), grant.account.name());
        let named = |name: &str, uid: &str| match uid {
            "" => tree::map([("name", name.into())]),
            uid => tree::map([("name", name.into()), ("uid", uid.into())]),
        };
        let mut bound =
            tree::map([("namespace", namespace.into()), ("serviceaccount", named(name, grant.account.uid()))]);
        for BoundObject { kind, name, uid } in &grant.bound {
            tree::set(&mut bound, &[&kind.to_lowercase()], named(name, uid));
        }
        let expires = now.saturating_add(grant.seconds);
        let claims = tree::map([
            ("aud", tree::list(grant.audiences.iter().map(|audience| audience.as_str()))),
            ("exp", expires.into()),
            ("iat", now.into()),
            ("iss", ISSUER.into()),
            ("jti", random::uid().into()),
            ("kubernetes.io", bound),
            ("nbf", now.into()),
            ("sub", format!("system:serviceaccount:{namespace}:{name}").into()),
        ]);
        let header = tree::map([("alg", ALGORITHM.into()), ("kid", self.key_id().into()), ("typ", "JWT".into())]);
        let signed = format!("{}.{}", encode(&to_json(&header)), encode(&to_json(&claims)));
        let signature = self.key.sign(&self.random, signed.as_bytes());
        let signature = signature.map_err(|_| io::Error::other("the token cannot be signed"))?;
        let expires = Time::from_unix(expires).unwrap_or(Time::MAX);
        Ok((format!("{signed}.{}", encode(signature.as_ref())), expires))
    }

    /// The public key as a JSON Web Key Set, for verifiers of tokens.
    pub(crate) fn key_set(&self) -> Value {
        // An uncompressed curve point: one byte for the format, then the two coordinates.
        let (x, y) = self.key.public_key().as_ref()[1..].split_at(COORDINATE);
        let key = tree::map([
            ("use", "sig".into()),
            ("kty", "EC".into()),
            ("kid", self.key_id().into()),
            ("crv", "P-256".into()),
            ("alg", ALGORITHM.into()),
            ("x", encode(x).into()),
            ("y", encode(y).into()),
        ]);
        tree::map([("keys", Value::Array([key].into()))])
    }

    /// The OpenID Connect discovery document. `host` is the host by which the client reached the
    /// server.
    pub(crate) fn provider(host: &str) -> Value {
        tree::map([
            ("issuer", ISSUER.into()),
            ("jwks_uri", format!("https://{host}{KEY_SET_PATH}").into()),
            ("response_types_supported", tree::list(["id_token"])),
            ("subject_types_supported", tree::list(["public"])),
            ("id_token_signing_alg_values_supported", tree::list([ALGORITHM])),
        ])
    }

    /// The key ID in tokens: the SHA-256 digest of `SubjectPublicKeyInfo`, as in kube-apiserver.
    fn key_id(&self) -> String {
        let encoded = [&SUBJECT_PUBLIC_KEY_INFO[..], self.key.public_key().as_ref()].concat();
        encode(digest(&SHA256, &encoded).as_ref())
    }

    /// Verifies a token. Returns its user and those of the `wanted` audiences that it is valid for.
    pub(crate) fn user(&self, objects: &dyn ObjectReader, token: &str, wanted: &[Str]) -> Option<(User, Vec<Str>)> {
        let (signed, signature) = token.rsplit_once('.')?;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref());
        public.verify(signed.as_bytes(), &decode(signature)?).ok()?;
        let claims = Value::from_json(&decode(signed.split_once('.')?.1)?).ok()?;
        let now = clock::now().as_unix();
        let is_current = tree::int(&claims, &["nbf"])? <= now && now < tree::int(&claims, &["exp"])?;
        if !is_current || tree::text(&claims, &["iss"]) != ISSUER {
            return None;
        }
        let has = |audience: &&Str| tree::items(&claims, &["aud"]).iter().any(|have| have.as_str() == Some(audience));
        let audiences: Vec<Str> = wanted.iter().filter(has).cloned().collect();
        let bound = claims.get("kubernetes.io")?;
        let namespace = tree::text(bound, &["namespace"]);
        let account = find(objects, "serviceaccounts", namespace, bound.get("serviceaccount")?)?;
        // The node of a pod says where the pod runs; the token does not depend on it.
        let node = bound.get("node").filter(|_| bound.get("pod").is_none());
        let objects_of_claims =
            [(bound.get("pod"), "pods"), (bound.get("secret"), "secrets"), (node, "nodes")].into_iter();
        for (object, storage) in objects_of_claims.filter_map(|(object, storage)| Some((object?, storage))) {
            find(objects, storage, namespace, object)?;
        }
        let user = User::authenticated(
            format!("system:serviceaccount:{namespace}:{}", account.name()),
            account.uid(),
            vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}").into()],
        );
        let user = user.with_extra(CREDENTIAL_ID, format!("JTI={}", tree::text(&claims, &["jti"])));
        let mut user = user;
        for kind in ["pod", "node"] {
            for field in ["name", "uid"] {
                let value = tree::text(bound, &[kind, field]);
                if !value.is_empty() {
                    user = user.with_extra(&format!("authentication.kubernetes.io/{kind}-{field}"), value);
                }
            }
        }
        (!audiences.is_empty()).then_some((user, audiences))
    }
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Accounts")
    }
}

/// The object of a claim, if its UID is unchanged.
fn find(objects: &dyn ObjectReader, storage: &str, namespace: &str, claim: &Value) -> Option<Value> {
    let catalog = objects.catalog();
    let found = objects.durable(&catalog.of_storage(storage)?.key(namespace, tree::text(claim, &["name"])))?;
    Some(found.object.tree().into_owned()).filter(|object| object.uid() == tree::text(claim, &["uid"]))
}

fn new_key() -> io::Result<Vec<u8>> {
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
    key.map(|key| key.as_ref().to_vec()).map_err(|_| io::Error::other("the key cannot be generated"))
}

/// Unpadded base64url.
fn encode(bytes: &[u8]) -> String {
    let text = ByteString::from(bytes.to_vec()).to_base64();
    text.trim_end_matches('=').replace('+', "-").replace('/', "_")
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut text = text.replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    ByteString::from_base64(text.as_bytes()).ok().map(|bytes| bytes.to_vec())
}
