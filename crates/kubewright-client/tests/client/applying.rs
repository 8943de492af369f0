//! Server-side apply: apply, extract, and ownership transfer.

use kubewright_api::apps::v1::Deployment;
use kubewright_api::core::v1::ConfigMap;
use kubewright_client::Api;
use kubewright_client::apply::{ApplyConfiguration, ApplyPart, Extract, upgrade_patch};
use kubewright_core::options::{ApplyOptions, CreateOptions, Patch};
use kubewright_core::{Object, Value, json};

use crate::script::{Script, answer};
use crate::support::{config_map, test_client};

fn web() -> ApplyConfiguration<Deployment> {
    let containers: Value = r#"[{"name":"c","image":"i"}]"#.parse().unwrap();
    ApplyConfiguration::new("web")
        .set(&["spec", "replicas"], 2)
        .and_then(|web| web.set(&["spec", "selector", "matchLabels", "a"], "b"))
        .and_then(|web| web.set(&["spec", "template", "metadata", "labels", "a"], "b"))
        .and_then(|web| web.set(&["spec", "template", "spec", "containers"], containers))
        .unwrap()
}

#[tokio::test]
async fn an_extracted_configuration_can_be_changed_and_applied_again() {
    // AC-1
    let server = test_client().await;
    let deployments = server.client.apps_v1().deployments(server.namespace.as_str());
    let options = ApplyOptions::new("shop");
    deployments.apply_configuration(&web(), &options).await.unwrap();
    let theirs = Patch::merge(json!({"metadata": {"labels": {"other": "theirs"}}}));
    let object = deployments.patch("web", theirs).await.unwrap();

    let extracted = ApplyConfiguration::<Deployment>::extract(&object, "shop").unwrap().unwrap();
    let wanted = web().set(&["metadata", "namespace"], server.namespace.as_str()).unwrap();
    assert_eq!(extracted, wanted, "neither defaults nor the fields of others");
    assert_eq!(ApplyConfiguration::<Deployment>::extract(&object, "nobody").unwrap(), None);

    let more = extracted.set(&["spec", "replicas"], 5).unwrap();
    let object = deployments.apply_configuration(&more, &options).await.unwrap();
    assert_eq!(object.spec.as_ref().unwrap().replicas, Some(5));
    assert_eq!(object.labels().get("other"), Some("theirs"));

    let status = ApplyConfiguration::<Deployment>::new("web").set(&["status", "collisionCount"], 1).unwrap();
    // A controller of the server may have written the counts of replicas already.
    let object = deployments.apply_status_configuration(&status, &options.clone().force()).await.unwrap();
    let status = ApplyConfiguration::<Deployment>::extract_status(&object, "shop").unwrap().unwrap();
    assert_eq!(status.to_dynamic().unwrap().get(&["status", "collisionCount"]), Some(Value::Int(1)));
    assert_eq!(status.fields().get("spec"), None);
}

#[test]
fn fields_that_the_type_does_not_have_are_refused() {
    // AC-1
    let error = web().set(&["spec", "replica"], 1).unwrap_err();
    assert_eq!(error.to_string(), "invalid request: Deployment has no field spec.replica");
    assert!(web().set(&["spec", "replicas"], "many").is_err());
}

#[tokio::test]
async fn ownership_moves_from_updates_to_applying() {
    // AC-1
    let server = test_client().await;
    let api = server.client.core_v1().config_maps(server.namespace.as_str());
    let mut object = config_map("a");
    object.data.insert("old", "x".into());
    let created = api.create_with(&object, &CreateOptions::default().field_manager("kubectl-create")).await.unwrap();
    let patch = upgrade_patch(&created, &["kubectl-create"], "shop").unwrap().unwrap();
    let upgraded = api.patch("a", patch).await.unwrap();
    assert!(upgrade_patch(&upgraded, &["kubectl-create"], "shop").unwrap().is_none());
    let fewer = ApplyConfiguration::<ConfigMap>::new("a").set(&["data", "key"], "value").unwrap();
    let applied = api.apply_configuration(&fewer, &ApplyOptions::new("shop")).await.unwrap();
    assert!(!applied.data.contains_key("old"), "what is left out goes, since its manager is the one who applies");
}

#[tokio::test]
async fn applying_a_typed_object_sends_only_set_fields() {
    let script = Script::new((0..3).map(|_| answer(200, r#"{"metadata":{"name":"web"}}"#)));
    let deployments = Api::<Deployment>::namespaced(&script.client(), "default");
    let options = ApplyOptions::new("shop");
    let mut web = Deployment::default();
    web.set_name("web");
    web.status = Some(Default::default());
    deployments.apply(&web, &options).await.unwrap();
    web.spec.get_or_insert_default().replicas = Some(0);
    deployments.apply(&web, &options).await.unwrap();
    web.status.get_or_insert_default().replicas = Some(0);
    deployments.apply_status(&web, &options).await.unwrap();
    let bodies: Vec<_> = script.asked().iter().map(|asked| String::from_utf8(asked.body.to_vec()).unwrap()).collect();
    let head = r#""kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web"}"#;
    assert_eq!(bodies[0], format!("{{{head}}}"));
    assert_eq!(bodies[1], format!(r#"{{{head},"spec":{{"replicas":0}}}}"#));
    assert_eq!(bodies[2], format!(r#"{{{head},"spec":{{"replicas":0}},"status":{{"replicas":0}}}}"#));
}

#[tokio::test]
async fn a_partial_typed_apply_keeps_the_fields_of_other_managers() {
    let server = test_client().await;
    let deployments = server.client.apps_v1().deployments(server.namespace.as_str());
    let before = deployments.apply_configuration(&web(), &ApplyOptions::new("shop")).await.unwrap();
    let mut mine = Deployment::default();
    mine.set_name("web");
    mine.spec.get_or_insert_default().paused = Some(true);
    let after = deployments.apply(&mine, &ApplyOptions::new("other")).await.unwrap();
    let (before, after) = (before.spec.unwrap(), after.spec.unwrap());
    assert_eq!((&after.selector, &after.template), (&before.selector, &before.template));
    assert_eq!((after.replicas, after.paused), (Some(2), Some(true)));
}
