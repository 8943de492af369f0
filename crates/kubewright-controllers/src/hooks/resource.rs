//! The object that declares a controller.

use kubewright_runtime::custom::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A controller whose logic is a webhook: for each parent, it answers with the children that should be there.
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
    /// The objects that are looked after.
    pub parent_resource: ResourceRule,
    /// The objects that they may own. Others are refused.
    #[serde(default)]
    pub child_resources: Vec<ResourceRule>,
    /// Who says what should be there.
    pub hooks: Hooks,
    /// Asks again for all parents so often, even if nothing happens. Never, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub resync_period_seconds: Option<u32>,
}

/// A resource, as `apps/v1` and `deployments`.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRule {
    /// Group and version.
    pub api_version: String,
    /// The plural.
    pub resource: String,
}

/// The webhooks.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
pub struct Hooks {
    /// Asked whenever a parent or one of its children has changed.
    pub sync: Hook,
    /// Asked instead once a parent is being deleted, until it says that all is cleaned up. Without, children just go with the
    /// parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalize: Option<Hook>,
}

/// One hook.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
pub struct Hook {
    /// Where it is.
    pub webhook: Webhook,
}

/// Where a hook is served.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// `http` or `https`, host, port and path.
    pub url: String,
    /// The authorities that sign the certificate of the hook: PEM in base64. By default those that the machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
    /// How long an answer may take; 10 if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<u32>,
}

/// How the controller is doing.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CompositeControllerStatus {
    /// Which generation this is about.
    pub observed_generation: i64,
    /// Whether it has listed everything and looks after the parents.
    pub is_working: bool,
    /// Why it does not, or what fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
