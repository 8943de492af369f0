//! Webhooks, called by the server over TLS.

use kubewright::api::core::v1::ConfigMap;
use kubewright::{ByteString, DynamicObject, Object, json};

use crate::processes::{connect, free_address};
use crate::world::{Program, World};

/// Starts a webhook with a certificate of its own, and registers it.
async fn webhook(world: &World, program: &str, kind: &str, path: &str) -> Program {
    let certificate = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    world.write("tls.crt", &certificate.cert.pem());
    world.write("tls.key", &certificate.signing_key.serialize_pem());
    let address = free_address();
    let running = world.start_with(program, &[&address]);
    drop(connect(&address).await);
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "side-by-side"},
        "webhooks": [{
            "name": "maps.side-by-side.example.com",
            "clientConfig": {
                "url": format!("https://{address}{path}"),
                "caBundle": ByteString::from(certificate.cert.pem().as_str()).to_base64(),
            },
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    });
    let configuration: DynamicObject = configuration.to_string().parse().expect("it is an object");
    let api = world.client().rest_mapper().api_of(&configuration).await.expect("the server has it");
    api.create(&configuration).await.expect("it is valid");
    running
}

fn map(name: &str, key: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.set_name(name);
    map.data.insert(key, "large".into());
    map
}

#[tokio::test(flavor = "multi_thread")]
async fn config_maps_without_a_colour_are_rejected() {
    let world = World::with("").await;
    let kind = "ValidatingWebhookConfiguration";
    let program = webhook(&world, "28-validating-webhook", kind, "/validate--v1-configmap").await;
    let maps = world.client().api::<ConfigMap>("default");
    let refused = maps.create(&map("dull", "size")).await.expect_err("it has no colour");
    assert!(refused.to_string().contains("a colour is needed"), "{refused}");
    maps.create(&map("bright", "colour")).await.expect("it has a colour");
    drop(program);
}

#[tokio::test(flavor = "multi_thread")]
async fn config_maps_get_a_colour() {
    let world = World::with("").await;
    let kind = "MutatingWebhookConfiguration";
    let program = webhook(&world, "29-mutating-webhook", kind, "/mutate--v1-configmap").await;
    let maps = world.client().api::<ConfigMap>("default");
    let created = maps.create(&map("dull", "size")).await.expect("it is valid");
    assert_eq!(created.data.get("colour").map(|colour| colour.as_str()), Some("blue"));
    assert_eq!(created.data.get("size").map(|size| size.as_str()), Some("large"));
    let mut empty = ConfigMap::default();
    empty.set_name("empty");
    let created = maps.create(&empty).await.expect("it is valid");
    assert_eq!(created.data.get("colour").map(|colour| colour.as_str()), Some("blue"));
    let bright = maps.create(&map("bright", "colour")).await.expect("it is valid");
    assert_eq!(bright.data.get("colour").map(|colour| colour.as_str()), Some("large"));
    drop(program);
}
