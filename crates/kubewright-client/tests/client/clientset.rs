//! Typed clients and subresources.

use std::collections::BTreeSet;
use std::sync::Mutex;

use bytes::Bytes;
use kubewright_api::apps::v1::Deployment;
use kubewright_api::authentication::v1::{SelfSubjectReview, TokenRequest, TokenRequestSpec};
use kubewright_api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview};
use kubewright_api::core::v1::{Binding, Pod};
use kubewright_api::policy::v1::Eviction;
use kubewright_client::clientset::LogOptions;
use kubewright_client::rest::Impersonation;
use kubewright_client::transport::{Body, ResponseFuture};
use kubewright_client::{Client, RetryPolicy, retry_on_conflict};
use kubewright_core::options::{ApplyOptions, DeleteOptions, ListOptions, Patch, WatchOptions};
use kubewright_core::stream::WatchEvent;
use kubewright_core::{AllNamespaces, Decoder, Object, json};

use crate::script::{Script, answer};
use crate::support::{config_map, test_client};

fn pod(name: &str) -> Pod {
    // Neither scheduler nor kubelet changes it.
    let spec = json!({"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]});
    Decoder::new().json(json!({"metadata": {"name": name}, "spec": spec}).to_string().as_bytes()).unwrap()
}

fn deployment(name: &str) -> Deployment {
    let json = format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"replicas":2,"selector":{{"matchLabels":{{"a":"b"}}}},
            "template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}}}}}"#
    );
    Decoder::new().json(json.as_bytes()).unwrap()
}

#[tokio::test]
async fn resources_are_reached_by_their_names() {
    let server = test_client().await;
    let client = &server.client;
    client.core_v1().config_maps(server.namespace.as_str()).create(&config_map("a")).await.unwrap();
    let everywhere = client.core_v1().config_maps(AllNamespaces).list(&ListOptions::default()).await.unwrap();
    assert!(everywhere.items.iter().any(|one| one.name() == "a" && one.namespace() == server.namespace));
    assert!(client.core_v1().namespaces().get(&server.namespace).await.is_ok());
    if !server.serves(&["authorization.k8s.io/v1 selfsubjectaccessreviews"]).await {
        return;
    }
    let mut review = SelfSubjectAccessReview::default();
    let attributes =
        ResourceAttributes { verb: Some("get".into()), resource: Some("pods".into()), ..Default::default() };
    review.spec.resource_attributes = Some(attributes.into());
    let answered = client.authorization_v1().self_subject_access_reviews().create(&review).await.unwrap();
    assert!(answered.status.unwrap().allowed);
}

#[tokio::test]
async fn a_client_can_impersonate_a_user() {
    let server = test_client().await;
    if !server.serves(&["authentication.k8s.io/v1 selfsubjectreviews"]).await {
        return;
    }
    let jane = server.client.clone().impersonate(Impersonation::user("jane").group("developers"));
    let review = jane.authentication_v1().self_subject_reviews().create(&SelfSubjectReview::default()).await.unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    assert_eq!(user.username.as_deref(), Some("jane"));
    assert!(user.groups.iter().any(|group| group == "developers"));
}

#[tokio::test]
async fn status_is_written_by_itself() {
    let server = test_client().await;
    let deployments = server.client.apps_v1().deployments(server.namespace.as_str());
    deployments.create(&deployment("web")).await.unwrap();
    // A controller of the server may write to it concurrently.
    let written = retry_on_conflict(RetryPolicy::CONFLICT, async || {
        let mut web = deployments.get("web").await?;
        web.status.get_or_insert_default().replicas = Some(2);
        web.spec.get_or_insert_default().replicas = Some(9);
        deployments.update_status(&web).await
    });
    let written = written.await.unwrap();
    assert_eq!(written.status.as_ref().unwrap().replicas, Some(2));
    assert_eq!(written.spec.as_ref().unwrap().replicas, Some(2), "the rest is passed over");
    let patch = Patch::Merge(br#"{"status":{"readyReplicas":1}}"#.to_vec());
    let patched = deployments.patch_status("web", patch).await.unwrap();
    assert_eq!(patched.status.unwrap().ready_replicas, Some(1));
    let mut applied = Deployment::default();
    applied.set_name("web");
    applied.status.get_or_insert_default().updated_replicas = Some(1);
    let applied = deployments.apply_status(&applied, &ApplyOptions::new("m").force()).await.unwrap();
    assert_eq!(applied.status.unwrap().updated_replicas, Some(1));
}

#[tokio::test]
async fn scalable_resources_can_be_scaled() {
    let server = test_client().await;
    if !server.serves(&["apps/v1 deployments/scale"]).await {
        return;
    }
    let deployments = server.client.apps_v1().deployments(server.namespace.as_str());
    deployments.create(&deployment("web")).await.unwrap();
    retry_on_conflict(RetryPolicy::CONFLICT, async || {
        let mut scale = deployments.get_scale("web").await?;
        assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(2));
        scale.spec.get_or_insert_default().replicas = Some(5);
        deployments.update_scale("web", &scale).await
    })
    .await
    .unwrap();
    assert_eq!(deployments.get("web").await.unwrap().spec.unwrap().replicas, Some(5));
    let patch = Patch::Merge(br#"{"spec":{"replicas":7}}"#.to_vec());
    assert_eq!(deployments.patch_scale("web", patch).await.unwrap().spec.unwrap().replicas, Some(7));
}

#[tokio::test]
async fn pods_are_bound_and_evicted() {
    let server = test_client().await;
    if !server.serves(&["v1 pods/binding", "v1 pods/eviction"]).await {
        return;
    }
    let pods = server.client.core_v1().pods(server.namespace.as_str());
    pods.create(&pod("web")).await.unwrap();
    let mut binding = Binding::default();
    binding.set_name("web");
    binding.target.kind = Some("Node".into());
    binding.target.name = Some("n1".into());
    pods.bind("web", &binding).await.unwrap();
    assert_eq!(pods.get("web").await.unwrap().spec.unwrap().node_name.as_deref(), Some("n1"));
    let mut eviction = Eviction::default();
    eviction.set_name("web");
    pods.evict("web", &eviction).await.unwrap();
    let gone = pods.get_opt("web").await.unwrap();
    assert!(gone.is_none_or(|pod| pod.is_being_deleted()));
}

#[tokio::test]
async fn service_accounts_get_tokens() {
    let issued = r#"{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"t"}}"#;
    let script = Script::new([answer(201, issued)]);
    let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..Default::default() };
    let request = TokenRequest { spec: Some(spec), ..Default::default() };
    let accounts = script.client().core_v1().service_accounts("default");
    let issued = accounts.create_token("robot", &request).await.unwrap();
    assert_eq!(issued.status.unwrap().token.as_deref(), Some("t"));
    assert_eq!(script.lines(), ["POST /api/v1/namespaces/default/serviceaccounts/robot/token"]);
}

#[tokio::test]
async fn logs_are_read_whole_or_line_by_line() {
    let text = answer(200, "one\ntwo\nlast").header("content-type", "text/plain");
    let follow = answer(200, "one\ntwo\nlast").dripping(std::time::Duration::from_nanos(1));
    let script = Script::new([text, follow]);
    let pods = script.client().core_v1().pods("default");
    let options = LogOptions::default().container("c").tail_lines(3).timestamps();
    assert_eq!(pods.logs("web", &options).await.unwrap(), "one\ntwo\nlast");
    let mut log = pods.log_stream("web", &LogOptions::default().follow()).await.unwrap();
    let mut lines = Vec::new();
    while let Some(line) = log.line().await.unwrap() {
        lines.push(line);
    }
    assert_eq!(lines, ["one", "two", "last"]);
    let path = "GET /api/v1/namespaces/default/pods/web/log";
    assert_eq!(
        script.lines(),
        [format!("{path}?container=c&tailLines=3&timestamps=true"), format!("{path}?follow=true")]
    );
}

/// Rescanning the buffer for each chunk would read a thousand gigabytes for a line like this.
#[tokio::test]
async fn an_unterminated_line_is_scanned_once() {
    let piece = Bytes::from(vec![b'x'; 512]);
    let pieces = futures_util::stream::iter((0..65_536).map(move |_| Ok(piece.clone())));
    let pieces = Mutex::new(Some(pieces));
    let client = Client::over(move |_: http::Request<Bytes>| -> ResponseFuture {
        let pieces = pieces.lock().unwrap().take().expect("it is asked once");
        Box::pin(async { Ok(http::Response::new(Body::new(pieces))) })
    });
    let mut log = client.core_v1().pods("default").log_stream("web", &LogOptions::default()).await.unwrap();
    assert_eq!(log.line().await.unwrap().map(|line| line.len()), Some(32 << 20));
    assert_eq!(log.line().await.unwrap(), None);
}

#[tokio::test]
async fn proxy_requests_use_the_proxy_subresource() {
    let script = Script::new([answer(200, "hello")]);
    let services = script.client().core_v1().services("default");
    let answered = services.proxy(http::Method::GET, "https:web:8443", "/metrics/all").send().await.unwrap();
    assert_eq!(answered.text(), "hello");
    assert_eq!(script.lines(), ["GET /api/v1/namespaces/default/services/https:web:8443/proxy/metrics/all"]);
}

/// Every subresource in the resource table has a method.
#[test]
fn no_part_of_an_object_is_forgotten() {
    let covered = BTreeSet::from([
        "approval",
        "attach",
        "binding",
        "ephemeralcontainers",
        "eviction",
        "exec",
        "finalize",
        "log",
        "portforward",
        "proxy",
        "resize",
        "scale",
        "status",
        "token",
    ]);
    let all: BTreeSet<&str> = kubewright_api::resources()
        .into_iter()
        .flat_map(|resource| resource.subresources.iter().map(|subresource| subresource.name))
        .collect();
    assert_eq!(all, covered);
}

/// Another client that waits for the deletion timestamp, such as a kubelet, may remove the pod
/// first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_another_client_deleted_counts_as_deleted() {
    let server = test_client().await;
    if !server.serves(&["v1 pods"]).await {
        return;
    }
    let pods = server.client.core_v1().pods(&server.namespace);
    let mut watch = pods.watch(&WatchOptions::default()).await.unwrap();
    let at_once = DeleteOptions::default().grace_period_seconds(0);
    let (kubelet, options) = (pods.clone(), at_once.clone());
    let kubelet = tokio::spawn(async move {
        while let Some(Ok(event)) = watch.next().await {
            if let WatchEvent::Modified(pod) = event {
                let _ = kubelet.delete_with(pod.name(), &options).await;
            }
        }
    });
    for round in 0..200 {
        let name = format!("p{round}");
        pods.create(&pod(&name)).await.unwrap();
        pods.delete_with(&name, &at_once).await.unwrap();
    }
    kubelet.abort();
}
