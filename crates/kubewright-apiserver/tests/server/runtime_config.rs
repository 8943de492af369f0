//! Built-in APIs that are turned off.

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use kubewright_apiserver::{ApiServer, FeatureGate, RuntimeConfig};

use crate::client::{CONFIG_MAPS, Client, config_map, text};

#[tokio::test]
async fn disabled_apis_have_no_path_and_are_in_no_document() {
    let config = RuntimeConfig::parse(["batch/v1=false", "autoscaling/v2=false", "apps/v1/daemonsets=false"]);
    let server = ApiServer::in_memory().runtime_config(config.expect("all are known"));
    let server = server.start().await.expect("it starts");
    let mut client = Client::over(server.connect()).await;
    let call = async |client: &mut Client, path: &str| client.call("GET", path, "").await;
    let in_default = |group: &str, plural: &str| format!("/apis/{group}/namespaces/default/{plural}");
    for path in ["/apis/batch", "/apis/batch/v1", &in_default("batch/v1", "jobs")] {
        let (code, answer) = call(&mut client, path).await;
        assert_eq!((code, answer.as_str()), (404, Some("404 page not found\n")), "{path}");
    }
    for path in [
        "/apis/autoscaling/v2",
        &in_default("autoscaling/v2", "horizontalpodautoscalers"),
        &in_default("apps/v1", "daemonsets"),
    ] {
        let (code, answer) = call(&mut client, path).await;
        let why = "the server could not find the requested resource";
        assert_eq!((code, text(&answer, "message").as_str()), (404, why), "{path}");
    }
    assert_eq!(call(&mut client, &in_default("autoscaling/v1", "horizontalpodautoscalers")).await.0, 200);
    assert_eq!(call(&mut client, &in_default("apps/v1", "deployments")).await.0, 200);
    let (_, groups) = call(&mut client, "/apis").await;
    assert!(!groups.to_string().contains("batch/v1") && groups.to_string().contains("apps/v1"));
    let (_, apps) = call(&mut client, "/apis/apps/v1").await;
    assert!(!apps.to_string().contains("daemonsets") && apps.to_string().contains("deployments"));
    let (_, services) = call(&mut client, "/apis/apiregistration.k8s.io/v1/apiservices").await;
    assert!(!services.to_string().contains("v1.batch") && services.to_string().contains("v1.apps"));
    let (_, document) = call(&mut client, "/openapi/v2").await;
    assert!(
        !document.to_string().contains("/apis/batch/v1/namespaces")
            && document.to_string().contains("/apis/apps/v1/namespaces")
    );
}

#[tokio::test]
async fn the_server_uses_apis_that_it_does_not_serve() {
    let config = RuntimeConfig::parse(["api/all=false", "/v1=true"]).expect("all are known");
    let server = ApiServer::in_memory().runtime_config(config).start().await.expect("its own roles are stored");
    let mut client = Client::over(server.connect()).await;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("a", "")).await.0, 201);
    assert_eq!(client.call("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "").await.0, 404);
    let (_, groups) = client.call("GET", "/apis", "").await;
    assert_eq!(text(&groups, "groups"), "null", "as Go writes an empty list");
}

#[tokio::test]
async fn feature_gates_turn_features_on_and_off() {
    let autoscaler = r#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},
        "spec":{"minReplicas":0,"maxReplicas":2,"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},
        "metrics":[{"type":"External","external":{"metric":{"name":"m"},"target":{"type":"Value","value":"1"}}}]}}"#;
    let autoscalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let watch = format!(
        "{CONFIG_MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true\
         &timeoutSeconds=1"
    );
    let large = config_map("large", &format!(r#","annotations":{{"a":"{}"}}"#, "x".repeat(200_000)));
    for is_changed in [false, true] {
        let mut server = ApiServer::in_memory();
        if is_changed {
            server = server
                .feature_gate(FeatureGate::HPAScaleToZero, true)
                .feature_gate(FeatureGate::WatchList, false)
                .feature_gate(FeatureGate::APIResponseCompression, false);
        }
        let server = server.start().await.expect("it starts");
        let mut client = Client::over(server.connect()).await;
        let (code, answer) = client.call("POST", autoscalers, autoscaler).await;
        assert_eq!(code, if is_changed { 201 } else { 422 }, "{answer}");
        assert_eq!(client.call("GET", &watch, "").await.0, if is_changed { 422 } else { 200 });
        assert_eq!(client.call("POST", CONFIG_MAPS, &large).await.0, 201);
        let request = Request::builder().uri(CONFIG_MAPS).header("host", "test").header("accept-encoding", "gzip");
        let response = client.send(request.body(Full::<Bytes>::default()).expect("a valid request")).await;
        assert_eq!(response.headers().contains_key("content-encoding"), !is_changed);
    }
}
