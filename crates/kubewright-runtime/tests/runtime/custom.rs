//! Derived custom resources: their definition is accepted, and controllers see their objects.

use kubewright_api::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use kubewright_api::core::v1::PodTemplateSpec;
use kubewright_cache::SharedInformerFactory;
use kubewright_client::Api;
use kubewright_core::condition::set_status_condition;
use kubewright_core::meta::v1::{Condition, LabelSelector};
use kubewright_core::options::ListOptions;
use kubewright_core::{DynamicObject, IntOrString, List, Map, Object, Quantity, Str, Time};
use kubewright_runtime::custom::{CustomResource, MergeError, install, merge_versions};
use kubewright_runtime::{Context, Controller, Outcome, Predicate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::support::{Running, eventually, server};

/// The desired state of a Foo.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone, Default, PartialEq)]
#[resource(group = "example.com", version = "v1", kind = "Foo", namespaced, status = FooStatus, derive(Default, PartialEq))]
#[resource(short_names("fo"), categories("all"), selectable(".spec.color"))]
#[resource(scale(spec = ".spec.replicas", status = ".status.availableReplicas"))]
#[resource(column(name = "Replicas", type = "integer", path = ".spec.replicas", priority = 1))]
#[resource(rule(rule = "self.spec.replicas <= 10", message = "too many"))]
#[resource(rule(
    rule = "self.spec.replicas >= 0",
    message_expression = "self.spec.replicas < 0 ? 'too few' : 'too many'"
))]
#[resource(rule(rule = "self.spec.replicas != 7", reason = "FieldValueForbidden", field_path = ".spec.replicas"))]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// Number of replicas.
    replicas: i32,
    #[serde(default)]
    color: Color,
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment_name: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default, PartialEq)]
enum Color {
    #[default]
    Red,
    Blue,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    available_replicas: i32,
}

mod v2 {
    use super::*;

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
    #[resource(group = "example.com", version = "v2", kind = "Foo", namespaced, not_stored, deprecated = "too new")]
    pub struct FooSpec {
        size: i32,
    }
}

#[test]
fn the_definition_contains_the_attributes_settings() {
    let definition = Foo::definition();
    assert_eq!(definition.name(), "foos.example.com");
    let json = String::from_utf8(definition.to_json()).unwrap();
    for part in [
        r#""shortNames":["fo"]"#,
        r#""categories":["all"]"#,
        r#""scope":"Namespaced""#,
        r#""selectableFields":[{"jsonPath":".spec.color"}]"#,
        r#""specReplicasPath":".spec.replicas""#,
        r#""status":{}"#,
        r#""rule":"self.spec.replicas \u003c= 10""#,
        r#""messageExpression":"self.spec.replicas \u003c 0 ? 'too few' : 'too many'""#,
        r#""reason":"FieldValueForbidden""#,
        r#""fieldPath":".spec.replicas""#,
        r#""jsonPath":".spec.replicas""#,
        r#""description":"Number of replicas.""#,
    ] {
        let plain = part.replace(r"\u003c", "<");
        assert!(json.contains(part) || json.contains(&plain), "{part} is not in {json}");
    }
}

#[test]
fn several_versions_make_one_definition_with_one_storage_version() {
    let merged = merge_versions([Foo::definition(), v2::Foo::definition()]).unwrap();
    let versions: Vec<_> = merged.spec.versions.iter().map(|one| (one.name.as_str(), one.storage)).collect();
    assert_eq!(versions, [("v1", true), ("v2", false)]);
    assert_eq!(merged.spec.versions[1].deprecation_warning.as_deref(), Some("too new"));
    assert_eq!(merge_versions([v2::Foo::definition()]), Err(MergeError::Stored { stored: 0 }));
    assert_eq!(merge_versions([]), Err(MergeError::Empty));
}

#[test]
fn objects_round_trip_through_json() {
    let mut foo = Foo::new("a", FooSpec { replicas: 2, color: Color::Blue, deployment_name: None });
    foo.set_namespace("default");
    let json = String::from_utf8(foo.to_json()).unwrap();
    assert!(json.starts_with(r#"{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"#), "{json}");
    let back: Foo = serde_json::from_str(&json).unwrap();
    assert_eq!(back, foo);
    let dynamic: DynamicObject = json.parse().unwrap();
    assert_eq!(dynamic.get(&["spec", "color"]).unwrap().as_str(), Some("Blue"));
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_a_custom_resource_writes_its_status() {
    let server = server().await;
    let client = server.client();
    let definitions = Api::<CustomResourceDefinition>::all(&client);
    definitions.create(&Foo::definition()).await.unwrap();
    let foos = Api::<Foo>::namespaced(&client, "default");
    eventually("the resource is served", async || foos.list(&Default::default()).await.is_ok()).await;
    let created = foos.create(&Foo::new("a", FooSpec { replicas: 3, ..Default::default() })).await.unwrap();
    assert_eq!(created.spec.color, Color::Red);
    // Schema violations are rejected.
    let mut wrong: DynamicObject = String::from_utf8(created.to_json()).unwrap().parse().unwrap();
    wrong.set(&["spec", "color"], "Green").unwrap();
    let dynamic = foos.decoded_as::<DynamicObject>();
    assert!(dynamic.update(&wrong).await.unwrap_err().is_invalid());

    let factory = SharedInformerFactory::new(&client, Default::default());
    let controller = Controller::<Foo>::new("foos", &factory).filter(Predicate::generation_changed());
    let running = Running::start(controller.reconciling(|foo, context: Context| async move {
        let mut foo = (*foo).clone();
        foo.status = Some(FooStatus { available_replicas: foo.spec.replicas });
        context.api::<Foo>("default").update_status(&foo).await?;
        Ok(Outcome::Done)
    }));
    let available = async |count: i32| {
        let status = foos.get("a").await.unwrap().status;
        status.is_some_and(|status| status.available_replicas == count)
    };
    eventually("the status is written", async || available(3).await).await;
    let mut foo = foos.get("a").await.unwrap();
    foo.spec.replicas = 5;
    foos.update(&foo).await.unwrap();
    eventually("the status is written again", async || available(5).await).await;
    running.stopped().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_installed_definition_is_served_and_reinstalling_succeeds() {
    let server = server().await;
    let client = server.client();
    for _ in 0..2 {
        install(&client, &Foo::definition(), "tests").await.unwrap();
        Api::<Foo>::namespaced(&client, "default").list(&ListOptions::default()).await.unwrap();
    }
    let mut rival = Foo::definition();
    rival.set_name("bars.example.com");
    rival.spec.names.plural = "bars".into();
    let refused = install(&client, &rival, "tests").await.unwrap_err().to_string();
    assert!(refused.starts_with("the names of bars.example.com are not accepted: "), "{refused}");
}

/// API types within a custom resource; one of them is recursive.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone, Default)]
#[resource(group = "example.com", version = "v1", kind = "Workload", namespaced, status = WorkloadStatus)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    port: IntOrString,
    memory: Option<Quantity>,
    not_before: Option<Time>,
    selector: LabelSelector,
    template: PodTemplateSpec,
    schema: Option<JSONSchemaProps>,
    settings: Map<Str>,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default, PartialEq)]
#[serde(default)]
pub struct WorkloadStatus {
    conditions: List<Condition>,
}

#[tokio::test(start_paused = true)]
async fn types_of_the_api_have_a_place_in_custom_resources() {
    let server = server().await;
    let client = server.client();
    install(&client, &Workload::definition(), "test").await.unwrap();
    let workloads = Api::<Workload>::namespaced(&client, "default");
    let spec: WorkloadSpec = serde_json::from_value(serde_json::json!({
        "port": "http", "memory": "1.5Gi", "notBefore": "2020-01-01T00:00:00Z", "settings": {"a": "b"},
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"spec": {"containers": [
            {"name": "web", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "100m"}}},
        ]}},
        "schema": {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}},
    }))
    .unwrap();
    let mut made = workloads.create(&Workload::new("a", spec)).await.unwrap();
    assert_eq!(made.spec.memory, Some("1536Mi".parse().unwrap()));
    let pod = made.spec.template.spec.clone().unwrap();
    assert_eq!(pod.containers[0].ports[0].protocol.as_deref(), Some("TCP"));
    let nested = String::from_utf8(made.to_json()).unwrap();
    assert!(nested.contains(r#""b":{"type":"string"}"#), "pruned: {nested}");

    let ready =
        Condition { type_: "Ready".into(), status: "True".into(), reason: "Works".into(), ..Default::default() };
    assert!(set_status_condition(&mut made.status.get_or_insert_default().conditions, ready));
    let written = workloads.update_status(&made).await.unwrap();
    assert_eq!(written.status, made.status);

    let mut wrong: DynamicObject = String::from_utf8(written.to_json()).unwrap().parse().unwrap();
    wrong.set(&["spec", "memory"], "much").unwrap();
    let error = workloads.decoded_as::<DynamicObject>().update(&wrong).await.unwrap_err();
    assert!(error.to_string().contains("spec.memory"), "{error}");
}
