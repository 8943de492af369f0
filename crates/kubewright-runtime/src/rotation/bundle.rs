//! Writes the CA bundle into the configurations that a program owns.

use kubewright_client::{Api, Client, Scope};
use kubewright_core::options::{Patch, PatchOptions, UnconditionalPatch};
use kubewright_core::{ByteString, DynamicObject, GroupVersionResource, List, Str, Value, json};

use crate::error::{BoxError, chain};

/// The field manager of bundles.
const MANAGER: &str = "kubewright-certificates";

/// An object with client configurations of webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BundleTarget {
    Validating(Str),
    Mutating(Str),
    Conversion(Str),
}

impl BundleTarget {
    fn name(&self) -> &Str {
        match self {
            BundleTarget::Validating(name) | BundleTarget::Mutating(name) | BundleTarget::Conversion(name) => name,
        }
    }

    fn resource(&self) -> GroupVersionResource {
        let registration = |plural| GroupVersionResource::new("admissionregistration.k8s.io", "v1", plural);
        match self {
            BundleTarget::Validating(_) => registration("validatingwebhookconfigurations"),
            BundleTarget::Mutating(_) => registration("mutatingwebhookconfigurations"),
            BundleTarget::Conversion(_) => {
                GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
            }
        }
    }

    /// Writes the bundle, unless it is there. Logs failures, since the next attempt may succeed.
    /// Returns whether the object has the bundle.
    pub(super) async fn ensure(&self, client: &Client, bundle: &str) -> bool {
        match self.patch(client, bundle).await {
            Ok(()) => true,
            Err(error) => {
                let (resource, name) = (self.resource().resource, self.name());
                tracing::warn!(%resource, %name, error = chain(&*error), "cannot write the CA bundle");
                false
            }
        }
    }

    async fn patch(&self, client: &Client, bundle: &str) -> Result<(), BoxError> {
        let objects = Api::<DynamicObject>::new(client, self.resource(), Scope::Cluster);
        let object = objects.get(self.name()).await?;
        let Some(operations) = self.operations(&object, bundle)? else { return Ok(()) };
        // On a concurrent change the next attempt starts over.
        let patch = Patch::json(operations).if_unchanged(&object).map_err(|error: UnconditionalPatch| error)?;
        objects.patch_with(self.name(), patch, &PatchOptions::default().field_manager(MANAGER)).await?;
        tracing::info!(resource = %self.resource().resource, name = %self.name(), "CA bundle written");
        Ok(())
    }

    /// The operations that insert the bundle; `None` if it is there.
    fn operations(&self, object: &DynamicObject, bundle: &str) -> Result<Option<Value>, BoxError> {
        let bundle = ByteString::from(bundle).to_base64();
        let paths = match self {
            BundleTarget::Conversion(_) => {
                let conversion = object.get(&["spec", "conversion", "webhook", "clientConfig"]);
                let config = conversion.ok_or("the definition has no conversion webhook")?;
                vec![("/spec/conversion/webhook/clientConfig/caBundle".to_owned(), config)]
            }
            BundleTarget::Validating(_) | BundleTarget::Mutating(_) => {
                let webhooks = object.get(&["webhooks"]).unwrap_or_default();
                let webhooks = webhooks.as_array().map(|webhooks| &**webhooks).unwrap_or_default();
                let path = |(at, webhook): (usize, &Value)| {
                    let config = webhook.get("clientConfig").cloned().unwrap_or_default();
                    (format!("/webhooks/{at}/clientConfig/caBundle"), config)
                };
                webhooks.iter().enumerate().map(path).collect()
            }
        };
        let missing =
            paths.into_iter().filter(|(_, config)| config.get("caBundle").and_then(Value::as_str) != Some(&*bundle));
        let operations: List<Value> =
            missing.map(|(path, _)| json!({"op": "add", "path": path, "value": bundle.as_str()})).collect();
        Ok((!operations.is_empty()).then_some(Value::Array(operations)))
    }
}
