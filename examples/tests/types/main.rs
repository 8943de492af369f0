//! The types that `kubewright types` writes decode objects, and lose nothing.

mod generated;

use generated::kitchen::v1::{Kitchen, KitchenSpecStrategy};
use generated::kitchen::v1beta1;
use generated::option::OptionResource;
use generated::settings::Settings;
use kubewright::runtime::custom::CustomResource;
use kubewright::runtime::testing::TestCluster;
use kubewright::{Api, IntOrString, Object};
use serde_json::{Value, json};

fn kitchen() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Kitchen",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {
            "type": "large", "self": true, "$ref": "a", "ref": "b", "x-odd_Name": "c", "podIPs": ["10.0.0.1"],
            "replicas": 2, "size": 5_000_000_000_i64, "weight": 0.5, "port": "http", "strategy": "",
            "mayBeNull": null, "labels": {"a": "b"}, "limits": {"cpu": 1, "memory": "1Gi"}, "selfSigned": {},
            "anything": [1, {"b": null}], "values": {"deep": {"er": 1}}, "config": {"known": "x", "unknown": {"y": 1}},
            "template": {"apiVersion": "v1", "kind": "Pod"}, "matrix": [[1], []], "byName": {"a": [{"name": "b"}]},
            "first": {"name": "a"}, "second": {"name": "b", "key": "c"},
            "oven": {"mode": "Fan", "since": "2026-01-02T03:04:05Z"},
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

#[test]
fn an_object_with_every_feature_survives() {
    let kitchen: Kitchen = serde_json::from_value(kitchen()).expect("it fits the schema");
    assert_eq!(kitchen.spec.strategy, KitchenSpecStrategy::Empty);
    assert_eq!(kitchen.spec.port, Some(IntOrString::String("http".into())));
    assert_eq!(kitchen.spec.first.as_ref().map(|first| first.name.as_str()), Some("a"));
    assert_eq!(kitchen.spec.config.as_ref().map(|config| config.other_fields.len()), Some(1));
    assert_eq!(serde_json::to_value(&kitchen).expect("it has a JSON form"), self::kitchen());
    let missing = serde_json::from_value::<Kitchen>(json!({"metadata": {"name": "a"}})).expect_err("spec is required");
    assert!(missing.to_string().contains("missing field `spec`"), "{missing}");
    let bare: v1beta1::Kitchen =
        serde_json::from_value(json!({"metadata": {"name": "a"}})).expect("nothing is required");
    assert_eq!(bare.spec, v1beta1::KitchenSpec::default());
}

#[test]
fn fields_outside_of_spec_and_status_survive() {
    let text = json!({
        "apiVersion": "example.com/v1", "kind": "Settings", "metadata": {"name": "a"},
        "data": {"a": 1}, "operation": {"sync": true}, "status": {"phase": "x"},
    });
    let settings: Settings = serde_json::from_value(text.clone()).expect("it fits the schema");
    assert_eq!(settings.fields.operation.as_ref().and_then(|operation| operation.sync), Some(true));
    assert_eq!(serde_json::to_value(&settings).expect("it has a JSON form"), text);
    let text = json!({"apiVersion": "example.com/v1", "kind": "Option", "metadata": {"name": "a"}, "b": [1]});
    let option: OptionResource = serde_json::from_value(text.clone()).expect("everything fits");
    assert_eq!(serde_json::to_value(&option).expect("it has a JSON form"), text);
}

#[tokio::test(start_paused = true)]
async fn a_server_with_the_original_definitions_takes_the_objects() {
    let cluster = TestCluster::start().await.expect("a server in memory starts");
    let documents = kubewright::yaml::objects(include_str!("definitions.yaml")).expect("it is YAML");
    let definitions = documents.iter().map(|object| {
        let json = object.to_json();
        kubewright::Decoder::new().json(json.as_ref()).expect("a definition")
    });
    cluster.install(definitions).await.expect("the server accepts them");
    let kitchens = Api::<Kitchen>::namespaced(&cluster.client(), "default");
    let kitchen: Kitchen = serde_json::from_value(kitchen()).expect("it fits the schema");
    let made = kitchens.create(&kitchen).await.expect("the server accepts it");
    // `key` of `first` has a default, and the status is a subresource.
    assert_eq!(made.spec.first.as_ref().and_then(|first| first.key.as_deref()), Some("data"));
    assert_eq!(made.spec.anything, kitchen.spec.anything);
    let settings = Api::<Settings>::all(&cluster.client());
    let one =
        Settings::new("a", generated::settings::SettingsFields { data: Some(json!({"x": 1})), ..Default::default() });
    settings.create(&one).await.expect("the server accepts it");
    assert_eq!(settings.get("a").await.expect("it exists").fields.data, Some(json!({"x": 1})));
    assert_eq!(Settings::definition().name(), "settings.example.com");
}
