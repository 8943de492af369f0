//! Validators, mutators and converters as functions over typed objects, called by the server.

use std::sync::{Arc, Mutex};

use kubewright_api::core::v1::ConfigMap;
use kubewright_apiserver::ApiServer;
use kubewright_client::{Api, Client};
use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::options::{DeleteOptions, Patch};
use kubewright_core::{GroupKind, Object, json};
use kubewright_runtime::testing::TestCluster;
use kubewright_runtime::webhook::{AdmissionContext, ClientConfig, Denial, Operation, Warnings, Webhooks};

use crate::support::config_map;

async fn validate(new: ConfigMap, old: Option<ConfigMap>, context: AdmissionContext) -> Result<Warnings, Denial> {
    let value = |map: &ConfigMap| map.data.get("value").cloned().unwrap_or_default();
    let was = old.as_ref().map(value);
    assert_eq!(context.operation == Operation::Update, was.is_some());
    match &*value(&new) {
        "bad" => Err(Denial::from("bad is denied").warning("think again")),
        "panic" => panic!("oh no"),
        "invalid" => {
            let cause = StatusCause::invalid("data.value", "\"invalid\"", "must not be");
            Err(Status::invalid(&GroupKind::new("", "ConfigMap"), new.name(), [cause]).into())
        }
        value if was.as_deref().is_some_and(|was| was != value) => Ok("the value changes".into()),
        _ => Ok(Warnings::default()),
    }
}

fn webhooks() -> Webhooks {
    Webhooks::new()
        .mutate(|new: &mut ConfigMap, old: Option<&ConfigMap>, context| {
            if new.data.contains_key("immutable") && old.is_some_and(|old| old.data != new.data) {
                return Err("it is immutable".into());
            }
            new.metadata.labels.insert("by", context.user.username.clone().unwrap_or_default());
            Ok(())
        })
        .validate(validate)
        .validate_deletion(|old: ConfigMap, _| async move {
            if old.data.contains_key("keep") { Err("it is kept".into()) } else { Ok("farewell") }
        })
}

/// A client that records warnings.
fn warned(client: Client) -> (Client, Arc<Mutex<Vec<String>>>) {
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let log = warnings.clone();
    (client.on_warning(move |warning| log.lock().unwrap().push(warning.text.to_string())), warnings)
}

fn with(name: &str, key: &str, value: &str) -> ConfigMap {
    let mut map = config_map(name);
    map.data.insert(key, value.into());
    map
}

// With a paused clock: the calls take no simulated time, so nothing times out.
#[tokio::test(start_paused = true)]
async fn functions_over_typed_objects_warn_deny_and_change() {
    let cluster = TestCluster::start().await.unwrap();
    cluster.webhooks(webhooks()).await.unwrap();
    let (client, warnings) = warned(cluster.client());
    let take = || std::mem::take(&mut *warnings.lock().unwrap());
    let maps = Api::<ConfigMap>::namespaced(&client, "default");

    let made = maps.create(&with("a", "value", "1")).await.unwrap();
    assert_eq!(made.labels().get("by"), Some("kubernetes-admin"));
    assert_eq!(take(), Vec::<String>::new());
    maps.patch("a", Patch::merge(json!({"data": {"value": "2"}}))).await.unwrap();
    assert_eq!(take(), ["the value changes"]);

    let refused = async |value: &str| {
        let error = maps.create(&with("b", "value", value)).await.unwrap_err();
        let status = error.status().unwrap().clone();
        (status.code.unwrap(), status.message.unwrap_or_default().to_string())
    };
    let by = "admission webhook \"validate.configmaps.v1.core\" denied the request: ";
    assert_eq!(refused("bad").await, (403, format!("{by}bad is denied")));
    assert_eq!(take(), ["think again"]);
    let (code, message) = refused("invalid").await;
    assert_eq!(
        (code, message),
        (422, format!("{by}ConfigMap \"b\" is invalid: data.value: Invalid value: \"invalid\": must not be"))
    );
    let (code, message) = refused("panic").await;
    assert!(code == 500 && message.contains("the handler panicked: oh no"), "{code} {message}");

    // A mutator sees the old object, and denies too.
    maps.create(&with("c", "immutable", "1")).await.unwrap();
    let denied = maps.patch("c", Patch::merge(json!({"data": {"immutable": "2"}}))).await.unwrap_err();
    assert!(denied.to_string().contains("it is immutable"), "{denied}");

    // Deletions have their own function.
    maps.create(&with("d", "keep", "yes")).await.unwrap();
    assert!(maps.delete("d").await.unwrap_err().to_string().contains("it is kept"));
    take();
    maps.delete("a").await.unwrap();
    assert_eq!(take(), ["farewell"]);
    maps.delete_with("c", &DeleteOptions::default().dry_run()).await.unwrap();

    // Other webhooks replace these.
    cluster.webhooks(Webhooks::new()).await.unwrap();
    maps.create(&with("b", "value", "bad")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn manifests_with_a_service_are_called_in_memory() {
    let webhooks_of = || Webhooks::new().set_defaults(|map: &mut ConfigMap| drop(map.data.insert("size", "1".into())));
    let configurations = webhooks_of().configurations("sizes", &ClientConfig::service("tools", "webhooks"));
    let text: String = configurations.iter().map(|object| String::from_utf8(object.to_json()).unwrap()).collect();
    let cluster = TestCluster::over(ApiServer::in_memory().preload(text).start().await.unwrap());
    let maps = Api::<ConfigMap>::namespaced(&cluster.client(), "default");
    // They fail closed.
    let failed = maps.create(&config_map("a")).await.unwrap_err();
    assert!(failed.to_string().contains("failed calling webhook"), "{failed}");
    cluster.webhooks_of_service("tools", "webhooks", webhooks_of());
    assert_eq!(maps.create(&config_map("a")).await.unwrap().data.get("size").map(|size| &**size), Some("1"));
}

#[tokio::test]
#[should_panic(expected = "two webhooks")]
async fn two_webhooks_at_one_path_are_a_mistake() {
    let cluster = TestCluster::start().await.unwrap();
    let webhooks = webhooks().set_defaults(|_: &mut ConfigMap| {});
    let _ = cluster.webhooks(webhooks).await;
}
