//! Parses an `EncryptionConfiguration`.

use kubewright_core::{ByteString, Value, tree};

use super::cipher::Cipher;
use super::{Rule, Transformer};

/// Why an `EncryptionConfiguration` cannot be used. It quotes no key.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("invalid EncryptionConfiguration: {0}")]
pub struct ConfigurationError(String);

/// The resources of a rule.
pub(super) struct ResourcePattern {
    group: String,
    plural: String,
}

impl ResourcePattern {
    fn parse(text: &str) -> Self {
        let (plural, group) = text.split_once('.').unwrap_or((text, ""));
        ResourcePattern { group: group.to_owned(), plural: plural.to_owned() }
    }

    pub(super) fn matches(&self, group: &str, plural: &str) -> bool {
        (self.group == group || self.group == "*") && (self.plural == plural || self.plural == "*")
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<Rule>, ConfigurationError> {
    let document = kubewright_yaml::parse(text).map_err(|error| ConfigurationError(error.to_string()))?.value;
    let (api_version, kind) = (tree::text(&document, &["apiVersion"]), tree::text(&document, &["kind"]));
    if (api_version, kind) != ("apiserver.config.k8s.io/v1", "EncryptionConfiguration") {
        return invalid(format!("the kind is {kind:?} of {api_version:?}, not that of apiserver.config.k8s.io/v1"));
    }
    let rules = tree::items(&document, &["resources"]);
    if rules.is_empty() {
        return invalid("resources: there must be at least one");
    }
    rules.iter().enumerate().map(|(index, item)| rule(item, &format!("resources[{index}]"))).collect()
}

fn rule(item: &Value, path: &str) -> Result<Rule, ConfigurationError> {
    let names: Vec<&str> = tree::items(item, &["resources"]).iter().filter_map(Value::as_str).collect();
    if names.is_empty() || names.contains(&"") {
        return invalid(format!("{path}.resources: there must be at least one name"));
    }
    if names.contains(&"*") {
        return invalid(format!("{path}.resources: use '*.' for the core group and '*.*' for all resources"));
    }
    let resources = names.into_iter().map(ResourcePattern::parse).collect();
    let mut transformers = Vec::new();
    for (index, provider) in tree::items(item, &["providers"]).iter().enumerate() {
        provider_keys(provider, &format!("{path}.providers[{index}]"), &mut transformers)?;
    }
    if transformers.is_empty() {
        return invalid(format!("{path}.providers: there must be at least one"));
    }
    Ok(Rule { resources, transformers })
}

fn provider_keys(provider: &Value, path: &str, out: &mut Vec<Transformer>) -> Result<(), ConfigurationError> {
    let fields: Vec<_> = provider.as_object().into_iter().flat_map(|fields| fields.iter()).collect();
    let [(name, settings)] = &fields[..] else {
        return invalid(format!("{path}: there must be exactly one provider"));
    };
    match name.as_str() {
        "identity" => {
            out.push(Transformer::Identity);
            return Ok(());
        }
        "aescbc" | "aesgcm" | "secretbox" => {}
        "kms" => return invalid(format!("{path}.kms: key management services are not supported")),
        other => return invalid(format!("{path}.{other}: unknown provider")),
    }
    let keys = tree::items(settings, &["keys"]);
    if keys.is_empty() {
        return invalid(format!("{path}.{name}.keys: there must be at least one"));
    }
    for (index, key) in keys.iter().enumerate() {
        let path = format!("{path}.{name}.keys[{index}]");
        let key_name = tree::text(key, &["name"]);
        if key_name.is_empty() || key_name.contains(':') {
            return invalid(format!("{path}.name: it must not be empty or contain a colon"));
        }
        let Ok(secret) = ByteString::from_base64(tree::text(key, &["secret"]).as_bytes()) else {
            return invalid(format!("{path}.secret: it must be base64"));
        };
        let cipher = Cipher::new(name, &secret).map_err(|why| ConfigurationError(format!("{path}.secret: {why}")))?;
        out.push(Transformer::Key { prefix: format!("k8s:enc:{name}:v1:{key_name}:"), cipher });
    }
    Ok(())
}

fn invalid<T>(problem: impl Into<String>) -> Result<T, ConfigurationError> {
    Err(ConfigurationError(problem.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_field_and_no_key() {
        let secret = "c2VjcmV0LWtleS1vZi1zaXh0ZWVuLWJ5dGVz";
        let with = |rest: &str| {
            let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n";
            parse(&format!("{head}{rest}")).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let provider =
            |provider: &str| with(&format!("resources: [{{resources: [secrets], providers: [{provider}]}}]"));
        for (message, wanted) in [
            (parse("{}").err().map(|error| error.to_string()).unwrap_or_default(), "apiserver.config.k8s.io/v1"),
            (with("resources: []"), "resources: there must be"),
            (with("resources: [{resources: [], providers: [{identity: {}}]}]"), "resources[0].resources"),
            (with("resources: [{resources: ['*'], providers: [{identity: {}}]}]"), "'*.*'"),
            (provider(""), "resources[0].providers: there must be"),
            (provider("{}"), "exactly one provider"),
            (provider("{identity: {}, aescbc: {}}"), "exactly one provider"),
            (provider("{kms: {name: a}}"), "kms: key management services are not supported"),
            (provider("{rot13: {}}"), "rot13: unknown provider"),
            (provider("{aescbc: {keys: []}}"), "aescbc.keys: there must be"),
            (provider(&format!("{{aescbc: {{keys: [{{name: 'a:b', secret: {secret}}}]}}}}")), "keys[0].name"),
            (provider("{aescbc: {keys: [{name: a, secret: '!'}]}}"), "must be base64"),
            (provider(&format!("{{aescbc: {{keys: [{{name: a, secret: {secret}}}]}}}}")), "16, 24 or 32 bytes"),
            (provider(&format!("{{secretbox: {{keys: [{{name: a, secret: {secret}}}]}}}}")), "32 bytes"),
        ] {
            assert!(message.contains(wanted), "{message:?} lacks {wanted:?}");
            assert!(!message.contains(secret));
        }
    }
}
