//! Service account tokens.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_core::Value;

use crate::client::{CONFIG_MAPS, Client, server, text};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

async fn make_account(client: &mut Client) {
    let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}"#;
    assert_eq!(client.call("POST", ACCOUNTS, account).await.0, 201);
}

async fn token(client: &mut Client, spec: &str) -> (u16, Value) {
    let body = format!(r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{spec}}}"#);
    client.call("POST", &format!("{ACCOUNTS}/robot/token"), &body).await
}

async fn review(client: &mut Client, token: &str, audiences: &str) -> Value {
    let body = format!(
        r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{{"token":"{token}","audiences":{audiences}}}}}"#
    );
    client.call("POST", TOKEN_REVIEWS, &body).await.1
}

/// Status code and body of a list of config maps with this token.
async fn list_with(client: &mut Client, token: &str) -> (u16, String) {
    get_with(client, CONFIG_MAPS, token).await
}

async fn get_with(client: &mut Client, path: &str, token: &str) -> (u16, String) {
    let request = Request::get(path).header("host", "test").header("authorization", format!("Bearer {token}"));
    let response = client.send(request.body(Full::<Bytes>::default()).expect("a valid request")).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("the body ends").to_bytes();
    (code, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn a_token_is_valid_while_its_account_exists() {
    let (_server, mut client) = server().await;
    make_account(&mut client).await;
    let (code, issued) = token(&mut client, r#"{"audiences":[]}"#).await;
    assert_eq!((code, text(&issued, "spec/expirationSeconds").as_str()), (201, "3600"));
    let secret = text(&issued, "status/token");
    let (code, answer) = list_with(&mut client, &secret).await;
    assert_eq!(code, 403);
    assert!(answer.contains(r#"User \"system:serviceaccount:default:robot\" cannot list"#), "{answer}");
    let reviewed = review(&mut client, &secret, "[]").await;
    assert_eq!(text(&reviewed, "status/user/username"), "system:serviceaccount:default:robot");
    assert!(text(&reviewed, "status/user/groups").contains("system:serviceaccounts:default"));
    // A new account of the same name has a different UID.
    assert_eq!(client.call("DELETE", &format!("{ACCOUNTS}/robot"), "").await.0, 200);
    make_account(&mut client).await;
    assert_eq!(list_with(&mut client, &secret).await.0, 401);
}

#[tokio::test]
async fn a_token_is_for_its_audience_and_not_to_be_tampered_with() {
    let (_server, mut client) = server().await;
    make_account(&mut client).await;
    let (_, issued) = token(&mut client, r#"{"audiences":["vault"],"expirationSeconds":600}"#).await;
    let secret = text(&issued, "status/token");
    assert_eq!(list_with(&mut client, &secret).await.0, 401);
    let reviewed = review(&mut client, &secret, r#"["vault","other"]"#).await;
    assert_eq!(
        (text(&reviewed, "status/authenticated"), text(&reviewed, "status/audiences")),
        ("true".into(), r#"["vault"]"#.into())
    );
    let forged = secret.replacen('.', ".e30", 1);
    assert_eq!(text(&review(&mut client, &forged, r#"["vault"]"#).await, "status/authenticated"), "");
    assert_eq!(token(&mut client, r#"{"audiences":[],"expirationSeconds":60}"#).await.0, 422);
    assert_eq!(token(&mut client, r#"{"audiences":[],"boundObjectRef":{"kind":"Pod","name":"none"}}"#).await.0, 404);
}

#[tokio::test]
async fn a_token_is_bound_only_to_a_pod_of_its_account() {
    let (_server, mut client) = server().await;
    make_account(&mut client).await;
    for (name, account, code) in [("own", "robot", 201), ("other", "somebody", 400)] {
        let pod = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},
            "spec":{{"serviceAccountName":"{account}","containers":[{{"name":"c","image":"i"}}]}}}}"#
        );
        assert_eq!(client.call("POST", "/api/v1/namespaces/default/pods", &pod).await.0, 201);
        let bound = format!(r#"{{"audiences":[],"boundObjectRef":{{"kind":"Pod","name":"{name}"}}}}"#);
        assert_eq!(token(&mut client, &bound).await.0, code, "{name}");
    }
}

#[tokio::test]
async fn issued_tokens_verify_against_the_published_keys() {
    let (_server, mut client) = server().await;
    make_account(&mut client).await;
    let (code, provider) = client.call("GET", "/.well-known/openid-configuration", "").await;
    assert_eq!((code, text(&provider, "jwks_uri").as_str()), (200, "https://localhost/openid/v1/jwks"));
    let (code, keys) = client.call("GET", "/openid/v1/jwks", "").await;
    let Some(Value::Array(keys)) = keys.get("keys") else { panic!("a key set: {code} {keys}") };
    let published = &keys[0];
    assert_eq!((code, text(published, "alg").as_str()), (200, "ES256"));

    let issued = text(&token(&mut client, r#"{"audiences":[]}"#).await.1, "status/token");
    let (signed, signature) = issued.rsplit_once('.').expect("three parts");
    let header = Value::from_json(&decoded(signed.split_once('.').expect("two parts").0)).expect("JSON");
    assert_eq!(text(&header, "kid"), text(published, "kid"));
    let point = [vec![4], decoded(&text(published, "x")), decoded(&text(published, "y"))].concat();
    let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ECDSA_P256_SHA256_FIXED, point);
    key.verify(signed.as_bytes(), &decoded(signature)).expect("the key that is published has signed it");
    // Service accounts may read both. Others need a role.
    assert_eq!(get_with(&mut client, "/openid/v1/jwks", &issued).await.0, 200);
}

/// Decodes base64url.
fn decoded(text: &str) -> Vec<u8> {
    let mut text = text.replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    kubewright_core::ByteString::from_base64(text.as_bytes()).expect("base64").to_vec()
}

#[tokio::test]
async fn tokens_stay_valid_when_a_server_with_a_data_file_restarts() {
    let directory = std::env::temp_dir().join(format!("kubewright-accounts-{}", std::process::id()));
    let first = ApiServer::in_memory().data(&directory).start().await.expect("a new directory");
    let mut client = Client::over(first.connect()).await;
    make_account(&mut client).await;
    let secret = text(&token(&mut client, r#"{"audiences":[]}"#).await.1, "status/token");
    first.stop().await;
    let second = ApiServer::in_memory().data(&directory).start().await.expect("the same directory");
    let mut client = Client::over(second.connect()).await;
    assert_eq!(list_with(&mut client, &secret).await.0, 403);
    second.stop().await;
    std::fs::remove_dir_all(&directory).expect("it was made above");
}

#[tokio::test]
async fn too_many_concurrent_requests_get_429() {
    let server = ApiServer::in_memory().max_requests_in_flight(0).start().await.expect("nothing can fail");
    let mut client = Client::over(server.connect()).await;
    let request = Request::get(CONFIG_MAPS).header("host", "test").body(Full::<Bytes>::default());
    let response = client.send(request.expect("a valid request")).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (429, &"1".parse().expect("a number"))
    );
}

/// Status code and `Retry-After` of a watch, as this user or as the administrator.
async fn watch_as(server: &RunningServer, user: Option<&str>) -> (u16, Option<String>) {
    let mut client = Client::over(server.connect()).await;
    let mut request = Request::get(format!("{CONFIG_MAPS}?watch=1")).header("host", "test");
    if let Some(user) = user {
        request = request.header("impersonate-user", user);
    }
    let response = client.send(request.body(Full::<Bytes>::default()).expect("a valid request")).await;
    let retry_after = response.headers().get("retry-after").map(|value| value.to_str().expect("text").to_owned());
    (response.status().as_u16(), retry_after)
}

#[tokio::test]
async fn too_many_watches_get_429() {
    let for_users = ApiServer::in_memory().max_watches_per_user(0).start().await.expect("nothing can fail");
    assert_eq!(watch_as(&for_users, Some("jane")).await, (429, Some("1".to_owned())));
    assert_eq!(watch_as(&for_users, None).await, (200, None));
    let for_all = ApiServer::in_memory().max_watches(0).start().await.expect("nothing can fail");
    assert_eq!(watch_as(&for_all, None).await, (429, Some("1".to_owned())));
    let by_default = ApiServer::in_memory().start().await.expect("nothing can fail");
    assert_eq!(watch_as(&by_default, Some("jane")).await, (403, None));
}

#[tokio::test]
async fn pods_get_the_default_account_if_enabled() {
    let server = ApiServer::in_memory().service_accounts().start().await.expect("nothing can fail");
    let mut client = Client::over(server.connect()).await;
    let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}"#;
    assert_eq!(client.call("POST", "/api/v1/namespaces", namespace).await.0, 201);
    client.until("/api/v1/namespaces/shop/serviceaccounts/default", 200).await;
    let pod = |name: &str, more: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},
            "spec":{{"containers":[{{"name":"c","image":"i"}}]{more}}}}}"#
        )
    };
    let (code, made) = client.call("POST", "/api/v1/namespaces/shop/pods", &pod("p", "")).await;
    assert_eq!((code, text(&made, "spec/serviceAccountName").as_str()), (201, "default"));
    assert!(text(&made, "spec/volumes").contains("serviceAccountToken"), "{made}");
    assert!(text(&made, "spec/containers").contains("/var/run/secrets/kubernetes.io/serviceaccount"), "{made}");
    let (code, refused) =
        client.call("POST", "/api/v1/namespaces/shop/pods", &pod("q", r#","serviceAccountName":"none""#)).await;
    let want = r#"pods "q" is forbidden: error looking up service account shop/none: serviceaccount "none" not found"#;
    assert_eq!((code, text(&refused, "message").as_str()), (403, want));
}

#[tokio::test]
async fn a_pod_without_image_pull_secrets_gets_those_of_its_account() {
    let server = ApiServer::in_memory().service_accounts().start().await.expect("nothing can fail without a socket");
    let mut client = Client::over(server.connect()).await;
    let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"},
        "imagePullSecrets":[{"name":"one"},{"name":"two"}]}"#;
    assert_eq!(client.call("POST", ACCOUNTS, account).await.0, 201);
    for (name, own, want) in [
        ("none", "", r#"[{"name":"one"},{"name":"two"}]"#),
        ("own", r#","imagePullSecrets":[{"name":"mine"}]"#, r#"[{"name":"mine"}]"#),
    ] {
        let pod = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"serviceAccountName":"robot",
            "containers":[{{"name":"c","image":"i"}}]{own}}}}}"#
        );
        let (code, made) = client.call("POST", "/api/v1/namespaces/default/pods", &pod).await;
        assert_eq!((code, text(&made, "spec/imagePullSecrets").as_str()), (201, want), "{made}");
    }
}
