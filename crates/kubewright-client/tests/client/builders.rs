//! Typed apply configurations against the server.

use kubewright_api::apps::v1::{Deployment, DeploymentApply, DeploymentConditionApply};
use kubewright_api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerApply};
use kubewright_api::core::v1::{ConfigMap, ConfigMapApply, ContainerApply, ContainerPortApply, SecretApply};
use kubewright_client::apply::{ApplyObject, ApplyPart, Extract};
use kubewright_core::options::ApplyOptions;
use kubewright_core::{ByteString, Value};

use crate::script::{Script, answer};
use crate::support::test_client;

fn web() -> DeploymentApply {
    DeploymentApply::new("web").labels([("app", "web")]).spec(|spec| {
        spec.replicas(2).selector(|selector| selector.match_labels([("app", "web")])).template(|pod| {
            pod.metadata(|metadata| metadata.labels([("app", "web")])).spec(|spec| {
                let port = ContainerPortApply::default().container_port(80);
                spec.containers([ContainerApply::default().name("web").image("nginx:1").ports([port])])
            })
        })
    })
}

fn replicas(object: &Deployment) -> Option<i32> {
    object.spec.as_ref()?.replicas
}

#[tokio::test]
async fn only_what_was_set_is_sent_and_zero_is_set() {
    let script = Script::new([answer(200, "{}"), answer(200, "{}")]);
    let client = script.client();
    let autoscalers = client.api::<HorizontalPodAutoscaler>("default");
    // In the type, maxReplicas is a required number.
    let wanted = HorizontalPodAutoscalerApply::new("web").spec(|spec| spec.min_replicas(1));
    autoscalers.apply_configuration(&wanted, &ApplyOptions::new("me")).await.unwrap();
    let wanted = HorizontalPodAutoscalerApply::new("web").spec(|spec| spec.max_replicas(0));
    autoscalers.apply_configuration(&wanted, &ApplyOptions::new("me")).await.unwrap();
    let bodies: Vec<String> =
        script.asked().into_iter().map(|request| String::from_utf8(request.body.to_vec()).unwrap()).collect();
    let body = |spec: &str| {
        format!(
            r#"{{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{{"name":"web"}},"spec":{spec}}}"#
        )
    };
    assert_eq!(bodies, [body(r#"{"minReplicas":1}"#), body(r#"{"maxReplicas":0}"#)]);
}

#[tokio::test]
async fn two_managers_conflict_until_one_forces() {
    // AC-1
    let server = test_client().await;
    let deployments = server.client.api::<Deployment>(server.namespace.as_str());
    deployments.apply_configuration(&web(), &ApplyOptions::new("one")).await.unwrap();
    let scaled = DeploymentApply::new("web").spec(|spec| spec.replicas(0));
    let conflict = deployments.apply_configuration(&scaled, &ApplyOptions::new("two")).await.unwrap_err();
    assert!(conflict.is_conflict() && conflict.to_string().contains(".spec.replicas"), "{conflict}");
    let object = deployments.apply_configuration(&scaled, &ApplyOptions::new("two").force()).await.unwrap();
    assert_eq!(replicas(&object), Some(0), "a zero that was set is applied");

    let mine = DeploymentApply::extract(&object, "one").unwrap().unwrap();
    let left = web().namespace(server.namespace.as_str()).spec(|spec| spec.without("replicas"));
    // The key of a port includes the default of its protocol.
    let left = left.spec(|spec| {
        spec.template(|pod| {
            pod.spec(|spec| {
                let port = ContainerPortApply::default().container_port(80).protocol("TCP");
                spec.containers([ContainerApply::default().name("web").ports([port])])
            })
        })
    });
    assert_eq!(mine, left);
}

#[tokio::test]
async fn an_extracted_configuration_is_edited_with_the_same_setters() {
    // AC-1
    let server = test_client().await;
    let deployments = server.client.api::<Deployment>(server.namespace.as_str());
    let options = ApplyOptions::new("shop");
    let object = deployments.apply_configuration(&web(), &options).await.unwrap();
    let mine = DeploymentApply::extract(&object, "shop").unwrap().unwrap();
    let wanted = mine.spec(|spec| {
        spec.replicas(0)
            .min_ready_seconds(5)
            .template(|pod| pod.spec(|spec| spec.containers([ContainerApply::default().name("web").image("nginx:2")])))
    });
    let object = deployments.apply_configuration(&wanted, &options).await.unwrap();
    let containers = &object.spec.as_ref().unwrap().template.spec.as_ref().unwrap().containers;
    assert_eq!((containers.len(), containers[0].image.as_deref()), (1, Some("nginx:2")));
    assert_eq!((containers[0].ports.len(), replicas(&object)), (1, Some(0)));

    let wanted =
        DeploymentApply::extract(&object, "shop").unwrap().unwrap().spec(|spec| spec.without("minReadySeconds"));
    let object = deployments.apply_configuration(&wanted, &options).await.unwrap();
    assert_eq!(object.spec.as_ref().unwrap().min_ready_seconds, None, "a field that is no longer applied is removed");
    assert!(DeploymentApply::extract(&object, "nobody").unwrap().is_none());

    // Caches drop managed fields, which must not look as if nothing was applied.
    let mut cached = object;
    cached.metadata.managed_fields = Default::default();
    let error = DeploymentApply::extract(&cached, "shop").unwrap_err();
    assert!(error.to_string().contains("\"web\" has no managed fields"), "{error}");
}

#[tokio::test]
async fn status_and_scale_are_applied_through_their_subresources() {
    let server = test_client().await;
    let deployments = server.client.api::<Deployment>(server.namespace.as_str());
    deployments
        .apply_configuration(&web().spec(|spec| spec.without("replicas")), &ApplyOptions::new("one"))
        .await
        .unwrap();
    let condition = DeploymentConditionApply::default().type_("Ready").status("True");
    let status = DeploymentApply::new("web").status(|status| status.collision_count(0).conditions([condition]));
    let object = deployments.apply_status_configuration(&status, &ApplyOptions::new("one").force()).await.unwrap();
    assert_eq!(object.status.as_ref().unwrap().collision_count, Some(0));
    let mine = DeploymentApply::extract_status(&object, "one").unwrap().unwrap();
    assert_eq!(mine, status.namespace(server.namespace.as_str()));

    // The server defaulted the replicas, and nobody owns a default.
    let scale = deployments.apply_scale("web", 0, &ApplyOptions::new("scaler")).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas.unwrap_or_default(), 0);
    let object = deployments.get("web").await.unwrap();
    assert_eq!(replicas(&object), Some(0));
    let scaler = DeploymentApply::extract_subresource(&object, "scaler", "scale").unwrap().unwrap();
    assert_eq!(scaler.fields().get("spec").and_then(|spec| spec.get("replicas")), Some(&Value::Int(0)));
}

#[tokio::test]
async fn a_configuration_without_a_name_is_not_sent() {
    let script = Script::default();
    let maps = script.client().api::<ConfigMap>("default");
    let error = maps.apply_configuration(&ConfigMapApply::default(), &ApplyOptions::new("me")).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid request: a configuration without metadata.name cannot be applied");
    assert!(script.asked().is_empty());
}

#[test]
fn debug_does_not_print_values() {
    let secret =
        SecretApply::new("s").data([("password", ByteString::from("hunter2"))]).string_data([("a", "hunter2")]);
    assert_eq!(secret.name(), Some("s"));
    let printed = format!("{secret:?}");
    assert!(!printed.contains("hunter2") && printed.contains("stringData"), "{printed}");
    assert!(secret.fields().to_value().to_string().contains(r#""password":"aHVudGVyMg==""#));
}
