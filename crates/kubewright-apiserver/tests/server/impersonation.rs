//! Impersonation, with and without constraints.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use kubewright_apiserver::{ApiServer, RunningServer, StaticTokens};
use kubewright_core::Value;

use crate::access::{ALICE, RBAC, binding, create, role};
use crate::client::{Client, server, text};

/// A server with the tokens `a` of alice and `b` of bob, who have no rights yet.
async fn with_tokens() -> (RunningServer, Client) {
    let tokens = StaticTokens::from_csv("a,alice,1\nb,bob,2").expect("lines of the right form");
    let server = ApiServer::in_memory().tokens(tokens).start().await.expect("nothing can fail without a socket");
    let client = Client::over(server.connect()).await;
    (server, client)
}

/// Gives alice a cluster role with these rules.
async fn grant(client: &mut Client, name: &str, rules: &str) {
    let role = format!(
        r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{{"name":"{name}"}},"rules":[{rules}]}}"#
    );
    create(client, &format!("{RBAC}/clusterroles"), &role).await;
    let bound = binding("ClusterRoleBinding", name, "ClusterRole", name, ALICE);
    create(client, &format!("{RBAC}/clusterrolebindings"), &bound).await;
}

/// Sends a request with alice's token. Returns status code and body.
async fn ask(client: &mut Client, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(path).header("host", "test");
    request = request.header("authorization", "Bearer a").header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let body = if method == "POST" { body } else { "" };
    let response = client.send(request.body(Full::from(Bytes::from(body))).expect("a valid request")).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("the body ends").to_bytes();
    (code, Value::from_json(&body).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&body).as_ref())))
}

const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[tokio::test]
async fn impersonation_needs_permission() {
    let (_server, mut client) = with_tokens().await;
    let actor = role("ClusterRole", "actor", r#"["impersonate"]"#, r#"["users"]"#);
    create(&mut client, &format!("{RBAC}/clusterroles"), &actor).await;
    let bound = binding("ClusterRoleBinding", "actor", "ClusterRole", "actor", ALICE);
    create(&mut client, &format!("{RBAC}/clusterrolebindings"), &bound).await;
    for (token, code) in [("a", 200), ("b", 403)] {
        let request = Request::builder().uri("/version").header("host", "test").header("impersonate-user", "carol");
        let request = request.header("authorization", format!("Bearer {token}")).body(Full::default());
        assert_eq!(client.send(request.expect("a valid request")).await.status().as_u16(), code);
    }
}

/// Recorded from kube-apiserver 1.36.4.
#[tokio::test]
async fn a_refusal_names_the_first_mode_that_fits() {
    let (_server, mut client) = with_tokens().await;
    for (user, mode) in
        [("carol", "user-info"), ("system:serviceaccount:a:b", "serviceaccount"), ("system:node:n1", "arbitrary-node")]
    {
        let (code, refused) = ask(&mut client, "GET", "/api/v1/pods", &[("impersonate-user", user)]).await;
        let why = format!(
            "pods is forbidden: User \"alice\" cannot impersonate-on:{mode}:list resource \"pods\" in API group \"\" at the cluster scope"
        );
        assert_eq!((code, text(&refused, "message")), (403, why));
        assert_eq!(text(&refused, "details"), r#"{"kind":"pods"}"#);
    }
    for header in ["impersonate-group", "impersonate-uid", "impersonate-extra-a"] {
        let (code, refused) = ask(&mut client, "GET", "/api/v1/pods", &[(header, "x")]).await;
        let message = text(&refused, "message");
        assert!(code == 400 && message.ends_with("without impersonating a user name"), "{message}");
    }
}

#[tokio::test]
async fn a_constrained_impersonation_allows_the_granted_actions_only() {
    let (_server, mut client) = with_tokens().await;
    grant(
        &mut client,
        "act-as-carol",
        r#"{"apiGroups":["authentication.k8s.io"],"resources":["users"],"resourceNames":["carol"],"verbs":["impersonate:user-info"]},
           {"apiGroups":["authentication.k8s.io"],"resources":["selfsubjectreviews"],"verbs":["impersonate-on:user-info:create"]},
           {"apiGroups":["authentication.k8s.io"],"resources":["groups"],"resourceNames":["dev"],"verbs":["impersonate:user-info"]}"#,
    )
    .await;
    let carol = ("impersonate-user", "carol");
    let (code, me) = ask(&mut client, "POST", WHO_AM_I, &[carol, ("impersonate-group", "dev")]).await;
    assert_eq!((code, text(&me, "status/userInfo/username").as_str()), (201, "carol"), "{me}");
    assert_eq!(text(&me, "status/userInfo/groups"), r#"["dev","system:authenticated"]"#);
    let refused = async |client: &mut Client, headers: &[(&str, &str)]| {
        let (code, refused) = ask(client, "POST", WHO_AM_I, headers).await;
        assert_eq!(code, 403, "{refused}");
        text(&refused, "message")
    };
    let dave = refused(&mut client, &[("impersonate-user", "dave")]).await;
    assert!(dave.contains(r#"cannot impersonate:user-info resource "users" in API group "authentication.k8s.io""#));
    let masters = refused(&mut client, &[carol, ("impersonate-group", "system:masters")]).await;
    assert!(masters.ends_with("impersonating the system:masters group is not allowed"), "{masters}");
    let key = refused(&mut client, &[carol, ("impersonate-extra-reason", "test")]).await;
    assert!(key.contains("impersonating an invalid key in extra is not allowed"), "{key}");
    let (code, other) = ask(&mut client, "GET", "/api/v1/pods", &[carol]).await;
    assert!(code == 403 && text(&other, "message").contains("impersonate-on:user-info:list"), "{other}");
}

#[tokio::test]
async fn nodes_and_service_accounts_have_modes_of_their_own() {
    let (_server, mut client) = with_tokens().await;
    grant(
        &mut client,
        "act-as-others",
        r#"{"apiGroups":["authentication.k8s.io"],"resources":["nodes"],"verbs":["impersonate:arbitrary-node"]},
           {"apiGroups":["authentication.k8s.io"],"resources":["serviceaccounts"],"verbs":["impersonate:serviceaccount"]},
           {"apiGroups":["authentication.k8s.io"],"resources":["users"],"verbs":["impersonate:user-info"]},
           {"apiGroups":["authentication.k8s.io"],"resources":["selfsubjectreviews"],
            "verbs":["impersonate-on:arbitrary-node:create","impersonate-on:serviceaccount:create"]}"#,
    )
    .await;
    for (user, groups) in [
        ("system:node:n1", r#"["system:nodes","system:authenticated"]"#),
        (
            "system:serviceaccount:a:b",
            r#"["system:serviceaccounts","system:serviceaccounts:a","system:authenticated"]"#,
        ),
    ] {
        let (code, me) = ask(&mut client, "POST", WHO_AM_I, &[("impersonate-user", user)]).await;
        assert_eq!((code, text(&me, "status/userInfo/groups").as_str()), (201, groups), "{me}");
    }
    // With groups, only the older verb remains.
    let headers = [("impersonate-user", "system:node:n1"), ("impersonate-group", "dev")];
    let (code, refused) = ask(&mut client, "POST", WHO_AM_I, &headers).await;
    assert!(code == 403 && text(&refused, "message").contains(r#"cannot impersonate resource "users""#), "{refused}");
}

#[tokio::test]
async fn a_service_account_impersonates_the_node_of_its_pod() {
    let (_server, mut client) = server().await;
    create(
        &mut client,
        &format!("{RBAC}/clusterroles"),
        r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"agent"},"rules":[
           {"apiGroups":["authentication.k8s.io"],"resources":["nodes"],"resourceNames":["*"],"verbs":["impersonate:associated-node"]},
           {"apiGroups":["authentication.k8s.io"],"resources":["selfsubjectreviews"],"verbs":["impersonate-on:associated-node:create"]}]}"#,
    )
    .await;
    let agent = r#"{"kind":"ServiceAccount","name":"agent","namespace":"default"}"#;
    let bound = binding("ClusterRoleBinding", "agent", "ClusterRole", "agent", agent);
    create(&mut client, &format!("{RBAC}/clusterrolebindings"), &bound).await;
    let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"agent"}}"#;
    create(&mut client, "/api/v1/namespaces/default/serviceaccounts", account).await;
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},
        "spec":{"nodeName":"n1","serviceAccountName":"agent","containers":[{"name":"c","image":"i"}]}}"#;
    create(&mut client, "/api/v1/namespaces/default/pods", pod).await;
    create(&mut client, "/api/v1/nodes", r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}"#).await;
    let (_, pod) = client.call("GET", "/api/v1/namespaces/default/pods/p", "").await;
    let request = format!(
        r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{{"boundObjectRef":
            {{"apiVersion":"v1","kind":"Pod","name":"p","uid":"{}"}}}}}}"#,
        text(&pod, "metadata/uid")
    );
    let path = "/api/v1/namespaces/default/serviceaccounts/agent/token";
    let (code, issued) = client.call("POST", path, &request).await;
    assert_eq!(code, 201, "{issued}");
    let token = text(&issued, "status/token");
    for (node, code) in [("n1", 201), ("n2", 403)] {
        let request = Request::post(WHO_AM_I).header("host", "test").header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {token}"));
        let request = request.header("impersonate-user", format!("system:node:{node}"));
        let body = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
        let response = client.send(request.body(Full::from(body)).expect("a valid request")).await;
        assert_eq!(response.status().as_u16(), code, "{node}");
        response.into_body().collect().await.expect("the body ends");
    }
}

#[tokio::test]
async fn impersonated_names_may_have_any_characters() {
    let (_server, mut client) = server().await;
    let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let mut ask = async |name: &[u8]| {
        let request = Request::builder().method("POST").uri("/apis/authentication.k8s.io/v1/selfsubjectreviews");
        let request = request.header("host", "test").header("content-type", "application/json");
        let request =
            request.header("impersonate-user", hyper::header::HeaderValue::from_bytes(name).expect("a header"));
        let response = client.send(request.body(Full::from(Bytes::from(review))).expect("a valid request")).await;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.expect("the body ends").to_bytes();
        (code, text(&Value::from_json(&body).expect("JSON"), "status/userInfo/username"))
    };
    // Go clients send names unencoded.
    assert_eq!(ask("jürgen".as_bytes()).await, (201, "jürgen".to_owned()));
    assert_eq!(ask(b"j\xfcrgen").await.0, 400, "and never as who asks");
}
