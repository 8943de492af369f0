//! Builders of custom resources, rules of fields and local validation, against the server.

use http::header::ACCEPT;
use kubewright_api::core::v1::{ContainerApply, PodTemplateSpec};
use kubewright_client::apply::{ApplyPart, Extract};
use kubewright_core::options::{ApplyOptions, ListOptions};
use kubewright_core::{FieldSelector, GroupVersion, Object, Value};
use kubewright_runtime::custom::{self, Apply, CustomResource, install};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::support::server;

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
#[resource(group = "example.com", version = "v1", kind = "Gateway", namespaced, status = GatewayStatus, apply)]
#[resource(scale(spec = ".spec.replicas", status = ".status.replicas"), selectable(".spec.class"))]
#[resource(column(name = "Class", type = "string", path = ".spec.class"))]
#[resource(rule(rule = "size(self.metadata.name) <= 20", message = "the name is too long"))]
#[serde(rename_all = "camelCase")]
struct GatewaySpec {
    #[schemars(transform = custom::immutable)]
    class: String,
    #[serde(default)]
    replicas: i32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = custom::list_map(["name"]))]
    listeners: Vec<Listener>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = custom::list_set)]
    trusted_proxies: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[resource(nested)]
    limits: Option<Limits>,
    #[serde(flatten)]
    shared: Shared,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
struct Listener {
    name: String,
    #[schemars(transform = custom::rule("self != 22", "must not be the port of SSH"))]
    port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
}

#[derive(Apply, Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Default)]
#[serde(rename_all = "camelCase")]
struct Limits {
    max_connections: Option<i32>,
    #[serde(rename = "rps")]
    requests_per_second: Option<i32>,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Default)]
#[serde(rename_all = "camelCase")]
struct Shared {
    log_level: Option<String>,
}

#[derive(Apply, Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
struct GatewayStatus {
    replicas: i32,
}

fn listener(name: &str, port: u16) -> Listener {
    Listener { name: name.into(), port, host: None }
}

fn gateway() -> Gateway {
    let spec = GatewaySpec {
        class: "fast".into(),
        replicas: 1,
        listeners: vec![listener("http", 80)],
        trusted_proxies: Vec::new(),
        limits: None,
        shared: Shared::default(),
    };
    let mut gateway = Gateway::new("a", spec);
    gateway.set_namespace("default");
    gateway
}

#[test]
fn a_builder_uses_the_names_of_serde_and_leaves_out_what_is_unset() {
    let builder = GatewayApply::new("a").spec(|spec| {
        spec.class("fast")
            .replicas(0)
            .listeners([listener("http", 80)])
            .trusted_proxies(["10.0.0.1".to_owned()])
            .limits(|limits| limits.max_connections(0))
            .limits(|limits| limits.requests_per_second(5))
            .shared(Shared { log_level: Some("debug".into()) })
    });
    assert_eq!(
        builder.fields().to_value().to_string(),
        r#"{"metadata":{"name":"a"},"spec":{"class":"fast","limits":{"maxConnections":0,"rps":5},"#.to_owned()
            + r#""listeners":[{"name":"http","port":80}],"logLevel":"debug","replicas":0,"trustedProxies":["10.0.0.1"]}}"#
    );
}

#[test]
fn a_nested_type_of_the_api_is_built_by_its_own_builder() {
    #[derive(Apply, Serialize)]
    #[allow(dead_code)]
    struct Workload {
        #[resource(nested)]
        template: PodTemplateSpec,
        suspend: Option<bool>,
    }

    let workload = WorkloadApply::default()
        .suspend(false)
        .template(|pod| pod.spec(|spec| spec.containers([ContainerApply::default().name("web").image("nginx:1")])));
    assert_eq!(
        workload.fields().to_value().to_string(),
        r#"{"suspend":false,"template":{"spec":{"containers":[{"image":"nginx:1","name":"web"}]}}}"#
    );
}

#[tokio::test]
async fn managers_share_a_custom_resource() {
    // AC-1
    let server = server().await;
    let client = server.client();
    install(&client, &Gateway::definition(), "test").await.unwrap();
    let gateways = client.api::<Gateway>("default");
    let one = GatewayApply::new("a")
        .spec(|spec| spec.class("fast").replicas(0).listeners([listener("http", 80)]).shared(Shared::default()));
    gateways.apply_configuration(&one, &ApplyOptions::new("one")).await.unwrap();
    // Each item of the list has its own owner.
    let two = GatewayApply::new("a").spec(|spec| spec.class("fast").listeners([listener("https", 443)]));
    let object = gateways.apply_configuration(&two, &ApplyOptions::new("two")).await.unwrap();
    assert_eq!(object.spec.listeners, [listener("http", 80), listener("https", 443)]);
    let conflict = GatewayApply::new("a").spec(|spec| spec.replicas(3));
    let conflict = gateways.apply_configuration(&conflict, &ApplyOptions::new("two")).await.unwrap_err();
    assert!(conflict.is_conflict() && conflict.to_string().contains(".spec.replicas"), "{conflict}");

    let mine = GatewayApply::extract(&object, "two").unwrap().unwrap();
    assert_eq!(mine, two.clone().namespace("default"));
    let left = mine.spec(|spec| spec.without("listeners"));
    let object = gateways.apply_configuration(&left, &ApplyOptions::new("two")).await.unwrap();
    assert_eq!(object.spec.listeners, [listener("http", 80)], "its own item is removed");

    let status = GatewayApply::new("a").status(|status| status.replicas(0));
    let object = gateways.apply_status_configuration(&status, &ApplyOptions::new("one")).await.unwrap();
    assert_eq!(object.status, Some(GatewayStatus { replicas: 0 }));
    let scale = gateways.get_scale("a").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas.unwrap_or_default(), 0);
    let selected =
        |class: &str| ListOptions::default().fields(format!("spec.class={class}").parse::<FieldSelector>().unwrap());
    assert_eq!(gateways.list(&selected("fast")).await.unwrap().items.len(), 1);
    assert_eq!(gateways.list(&selected("slow")).await.unwrap().items.len(), 0);
    let rest = client.rest().group_version(GroupVersion::new("example.com", "v1"));
    let table = rest.get().namespace("default").resource("gateways");
    let table = table.header(ACCEPT, "application/json;as=Table;v=v1;g=meta.k8s.io").send().await.unwrap();
    let table = Value::from_json(&table.bytes()).unwrap();
    assert_eq!(table.get("rows").unwrap().as_array().unwrap()[0].get("cells").unwrap().to_string(), r#"["a","fast"]"#);
}

#[tokio::test]
async fn local_validation_agrees_with_the_server() {
    let server = server().await;
    let client = server.client();
    install(&client, &Gateway::definition(), "test").await.unwrap();
    let gateways = client.api::<Gateway>("default");
    let stored = gateways.create(&gateway()).await.unwrap();
    assert_eq!(gateway().validate_locally(None), Ok(()));
    type Change = fn(&mut Gateway);
    let invalid: [(Change, &str); 5] = [
        (|new| new.spec.listeners[0].port = 22, "must not be the port of SSH"),
        (|new| new.set_name("a-name-that-is-much-too-long"), "the name is too long"),
        (|new| new.spec.listeners.push(listener("http", 81)), "spec.listeners[1]: Duplicate value"),
        (|new| new.spec.trusted_proxies = vec!["a".into(), "a".into()], "spec.trustedProxies[1]: Duplicate value"),
        (|new| new.spec.class = "slow".into(), "field is immutable"),
    ];
    for (change, wanted) in invalid {
        let mut new = gateway();
        change(&mut new);
        let is_update = new.name() == "a";
        let local = new.validate_locally(is_update.then(gateway).as_ref()).unwrap_err().to_string();
        assert!(local.contains(wanted), "{local}");
        new.set_resource_version(if is_update { stored.resource_version() } else { "" });
        let refused = if is_update { gateways.update(&new).await } else { gateways.create(&new).await };
        assert_eq!(refused.unwrap_err().to_string(), local);
    }
    let mut same_class = gateway();
    same_class.spec.replicas = 5;
    assert_eq!(same_class.validate_locally(Some(&gateway())), Ok(()));
}

#[test]
fn a_rule_that_does_not_compile_is_reported() {
    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
    #[resource(group = "example.com", version = "v1", kind = "Broken")]
    #[resource(rule(rule = "self.spec.sice > 0"))]
    struct BrokenSpec {
        size: i32,
    }

    let error = Broken::new("a", BrokenSpec { size: 1 }).validate_locally(None).unwrap_err().to_string();
    assert!(error.contains("undefined field 'sice'"), "{error}");
}
