//! The built-in APIs that are served: the flag `--runtime-config` of kube-apiserver.

use std::collections::BTreeMap;

use super::{Catalog, Resource};

/// The group versions that kube-apiserver 1.36 knows, served or not, with the versions of each.
#[rustfmt::skip]
const REGISTERED: &[(&str, &[&str])] = &[
    ("", &["v1"]),
    ("admission.k8s.io", &["v1", "v1beta1"]),
    ("admissionregistration.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("apiextensions.k8s.io", &["v1", "v1beta1"]),
    ("apiregistration.k8s.io", &["v1", "v1beta1"]),
    ("apps", &["v1", "v1beta1", "v1beta2"]),
    ("authentication.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", &["v1", "v1beta1"]),
    ("autoscaling", &["v1", "v2"]),
    ("batch", &["v1", "v1beta1"]),
    ("certificates.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("coordination.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("discovery.k8s.io", &["v1", "v1beta1"]),
    ("events.k8s.io", &["v1", "v1beta1"]),
    ("extensions", &["v1beta1"]),
    ("flowcontrol.apiserver.k8s.io", &["v1", "v1beta1", "v1beta2", "v1beta3"]),
    ("imagepolicy.k8s.io", &["v1alpha1"]),
    ("internal.apiserver.k8s.io", &["v1alpha1"]),
    ("networking.k8s.io", &["v1", "v1beta1"]),
    ("node.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("policy", &["v1", "v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("resource.k8s.io", &["v1", "v1alpha3", "v1beta1", "v1beta2"]),
    ("scheduling.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("storage.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("storagemigration.k8s.io", &["v1beta1"]),
];

/// The keys for many group versions. A later one overrides those before it.
const CLASSES: [(&str, Option<&str>); 4] =
    [("api/all", None), ("api/ga", Some("")), ("api/beta", Some("beta")), ("api/alpha", Some("alpha"))];

/// A choice of the built-in APIs that are served. By default all that this server has.
///
/// ```
/// use kubewright_resources::catalog::RuntimeConfig;
/// let config = RuntimeConfig::parse(["api/all=false", "apps/v1=true"]).expect("both are known");
/// assert!(config.serves("apps", "v1", "deployments") && !config.serves("batch", "v1", "jobs"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[doc(alias = "runtime-config")]
pub struct RuntimeConfig {
    classes: Vec<(Option<&'static str>, bool)>,
    versions: BTreeMap<(String, String), bool>,
    resources: BTreeMap<(String, String, String), bool>,
}

impl RuntimeConfig {
    /// Parses entries such as `api/beta=true`, `batch/v1=false` and `batch/v1/cronjobs=false`.
    ///
    /// # Errors
    /// An entry is malformed, or its group or version unknown. The messages are those of
    /// kube-apiserver.
    pub fn parse<'e>(entries: impl IntoIterator<Item = &'e str>) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for entry in entries.into_iter().filter(|entry| !entry.is_empty()) {
            let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
            let is_core = ["v1", "api/v1"]
                .iter()
                .any(|core| key.trim().strip_prefix(core).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
            values.insert(if is_core { "/v1" } else { key.trim() }, value.trim());
        }
        values.remove("api/legacy");
        if values.len() == 1 && values.get("api/all") == Some(&"false") {
            return Err("invalid runtime-config with only api/all=false".to_owned());
        }
        let mut config = RuntimeConfig::default();
        for (class, maturity) in CLASSES {
            match values.remove(class) {
                None => {}
                Some("true") => config.classes.push((maturity, true)),
                Some("false") => config.classes.push((maturity, false)),
                Some(other) => return Err(format!("invalid value {class}={other}")),
            }
        }
        let mut unknown = Vec::new();
        for (key, value) in values {
            let (group, version, resource) = match key.split('/').collect::<Vec<_>>()[..] {
                [group, version] => (group, version, None),
                [group, version, resource] => (group, version, Some(resource)),
                _ => return Err(format!("runtime-config invalid key {key}")),
            };
            let Some((_, versions)) = REGISTERED.iter().find(|(name, _)| *name == group) else {
                unknown.push(format!("{group}/{version}"));
                continue;
            };
            if !versions.contains(&version) {
                return Err(format!("group version {group}/{version} that has not been registered"));
            }
            let is_served = match value {
                "" | "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
                "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
                other => {
                    let why = format!("strconv.ParseBool: parsing {other:?}: invalid syntax");
                    return Err(format!("invalid value of {key}: {other}, err: {why}"));
                }
            };
            match resource {
                None => config.versions.insert((group.to_owned(), version.to_owned()), is_served),
                Some(resource) if resource.chars().any(char::is_uppercase) => {
                    return Err(format!(
                        "invalid key {key}: group/version/resource and resource is always lowercase plural, \
                         not {resource:?}"
                    ));
                }
                Some(resource) => {
                    config.resources.insert((group.to_owned(), version.to_owned(), resource.to_owned()), is_served)
                }
            };
        }
        if unknown.is_empty() { Ok(config) } else { Err(format!("unknown api groups {}", unknown.join(","))) }
    }

    /// Whether a built-in resource is served.
    pub fn serves(&self, group: &str, version: &str, plural: &str) -> bool {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        if let Some(is_served) = self.resources.get(&key) {
            return *is_served;
        }
        let (group, version, _) = key;
        let key = (group, version);
        if let Some(is_served) = self.versions.get(&key) {
            return *is_served;
        }
        let matching = self.classes.iter().rfind(|(maturity, _)| maturity.is_none_or(|it| it == maturity_of(&key.1)));
        matching.is_none_or(|(_, is_served)| *is_served)
    }

    /// The entries that ask for a group version which this server does not have.
    pub fn absent(&self) -> impl Iterator<Item = String> {
        let catalog = Catalog::new([]);
        let versions = self.versions.iter().filter(|(_, is_served)| **is_served).map(|(key, _)| key.clone());
        let resources = self.resources.iter().filter(|(_, is_served)| **is_served);
        let resources = resources.map(|((group, version, _), _)| (group.clone(), version.clone()));
        let all: std::collections::BTreeSet<_> = versions.chain(resources).collect();
        let missing = all.into_iter().filter(move |(group, version)| catalog.version(group, version).is_none());
        missing.map(|(group, version)| format!("{group}/{version}"))
    }

    /// Whether a resource of a catalog is hidden from clients.
    pub(super) fn hides(&self, resource: &Resource) -> bool {
        !resource.is_custom() && !self.serves(&resource.group, &resource.version, &resource.plural)
    }

    /// Whether everything is served.
    pub(super) fn is_default(&self) -> bool {
        *self == RuntimeConfig::default()
    }
}

/// `alpha`, `beta`, or empty for a stable version.
fn maturity_of(version: &str) -> &'static str {
    ["alpha", "beta"].into_iter().find(|maturity| version.contains(maturity)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_entry_wins() {
        let config = |entries: &[&str]| RuntimeConfig::parse(entries.iter().copied()).expect("all are known");
        let some = config(&["api/all=false", "api/ga=true", "apps/v1=false", "apps/v1/deployments", "/v1/pods=false"]);
        assert!(some.serves("", "v1", "secrets") && !some.serves("", "v1", "pods"));
        assert!(some.serves("apps", "v1", "deployments") && !some.serves("apps", "v1", "daemonsets"));
        assert!(!some.serves("resource.k8s.io", "v1beta1", "resourceclaims"));
        assert!(
            RuntimeConfig::default().serves("apps", "v1", "deployments")
                && config(&["", "api/beta=true"]).serves("batch", "v1", "jobs")
        );
        let core = config(&["api/all=false", "v1=true", "api/legacy=false"]);
        assert!(core.serves("", "v1", "pods") && !core.serves("apps", "v1", "deployments"));
        let absent: Vec<_> =
            config(&["resource.k8s.io/v1beta1=true", "apps/v1=true", "batch/v1beta1=false"]).absent().collect();
        assert_eq!(absent, ["resource.k8s.io/v1beta1"]);
    }

    #[test]
    fn errors_have_the_words_of_kube_apiserver() {
        for (entries, why) in [
            (&["api/all=false"][..], "invalid runtime-config with only api/all=false"),
            (&["api/beta=yes"], "invalid value api/beta=yes"),
            (&["apps=true"], "runtime-config invalid key apps"),
            (&["a.example.com/v1=true", "b.example.com/v1"], "unknown api groups a.example.com/v1,b.example.com/v1"),
            (&["apps/v9=true"], "group version apps/v9 that has not been registered"),
            (
                &["apps/v1=maybe"],
                r#"invalid value of apps/v1: maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax"#,
            ),
            (
                &["apps/v1/Deployment=true"],
                r#"invalid key apps/v1/Deployment: group/version/resource and resource is always lowercase plural, not "Deployment""#,
            ),
        ] {
            assert_eq!(RuntimeConfig::parse(entries.iter().copied()), Err(why.to_owned()));
        }
    }

    #[test]
    fn every_served_group_version_is_registered() {
        for (group, versions) in Catalog::new([]).groups() {
            let registered = REGISTERED.iter().find(|(name, _)| *name == group.as_str()).map(|(_, versions)| *versions);
            for (version, _) in versions {
                assert!(registered.is_some_and(|known| known.contains(&version.as_str())), "{group}/{version}");
            }
        }
    }
}
