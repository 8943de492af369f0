//! The authorization modes Node and Webhook.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use kubewright_apiserver::{
    ApiServer, AuthorizationMode, AuthorizationModes, AuthorizationWebhook, AuthorizationWebhookOptions, RunningServer,
    StaticTokens,
};
use kubewright_core::Value;
use kubewright_storage::Directory;
use tokio::net::TcpStream;

use crate::client::{CONFIG_MAPS, Client, config_map, text};
use crate::json_server::JsonServer;

const TOKENS: &str = "admin,root,1,system:masters\nnode,system:node:n1,2,system:nodes\ns3cret,bob,7,devs";

async fn start(server: ApiServer, modes: impl IntoIterator<Item = AuthorizationMode>) -> (RunningServer, Client) {
    let server = server
        .listen("127.0.0.1:0".parse().expect("an address"))
        .plain_http()
        .tokens(StaticTokens::from_csv(TOKENS).expect("three lines"))
        .authorization_modes(AuthorizationModes::new(modes))
        .start()
        .await
        .expect("it starts");
    let socket = TcpStream::connect(server.address().expect("it listens")).await.expect("it accepts");
    (server, Client::over(socket).await)
}

async fn send(client: &mut Client, token: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "test")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {token}"));
    let response = client.send(request.body(Full::from(body.to_owned())).expect("a valid request")).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (code, Value::from_json(&body).unwrap_or_default())
}

fn pod(name: &str, node: &str, more: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},
            "spec":{{"nodeName":"{node}","serviceAccountName":"runner-{name}","containers":[{{"name":"c","image":"i"{more}}}],
            "imagePullSecrets":[{{"name":"pull-{name}"}}],
            "volumes":[{{"name":"v","persistentVolumeClaim":{{"claimName":"claim-{name}"}}}},
              {{"name":"p","projected":{{"sources":[{{"configMap":{{"name":"map-{name}"}}}}]}}}}]}}}}"#
    )
}

#[tokio::test]
async fn a_kubelet_reads_what_the_pods_of_its_node_use() {
    let modes = [AuthorizationMode::Node, AuthorizationMode::Rbac];
    let (_server, mut client) = start(ApiServer::in_memory(), modes).await;
    let pods = "/api/v1/namespaces/default/pods";
    let env = r#","envFrom":[{"secretRef":{"name":"env-mine"}}]"#;
    for (name, node, more) in [("mine", "n1", env), ("other", "n2", "")] {
        let (code, made) = send(&mut client, "admin", "POST", pods, &pod(name, node, more)).await;
        assert_eq!(code, 201, "{made}");
    }
    let volume = r#"{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv"},"spec":{"capacity":{"storage":"1Gi"},
        "accessModes":["ReadWriteOnce"],"claimRef":{"namespace":"default","name":"claim-mine"},
        "csi":{"driver":"d","volumeHandle":"h","nodeStageSecretRef":{"namespace":"default","name":"stage"}}}}"#;
    assert_eq!(send(&mut client, "admin", "POST", "/api/v1/persistentvolumes", volume).await.0, 201);
    let claim = r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"claim-mine"},"spec":{"volumeName":"pv",
        "accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"#;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    assert_eq!(send(&mut client, "admin", "POST", claims, claim).await.0, 201);
    // 404: allowed, and not there.
    for (path, code) in [
        ("/api/v1/namespaces/default/secrets/pull-mine", 404),
        ("/api/v1/namespaces/default/secrets/env-mine", 404),
        ("/api/v1/namespaces/default/secrets/stage", 404),
        ("/api/v1/namespaces/default/secrets/pull-other", 403),
        ("/api/v1/namespaces/other/secrets/pull-mine", 403),
        ("/api/v1/namespaces/default/secrets", 403),
        ("/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dpull-mine", 200),
        ("/api/v1/namespaces/default/configmaps/map-mine", 404),
        ("/api/v1/namespaces/default/configmaps/map-other", 403),
        ("/api/v1/namespaces/default/persistentvolumeclaims/claim-mine", 200),
        ("/api/v1/namespaces/default/persistentvolumeclaims/claim-other", 403),
        ("/api/v1/persistentvolumes/pv", 200),
        ("/api/v1/persistentvolumes/other", 403),
        ("/api/v1/namespaces/default/serviceaccounts/runner-mine", 404),
        ("/api/v1/namespaces/default/serviceaccounts/runner-other", 403),
        ("/api/v1/namespaces/default/pods/mine", 200),
        ("/api/v1/namespaces/default/pods/other", 403),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", 200),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn2", 403),
        ("/api/v1/pods", 403),
        ("/api/v1/nodes/n1", 404),
        ("/api/v1/nodes/n2", 403),
        ("/api/v1/nodes", 403),
        ("/api/v1/services", 200),
        ("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1", 404),
        ("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n2", 403),
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases/n1", 403),
        ("/apis/storage.k8s.io/v1/csinodes/n1", 404),
        ("/apis/apps/v1/deployments", 403),
    ] {
        let (have, answer) = send(&mut client, "node", "GET", path, "").await;
        assert_eq!(have, code, "{path}: {answer}");
    }
    let refused = send(&mut client, "node", "GET", "/api/v1/namespaces/default/secrets/pull-other", "").await.1;
    let why = "no relationship found between node 'n1' and this object";
    assert!(text(&refused, "message").ends_with(why), "{refused}");
    // Once the pod is gone, so are the rights.
    let gone = r#"{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0}"#;
    assert_eq!(send(&mut client, "admin", "DELETE", &format!("{pods}/mine"), gone).await.0, 200);
    assert_eq!(send(&mut client, "node", "GET", "/api/v1/namespaces/default/secrets/pull-mine", "").await.0, 403);
    // Other users are decided by the next mode.
    assert_eq!(send(&mut client, "s3cret", "GET", "/api/v1/services", "").await.0, 403);
}

#[tokio::test]
async fn a_mirror_pod_gives_no_rights() {
    let modes = [AuthorizationMode::Node, AuthorizationMode::Rbac];
    let (_server, mut client) = start(ApiServer::in_memory(), modes).await;
    let mirror = pod("mine", "n1", "")
        .replace(r#""name":"mine"}"#, r#""name":"mine","annotations":{"kubernetes.io/config.mirror":"x"}}"#);
    let pods = "/api/v1/namespaces/default/pods";
    let (code, made) = send(&mut client, "admin", "POST", pods, &mirror).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(send(&mut client, "node", "GET", "/api/v1/namespaces/default/secrets/pull-mine", "").await.0, 403);
    assert_eq!(send(&mut client, "node", "GET", "/api/v1/namespaces/default/pods/mine", "").await.0, 200);
}

fn mode(reviews: &JsonServer) -> AuthorizationMode {
    let mut options = AuthorizationWebhookOptions::new(&reviews.kubeconfig);
    options.version = "v1".to_owned();
    AuthorizationMode::Webhook(AuthorizationWebhook::new(options).expect("a kubeconfig"))
}

/// Answers a review. Allows reads and creations, except for bob's of secrets, and denies everything
/// about config maps called `denied`.
fn answer(review: &Value) -> String {
    format!(r#"{{"kind":"SubjectAccessReview","status":{}}}"#, decide(review))
}

fn decide(review: &Value) -> &'static str {
    let attribute = |name: &str| text(review, &format!("spec/resourceAttributes/{name}"));
    let user = text(review, "spec/user");
    if attribute("resource") == "configmaps" && attribute("name") == "denied" {
        return r#"{"allowed":false,"denied":true,"reason":"nobody may"}"#;
    }
    match (&*attribute("verb"), &*attribute("resource")) {
        ("get" | "list" | "watch" | "create", resource) if user != "bob" || resource != "secrets" => {
            r#"{"allowed":true,"reason":"the webhook allows it"}"#
        }
        _ => r#"{"allowed":false,"reason":"the webhook does not allow it"}"#,
    }
}

#[tokio::test]
async fn a_webhook_decides_and_its_decisions_are_remembered() {
    let directory = Directory::new("authorization-webhook");
    let reviews = JsonServer::start(&directory, answer).await;
    let modes = [mode(&reviews), AuthorizationMode::Rbac];
    let (_server, mut client) = start(ApiServer::in_memory(), modes).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    for _ in 0..3 {
        assert_eq!(send(&mut client, "s3cret", "GET", CONFIG_MAPS, "").await.0, 200);
        let (code, refused) = send(&mut client, "s3cret", "GET", secrets, "").await;
        assert_eq!(code, 403);
        assert!(text(&refused, "message").ends_with("the webhook does not allow it"), "{refused}");
    }
    assert_eq!(reviews.calls(), 2);
    let seen = reviews.seen.lock().unwrap()[0].clone();
    assert_eq!(text(&seen, "apiVersion"), "authorization.k8s.io/v1");
    assert_eq!(text(&seen, "spec/user"), "bob");
    assert_eq!(text(&seen, "spec/groups"), r#"["devs","system:authenticated"]"#);
    let attributes = r#"{"namespace":"default","resource":"configmaps","verb":"list","version":"v1"}"#;
    assert_eq!(text(&seen, "spec/resourceAttributes"), attributes);
    // The administrator needs no webhook.
    assert_eq!(send(&mut client, "admin", "GET", secrets, "").await.0, 200);
    assert_eq!(reviews.calls(), 2);
}

#[tokio::test]
async fn a_denial_ends_the_modes_and_no_opinion_does_not() {
    let directory = Directory::new("authorization-denial");
    let reviews = JsonServer::start(&directory, answer).await;
    let modes = [mode(&reviews), AuthorizationMode::AlwaysAllow];
    let (_server, mut client) = start(ApiServer::in_memory(), modes).await;
    let refused = send(&mut client, "s3cret", "GET", &format!("{CONFIG_MAPS}/denied"), "").await;
    assert_eq!(refused.0, 403);
    assert!(text(&refused.1, "message").ends_with("nobody may"), "{}", refused.1);
    assert_eq!(send(&mut client, "s3cret", "GET", "/api/v1/namespaces/default/secrets", "").await.0, 200);
}

#[tokio::test]
async fn reviews_and_policies_ask_the_webhook() {
    let directory = Directory::new("authorization-reviews");
    let reviews = JsonServer::start(&directory, answer).await;
    let (_server, mut client) = start(ApiServer::in_memory(), [mode(&reviews), AuthorizationMode::Rbac]).await;
    let review = |resource: &str| {
        format!(
            r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{{"user":"bob","resourceAttributes":
            {{"verb":"list","resource":"{resource}","fieldSelector":{{"rawSelector":"metadata.name=x"}}}}}}}}"#
        )
    };
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    for (resource, allowed) in [("pods", "true"), ("secrets", "false")] {
        let (code, answer) = send(&mut client, "admin", "POST", path, &review(resource)).await;
        assert_eq!((code, &*text(&answer, "status/allowed")), (201, allowed), "{answer}");
    }
    let field = text(&reviews.seen.lock().unwrap()[0], "spec/resourceAttributes/fieldSelector/requirements");
    assert_eq!(field, r#"[{"key":"metadata.name","operator":"In","values":["x"]}]"#);
    // A policy that forbids what follows from a missing permission: the webhook has to be asked
    // before the write, and not after it.
    let registration = "/apis/admissionregistration.k8s.io/v1";
    let policy = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"},
        "spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]},
        "validations":[{"expression":"!authorizer.group('').resource('pods').check('list').allowed()","message":"lists pods"}]}}"#;
    let binding = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"b"},
        "spec":{"policyName":"p","validationActions":["Deny"]}}"#;
    for (kind, body) in [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)] {
        assert_eq!(send(&mut client, "admin", "POST", &format!("{registration}/{kind}"), body).await.0, 201);
    }
    let (code, refused) = send(&mut client, "s3cret", "POST", CONFIG_MAPS, &config_map("a", "")).await;
    assert_eq!(code, 422, "{refused}");
    assert!(text(&refused, "message").ends_with("lists pods"), "{refused}");
    assert_eq!(send(&mut client, "admin", "GET", &format!("{CONFIG_MAPS}/a"), "").await.0, 404);
}

#[tokio::test]
async fn a_webhook_that_fails_is_called_again_and_then_has_no_opinion() {
    let directory = Directory::new("authorization-failures");
    let reviews = JsonServer::start(&directory, answer).await;
    let (_server, mut client) = start(ApiServer::in_memory(), [mode(&reviews)]).await;
    *reviews.failures.lock().unwrap() = 1;
    assert_eq!(send(&mut client, "s3cret", "GET", CONFIG_MAPS, "").await.0, 200);
    assert_eq!(reviews.calls(), 2);
    *reviews.failures.lock().unwrap() = usize::MAX;
    let answer = tokio::time::timeout(Duration::from_secs(30), send(&mut client, "s3cret", "GET", "/api/v1/pods", ""));
    assert_eq!(answer.await.expect("five attempts take four seconds").0, 403);
    assert_eq!(reviews.calls(), 7);
}

#[test]
fn a_webhook_needs_a_usable_kubeconfig() {
    let missing = AuthorizationWebhook::new(AuthorizationWebhookOptions::new("/nowhere/webhook.yaml"));
    assert!(missing.expect_err("no file").to_string().contains("/nowhere/webhook.yaml"));
    let mut options = AuthorizationWebhookOptions::new("/nowhere/webhook.yaml");
    options.version = "v2".to_owned();
    let error = AuthorizationWebhook::new(options).expect_err("no such version").to_string();
    assert!(error.contains("unsupported authorization webhook version \"v2\""), "{error}");
}
