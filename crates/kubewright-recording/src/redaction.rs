//! Replaces the contents of Secrets and tokens.
//!
//! Equal values have equal replacements, so that a reconciler that compares two Secrets decides the
//! same in a replay. A replacement is a hash with a random key, which is never written: values
//! cannot be guessed from it. A replacement is not replaced again, because a replayed reconciler
//! copies replacements.

use kubewright_core::ByteString;
use ring::hmac;
use ring::rand::SystemRandom;
use serde_json::Value;

/// The beginning of each replacement.
const REPLACED: &str = "redacted-";

/// The annotation in which `kubectl apply` keeps the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Replaces values, with a key of one recording.
pub(crate) struct Redaction {
    /// `None` if nothing is replaced.
    key: Option<hmac::Key>,
}

/// The part of an object that is secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecretPart {
    /// The contents of a Secret.
    Contents,
    /// `spec.token` of a review.
    ReviewedToken,
    /// `status.token` of a token request.
    IssuedToken,
}

impl SecretPart {
    /// The secret part of the bodies of requests with this path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        let mut parts = path.trim_start_matches('/').split('/');
        let (root, group) = (parts.next()?, parts.next()?);
        let mut rest: Vec<&str> = parts.collect();
        if root == "apis" && !rest.is_empty() {
            rest.remove(0);
        }
        if rest.first() == Some(&"namespaces") && rest.len() > 2 {
            rest.drain(..2);
        }
        match (root, group, rest.as_slice()) {
            ("api", _, ["secrets", ..]) => Some(SecretPart::Contents),
            ("api", _, ["serviceaccounts", _, "token"]) => Some(SecretPart::IssuedToken),
            ("apis", "authentication.k8s.io", ["tokenreviews", ..]) => Some(SecretPart::ReviewedToken),
            _ => None,
        }
    }
}

impl Redaction {
    /// A redaction with a new key.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(crate) fn new(is_on: bool) -> std::io::Result<Self> {
        let unavailable = |_| std::io::Error::other("the system has no random numbers");
        let key = is_on.then(|| hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(unavailable));
        Ok(Redaction { key: key.transpose()? })
    }

    pub(crate) fn is_on(&self) -> bool {
        self.key.is_some()
    }

    /// Replaces the secret part of a JSON text. `None` if the text is not JSON, and so must not be
    /// written.
    pub(crate) fn text(&self, text: &[u8], part: SecretPart) -> Option<Vec<u8>> {
        let mut value: Value = serde_json::from_slice(text).ok()?;
        self.value(&mut value, part);
        serde_json::to_vec(&value).ok()
    }

    /// Replaces the secret part of an object, of the items of a list, or of a patch.
    fn value(&self, value: &mut Value, part: SecretPart) {
        match value {
            Value::Array(operations) => operations.iter_mut().for_each(|operation| self.operation(operation, part)),
            Value::Object(fields) => {
                if let Some(Value::Array(items)) = fields.get_mut("items") {
                    items.iter_mut().for_each(|item| self.value(item, part));
                }
                if let Some(object) = fields.get_mut("object") {
                    self.value(object, part);
                }
                match part {
                    SecretPart::Contents => {
                        for field in ["data", "stringData"] {
                            if let Some(contents) = fields.get_mut(field) {
                                self.all(contents, field == "data");
                            }
                        }
                        if let Some(text) =
                            value.pointer_mut(&format!("/metadata/annotations/{}", LAST_APPLIED.replace('/', "~1")))
                        {
                            self.all(text, false);
                        }
                    }
                    SecretPart::ReviewedToken => {
                        value.pointer_mut("/spec/token").into_iter().for_each(|token| self.all(token, false))
                    }
                    SecretPart::IssuedToken => {
                        value.pointer_mut("/status/token").into_iter().for_each(|token| self.all(token, false))
                    }
                }
            }
            _ => {}
        }
    }

    /// Replaces the value of an operation of a JSON patch. Its path may lead to any part.
    fn operation(&self, operation: &mut Value, part: SecretPart) {
        let path = operation["path"].as_str().unwrap_or_default().to_owned();
        let Some(value) = operation.get_mut("value") else { return };
        match path.as_str() {
            "" => self.value(value, part),
            path if path.starts_with("/metadata") && !path.starts_with("/metadata/annotations") => {}
            path => self.all(value, path.starts_with("/data")),
        }
    }

    /// Replaces all strings below a value.
    fn all(&self, value: &mut Value, is_base64: bool) {
        match value {
            Value::String(text) => *text = self.replacement(text, is_base64),
            Value::Array(items) => items.iter_mut().for_each(|item| self.all(item, is_base64)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.all(field, is_base64)),
            _ => {}
        }
    }

    fn replacement(&self, text: &str, is_base64: bool) -> String {
        let Some(key) = &self.key else { return text.to_owned() };
        let decoded = if is_base64 { ByteString::from_base64(text.as_bytes()).ok() } else { None };
        let bytes = decoded.as_deref().unwrap_or(text.as_bytes());
        if bytes.is_empty() || bytes.starts_with(REPLACED.as_bytes()) {
            return text.to_owned();
        }
        let tag = hmac::sign(key, bytes);
        let hash: String = tag.as_ref().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        let replacement = format!("{REPLACED}{hash}");
        if is_base64 { ByteString::from(replacement.into_bytes()).to_base64() } else { replacement }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str, path: &str) -> String {
        let redaction = Redaction::new(true).expect("random numbers");
        let part = SecretPart::at(path).expect("a path with secrets");
        String::from_utf8(redaction.text(text.as_bytes(), part).expect("JSON")).expect("UTF-8")
    }

    #[test]
    fn paths_of_secrets_and_tokens_are_known() {
        for path in
            ["/api/v1/secrets?watch=true", "/api/v1/namespaces/a/secrets/b", "/api/v1/namespaces/secrets/secrets"]
        {
            assert_eq!(SecretPart::at(path), Some(SecretPart::Contents), "{path}");
        }
        assert_eq!(SecretPart::at("/api/v1/namespaces/a/serviceaccounts/b/token"), Some(SecretPart::IssuedToken));
        assert_eq!(SecretPart::at("/apis/authentication.k8s.io/v1/tokenreviews"), Some(SecretPart::ReviewedToken));
        for path in
            ["/api/v1/namespaces/secrets", "/api/v1/namespaces/secrets/pods", "/apis/example.com/v1/secrets", "/api"]
        {
            assert_eq!(SecretPart::at(path), None, "{path}");
        }
    }

    #[test]
    fn no_value_of_a_secret_is_left() {
        let path = "/api/v1/namespaces/a/secrets";
        // `hidden` in base64, plain, and inside the last applied configuration.
        for text in [
            r#"{"kind":"Secret","metadata":{"name":"s"},"data":{"key":"aGlkZGVu"},"stringData":{"key":"hidden"}}"#,
            r#"{"kind":"SecretList","items":[{"data":{"key":"aGlkZGVu"}}]}"#,
            r#"{"type":"ADDED","object":{"data":{"key":"aGlkZGVu"}}}"#,
            r#"{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":\"aGlkZGVu\"}"}}}"#,
            r#"[{"op":"add","path":"/data/key","value":"aGlkZGVu"}]"#,
            r#"[{"op":"replace","path":"/stringData","value":{"key":"hidden"}}]"#,
            r#"[{"op":"replace","path":"","value":{"data":{"key":"aGlkZGVu"}}}]"#,
        ] {
            let shown = redacted(text, path);
            assert!(!shown.contains("aGlkZGVu") && !shown.contains("hidden"), "{shown}");
        }
        let metadata = r#"{"metadata":{"labels":{"a":"hidden"}}}"#;
        assert_eq!(redacted(metadata, path), metadata);
        let review = redacted(r#"{"spec":{"token":"hidden"}}"#, "/apis/authentication.k8s.io/v1/tokenreviews");
        assert!(!review.contains("hidden"), "{review}");
        let token = redacted(r#"{"status":{"token":"hidden"}}"#, "/api/v1/namespaces/a/serviceaccounts/b/token");
        assert!(!token.contains("hidden"), "{token}");
    }

    #[test]
    fn equal_values_have_equal_replacements_which_are_final() {
        let redaction = Redaction::new(true).expect("random numbers");
        let of = |text: &str| {
            let mut value: Value = serde_json::from_str(text).expect("JSON");
            redaction.value(&mut value, SecretPart::Contents);
            value
        };
        let both = of(r#"{"data":{"a":"aGlkZGVu","b":"b3RoZXI="},"stringData":{"a":"hidden"}}"#);
        let plain = both["stringData"]["a"].as_str().expect("a string");
        let decoded =
            ByteString::from_base64(both["data"]["a"].as_str().expect("a string").as_bytes()).expect("base64");
        assert_eq!(&*decoded, plain.as_bytes());
        assert_ne!(both["data"]["a"], both["data"]["b"]);
        let other = Redaction::new(true).expect("random numbers");
        let mut again = both.clone();
        other.value(&mut again, SecretPart::Contents);
        assert_eq!(again, both);
    }

    #[test]
    fn a_body_that_is_not_json_is_not_written() {
        let redaction = Redaction::new(true).expect("random numbers");
        assert_eq!(redaction.text(b"data:\n  key: hidden\n", SecretPart::Contents), None);
    }
}
