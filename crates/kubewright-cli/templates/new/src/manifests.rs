//! The manifests that follow from the code: definitions, role, webhooks. A test compares the files.

use std::fs;
use std::path::Path;

use kubewright::api::apiextensions::v1::{CustomResourceDefinition, ServiceReference, WebhookClientConfig};
use kubewright::runtime::certificates::{CertificateRotator, CertificateStorage};
use kubewright::runtime::webhook::{ClientConfig, Webhooks};
use kubewright::runtime::{BoxError, Manager, ManagerOptions};
use kubewright::{Client, Config, Object, Value, json, yaml};

use crate::kinds;

/// The name of the program and of its objects.
pub const NAME: &str = "widget-operator";

/// The namespace that it runs in.
const NAMESPACE: &str = "widget-operator-system";

/// The definitions of all kinds, as they are applied to a cluster.
pub fn definitions() -> Result<Vec<CustomResourceDefinition>, BoxError> {
    kinds::definitions()
}

/// The ClusterRole that the controllers declare.
pub fn role() -> Result<String, BoxError> {
    // It is not connected: controllers are added, and not run.
    let client = Client::try_from(Config::new("https://localhost")?)?;
    let mut manager = Manager::new(&client, ManagerOptions::default());
    kinds::add_to(&mut manager)?;
    Ok(documents([manager.permissions().cluster_role(NAME)]))
}

/// The generated files with their contents.
pub fn generated() -> Result<Vec<(&'static str, String)>, BoxError> {
    let definitions = definitions()?;
    let definitions: Vec<Value> =
        definitions.iter().map(|one| Value::from_json(&one.to_json())).collect::<Result<_, _>>()?;
    let mut files = vec![
        ("manifests/10-crds.yaml", documents(definitions.clone())),
        ("chart/files/crds.yaml", documents(definitions)),
        ("manifests/20-role.yaml", role()?),
        ("chart/files/role.yaml", role()?),
    ];
    if let Some(webhooks) = kinds::webhooks() {
        let objects = webhook_objects(&webhooks)?;
        files.push(("manifests/40-webhooks.yaml", documents(objects.clone())));
        files.push(("chart/files/webhooks.yaml", documents(objects)));
    }
    Ok(files)
}

/// Writes them.
pub fn write(folder: &Path) -> Result<(), BoxError> {
    for (name, text) in generated()? {
        fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"))?;
        println!("wrote {name}");
    }
    Ok(())
}

/// Issues and renews the certificate of the webhooks, and writes its authority where the API server
/// finds it. Replicas share it in a Secret.
pub fn webhook_certificates(client: &Client, webhooks: &Webhooks) -> CertificateRotator {
    let storage = CertificateStorage::secret(client.default_namespace(), format!("{NAME}-certificates"));
    let mut certificates = CertificateRotator::new(client, storage).service(client.default_namespace(), NAME);
    for configuration in webhooks.configurations(NAME, &service()) {
        certificates = match configuration.kind.as_str() {
            "MutatingWebhookConfiguration" => certificates.mutating_configuration(NAME),
            _ => certificates.validating_configuration(NAME),
        };
    }
    let conversions = webhooks.conversions(&service());
    conversions.into_iter().fold(certificates, |certificates, (definition, _)| certificates.conversion_of(definition))
}

/// The conversion webhook at this path.
#[allow(dead_code, reason = "`kinds.rs` calls it when a kind has a conversion")]
pub fn conversion_webhook(path: &str) -> WebhookClientConfig {
    let service =
        ServiceReference { namespace: NAMESPACE.into(), name: NAME.into(), path: Some(path.into()), port: Some(443) };
    WebhookClientConfig { service: Some(service.into()), ..Default::default() }
}

/// Where the API server reaches the webhooks.
fn service() -> ClientConfig {
    ClientConfig::service(NAMESPACE, NAME)
}

/// The configurations, and the permissions for their certificates.
pub fn webhook_objects(webhooks: &Webhooks) -> Result<Vec<Value>, BoxError> {
    let mut objects = Vec::new();
    for configuration in webhooks.configurations(NAME, &service()) {
        objects.push(Value::from_json(&configuration.to_json())?);
    }
    let definitions: Vec<Value> =
        webhooks.conversions(&service()).into_iter().map(|(name, _)| Value::from(name.as_str())).collect();
    let (name, secret) = (format!("{NAME}-certificates"), format!("{NAME}-certificates"));
    let configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    let mut rules = vec![json!({
        "apiGroups": ["admissionregistration.k8s.io"], "resources": [configurations[0], configurations[1]],
        "resourceNames": [NAME], "verbs": ["get", "patch"],
    })];
    if !definitions.is_empty() {
        rules.push(json!({
            "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
            "resourceNames": Value::Array(definitions.into_iter().collect()), "verbs": ["get", "patch"],
        }));
    }
    let api = "rbac.authorization.k8s.io";
    let subject = json!({"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE});
    let binding = |kind: &str, role: &str, metadata: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": role, "name": name.as_str()}, "subjects": [subject.clone()],
        })
    };
    let namespaced = json!({"name": name.as_str(), "namespace": NAMESPACE});
    objects.extend([
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name.as_str()},
            "rules": Value::Array(rules.into_iter().collect()),
        }),
        binding("ClusterRoleBinding", "ClusterRole", json!({"name": name.as_str()})),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": namespaced.clone(),
            "rules": [
                {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret.as_str()], "verbs": ["get", "update"]},
            ],
        }),
        binding("RoleBinding", "Role", namespaced),
    ]);
    Ok(objects)
}

/// Objects as documents of one file.
fn documents(objects: impl IntoIterator<Item = Value>) -> String {
    let mut text = String::new();
    for object in objects {
        if !text.is_empty() {
            text += "---\n";
        }
        yaml::write(&object, &mut text);
    }
    text
}
