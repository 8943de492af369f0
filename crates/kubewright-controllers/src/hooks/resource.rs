//! The CompositeController resource.

use kubewright_runtime::custom::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A controller whose logic is a webhook: for each parent, it returns the desired children.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
#[resource(
    group = "hooks.kubewright.dev",
    version = "v1alpha1",
    kind = "CompositeController",
    status = CompositeControllerStatus,
    short_names("cctl"),
    column(name = "Parent", type = "string", path = ".spec.parentResource.resource"),
    column(name = "Working", type = "boolean", path = ".status.isWorking"),
    column(name = "Message", type = "string", path = ".status.message")
)]
#[serde(rename_all = "camelCase")]
pub struct CompositeControllerSpec {
    /// The parent resource.
    pub parent_resource: ResourceRule,
    /// The resources of children. Others are rejected.
    #[serde(default)]
    pub child_resources: Vec<ResourceRule>,
    /// The webhooks.
    pub hooks: Hooks,
    /// Resync period of all parents in seconds. Never by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub resync_period_seconds: Option<u32>,
}

/// A resource, such as `apps/v1` and `deployments`.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRule {
    /// Group and version.
    pub api_version: String,
    /// The plural name.
    pub resource: String,
}

/// The webhooks.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
pub struct Hooks {
    /// Called when a parent or one of its children has changed.
    pub sync: Hook,
    /// Called instead while a parent is being deleted, until it reports that it is finalized.
    /// Without it, children are garbage-collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalize: Option<Hook>,
}

/// One hook.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
pub struct Hook {
    /// Its address.
    pub webhook: Webhook,
}

/// The address of a hook.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// `http` or `https`, host, port and path.
    pub url: String,
    /// The certificate authorities of the hook: PEM in base64. By default the system trust store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
    /// Timeout in seconds; 10 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<u32>,
}

/// The status of the controller.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CompositeControllerStatus {
    /// The observed generation.
    pub observed_generation: i64,
    /// Whether it has synced and reconciles parents.
    pub is_working: bool,
    /// Why it does not work, or what fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
