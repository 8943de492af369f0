//! The custom resource: its spec and status.

use kubewright::runtime::custom::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// After a change, run `cargo run -- manifests`; a test fails otherwise.
/// The desired state: a number of copies of an image.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[resource(
    group = "example.com",
    version = "v1alpha1",
    kind = "Widget",
    plural = "widgets",
    namespaced,
    status = WidgetStatus,
    column(name = "Wanted", type = "integer", path = ".spec.replicas"),
    column(name = "Available", type = "integer", path = ".status.availableReplicas"),
    column(name = "Age", type = "date", path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct WidgetSpec {
    /// The image of the containers.
    pub image: String,
    /// The number of copies; 1 by default.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
}

fn one() -> i32 {
    1
}

/// The observed state.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WidgetStatus {
    /// The generation of the object that was observed.
    pub observed_generation: i64,
    /// The number of available copies.
    pub available_replicas: i32,
}
