//! Writes a bundle from the manifests of a project.
//!
//! The operator runs as in its manifests: the Deployment, and the rules of the roles that are bound
//! to its service account. Other objects are copied. The Operator Lifecycle Manager creates the
//! namespace, the account and the bindings.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use kubewright_apiserver::ApiServer;
use kubewright_core::{GroupResource, List, Map, Value, json};
use kubewright_yaml as yaml;

use super::read::{at, items_at, text_at};
use super::validation::version_numbers;
use crate::output::print;
use crate::project::ProjectRecord;

/// A role that kube-apiserver has, with its rules.
const AUTH_DELEGATOR: &str = "system:auth-delegator";

/// The metadata of the bundle, and the project.
#[derive(Debug, Args)]
pub struct CreateOptions {
    /// The folder of the project.
    #[arg(long, value_name = "DIR", default_value = ".")]
    project: PathBuf,
    /// The version of the operator: MAJOR.MINOR.PATCH.
    #[arg(long)]
    version: String,
    /// The image of the operator. By default the one of the Deployment.
    #[arg(long)]
    image: Option<String>,
    /// The bundle that this one replaces, such as shop.v0.1.0.
    #[arg(long, value_name = "NAME")]
    replaces: Option<String>,
    /// The channels, separated by commas. The first one is the default channel.
    #[arg(long, value_name = "CHANNEL,...", value_delimiter = ',', default_value = "stable")]
    channels: Vec<String>,
    /// A file of fields that are merged into the ClusterServiceVersion: description, icon,
    /// maintainers, keywords, capabilities.
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// The folder of the bundle, which must not exist. By default bundle/VERSION in the project.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// The objects of a project.
struct Manifests {
    objects: Vec<Value>,
}

impl Manifests {
    fn read(folder: &Path) -> Result<Self, String> {
        let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml"));
        files.sort();
        let mut objects = Vec::new();
        for file in files {
            let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            let text = fs::read_to_string(&file).map_err(|error| failed(&error))?;
            let documents = yaml::parse_all(&text).map_err(|error| failed(&error))?;
            objects.extend(documents.into_iter().map(|document| document.value).filter(|value| !value.is_null()));
        }
        Ok(Manifests { objects })
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |object| text_at(object, &["kind"]) == Some(kind))
    }

    /// The rules that bindings of this kind give to an account, with the names of the roles.
    fn rules(&self, binding: &str, account: &str) -> Result<(List<Value>, Vec<String>), String> {
        let (mut rules, mut names) = (List::new(), Vec::new());
        for bound in self.of_kind(binding) {
            let is_for = |subject: &&Value| {
                text_at(subject, &["kind"]) == Some("ServiceAccount") && text_at(subject, &["name"]) == Some(account)
            };
            if !items_at(bound, &["subjects"]).iter().any(is_for) {
                continue;
            }
            let (kind, name) = (text_at(bound, &["roleRef", "kind"]), text_at(bound, &["roleRef", "name"]));
            let (kind, name) = (kind.unwrap_or_default(), name.unwrap_or_default());
            if name == AUTH_DELEGATOR {
                rules.push(
                    json!({"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}),
                );
                let resources = ["subjectaccessreviews"];
                rules.push(
                    json!({"apiGroups": ["authorization.k8s.io"], "resources": [resources[0]], "verbs": ["create"]}),
                );
                continue;
            }
            let role = self.of_kind(kind).find(|role| text_at(role, &["metadata", "name"]) == Some(name));
            let role = role.ok_or_else(|| {
                format!("{account} is bound to the {kind} {name}, which is not in manifests/: a bundle has the rules themselves")
            })?;
            rules.extend(items_at(role, &["rules"]).into_iter().cloned());
            names.push(name.to_owned());
        }
        Ok((rules, names))
    }
}

/// Writes the bundle.
pub async fn create(options: &CreateOptions) -> Result<(), Box<dyn Error>> {
    let (record, _) = ProjectRecord::of_folder(&options.project)?;
    if version_numbers(&options.version).is_none() {
        return Err(format!("{:?} is no version: MAJOR.MINOR.PATCH, as 0.1.0", options.version).into());
    }
    let manifests = Manifests::read(&options.project.join("manifests"))?;
    if manifests
        .of_kind("ValidatingWebhookConfiguration")
        .chain(manifests.of_kind("MutatingWebhookConfiguration"))
        .next()
        .is_some()
    {
        let why = "the project has webhooks, whose certificates it issues itself; the Operator Lifecycle Manager renames \
                   their configurations, so that they cannot be bundled";
        return Err(why.into());
    }
    let mut deployments: Vec<Value> = manifests.of_kind("Deployment").cloned().collect();
    let [deployment] = &mut deployments[..] else {
        return Err(format!("manifests/ has {} Deployments, and a bundle is made of one", deployments.len()).into());
    };
    let mut bundled = Vec::new();
    let mut csv = service_version(options, &record, &manifests, deployment, &mut bundled)?;
    add_resources(&mut csv).await?;
    if let Some(base) = &options.base {
        let text = fs::read_to_string(base).map_err(|error| format!("{}: {error}", base.display()))?;
        let tree = yaml::parse(&text).map_err(|error| format!("{}: {error}", base.display()))?.value;
        merge(&mut csv, &tree);
    }
    let output = options.output.clone().unwrap_or_else(|| options.project.join("bundle").join(&options.version));
    let mut files = vec![
        (format!("manifests/{}.clusterserviceversion.yaml", record.project), document(&csv)),
        ("metadata/annotations.yaml".to_owned(), annotations(options, &record)),
        ("bundle.Dockerfile".to_owned(), dockerfile(options, &record)),
    ];
    for definition in manifests.of_kind("CustomResourceDefinition") {
        let name = text_at(definition, &["metadata", "name"]).unwrap_or_default();
        files.push((format!("manifests/{name}.crd.yaml"), document(definition)));
    }
    // Bound roles are in the ClusterServiceVersion, and the rest is made by the manager.
    for object in &manifests.objects {
        let kind = text_at(object, &["kind"]).unwrap_or_default();
        let name = text_at(object, &["metadata", "name"]).unwrap_or_default();
        let is_copied = matches!(
            kind,
            "Service" | "ConfigMap" | "Secret" | "ClusterRole" | "Role" | "PriorityClass" | "PodDisruptionBudget"
        ) && !bundled.contains(&name.to_owned());
        if is_copied {
            files
                .push((format!("manifests/{name}.{}.yaml", kind.to_lowercase()), document(&without_namespace(object))));
        }
    }
    if let Some(parent) = output.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(&output).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => format!("{} exists already, and is left as it is", output.display()),
        _ => format!("{}: {error}", output.display()),
    })?;
    for (name, text) in &files {
        let file = output.join(name);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let output = output.display();
    Ok(print(format!("wrote {output}: {} files\nnext:  kubewright bundle validate {output}\n", files.len()))?)
}

fn service_version(
    options: &CreateOptions,
    record: &ProjectRecord,
    manifests: &Manifests,
    deployment: &mut Value,
    bundled: &mut Vec<String>,
) -> Result<Value, Box<dyn Error>> {
    let account =
        text_at(deployment, &["spec", "template", "spec", "serviceAccountName"]).unwrap_or("default").to_owned();
    if let Some(image) = &options.image {
        set_image(deployment, image);
    }
    let (cluster_rules, of_cluster) = manifests.rules("ClusterRoleBinding", &account)?;
    let (rules, of_namespace) = manifests.rules("RoleBinding", &account)?;
    bundled.extend(of_cluster.into_iter().chain(of_namespace));
    let permissions = |rules: List<Value>| match rules.is_empty() {
        true => Value::Array(List::new()),
        false => json!([{"serviceAccountName": account.as_str(), "rules": Value::Array(rules)}]),
    };
    let (mut owned, mut examples) = (List::new(), List::new());
    let samples = Manifests::read(&options.project.join("samples")).map(|samples| samples.objects).unwrap_or_default();
    for definition in manifests.of_kind("CustomResourceDefinition") {
        let text = |path: &[&str]| text_at(definition, path).unwrap_or_default().to_owned();
        let (group, kind) = (text(&["spec", "group"]), text(&["spec", "names", "kind"]));
        for version in items_at(definition, &["spec", "versions"]) {
            let name = text_at(version, &["name"]).unwrap_or_default();
            let schema = ["schema", "openAPIV3Schema"];
            let described = [&schema[..], &["properties", "spec", "description"]].concat();
            let description =
                text_at(version, &[&schema[..], &["description"]].concat()).or(text_at(version, &described));
            owned.push(json!({
                "name": text(&["metadata", "name"]).as_str(), "version": name, "kind": kind.as_str(),
                "displayName": kind.as_str(), "description": description.unwrap_or(kind.as_str()),
                "specDescriptors": descriptors(version, "spec"), "statusDescriptors": descriptors(version, "status"),
            }));
            let api_version = format!("{group}/{name}");
            let is_sample = |sample: &&Value| {
                text_at(sample, &["apiVersion"]) == Some(&api_version) && text_at(sample, &["kind"]) == Some(&kind)
            };
            examples.extend(samples.iter().filter(is_sample).map(without_namespace));
        }
    }
    let name = text_at(deployment, &["metadata", "name"]).unwrap_or_default();
    let mode = |name: &str, is_supported: bool| json!({"type": name, "supported": is_supported});
    let mut csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{}.v{}", record.project, options.version).as_str(),
            "namespace": "placeholder",
            "annotations": {
                "alm-examples": Value::Array(examples).to_string().as_str(),
                "capabilities": "Basic Install",
                "operators.operatorframework.io/builder": concat!("kubewright-v", env!("CARGO_PKG_VERSION")),
            },
        },
        "spec": {
            "displayName": record.project.as_str(),
            "description": format!("The operator {}.", record.project).as_str(),
            "version": options.version.as_str(),
            "maturity": "alpha",
            "minKubeVersion": "1.25.0",
            "provider": {"name": record.project.as_str()},
            "installModes": [
                mode("OwnNamespace", false), mode("SingleNamespace", false), mode("MultiNamespace", false),
                mode("AllNamespaces", true),
            ],
            "install": {"strategy": "deployment", "spec": {
                "deployments": [{"name": name, "spec": at(deployment, &["spec"]).cloned().unwrap_or(Value::Null)}],
                "clusterPermissions": permissions(cluster_rules),
                "permissions": permissions(rules),
            }},
            "customresourcedefinitions": {"owned": Value::Array(owned)},
            "relatedImages": Value::Array(related_images(deployment)),
        },
    });
    if let Some(replaced) = &options.replaces {
        merge(&mut csv, &json!({"spec": {"replaces": replaced.as_str()}}));
    }
    Ok(csv)
}

/// Descriptions of the fields in spec or status, from the schema.
fn descriptors(version: &Value, part: &str) -> Value {
    let fields =
        at(version, &["schema", "openAPIV3Schema", "properties", part, "properties"]).and_then(Value::as_object);
    let describe = |(name, schema): (&kubewright_core::Str, &Value)| {
        let description = text_at(schema, &["description"]).unwrap_or(name.as_str());
        json!({"path": name.as_str(), "displayName": name.as_str(), "description": description})
    };
    Value::Array(fields.into_iter().flat_map(|fields| fields.iter()).map(describe).collect())
}

/// Names the resources that the operator writes, which a catalogue shows with each kind. The
/// embedded server knows their kinds.
async fn add_resources(csv: &mut Value) -> Result<(), Box<dyn Error>> {
    let server = ApiServer::in_memory().start().await?;
    let mapper = server.client().rest_mapper();
    let mut resources = List::new();
    let permissions = items_at(csv, &["spec", "install", "spec", "clusterPermissions"]);
    for rule in permissions.into_iter().flat_map(|permission| items_at(permission, &["rules"])) {
        let writes = items_at(rule, &["verbs"]).iter().any(|verb| matches!(verb.as_str(), Some("create" | "*")));
        for group in items_at(rule, &["apiGroups"]).into_iter().filter(|_| writes).filter_map(Value::as_str) {
            for plural in items_at(rule, &["resources"]).into_iter().filter_map(Value::as_str) {
                // Other operators' kinds are not known here, and reviews are no objects.
                let found = mapper.resource(&GroupResource::new(group, plural)).await;
                if let Some(mapping) = found.ok().filter(|_| !plural.ends_with("reviews")) {
                    let (kind, version) = (mapping.kind.kind, mapping.kind.version);
                    resources.push(json!({"kind": kind.as_str(), "name": "", "version": version.as_str()}));
                }
            }
        }
    }
    server.stop().await;
    let mut tree = csv;
    for field in ["spec", "customresourcedefinitions"] {
        let Some(next) = tree.as_object_mut().and_then(|fields| fields.get_mut(field)) else { return Ok(()) };
        tree = next;
    }
    if let Some(Value::Array(owned)) = tree.as_object_mut().and_then(|fields| fields.get_mut("owned")) {
        for owned in owned.iter_mut().filter_map(Value::as_object_mut) {
            owned.insert("resources", Value::Array(resources.clone()));
        }
    }
    Ok(())
}

/// The images of the containers, and those that containers name in `RELATED_IMAGE_…` variables.
fn related_images(deployment: &Value) -> List<Value> {
    let mut images = List::new();
    let pod = ["spec", "template", "spec"];
    for list in ["initContainers", "containers"] {
        for container in items_at(deployment, &[&pod[..], &[list]].concat()) {
            let text = |field: &str| text_at(container, &[field]).unwrap_or_default().to_owned();
            images.push(json!({"name": text("name").as_str(), "image": text("image").as_str()}));
            for variable in items_at(container, &["env"]) {
                let name = text_at(variable, &["name"]).unwrap_or_default();
                if let (Some(name), Some(image)) = (name.strip_prefix("RELATED_IMAGE_"), text_at(variable, &["value"]))
                {
                    images.push(json!({"name": name.to_lowercase().as_str(), "image": image}));
                }
            }
        }
    }
    images
}

/// Sets the image of the first container.
fn set_image(deployment: &mut Value, image: &str) {
    let mut tree = deployment as &mut Value;
    for field in ["spec", "template", "spec"] {
        let Some(next) = tree.as_object_mut().and_then(|fields| fields.get_mut(field)) else { return };
        tree = next;
    }
    let Some(Value::Array(containers)) = tree.as_object_mut().and_then(|fields| fields.get_mut("containers")) else {
        return;
    };
    if let Some(container) = containers.iter_mut().next().and_then(Value::as_object_mut) {
        container.insert("image", Value::from(image));
    }
}

/// The object without its namespace, which the manager chooses.
fn without_namespace(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.as_object_mut().and_then(|fields| fields.get_mut("metadata")?.as_object_mut()) {
        metadata.remove("namespace");
    }
    object
}

/// Merges the fields of `source`; its lists replace those of `target`.
fn merge(target: &mut Value, source: &Value) {
    match (target, source) {
        (Value::Object(target), Value::Object(source)) => {
            for (name, value) in source.iter() {
                match target.get_mut(name.as_str()) {
                    Some(existing) => merge(existing, value),
                    None => drop(target.insert(name.clone(), value.clone())),
                }
            }
        }
        (target, source) => *target = source.clone(),
    }
}

const PREFIX: &str = "operators.operatorframework.io.bundle";

fn labels(options: &CreateOptions, record: &ProjectRecord) -> [(String, String); 6] {
    let default = options.channels.first().cloned().unwrap_or_default();
    [
        ("mediatype.v1", "registry+v1".to_owned()),
        ("manifests.v1", "manifests/".to_owned()),
        ("metadata.v1", "metadata/".to_owned()),
        ("package.v1", record.project.clone()),
        ("channels.v1", options.channels.join(",")),
        ("channel.default.v1", default),
    ]
    .map(|(name, value)| (format!("{PREFIX}.{name}"), value))
}

fn annotations(options: &CreateOptions, record: &ProjectRecord) -> String {
    let mut annotations = Map::new();
    for (name, value) in labels(options, record) {
        annotations.insert(name.as_str(), Value::from(value.as_str()));
    }
    document(&json!({"annotations": Value::Object(annotations)}))
}

fn dockerfile(options: &CreateOptions, record: &ProjectRecord) -> String {
    let labels: String =
        labels(options, record).iter().map(|(name, value)| format!("LABEL {name}={value}\n")).collect();
    format!("FROM scratch\n\n{labels}\nCOPY manifests /manifests/\nCOPY metadata /metadata/\n")
}

fn document(object: &Value) -> String {
    let mut text = String::new();
    yaml::write(object, &mut text);
    text
}
