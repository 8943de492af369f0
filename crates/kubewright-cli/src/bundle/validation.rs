//! The rules of operator-sdk, with the names of its errors.
//!
//! The fields of errors are those of the Go types, as there. The embedded API server checks
//! definitions, with the rules of kube-apiserver.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;

use kubewright_apiserver::ApiServer;
use kubewright_client::{Api, Scope};
use kubewright_core::validation::dns1123_subdomain;
use kubewright_core::{DynamicObject, GroupVersionResource, Value};

use super::read::{Bundle, at, items_at, text_at};

/// The largest bundle, compressed: that of a ConfigMap.
const MAX_SIZE: usize = 1 << 20;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Error,
    Warning,
}

/// A rule that a bundle violates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// The name of the rule, as in operator-sdk.
    pub rule: String,
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}: {}", self.level, self.rule, self.detail)
    }
}

/// Rules that are checked on demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Optional {
    GoodPractices,
    StandardCapabilities,
    StandardCategories,
    All,
}

/// Reads a selector of operator-sdk.
pub fn selector(text: &str) -> Result<Optional, String> {
    match text {
        "name=good-practices" => Ok(Optional::GoodPractices),
        "name=standardcapabilities" => Ok(Optional::StandardCapabilities),
        "name=standardcategories" => Ok(Optional::StandardCategories),
        "suite=operatorframework" => Ok(Optional::All),
        _ => Err("it is name=good-practices, name=standardcapabilities, name=standardcategories or \
                  suite=operatorframework"
            .to_owned()),
    }
}

/// Collects findings.
struct Findings<'a> {
    bundle: &'a Bundle,
    found: Vec<Finding>,
}

/// Checks a bundle.
pub async fn validate(bundle: &Bundle, optional: &[Optional]) -> Result<Vec<Finding>, Box<dyn Error>> {
    let mut findings = Findings { bundle, found: Vec::new() };
    findings.service_version();
    findings.definitions().await?;
    findings.bundle();
    let is_wanted = |one: Optional| optional.contains(&one) || optional.contains(&Optional::All);
    if is_wanted(Optional::GoodPractices) {
        findings.good_practices();
    }
    if is_wanted(Optional::StandardCapabilities) {
        findings.capabilities();
    }
    if is_wanted(Optional::StandardCategories) {
        findings.categories();
    }
    Ok(findings.found)
}

impl Findings<'_> {
    fn add(&mut self, level: Level, rule: &str, detail: impl Into<String>) {
        self.found.push(Finding { level, rule: rule.to_owned(), detail: detail.into() });
    }

    fn csv(&mut self, level: Level, detail: impl fmt::Display) {
        let name = self.bundle.name().to_owned();
        self.add(level, "CSVFileNotValid", format!("({name}) {detail}"));
    }

    /// ClusterServiceVersionValidator.
    fn service_version(&mut self) {
        let csv = &self.bundle.csv;
        let replaces = text_at(csv, &["spec", "replaces"]).filter(|name| !name.is_empty());
        for (field, name) in [("metadata.name", Some(self.bundle.name())), ("spec.replaces", replaces)] {
            if let Some(name) = name
                && (!dns1123_subdomain(name).is_empty() || name.len() > 63)
            {
                self.csv(
                    Level::Error,
                    format!("{field} {name:?} is invalid: it must be a DNS name of at most 63 characters"),
                );
            }
        }
        self.examples();
        self.install_modes();
        match text_at(csv, &["spec", "minKubeVersion"]).map(str::trim) {
            None | Some("") => {
                self.csv(Level::Warning, "csv.Spec.minKubeVersion is not informed. It is recommended to name it")
            }
            Some(version) if version_numbers(version).is_none() => {
                self.csv(Level::Error, format!("csv.Spec.MinKubeVersion has an invalid value: {version}"));
            }
            Some(_) => {}
        }
        let is_empty = |path: &[&str]| match at(csv, path) {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Object(fields)) => fields.is_empty(),
            Some(Value::Array(items)) => items.is_empty(),
            Some(_) => false,
        };
        for (path, field) in [
            (&["metadata"][..], "ObjectMeta"),
            (&["spec"], "Spec"),
            (&["spec", "install"], "Spec.InstallStrategy"),
            (&["spec", "install", "strategy"], "Spec.InstallStrategy.StrategyName"),
            (&["spec", "install", "spec", "deployments"], "Spec.InstallStrategy.StrategySpec.DeploymentSpecs"),
            (&["spec", "displayName"], "Spec.DisplayName"),
        ] {
            // A field of a missing struct is not reported; the struct of the strategy is optional.
            let parent = &path[..path.len() - 1];
            if is_empty(path) && (parent.is_empty() || !is_empty(parent)) {
                self.add(Level::Error, "FieldNotFound", format!("Field {field}: required field missing"));
            }
        }
        for field in ["apiVersion", "kind"] {
            if text_at(csv, &[field]).is_none_or(str::is_empty) {
                self.csv(Level::Error, format!("'{field}' is missing"));
            }
        }
        self.annotation_names();
    }

    fn annotation_names(&mut self) {
        const CASE_SENSITIVE: [&str; 5] =
            ["olm.operatorGroup", "olm.operatorNamespace", "olm.targetNamespaces", "olm.providedAPIs", "olm.skipRange"];
        let annotations = at(&self.bundle.csv, &["metadata", "annotations"]).and_then(Value::as_object);
        let names: Vec<String> =
            annotations.into_iter().flat_map(|all| all.iter()).map(|(name, _)| name.to_string()).collect();
        for name in names {
            if let Some(known) = CASE_SENSITIVE.iter().find(|known| known.eq_ignore_ascii_case(&name))
                && *known != name
            {
                let detail = format!("provided annotation {name} uses wrong case and should be {known} instead");
                self.add(Level::Error, "ValidationFailed", detail);
            }
            if name == "olm.properties" {
                let detail = "found olm.properties annotation, please define these properties in metadata/properties.yaml instead";
                self.add(Level::Warning, "PropertiesAnnotationUsed", detail);
            }
        }
    }

    fn examples(&mut self) {
        let annotations = at(&self.bundle.csv, &["metadata", "annotations"]).and_then(Value::as_object);
        let Some(annotations) = annotations.filter(|annotations| !annotations.is_empty()) else {
            return self.csv(Level::Warning, "annotations not found");
        };
        let text = |name: &str| annotations.get(name).and_then(Value::as_str).map(str::to_owned);
        let examples = match (text("alm-examples"), text("olm.examples")) {
            (None, None) => return self.csv(Level::Warning, "example annotations not found"),
            (Some(examples), Some(_)) => {
                self.csv(
                    Level::Warning,
                    "both `alm-examples` and `olm.examples` are present. Checking only `alm-examples`",
                );
                examples
            }
            (Some(examples), None) | (None, Some(examples)) => examples,
        };
        let examples = if examples.is_empty() {
            Ok(Value::Array(Default::default()))
        } else {
            Value::from_json(examples.as_bytes())
        };
        let examples = match examples {
            Ok(examples) if examples.as_array().is_some() => examples,
            Ok(_) => {
                return self.add(Level::Error, "ParseError", "error decoding example CustomResource: it is no list");
            }
            Err(error) => return self.add(Level::Error, "ParseError", format!("invalid example: {error}")),
        };
        let shown: BTreeSet<(String, String)> = items_at(&examples, &[])
            .into_iter()
            .map(|example| {
                let text = |field: &str| text_at(example, &[field]).unwrap_or_default().to_owned();
                (text("apiVersion"), text("kind"))
            })
            .collect();
        let mut provided = BTreeSet::new();
        for owned in items_at(&self.bundle.csv, &["spec", "customresourcedefinitions", "owned"]) {
            let text = |field: &str| text_at(owned, &[field]).unwrap_or_default().to_owned();
            match text("name").split_once('.') {
                Some((_, group)) => drop(provided.insert((format!("{group}/{}", text("version")), text("kind")))),
                None => self.add(
                    Level::Error,
                    "ParseError",
                    format!("couldn't parse plural.group from crd name: {}", text("name")),
                ),
            }
        }
        for owned in items_at(&self.bundle.csv, &["spec", "apiservicedefinitions", "owned"]) {
            let text = |field: &str| text_at(owned, &[field]).unwrap_or_default().to_owned();
            provided.insert((format!("{}/{}", text("group"), text("version")), text("kind")));
        }
        for (version, kind) in shown.difference(&provided) {
            self.add(
                Level::Error,
                "OperationFailed",
                format!("Value {version}, Kind={kind}: example must have a provided API"),
            );
        }
        for (version, kind) in provided.difference(&shown) {
            let detail = format!("Value {version}, Kind={kind}: provided API should have an example annotation");
            self.add(Level::Warning, "OperationFailed", detail);
        }
    }

    fn install_modes(&mut self) {
        let modes = items_at(&self.bundle.csv, &["spec", "installModes"]);
        if modes.is_empty() {
            return self.csv(Level::Error, "install modes not found");
        }
        let modes: Vec<(String, bool)> = modes
            .into_iter()
            .map(|mode| {
                let is_supported = at(mode, &["supported"]).and_then(Value::as_bool) == Some(true);
                (text_at(mode, &["type"]).unwrap_or_default().to_owned(), is_supported)
            })
            .collect();
        let names: BTreeSet<&String> = modes.iter().map(|(name, _)| name).collect();
        if names.len() < modes.len() {
            self.csv(Level::Error, "duplicate install modes present");
        }
        let webhooks = items_at(&self.bundle.csv, &["spec", "webhookdefinitions"]);
        let converts = webhooks.iter().any(|webhook| !items_at(webhook, &["conversionCRDs"]).is_empty());
        if converts && modes.iter().any(|(name, is_supported)| (name == "AllNamespaces") != *is_supported) {
            self.csv(Level::Error, "only AllNamespaces InstallModeType is supported when conversionCRDs is present");
        }
        if modes.iter().all(|(_, is_supported)| !is_supported) {
            self.csv(Level::Error, "none of InstallModeTypes are supported");
        }
    }

    /// CustomResourceDefinitionValidator.
    async fn definitions(&mut self) -> Result<(), Box<dyn Error>> {
        let server = ApiServer::in_memory().start().await?;
        let resource = GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let api = Api::<DynamicObject>::new(&server.client(), resource, Scope::Cluster);
        for definition in &self.bundle.definitions {
            let name = text_at(definition, &["metadata", "name"]).unwrap_or_default();
            let object = DynamicObject::try_from(definition.clone())?;
            let Err(error) = api.create(&object).await else { continue };
            let details = error.status().and_then(|status| status.details.clone());
            let causes: Vec<_> = details.iter().flat_map(|details| details.causes.iter()).cloned().collect();
            if causes.is_empty() {
                self.add(Level::Error, "ParseError", format!("Value {name}: error converting crd: {error}"));
            }
            for cause in causes {
                let (field, message) = (cause.field.unwrap_or_default(), cause.message.unwrap_or_default());
                // As there: schemas are the business of the API server.
                if !field.contains("openAPIV3Schema") && !field.contains("status") {
                    let rule = cause.reason.unwrap_or_default().to_string();
                    self.add(Level::Error, &rule, format!("Field {field}: {name}: {message}"));
                }
            }
        }
        server.stop().await;
        Ok(())
    }

    /// BundleValidator.
    fn bundle(&mut self) {
        let bundle = self.bundle;
        let mut served = BTreeSet::new();
        for definition in &bundle.definitions {
            let text = |path: &[&str]| text_at(definition, path).unwrap_or_default().to_owned();
            for version in items_at(definition, &["spec", "versions"]) {
                let version = text_at(version, &["name"]).unwrap_or_default().to_owned();
                let key = (text(&["spec", "group"]), text(&["spec", "names", "kind"]), version);
                if !served.insert(key.clone()) {
                    self.add(
                        Level::Error,
                        "BundleNotValid",
                        format!("duplicate CRD {key:?} in bundle {:?}", bundle.name()),
                    );
                }
            }
        }
        let mut owned_kinds = BTreeSet::new();
        for owned in items_at(&bundle.csv, &["spec", "customresourcedefinitions", "owned"]) {
            let text = |field: &str| text_at(owned, &[field]).unwrap_or_default().to_owned();
            let name = text("name");
            let group = name.split_once('.').map_or(name.as_str(), |(_, group)| group).to_owned();
            let key = (group.clone(), text("kind"), text("version"));
            if served.contains(&key) {
                owned_kinds.insert((group, text("kind")));
            } else {
                self.add(
                    Level::Error,
                    "BundleNotValid",
                    format!("owned CRD {key:?} not found in bundle {:?}", bundle.name()),
                );
            }
        }
        for key in served.iter().filter(|(group, kind, _)| !owned_kinds.contains(&(group.clone(), kind.clone()))) {
            let detail = format!("CRD {key:?} is present in bundle {:?} but not defined in CSV", bundle.name());
            self.add(Level::Error, "BundleNotValid", detail);
        }
        let accounts: BTreeSet<&str> = deployments(bundle)
            .into_iter()
            .filter_map(|deployment| text_at(deployment, &["spec", "template", "spec", "serviceAccountName"]))
            .collect();
        for object in bundle.objects.iter().filter(|object| text_at(object, &["kind"]) == Some("ServiceAccount")) {
            let name = text_at(object, &["metadata", "name"]).unwrap_or_default();
            if accounts.contains(name) {
                let detail = format!(
                    "Value {name}: invalid service account found in bundle. It has the name of the one in the CSV; \
                     remove the manifest, or rename one of them"
                );
                self.add(Level::Error, "BundleNotValid", detail);
            }
        }
        if bundle.compressed_size > MAX_SIZE {
            let (size, whole) = (bundle.compressed_size, bundle.size);
            let detail = format!(
                "maximum bundle compressed size with gzip size exceeded: size={size} B, max={MAX_SIZE} B. Bundle uncompressed size is {whole} B"
            );
            self.add(Level::Error, "BundleNotValid", detail);
        } else if bundle.compressed_size * 100 > MAX_SIZE * 85 {
            let detail = format!(
                "nearing maximum bundle compressed size with gzip: size={} B, max={MAX_SIZE} B",
                bundle.compressed_size
            );
            self.add(Level::Warning, "BundleNotValid", detail);
        }
        for (index, image) in items_at(&bundle.csv, &["spec", "relatedImages"]).into_iter().enumerate() {
            match text_at(image, &["image"]).unwrap_or_default() {
                "" => {
                    self.add(Level::Error, "BundleNotValid", format!("relatedImages[{index}] has an empty image field"))
                }
                image if !is_image(image) => {
                    self.add(
                        Level::Error,
                        "BundleNotValid",
                        format!("relatedImages[{index}] has an invalid image pullspec {image:?}"),
                    );
                }
                _ => {}
            }
        }
    }

    /// GoodPracticesValidator.
    fn good_practices(&mut self) {
        if deployments(self.bundle).is_empty() {
            self.add(Level::Error, "ValidationFailed", "unable to find a deployment to install in the CSV");
        }
        let containers: Vec<String> = deployments(self.bundle)
            .into_iter()
            .flat_map(|deployment| items_at(deployment, &["spec", "template", "spec", "containers"]))
            .filter(|container| {
                ["cpu", "memory"].iter().any(|name| at(container, &["resources", "requests", name]).is_none())
            })
            .map(|container| text_at(container, &["name"]).unwrap_or_default().to_owned())
            .collect();
        for name in containers {
            let detail =
                format!("unable to find the resource requests for the container: ({name}), for CPU and memory");
            self.add(Level::Warning, "ValidationFailed", detail);
        }
        for owned in items_at(&self.bundle.csv, &["spec", "customresourcedefinitions", "owned"]) {
            if text_at(owned, &["description"]).is_none_or(str::is_empty) {
                let name = text_at(owned, &["name"]).unwrap_or_default();
                self.add(Level::Warning, "ValidationFailed", format!("owned CRD {name:?} has an empty description"));
            }
        }
        let conventional =
            |channel: &&String| ["candidate", "stable", "fast"].iter().any(|prefix| channel.starts_with(prefix));
        let others: Vec<&String> = self.bundle.channels.iter().filter(|channel| !conventional(channel)).collect();
        if !others.is_empty() {
            let detail = format!("channel(s) {others:?} are not following the recommended naming convention");
            self.add(Level::Warning, "ValidationFailed", detail);
        }
        let strategy = ["spec", "install", "spec"];
        let permissions = ["permissions", "clusterPermissions"]
            .into_iter()
            .flat_map(|list| items_at(&self.bundle.csv, &[&strategy[..], &[list]].concat()));
        let creates_definitions = permissions.flat_map(|permission| items_at(permission, &["rules"])).any(|rule| {
            let has = |field: &str, names: &[&str]| {
                items_at(rule, &[field]).iter().any(|item| item.as_str().is_some_and(|item| names.contains(&item)))
            };
            has("apiGroups", &["apiextensions.k8s.io"])
                && has("resources", &["customresourcedefinitions", "*"])
                && has("verbs", &["create", "patch", "*"])
        });
        if creates_definitions {
            let detail =
                "CSV contains permissions to create CRD. An Operator shouldn't deploy or manage other operators";
            self.add(Level::Warning, "ValidationFailed", detail);
        }
        let name = self.bundle.name().to_owned();
        let parts: Vec<&str> = name.split(".v").collect();
        if parts.last().is_none_or(|version| version_numbers(version).is_none()) {
            let detail = format!(
                "csv.metadata.Name {name} is not following the versioning convention (MAJOR.MINOR.PATCH e.g 0.0.1)"
            );
            self.add(Level::Warning, "ValidationFailed", detail);
        }
        if parts.len() != 2 {
            let detail = format!(
                "csv.metadata.Name {name} is not following the recommended naming convention: <operator-name>.v<semver>"
            );
            self.add(Level::Warning, "ValidationFailed", detail);
        }
    }

    /// StandardCapabilitiesValidator.
    fn capabilities(&mut self) {
        const LEVELS: [&str; 5] =
            ["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"];
        if let Some(level) = text_at(&self.bundle.csv, &["metadata", "annotations", "capabilities"])
            && !LEVELS.contains(&level)
        {
            self.csv(
                Level::Error,
                format!("csv.Metadata.Annotations.Capabilities {level:?} is not a valid capabilities level"),
            );
        }
    }

    /// StandardCategoriesValidator.
    fn categories(&mut self) {
        const CATEGORIES: [&str; 16] = [
            "AI/Machine Learning",
            "Application Runtime",
            "Big Data",
            "Cloud Provider",
            "Database",
            "Developer Tools",
            "Integration & Delivery",
            "Logging & Tracing",
            "Modernization & Migration",
            "Monitoring",
            "Networking",
            "Observability",
            "OpenShift Optional",
            "Security",
            "Storage",
            "Streaming & Messaging",
        ];
        let names =
            text_at(&self.bundle.csv, &["metadata", "annotations", "categories"]).unwrap_or_default().to_owned();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty() && !CATEGORIES.contains(name)) {
            self.csv(
                Level::Error,
                format!(
                    "csv.Metadata.Annotations[\"categories\"] value {name:?} is not in the set of standard categories"
                ),
            );
        }
    }
}

/// The Deployments that the ClusterServiceVersion installs.
fn deployments(bundle: &Bundle) -> Vec<&Value> {
    items_at(&bundle.csv, &["spec", "install", "spec", "deployments"])
}

/// The numbers of a semantic version. A pre-release is before its release.
pub fn version_numbers(version: &str) -> Option<(u64, u64, u64, bool)> {
    let (version, _) = version.split_once('+').unwrap_or((version, ""));
    let (core, pre_release) = version.split_once('-').map_or((version, None), |(core, rest)| (core, Some(rest)));
    if pre_release.is_some_and(str::is_empty) {
        return None;
    }
    let is_number = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) && (*part == "0" || !part.starts_with('0'))
    };
    let parts: Vec<u64> = core.split('.').filter(is_number).filter_map(|part| part.parse().ok()).collect();
    match parts[..] {
        [major, minor, patch] if core.split('.').count() == 3 => Some((major, minor, patch, pre_release.is_none())),
        _ => None,
    }
}

/// Whether a text is a reference of an image: registry, path, tag, digest.
fn is_image(text: &str) -> bool {
    let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
    let is_digest = |digest: &str| {
        let hex = |part: &str| part.len() >= 32 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        digest.split_once(':').is_some_and(|(algorithm, sum)| !algorithm.is_empty() && hex(sum))
    };
    let slash = name.rfind('/').map_or(0, |at| at + 1);
    let (path, tag) = match name[slash..].split_once(':') {
        Some((last, tag)) => (format!("{}{last}", &name[..slash]), Some(tag)),
        None => (name.to_owned(), None),
    };
    let is_tag = |tag: &str| {
        let mut bytes = tag.bytes();
        let starts = bytes.next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        starts && tag.len() <= 128 && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let mut parts: Vec<&str> = path.split('/').collect();
    // The registry may have upper case letters and a port.
    let is_registry = |part: &str| part.contains(['.', ':']) || part == "localhost";
    if parts.len() > 1 && is_registry(parts[0]) {
        let registry = parts.remove(0);
        if !registry.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:".contains(&byte)) {
            return false;
        }
    }
    let is_part = |part: &&str| {
        let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        ends(part.bytes().next()) && ends(part.bytes().last()) && part.bytes().all(inner)
    };
    parts.iter().all(is_part) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_images_are_read_as_their_specifications_say() {
        assert!(version_numbers("1.2.3") < version_numbers("1.10.0"));
        assert!(version_numbers("1.2.3-rc.1") < version_numbers("1.2.3"));
        for wrong in ["1.2", "v1.2.3", "1.02.3", "1.2.3-", ""] {
            assert_eq!(version_numbers(wrong), None, "{wrong}");
        }
        let digest = format!("registry.example.org:5000/a/b@sha256:{}", "a1".repeat(32));
        for image in ["shop", "shop:0.1.0", "quay.io/shop/shop:v1_2", "localhost/a__b", &digest] {
            assert!(is_image(image), "{image}");
        }
        for image in ["", "Shop", "shop:", "a b", "quay.io//shop", "shop@sha256:1", "-shop"] {
            assert!(!is_image(image), "{image}");
        }
    }
}
