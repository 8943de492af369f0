//! Issues and verifies service account tokens.
//!
//! A token is a JSON Web Token with the claims of the real server. It is bound to a service
//! account, and optionally to a further object. It is valid until it expires or one of these
//! objects is deleted; their UIDs are compared.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use kubewright_core::{ByteString, Str, Time, Value};
use kubewright_net::clock;

use super::CREDENTIAL_ID;
use super::token_keys::{SigningKey, VerificationKey, base64url};
use crate::User;
use kubewright_objects::lookup::ObjectReader;
use kubewright_objects::object::{Meta, to_json, tree};
use kubewright_objects::random;
use kubewright_storage::private_file;

/// The default issuer of tokens.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The path of the JSON Web Key Set.
pub const KEY_SET_PATH: &str = "/openid/v1/jwks";
/// The file with the signing key of a persistent server.
const KEY_FILE: &str = "service-accounts.key";

/// Settings of service account tokens. All of them have defaults.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ServiceAccountOptions {
    /// The issuers whose tokens are accepted. The first one issues tokens.
    /// `https://kubernetes.default.svc.cluster.local` by default.
    pub issuers: Vec<String>,
    /// A PEM file with the private key that signs tokens. By default the server creates a key.
    pub signing_key_file: Option<PathBuf>,
    /// PEM files with the keys and certificates that verify tokens. By default the signing key
    /// does.
    pub key_files: Vec<PathBuf>,
    /// The audiences of the server. Its issuers by default.
    pub api_audiences: Vec<String>,
    /// The URL of the key set in the discovery document. By default it is on this server.
    pub key_set_url: Option<String>,
}

/// Issues and verifies the tokens of service accounts.
pub struct ServiceAccountTokens {
    key: SigningKey,
    /// The keys that verify tokens.
    accepted: Vec<VerificationKey>,
    /// The first one issues tokens.
    issuers: Vec<Str>,
    audiences: Vec<Str>,
    key_set_url: Option<String>,
}

/// The account and the properties of a token.
pub struct TokenClaims<'a> {
    /// The service account.
    pub account: &'a Value,
    /// For whom the token is valid.
    pub audiences: &'a [Str],
    /// The lifetime in seconds.
    pub seconds: i64,
    /// Further objects that the token is bound to. For a pod, its node follows.
    pub bound: Vec<BoundObject>,
}

/// An object that a token is bound to.
pub struct BoundObject {
    /// `Pod`, `Secret` or `Node`.
    pub kind: Str,
    /// The name of the object.
    pub name: Str,
    /// Empty for the node of a pod if the node does not exist.
    pub uid: Str,
}

impl ServiceAccountTokens {
    /// With the keys of the options. Otherwise a key is loaded from the directory, or created.
    ///
    /// # Errors
    ///
    /// A file can be neither read nor created. The error contains its path.
    pub fn new(options: &ServiceAccountOptions, directory: Option<&Path>) -> io::Result<Self> {
        let key = match (&options.signing_key_file, directory) {
            (Some(file), _) => from_file(file, SigningKey::from_pem)?,
            (None, Some(directory)) => load_or_create(&directory.join(KEY_FILE))?,
            (None, None) => SigningKey::from_pkcs8(&SigningKey::generate()?)?,
        };
        let mut accepted = Vec::new();
        for file in &options.key_files {
            accepted.extend(from_file(file, VerificationKey::all_from_pem)?);
        }
        if accepted.is_empty() {
            accepted.push(key.public().clone());
        }
        let texts = |values: &[String]| values.iter().map(|value| Str::from(value.as_str())).collect::<Vec<_>>();
        let issuers = if options.issuers.is_empty() { vec![ISSUER.into()] } else { texts(&options.issuers) };
        let audiences = if options.api_audiences.is_empty() { issuers.clone() } else { texts(&options.api_audiences) };
        Ok(ServiceAccountTokens { key, accepted, issuers, audiences, key_set_url: options.key_set_url.clone() })
    }

    /// The audiences of the server itself.
    pub fn api_audiences(&self) -> &[Str] {
        &self.audiences
    }

    fn issuer(&self) -> &Str {
        &self.issuers[0]
    }

    /// Issues a token. Returns it with its expiry time.
    pub fn issue(&self, grant: &TokenClaims<'_>) -> io::Result<(String, Time)> {
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
            ("iss", self.issuer().clone().into()),
            ("jti", random::uid().into()),
            ("kubernetes.io", bound),
            ("nbf", now.into()),
            ("sub", format!("system:serviceaccount:{namespace}:{name}").into()),
        ]);
        let key = self.key.public();
        let header = tree::map([("alg", key.algorithm().into()), ("kid", key.id().into()), ("typ", "JWT".into())]);
        let signed = format!("{}.{}", base64url(&to_json(&header)), base64url(&to_json(&claims)));
        let signature = self.key.sign(signed.as_bytes())?;
        let expires = Time::from_unix(expires).unwrap_or(Time::MAX);
        Ok((format!("{signed}.{}", base64url(&signature)), expires))
    }

    /// The public keys as a JSON Web Key Set, for verifiers of tokens.
    pub fn key_set(&self) -> Value {
        let keys = self.accepted.iter().map(VerificationKey::json_web_key).collect();
        tree::map([("keys", Value::Array(keys))])
    }

    /// The OpenID Connect discovery document. `host` is the host by which the client reached the
    /// server.
    pub fn provider(&self, host: &str) -> Value {
        let mut algorithms: Vec<&str> = self.accepted.iter().map(VerificationKey::algorithm).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let key_set = self.key_set_url.clone().unwrap_or_else(|| format!("https://{host}{KEY_SET_PATH}"));
        tree::map([
            ("issuer", self.issuer().clone().into()),
            ("jwks_uri", key_set.into()),
            ("response_types_supported", tree::list(["id_token"])),
            ("subject_types_supported", tree::list(["public"])),
            ("id_token_signing_alg_values_supported", tree::list(algorithms)),
        ])
    }

    /// Verifies a token. Returns its user and those of the `wanted` audiences that it is valid for.
    pub fn user(&self, objects: &dyn ObjectReader, token: &str, wanted: &[Str]) -> Option<(User, Vec<Str>)> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = decode(signature)?;
        if !self.accepted.iter().any(|key| key.verifies(signed.as_bytes(), &signature)) {
            return None;
        }
        let claims = Value::from_json(&decode(signed.split_once('.')?.1)?).ok()?;
        let now = clock::now().as_unix();
        let is_current = tree::int(&claims, &["nbf"])? <= now && now < tree::int(&claims, &["exp"])?;
        if !is_current || !self.issuers.iter().any(|issuer| issuer == tree::text(&claims, &["iss"])) {
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

impl fmt::Debug for ServiceAccountTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccountTokens").field("issuers", &self.issuers).finish_non_exhaustive()
    }
}

/// The object of a claim, if its UID is unchanged.
fn find(objects: &dyn ObjectReader, storage: &str, namespace: &str, claim: &Value) -> Option<Value> {
    let catalog = objects.catalog();
    let found = objects.durable(&catalog.of_storage(storage)?.key(namespace, tree::text(claim, &["name"])))?;
    Some(found.object.tree().into_owned()).filter(|object| object.uid() == tree::text(claim, &["uid"]))
}

/// Reads keys from a file. The error contains its path.
fn from_file<T>(path: &Path, read: impl Fn(&[u8]) -> io::Result<T>) -> io::Result<T> {
    let keys = std::fs::read(path).and_then(|pem| read(&pem));
    keys.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Loads the key of a persistent server, or creates it.
fn load_or_create(path: &Path) -> io::Result<SigningKey> {
    let loaded = match std::fs::read(path) {
        // An empty file is left when the server stops or the disk is full during its creation.
        // Replace it.
        Ok(key) if !key.is_empty() => SigningKey::from_pkcs8(&key),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => SigningKey::generate().and_then(|key| {
            private_file::write(path, &key)?;
            SigningKey::from_pkcs8(&key)
        }),
    };
    loaded.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut text = text.replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    ByteString::from_base64(text.as_bytes()).ok().map(|bytes| bytes.to_vec())
}
