//! The objects that tell an API server about webhooks.

use kubewright_core::{ByteString, DynamicObject, GroupVersionKind, Kind, List, Map, Value, json};

use super::webhooks::Webhooks;

/// How an API server reaches a webhook server.
#[derive(Debug, Clone)]
#[doc(alias = "WebhookClientConfig")]
pub struct ClientConfig {
    address: WebhookAddress,
    ca_bundle: Option<ByteString>,
}

#[derive(Debug, Clone)]
enum WebhookAddress {
    Service { namespace: String, name: String, port: u16 },
    Url(String),
}

impl ClientConfig {
    /// Through a Service, at port 443.
    pub fn service(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let address = WebhookAddress::Service { namespace: namespace.into(), name: name.into(), port: 443 };
        ClientConfig { address, ca_bundle: None }
    }

    /// At `https://HOST:PORT`, without a path.
    pub fn url(base: impl Into<String>) -> Self {
        ClientConfig { address: WebhookAddress::Url(base.into()), ca_bundle: None }
    }

    /// The authorities to trust, in PEM. Unset by default, for a
    /// [rotator](crate::certificates::CertificateRotator) to write.
    #[must_use]
    pub fn ca_bundle(mut self, pem: impl AsRef<str>) -> Self {
        self.ca_bundle = Some(ByteString::from(pem.as_ref()));
        self
    }

    /// The `clientConfig` of a webhook at `path`.
    fn write(&self, path: &str) -> Value {
        let mut config = Map::new();
        match &self.address {
            WebhookAddress::Service { namespace, name, port } => {
                let service = json!({
                    "namespace": namespace.as_str(), "name": name.as_str(), "port": i64::from(*port), "path": path,
                });
                config.insert("service", service);
            }
            WebhookAddress::Url(base) => drop(config.insert("url", Value::from(format!("{base}{path}").as_str()))),
        }
        if let Some(bundle) = &self.ca_bundle {
            config.insert("caBundle", Value::from(bundle.to_base64().as_str()));
        }
        Value::Object(config)
    }
}

/// A webhook to be registered.
#[derive(Debug)]
pub(super) enum Registration {
    Mutating(WebhookRule),
    Validating(WebhookRule),
    Conversion { path: String, definition: String },
}

/// The writes that a webhook admits.
#[derive(Debug)]
pub(super) struct WebhookRule {
    name: String,
    path: String,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    operations: &'static [&'static str],
}

impl WebhookRule {
    pub(super) fn of<T: Kind>(verb: &str, path: String, operations: &'static [&'static str]) -> Self {
        let (kind, plural) = (&T::RESOURCE.kind, T::RESOURCE.plural);
        let group = if kind.group.is_empty() { "core" } else { kind.group };
        let name = format!("{verb}.{plural}.{}.{group}", kind.version);
        WebhookRule { name, path, group: kind.group, version: kind.version, plural, operations }
    }

    fn write(&self, client_config: &ClientConfig) -> Value {
        let operations: List<Value> = self.operations.iter().map(|operation| Value::from(*operation)).collect();
        json!({
            "name": self.name.as_str(),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": client_config.write(&self.path),
            "rules": [{
                "apiGroups": [self.group], "apiVersions": [self.version], "resources": [self.plural],
                "operations": Value::Array(operations),
            }],
        })
    }
}

impl Webhooks {
    /// The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration of this name, for
    /// the functions that are registered. They fail closed.
    ///
    /// Print them as a manifest (controller-gen derives it from markers):
    ///
    /// ```
    /// # use kubewright_api::apps::v1::Deployment;
    /// # use kubewright_runtime::webhook::{ClientConfig, Webhooks};
    /// let webhooks = Webhooks::new().set_defaults(|deployment: &mut Deployment| {
    ///     deployment.metadata.labels.insert("team", "none".into());
    /// });
    /// let objects = webhooks.configurations("teams", &ClientConfig::service("teams", "webhooks"));
    /// assert_eq!(objects.len(), 1);
    /// ```
    pub fn configurations(&self, name: &str, client_config: &ClientConfig) -> Vec<DynamicObject> {
        let (mut mutating, mut validating) = (List::new(), List::new());
        for registration in self.registrations() {
            match registration {
                Registration::Mutating(rule) => mutating.push(rule.write(client_config)),
                Registration::Validating(rule) => validating.push(rule.write(client_config)),
                Registration::Conversion { .. } => {}
            }
        }
        let object = |(kind, webhooks): (&str, List<Value>)| {
            let kind = GroupVersionKind::new("admissionregistration.k8s.io", "v1", kind);
            let mut object = DynamicObject::new(&kind, name);
            object.set(&["webhooks"], Value::Array(webhooks)).expect("an object without fields accepts one");
            object
        };
        let all = [("MutatingWebhookConfiguration", mutating), ("ValidatingWebhookConfiguration", validating)];
        all.into_iter().filter(|(_, webhooks)| !webhooks.is_empty()).map(object).collect()
    }

    /// For each converter, the name of its CustomResourceDefinition and its `spec.conversion`.
    pub fn conversions(&self, client_config: &ClientConfig) -> Vec<(String, Value)> {
        let conversion = |registration: &Registration| match registration {
            Registration::Conversion { path, definition } => Some((
                definition.clone(),
                json!({
                    "strategy": "Webhook",
                    "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client_config.write(path)},
                }),
            )),
            _ => None,
        };
        self.registrations().iter().filter_map(conversion).collect()
    }
}
