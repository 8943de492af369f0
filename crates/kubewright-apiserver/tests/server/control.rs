//! Admission policies and webhooks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kubewright_core::{ByteString, Value};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::client::{CONFIG_MAPS, Client, config_map, server, text};

pub const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";

pub async fn put_in_force(client: &mut Client, spec: &str, binding: &str) {
    let policy = format!(
        r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{{"name":"p"}},
        "spec":{{"matchConstraints":{{"resourceRules":[{{"apiGroups":[""],"apiVersions":["v1"],
        "operations":["CREATE","UPDATE"],"resources":["configmaps"]}}]}},{spec}}}}}"#
    );
    let (code, answer) = client.call("POST", &format!("{REGISTRATION}/validatingadmissionpolicies"), &policy).await;
    assert_eq!(code, 201, "{answer}");
    let binding = format!(
        r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding",
        "metadata":{{"name":"b"}},"spec":{{"policyName":"p",{binding}}}}}"#
    );
    let (code, answer) =
        client.call("POST", &format!("{REGISTRATION}/validatingadmissionpolicybindings"), &binding).await;
    assert_eq!(code, 201, "{answer}");
}

#[tokio::test]
async fn a_policy_rejects_violations() {
    let (_server, mut client) = server().await;
    let spec = r#""variables":[{"name":"owner","expression":"object.metadata.labels['owner']"}],
        "matchConditions":[{"name":"not-exempt","expression":"!object.metadata.name.startsWith('exempt')"}],
        "validations":[{"expression":"request.operation != 'CREATE' || variables.owner == request.userInfo.username",
        "messageExpression":"'belongs to ' + variables.owner"},
        {"expression":"oldObject == null || has(object.data)","message":"no data","reason":"Forbidden"}]"#;
    put_in_force(&mut client, spec, r#""validationActions":["Deny"]"#).await;
    let (code, refused) = client.call("POST", CONFIG_MAPS, &config_map("a", r#","labels":{"owner":"jane"}"#)).await;
    let want = r#"configmaps "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: belongs to jane"#;
    assert_eq!((code, text(&refused, "message").as_str()), (422, want));
    let mine = config_map("a", r#","labels":{"owner":"kubernetes-admin"}"#);
    assert_eq!(client.call("POST", CONFIG_MAPS, &mine).await.0, 201);
    let (code, refused) =
        client.call("PATCH", &format!("{CONFIG_MAPS}/a"), r#"{"metadata":{"labels":{"x":"y"}}}"#).await;
    assert_eq!((code, text(&refused, "reason").as_str()), (403, "Forbidden"));
    // An error in a variable fails only the expressions that use it, subject to the failure policy.
    let (code, refused) = client.call("POST", CONFIG_MAPS, &config_map("c", "")).await;
    assert_eq!(code, 422);
    assert!(text(&refused, "message").contains("resulted in error: no such key: labels"), "{refused}");
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("exempt", "")).await.0, 201);
}

#[tokio::test]
async fn a_policy_may_take_parameters_and_only_warn() {
    let (_server, mut client) = server().await;
    let limit = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"limit"},"data":{"max":"1"}}"#;
    assert_eq!(client.call("POST", CONFIG_MAPS, limit).await.0, 201);
    let spec = r#""paramKind":{"apiVersion":"v1","kind":"ConfigMap"},
        "validations":[{"expression":"object.?data.orValue({}).size() <= int(params.data.max)"}]"#;
    let binding = r#""validationActions":["Warn"],"paramRef":{"name":"limit","parameterNotFoundAction":"Deny"}"#;
    put_in_force(&mut client, spec, binding).await;
    let large = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1","b":"2"}}"#;
    let request = Request::post(CONFIG_MAPS).header("host", "test").header("content-type", "application/json");
    let response = client.send(request.body(Full::from(large)).expect("a valid request")).await;
    assert_eq!(response.status().as_u16(), 201);
    let warning = response.headers()["warning"].to_str().expect("plain text").to_owned();
    assert!(warning.contains("Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b'"), "{warning}");
}

#[tokio::test]
async fn a_policy_can_use_the_authorizer() {
    let (_server, mut client) = server().await;
    let spec = r#""validations":[{"expression":"authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"},
        {"expression":"!authorizer.serviceAccount('default', 'robot').requestResource().check('create').allowed()"},
        {"expression":"authorizer.serviceAccount('default', 'robot').path('/healthz').check('get').allowed()",
        "message":"asked"}]"#;
    put_in_force(&mut client, spec, r#""validationActions":["Deny"]"#).await;
    let (code, answer) = client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    assert_eq!(code, 201, "{answer}");
}

#[tokio::test]
async fn an_invalid_policy_is_rejected() {
    let (_server, mut client) = server().await;
    let policy = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy",
        "metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],
        "operations":["*"],"resources":["pods"]}]},"validations":[{"expression":"object +"}]}}"#;
    let (code, refused) = client.call("POST", &format!("{REGISTRATION}/validatingadmissionpolicies"), policy).await;
    assert_eq!(code, 422);
    assert!(
        text(&refused, "message")
            .contains("spec.validations[0].expression: Invalid value: \"object +\": compilation failed")
    );
}

/// A webhook server that responds with a function, and its client configuration.
pub struct Hook {
    pub config: String,
    pub seen: Arc<Mutex<Vec<Value>>>,
    /// Number of accepted connections.
    pub connections: Arc<AtomicUsize>,
}

/// TLS with a new self-signed certificate, which is also the CA bundle.
pub fn self_signed_tls() -> (TlsAcceptor, ByteString) {
    let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("known versions")
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .expect("a certificate and its key");
    (TlsAcceptor::from(Arc::new(tls)), ByteString::from(certified.cert.pem().as_str()))
}

impl Hook {
    /// Starts a server. `answer` returns the fields of the response besides `uid`.
    pub async fn start(answer: impl Fn(&Value) -> String + Send + Sync + 'static) -> Hook {
        let (acceptor, bundle) = self_signed_tls();
        let bundle = bundle.to_base64();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (seen, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let requests = Arc::clone(&seen);
        let connections = Arc::<AtomicUsize>::default();
        let accepted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::Relaxed);
                let (acceptor, answer, requests) = (acceptor.clone(), Arc::clone(&answer), Arc::clone(&requests));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else { return };
                    let respond = service_fn(move |request: Request<Incoming>| {
                        let (answer, requests) = (Arc::clone(&answer), Arc::clone(&requests));
                        async move {
                            let body = request.into_body().collect().await.expect("a whole body").to_bytes();
                            let review = Value::from_json(&body).expect("a review");
                            let request = review.get("request").cloned().unwrap_or_default();
                            let response = format!(
                                r#"{{"response":{{"uid":{},{}}}}}"#,
                                request.get("uid").expect("a uid"),
                                answer(&request)
                            );
                            requests.lock().expect("no panic before").push(request);
                            Ok::<_, hyper::Error>(Response::new(Full::<Bytes>::from(response)))
                        }
                    });
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), respond).await;
                });
            }
        });
        let config = format!(r#"{{"url":"https://127.0.0.1:{}/review","caBundle":"{bundle}"}}"#, address.port());
        Hook { config, seen, connections }
    }

    /// Registers the webhook for config maps. `more` is further JSON after a comma.
    pub async fn register(&self, client: &mut Client, kind: &str, more: &str) {
        let rules = r#"{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["configmaps"]}"#;
        self.register_for(client, kind, rules, more).await;
    }

    /// Registers the webhook for these rules. `more` is further JSON after a comma.
    pub async fn register_for(&self, client: &mut Client, kind: &str, rules: &str, more: &str) {
        let body = format!(
            r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"{kind}WebhookConfiguration","metadata":{{"name":"w"}},
            "webhooks":[{{"name":"w.example.com","clientConfig":{},"sideEffects":"None","admissionReviewVersions":["v1"],
            "rules":[{rules}]{more}}}]}}"#,
            self.config
        );
        let path = format!("{REGISTRATION}/{}webhookconfigurations", kind.to_lowercase());
        let (code, answer) = client.call("POST", &path, &body).await;
        assert_eq!(code, 201, "{answer}");
    }
}

#[tokio::test]
async fn a_mutating_webhook_changes_objects() {
    let (_server, mut client) = server().await;
    let patch = ByteString::from(r#"[{"op":"add","path":"/data","value":{"by":"webhook"}}]"#).to_base64();
    let hook =
        Hook::start(move |_| format!(r#""allowed":true,"patchType":"JSONPatch","patch":"{patch}","warnings":["w"]"#))
            .await;
    hook.register(&mut client, "Mutating", r#","objectSelector":{"matchLabels":{"hooked":"yes"}}"#).await;
    let (code, plain) = client.call("POST", CONFIG_MAPS, &config_map("plain", "")).await;
    assert_eq!((code, text(&plain, "data").as_str()), (201, ""));
    let (code, hooked) = client.call("POST", CONFIG_MAPS, &config_map("a", r#","labels":{"hooked":"yes"}"#)).await;
    assert_eq!((code, text(&hooked, "data/by").as_str()), (201, "webhook"));
    let seen = hook.seen.lock().expect("no panic before").clone();
    assert_eq!(seen.len(), 1);
    assert_eq!((text(&seen[0], "operation"), text(&seen[0], "object/metadata/name")), ("CREATE".into(), "a".into()));
    let (code, changed) = client.call("PATCH", &format!("{CONFIG_MAPS}/a"), r#"{"data":{"by":"me"}}"#).await;
    assert_eq!((code, text(&changed, "data/by").as_str()), (200, "webhook"));
}

/// Go reads bytes from base64 and from arrays of numbers. kube-rs writes arrays.
#[tokio::test]
async fn the_patch_of_a_webhook_may_be_an_array_of_bytes() {
    for (patch, code) in [
        (format!("{:?}", r#"[{"op":"add","path":"/data","value":{"by":"webhook"}}]"#.as_bytes()), 201),
        ("[]".to_owned(), 201),
        ("[256]".to_owned(), 500),
        ("{}".to_owned(), 500),
    ] {
        let (_server, mut client) = server().await;
        let answer = format!(r#""allowed":true,"patchType":"JSONPatch","patch":{patch}"#);
        let hook = Hook::start(move |_| answer.clone()).await;
        hook.register(&mut client, "Mutating", "").await;
        let (found, made) = client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
        assert_eq!(found, code, "{patch}: {made}");
        if patch.len() > 10 {
            assert_eq!(text(&made, "data/by"), "webhook");
        }
    }
}

#[tokio::test]
async fn a_webhook_is_matched_against_earlier_changes() {
    let (_server, mut client) = server().await;
    let hook = |patch: &str| {
        let patch = ByteString::from(patch).to_base64();
        Hook::start(move |_| format!(r#""allowed":true,"patchType":"JSONPatch","patch":"{patch}""#))
    };
    let paints = hook(r#"[{"op":"add","path":"/metadata/labels/colour","value":"red"}]"#).await;
    let fills = hook(r#"[{"op":"add","path":"/data","value":{"by":"fills"}}]"#).await;
    let webhook = |name: &str, hook: &Hook, more: &str| {
        format!(
            r#"{{"name":"{name}.example.com","clientConfig":{},"sideEffects":"None","admissionReviewVersions":["v1"],
            "rules":[{{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}}]{more}}}"#,
            hook.config
        )
    };
    let body = format!(
        r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{{"name":"w"}},
        "webhooks":[{},{},{}]}}"#,
        webhook("paints", &paints, r#","reinvocationPolicy":"IfNeeded""#),
        webhook("fills", &fills, r#","objectSelector":{"matchLabels":{"colour":"red"}}"#),
        webhook(
            "never",
            &fills,
            r#","objectSelector":{"matchExpressions":[{"key":"colour","operator":"DoesNotExist"}]}"#
        ),
    );
    let path = format!("{REGISTRATION}/mutatingwebhookconfigurations");
    assert_eq!(client.call("POST", &path, &body).await.0, 201);
    let (code, map) = client.call("POST", CONFIG_MAPS, &config_map("a", r#","labels":{"own":"yes"}"#)).await;
    assert_eq!((code, text(&map, "data/by").as_str()), (201, "fills"), "{map}");
    let seen = |hook: &Hook, field: &str| {
        let seen = hook.seen.lock().expect("no panic before");
        seen.iter().map(|request| text(request, field)).collect::<Vec<_>>()
    };
    assert_eq!(seen(&fills, "object/metadata/labels/colour"), ["red"], "once, and not by who wants it unpainted");
    assert_eq!(seen(&paints, "object/data/by"), ["", "fills"], "again, since the object was changed after it");
}

#[tokio::test]
async fn a_validating_webhook_refuses_writes_and_deletions() {
    let (_server, mut client) = server().await;
    let hook = Hook::start(|request| {
        let is_bad = text(request, "object/data/bad") == "yes" || text(request, "operation") == "DELETE";
        if is_bad {
            r#""allowed":false,"status":{"code":403,"message":"no way"}"#.to_owned()
        } else {
            r#""allowed":true"#.to_owned()
        }
    })
    .await;
    hook.register(
        &mut client,
        "Validating",
        r#","matchConditions":[{"name":"c","expression":"request.name != 'free'"}]"#,
    )
    .await;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("a", "")).await.0, 201);
    let (code, refused) = client.call("PATCH", &format!("{CONFIG_MAPS}/a"), r#"{"data":{"bad":"yes"}}"#).await;
    let want = r#"admission webhook "w.example.com" denied the request: no way"#;
    assert_eq!((code, text(&refused, "message").as_str()), (403, want));
    assert_eq!(client.call("DELETE", &format!("{CONFIG_MAPS}/a"), "").await.0, 403);
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("free", "")).await.0, 201);
    assert_eq!(client.call("DELETE", &format!("{CONFIG_MAPS}/free"), "").await.0, 200);
    let (_, stored) = client.call("GET", &format!("{CONFIG_MAPS}/a"), "").await;
    assert_eq!(text(&stored, "data"), "");
}

#[tokio::test]
async fn the_failure_policy_decides_about_an_unreachable_webhook() {
    let (_server, mut client) = server().await;
    let hook = Hook::start(|_| r#""allowed":true"#.to_owned()).await;
    let nobody = Hook {
        config: r#"{"url":"https://127.0.0.1:1/"}"#.to_owned(),
        seen: Arc::clone(&hook.seen),
        connections: Arc::default(),
    };
    nobody.register(&mut client, "Validating", "").await;
    let (code, refused) = client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    assert_eq!(code, 500);
    assert!(text(&refused, "message").contains("failed calling webhook \"w.example.com\""), "{refused}");
    let path = format!("{REGISTRATION}/validatingwebhookconfigurations/w");
    assert_eq!(client.call("DELETE", &path, "").await.0, 200);
    nobody.register(&mut client, "Validating", r#","failurePolicy":"Ignore""#).await;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("a", "")).await.0, 201);
}

#[tokio::test]
async fn a_webhook_sees_dry_runs_and_is_called_once_per_object() {
    let (_server, mut client) = server().await;
    let hook = Hook::start(|_| r#""allowed":true"#.to_owned()).await;
    hook.register(&mut client, "Validating", "").await;
    assert_eq!(client.call("POST", &format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a", "")).await.0, 201);
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/a"), "").await.0, 404);
    for name in ["a", "b"] {
        assert_eq!(client.call("POST", CONFIG_MAPS, &config_map(name, "")).await.0, 201);
    }
    let labels = |label: &str| format!("{CONFIG_MAPS}?labelSelector={label}");
    assert_eq!(client.call("DELETE", &labels("nobody=has"), "").await.0, 200);
    assert_eq!(client.call("DELETE", CONFIG_MAPS, "").await.0, 200);
    let seen = hook.seen.lock().expect("no panic before").clone();
    let told: Vec<String> =
        seen.iter().map(|request| format!("{} {}", text(request, "operation"), text(request, "dryRun"))).collect();
    assert_eq!(told, ["CREATE true", "CREATE false", "CREATE false", "DELETE false", "DELETE false"]);
    assert!(
        seen.iter()
            .skip(3)
            .all(|request| text(request, "object") == "null" && text(request, "oldObject/kind") == "ConfigMap")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_conflicting_write_is_reviewed_again() {
    let (server, mut client) = server().await;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("a", "")).await.0, 201);
    let (asked, mut was_asked) = tokio::sync::mpsc::unbounded_channel();
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let hook = Hook::start(move |request| {
        // Delay the first review until a concurrent write has changed the object.
        if text(request, "object/data/by") == "slow" && text(request, "oldObject/data").is_empty() {
            let _ = asked.send(());
            let _ = tokio::task::block_in_place(|| waits.lock().expect("no panic before").recv());
        }
        r#""allowed":true"#.to_owned()
    })
    .await;
    hook.register(&mut client, "Validating", "").await;
    let mut other = Client::over(server.connect()).await;
    let slow =
        tokio::spawn(
            async move { client.call("PATCH", &format!("{CONFIG_MAPS}/a"), r#"{"data":{"by":"slow"}}"#).await },
        );
    was_asked.recv().await.expect("the webhook is asked");
    assert_eq!(other.call("PATCH", &format!("{CONFIG_MAPS}/a"), r#"{"data":{"with":"quick"}}"#).await.0, 200);
    go_on.send(()).expect("it waits");
    let (code, changed) = slow.await.expect("no panic");
    assert_eq!((code, text(&changed, "data").as_str()), (200, r#"{"by":"slow","with":"quick"}"#));
    let seen = hook.seen.lock().expect("no panic before").clone();
    assert_eq!(text(seen.last().expect("it was asked"), "object/data"), r#"{"by":"slow","with":"quick"}"#);
}

#[tokio::test]
async fn the_failure_policy_decides_about_a_failed_condition() {
    let (_server, mut client) = server().await;
    let hook = Hook::start(|_| r#""allowed":true"#.to_owned()).await;
    let condition = r#","matchConditions":[{"name":"c","expression":"object.metadata.labels['a'] == 'b'"}]"#;
    hook.register(&mut client, "Validating", condition).await;
    let (code, refused) = client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    assert_eq!(code, 403, "{refused}");
    assert!(text(&refused, "message").contains("resulted in error: no such key: labels"), "{refused}");
    let path = format!("{REGISTRATION}/validatingwebhookconfigurations/w");
    assert_eq!(client.call("DELETE", &path, "").await.0, 200);
    hook.register(&mut client, "Validating", &format!(r#"{condition},"failurePolicy":"Ignore""#)).await;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("a", "")).await.0, 201);
    assert!(hook.seen.lock().expect("no panic before").is_empty(), "no webhook is called");
}

#[tokio::test]
async fn an_invalid_patch_fails_regardless_of_the_failure_policy() {
    let (_server, mut client) = server().await;
    let patch = ByteString::from(r#"[{"op":"remove","path":"/none"}]"#).to_base64();
    let hook = Hook::start(move |_| format!(r#""allowed":true,"patchType":"JSONPatch","patch":"{patch}""#)).await;
    hook.register(&mut client, "Mutating", r#","failurePolicy":"Ignore""#).await;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("a", "")).await.0, 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_namespace_is_checked_before_and_after_webhook_calls() {
    let (server, mut client) = server().await;
    let namespace =
        r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","finalizers":["example.com/hold"]}}"#;
    assert_eq!(client.call("POST", "/api/v1/namespaces", namespace).await.0, 201);
    let (asked, mut was_asked) = tokio::sync::mpsc::unbounded_channel();
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let hook = Hook::start(move |_| {
        let _ = asked.send(());
        let _ = tokio::task::block_in_place(|| waits.lock().expect("no panic before").recv());
        r#""allowed":true"#.to_owned()
    })
    .await;
    hook.register(&mut client, "Mutating", "").await;
    let (code, refused) = client.call("POST", "/api/v1/namespaces/nowhere/configmaps", &config_map("a", "")).await;
    assert_eq!((code, text(&refused, "message").as_str()), (404, r#"namespaces "nowhere" not found"#));
    assert!(hook.seen.lock().expect("no panic before").is_empty(), "no webhook is called");
    let mut other = Client::over(server.connect()).await;
    let slow =
        tokio::spawn(
            async move { client.call("POST", "/api/v1/namespaces/shop/configmaps", &config_map("a", "")).await },
        );
    was_asked.recv().await.expect("the webhook is asked");
    assert_eq!(other.call("DELETE", "/api/v1/namespaces/shop", "").await.0, 200);
    go_on.send(()).expect("it waits");
    let (code, refused) = slow.await.expect("no panic");
    assert_eq!((code, text(&refused, "details/causes").contains("NamespaceTerminating")), (403, true), "{refused}");
}
