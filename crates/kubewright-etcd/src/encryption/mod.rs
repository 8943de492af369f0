//! Encryption of values at rest, as configured by an `EncryptionConfiguration`.
//!
//! A value starts with the provider and the name of the key that encrypted it. The first provider
//! of a resource writes, all of them read.

mod cipher;
mod configuration;

use std::fmt;
use std::sync::Arc;

use cipher::Cipher;
pub use configuration::ConfigurationError;
use configuration::ResourcePattern;

/// The prefix of every encrypted value.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// How the values of resources are encrypted. By default they are not.
#[derive(Clone, Default)]
pub struct Encryption {
    rules: Arc<[Rule]>,
}

/// The providers of some resources.
struct Rule {
    resources: Vec<ResourcePattern>,
    /// At least one.
    transformers: Vec<Transformer>,
}

/// One key of a provider, or no encryption.
enum Transformer {
    Identity,
    Key { prefix: String, cipher: Cipher },
}

/// Why a value cannot be encrypted or decrypted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncryptionError {
    /// The value was encrypted with a provider or key that the configuration lacks.
    #[error("no matching prefix found: the value is encrypted with a key that is not configured")]
    UnknownKey,
    /// The value is damaged, was moved from another key, or the configured key is another one.
    #[error("the value cannot be decrypted with the key of {provider:?}")]
    Undecryptable {
        /// The prefix of the value.
        provider: String,
    },
    /// There are no random numbers.
    #[error("the system has no random numbers")]
    NoRandomNumbers,
}

impl Encryption {
    /// Parses an `EncryptionConfiguration` in YAML or JSON.
    ///
    /// # Errors
    /// It is malformed, or has a provider that is not supported.
    #[doc(alias = "EncryptionConfiguration")]
    pub fn parse(text: &str) -> Result<Self, ConfigurationError> {
        configuration::parse(text).map(|rules| Encryption { rules: rules.into() })
    }

    /// The stored form of the value of a key. `resource` is the plural with its group, such as
    /// `deployments.apps`.
    ///
    /// # Errors
    /// [`EncryptionError::NoRandomNumbers`].
    pub fn encrypt(&self, resource: &str, key: &[u8], value: Vec<u8>) -> Result<Vec<u8>, EncryptionError> {
        match self.transformers(resource).first() {
            None | Some(Transformer::Identity) => Ok(value),
            Some(Transformer::Key { prefix, cipher }) => {
                let mut out = prefix.clone().into_bytes();
                cipher.encrypt(key, &value, &mut out)?;
                Ok(out)
            }
        }
    }

    /// The value of a key in its stored form.
    ///
    /// # Errors
    /// [`EncryptionError::UnknownKey`] or [`EncryptionError::Undecryptable`].
    pub fn decrypt(&self, resource: &str, key: &[u8], stored: &[u8]) -> Result<Vec<u8>, EncryptionError> {
        if !stored.starts_with(ENCRYPTED) {
            let transformers = self.transformers(resource);
            let accepts = |transformer: &Transformer| matches!(transformer, Transformer::Identity);
            let is_plain = transformers.is_empty() || transformers.iter().any(accepts);
            return if is_plain { Ok(stored.to_vec()) } else { Err(EncryptionError::UnknownKey) };
        }
        for transformer in self.transformers(resource) {
            if let Transformer::Key { prefix, cipher } = transformer
                && let Some(encrypted) = stored.strip_prefix(prefix.as_bytes())
            {
                let plain = cipher.decrypt(key, encrypted);
                return plain.ok_or_else(|| EncryptionError::Undecryptable { provider: prefix.clone() });
            }
        }
        Err(EncryptionError::UnknownKey)
    }

    /// Whether a stored value has the form that [`encrypt`](Self::encrypt) writes now. Another one
    /// has an old key, or was stored before encryption was configured.
    pub fn is_current(&self, resource: &str, stored: &[u8]) -> bool {
        match self.transformers(resource).first() {
            None | Some(Transformer::Identity) => !stored.starts_with(ENCRYPTED),
            Some(Transformer::Key { prefix, .. }) => stored.starts_with(prefix.as_bytes()),
        }
    }

    fn transformers(&self, resource: &str) -> &[Transformer] {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let matches = |rule: &&Rule| rule.resources.iter().any(|pattern| pattern.matches(group, plural));
        self.rules.iter().find(matches).map_or(&[], |rule| &rule.transformers)
    }
}

/// Shows no key.
impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryption").field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encryption(resources: &str, providers: &str) -> Encryption {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n\
             resources: [{{resources: [{resources}], providers: [{providers}]}}]"
        );
        Encryption::parse(&text).expect("it is valid")
    }

    const KEYS: &str = "keys: [{name: key1, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]";

    #[test]
    fn each_provider_reads_what_it_wrote_and_rejects_other_bytes() {
        for provider in ["aescbc", "aesgcm", "secretbox"] {
            let encryption = encryption("secrets", &format!("{{{provider}: {{{KEYS}}}}}"));
            let key = b"/registry/secrets/default/a";
            let stored = encryption.encrypt("secrets", key, b"hidden".to_vec()).expect("there are random numbers");
            assert!(stored.starts_with(format!("k8s:enc:{provider}:v1:key1:").as_bytes()));
            assert!(!stored.windows(6).any(|window| window == b"hidden"));
            assert_eq!(encryption.decrypt("secrets", key, &stored).as_deref(), Ok(&b"hidden"[..]));
            let undecryptable = |stored: &[u8]| {
                let refused = encryption.decrypt("secrets", key, stored);
                matches!(refused, Err(EncryptionError::Undecryptable { .. }))
            };
            for end in stored.len() - 20..stored.len() {
                assert!(undecryptable(&stored[..end]), "{provider} cut at {end}");
            }
            if provider != "aescbc" {
                let mut changed = stored.clone();
                *changed.last_mut().expect("it is not empty") ^= 1;
                assert!(undecryptable(&changed), "{provider}");
            }
            // Another resource is not encrypted, and cannot read encrypted values.
            assert_eq!(encryption.encrypt("pods", b"k", b"x".to_vec()).as_deref(), Ok(&b"x"[..]));
            assert_eq!(encryption.decrypt("pods", b"k", &stored), Err(EncryptionError::UnknownKey));
            // Without the provider `identity`, plain values are refused.
            assert_eq!(encryption.decrypt("secrets", key, b"plain"), Err(EncryptionError::UnknownKey));
        }
    }

    #[test]
    fn a_value_encrypted_by_gcm_belongs_to_its_key() {
        let encryption = encryption("secrets", &format!("{{aesgcm: {{{KEYS}}}}}"));
        let stored = encryption.encrypt("secrets", b"/registry/secrets/a/x", b"v".to_vec()).expect("random numbers");
        assert!(encryption.decrypt("secrets", b"/registry/secrets/b/x", &stored).is_err());
    }

    #[test]
    fn the_first_provider_writes_and_all_of_them_read() {
        let old = encryption("secrets", &format!("{{aescbc: {{{KEYS}}}}}"));
        let stored = old.encrypt("secrets", b"k", b"v".to_vec()).expect("there are random numbers");
        let new = "{secretbox: {keys: [{name: new, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]}}";
        let new = encryption("secrets", &format!("{new}, {{aescbc: {{{KEYS}}}}}, {{identity: {{}}}}"));
        assert_eq!(new.decrypt("secrets", b"k", &stored).as_deref(), Ok(&b"v"[..]));
        assert_eq!(new.decrypt("secrets", b"k", b"plain").as_deref(), Ok(&b"plain"[..]));
        assert!(old.is_current("secrets", &stored) && !new.is_current("secrets", &stored));
        assert!(!new.is_current("secrets", b"plain") && new.is_current("pods", b"plain"));
        let stored = new.encrypt("secrets", b"k", b"v".to_vec()).expect("there are random numbers");
        assert!(new.is_current("secrets", &stored));
        assert!(stored.starts_with(b"k8s:enc:secretbox:v1:new:"));
        assert_eq!(old.decrypt("secrets", b"k", &stored), Err(EncryptionError::UnknownKey));
    }

    #[test]
    fn patterns_select_resources() {
        for (pattern, matched, others) in [
            ("secrets", &["secrets"][..], &["configmaps", "secrets.example.com"][..]),
            ("deployments.apps", &["deployments.apps"], &["deployments", "daemonsets.apps"]),
            ("'*.apps'", &["deployments.apps", "daemonsets.apps"], &["pods", "jobs.batch"]),
            ("'*.'", &["pods", "secrets"], &["jobs.batch"]),
            ("'*.*'", &["pods", "jobs.batch", "foos.sub.example.com"], &[]),
        ] {
            let encryption = encryption(pattern, &format!("{{secretbox: {{{KEYS}}}}}"));
            let is_encrypted = |resource: &str| {
                encryption.encrypt(resource, b"k", b"v".to_vec()).is_ok_and(|stored| stored.starts_with(ENCRYPTED))
            };
            assert!(matched.iter().all(|resource| is_encrypted(resource)), "{pattern}");
            assert!(!others.iter().any(|resource| is_encrypted(resource)), "{pattern}");
        }
    }
}
