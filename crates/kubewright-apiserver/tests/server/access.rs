//! Authorization by roles and bindings.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use kubewright_core::{ByteString, Value};

use crate::client::{CONFIG_MAPS, Client, config_map, server, text};

pub(crate) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A certificate signing request and a certificate, in base64 as in the API.
pub(crate) fn request_and_certificate() -> [String; 2] {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::default();
    let request = params.serialize_request(&key).and_then(|request| request.pem()).expect("a request");
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    [request, certificate].map(|pem| ByteString::from(pem.into_bytes()).to_base64())
}

/// Sends a request as another user. PATCH is a server-side apply.
async fn call_as(client: &mut Client, user: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let content_type = if method == "PATCH" { "application/apply-patch+yaml" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("host", "test").header("impersonate-user", user);
    let request = request.header("content-type", content_type).body(Full::from(Bytes::from(body.to_owned())));
    let response = client.send(request.expect("a valid request")).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("the body ends").to_bytes();
    (code, Value::from_json(&body).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&body).as_ref())))
}

/// Creates an object from YAML, as administrator.
pub(crate) async fn create(client: &mut Client, path: &str, object: &str) {
    let (code, answer) = client.call("POST", path, object).await;
    assert_eq!(code, 201, "{answer}");
}

pub(crate) fn role(kind: &str, name: &str, verbs: &str, resources: &str) -> String {
    format!(
        r#"{{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "{kind}", "metadata": {{"name": "{name}"}},
            "rules": [{{"verbs": {verbs}, "apiGroups": [""], "resources": {resources}}}]}}"#
    )
}

pub(crate) fn binding(kind: &str, name: &str, role_kind: &str, role: &str, subject: &str) -> String {
    format!(
        r#"{{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "{kind}", "metadata": {{"name": "{name}"}},
            "roleRef": {{"apiGroup": "rbac.authorization.k8s.io", "kind": "{role_kind}", "name": "{role}"}},
            "subjects": [{subject}]}}"#
    )
}

pub(crate) const ALICE: &str = r#"{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}"#;

#[tokio::test]
async fn a_role_applies_in_its_namespace_and_a_cluster_role_everywhere() {
    let (_server, mut client) = server().await;
    let roles = format!("{RBAC}/namespaces/default");
    let reader = role("Role", "reader", r#"["get", "list"]"#, r#"["pods", "pods/log"]"#);
    create(&mut client, &format!("{roles}/roles"), &reader).await;
    let bound = binding("RoleBinding", "reader", "Role", "reader", ALICE);
    create(&mut client, &format!("{roles}/rolebindings"), &bound).await;
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(call_as(&mut client, "alice", "GET", pods, "").await.0, 200);
    let (code, refused) = call_as(&mut client, "alice", "DELETE", &format!("{pods}/web"), "").await;
    assert_eq!(code, 403);
    let why = r#"pods "web" is forbidden: User "alice" cannot delete resource "pods" in API group "" in the namespace "default""#;
    assert_eq!(text(&refused, "message"), why);
    assert_eq!(call_as(&mut client, "alice", "GET", "/api/v1/pods", "").await.0, 403);
    assert_eq!(call_as(&mut client, "bob", "GET", pods, "").await.0, 403);

    let bound = binding("ClusterRoleBinding", "view", "ClusterRole", "view", ALICE);
    create(&mut client, &format!("{RBAC}/clusterrolebindings"), &bound).await;
    assert_eq!(call_as(&mut client, "alice", "GET", "/api/v1/pods", "").await.0, 200);
    assert_eq!(call_as(&mut client, "alice", "GET", "/api/v1/secrets", "").await.0, 403);
}

#[tokio::test]
async fn service_accounts_and_groups_are_bound_too() {
    let (_server, mut client) = server().await;
    let reader = role("ClusterRole", "reader", r#"["list"]"#, r#"["nodes"]"#);
    create(&mut client, &format!("{RBAC}/clusterroles"), &reader).await;
    let account = r#"{"kind": "ServiceAccount", "namespace": "default", "name": "robot"}"#;
    let bound = binding("ClusterRoleBinding", "robot", "ClusterRole", "reader", account);
    create(&mut client, &format!("{RBAC}/clusterrolebindings"), &bound).await;
    let (nodes, robot) = ("/api/v1/nodes", "system:serviceaccount:default:robot");
    assert_eq!(call_as(&mut client, robot, "GET", nodes, "").await.0, 200);
    assert_eq!(call_as(&mut client, "system:serviceaccount:other:robot", "GET", nodes, "").await.0, 403);

    let review = r#"{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec":
        {"user": "system:serviceaccount:default:robot", "resourceAttributes": {"verb": "list", "resource": "nodes"}}}"#;
    let (_, review) = client.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review).await;
    assert_eq!(text(&review, "status/allowed"), "true");
    let why =
        r#"RBAC: allowed by ClusterRoleBinding "robot" of ClusterRole "reader" to ServiceAccount "robot/default""#;
    assert_eq!(text(&review, "status/reason"), why);
}

#[tokio::test]
async fn a_binding_to_a_missing_role_grants_nothing_and_is_reported() {
    let (_server, mut client) = server().await;
    let bound = binding("ClusterRoleBinding", "lost", "ClusterRole", "lost", ALICE);
    create(&mut client, &format!("{RBAC}/clusterrolebindings"), &bound).await;
    let (code, refused) = call_as(&mut client, "alice", "GET", "/api/v1/nodes", "").await;
    assert_eq!(code, 403);
    let why = r#": RBAC: clusterrole.rbac.authorization.k8s.io "lost" not found"#;
    assert!(text(&refused, "message").ends_with(why), "{refused}");
}

#[tokio::test]
async fn an_aggregated_role_follows_its_sources() {
    let (_server, mut client) = server().await;
    let view = format!("{RBAC}/clusterroles/view");
    let rules = |role: &Value| role.get("rules").and_then(Value::as_array).map_or(0, |rules| rules.len());
    let before = rules(&client.call("GET", &view, "").await.1);
    assert!(before > 5);
    let more = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "see-widgets", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}]}"#;
    create(&mut client, &format!("{RBAC}/clusterroles"), more).await;
    assert_eq!(rules(&client.call("GET", &view, "").await.1), before + 1);
    // Aggregation is transitive.
    let admin = client.call("GET", &format!("{RBAC}/clusterroles/admin"), "").await.1;
    assert!(admin.to_string().contains("widgets"), "{admin}");
    client.call("DELETE", &format!("{RBAC}/clusterroles/see-widgets"), "").await;
    assert_eq!(rules(&client.call("GET", &view, "").await.1), before);
}

#[tokio::test]
async fn privilege_escalation_is_rejected() {
    let (_server, mut client) = server().await;
    let bound = binding("ClusterRoleBinding", "alice", "ClusterRole", "admin", ALICE);
    create(&mut client, &format!("{RBAC}/clusterrolebindings"), &bound).await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let held = role("Role", "held", r#"["get"]"#, r#"["pods"]"#);
    assert_eq!(call_as(&mut client, "alice", "POST", &roles, &held).await.0, 201);
    let greedy = role("Role", "greedy", r#"["get", "delete"]"#, r#"["nodes"]"#);
    let (code, refused) = call_as(&mut client, "alice", "POST", &roles, &greedy).await;
    assert_eq!(code, 403);
    let why = "roles.rbac.authorization.k8s.io \"greedy\" is forbidden: user \"alice\" (groups=[\"system:authenticated\"]) is \
               attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], \
               Verbs:[\"get\" \"delete\"]}";
    assert_eq!(text(&refused, "message"), why);
    let bound = binding("RoleBinding", "all", "ClusterRole", "cluster-admin", ALICE);
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    assert_eq!(call_as(&mut client, "alice", "POST", &bindings, &bound).await.0, 403);
}

// A rule of 1,000 verbs, 1,000 resources and 1,000 names has 10^9 permissions in 20 kB.
#[tokio::test]
async fn a_role_with_too_many_permissions_is_rejected_before_expansion() {
    let (_server, mut client) = server().await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let writer = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "writer"},
        "rules": [{"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"]},
                  {"verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}]}"#;
    create(&mut client, &roles, writer).await;
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    create(&mut client, &bindings, &binding("RoleBinding", "writer", "Role", "writer", ALICE)).await;
    let many = |prefix: &str| {
        let names: Vec<String> = (0..1000).map(|number| format!("\"{prefix}{number}\"")).collect();
        format!("[{}]", names.join(","))
    };
    let (verbs, resources, names) = (many("v"), many("r"), many("n"));
    let huge = format!(
        r#"{{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {{"name": "huge"}}, "rules":
            [{{"verbs": {verbs}, "apiGroups": [""], "resources": {resources}, "resourceNames": {names}}}]}}"#
    );
    let (code, answer) = call_as(&mut client, "alice", "POST", &roles, &huge).await;
    let message = text(&answer, "message");
    assert!(code == 403 && message.contains("the rules grant 1000000000 single permissions"), "{message}");
}

#[tokio::test]
async fn a_rules_review_lists_the_rules_of_the_user() {
    let (_server, mut client) = server().await;
    let reader = role("ClusterRole", "reader", r#"["list"]"#, r#"["nodes"]"#);
    create(&mut client, &format!("{RBAC}/clusterroles"), &reader).await;
    let bound = binding("ClusterRoleBinding", "reader", "ClusterRole", "reader", ALICE);
    create(&mut client, &format!("{RBAC}/clusterrolebindings"), &bound).await;
    let review = r#"{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}}"#;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let (code, review) = call_as(&mut client, "alice", "POST", path, review).await;
    assert_eq!(code, 201);
    let rules = review.get("status").map(ToString::to_string).unwrap_or_default();
    assert!(rules.contains("nodes") && rules.contains("/healthz"), "{rules}");
}

#[tokio::test]
async fn a_certificate_request_records_its_requester() {
    let (_server, mut client) = server().await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let [pem, certificate] = request_and_certificate();
    let request = |groups: &str, usages: &str| {
        format!(
            r#"{{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{{"name":"r"}},
            "spec":{{"request":"{pem}","signerName":"example.com/s","usages":[{usages}],"username":"root",
            "uid":"0","groups":[{groups}],"extra":{{"a":["b"]}}}},
            "status":{{"certificate":"{certificate}","conditions":[{{"type":"Approved","status":"True","reason":"me"}}]}}}}"#
        )
    };
    let (code, made) = client.call("POST", requests, &request(r#""system:nodes""#, r#""client auth""#)).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(text(&made, "spec/username"), "kubernetes-admin");
    assert_eq!(text(&made, "spec/groups"), r#"["system:masters","system:authenticated"]"#);
    // A requester cannot approve their own request while creating it.
    for field in ["spec/uid", "spec/extra", "status/certificate", "status/conditions"] {
        assert_eq!(text(&made, field), "", "{field} of {made}");
    }
    // The spec is immutable.
    let version = text(&made, "metadata/resourceVersion");
    let changed = request("", r#""server auth""#)
        .replace(r#""name":"r""#, &format!(r#""name":"r","resourceVersion":"{version}""#));
    let (code, kept) = client.call("PUT", &format!("{requests}/r"), &changed).await;
    assert_eq!(code, 200, "{kept}");
    assert_eq!(text(&kept, "spec"), text(&made, "spec"));
    let approval = r#"{"status":{"conditions":[{"type":"Approved","status":"True","reason":"ok","message":"yes"}]}}"#;
    let (code, approved) = client.call("PATCH", &format!("{requests}/r/approval"), approval).await;
    assert_eq!(code, 200, "{approved}");
    assert_eq!(text(&approved, "spec"), text(&made, "spec"));
}

#[tokio::test]
async fn a_certificate_request_records_extra_attributes() {
    let (_server, mut client) = server().await;
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let body = r#"{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"c"},"spec":{
        "request":"LS0t","signerName":"example.com/s","usages":["client auth"],"username":"root","uid":"0","groups":["system:masters"],
        "extra":{"made":["up"]}}}"#;
    let body = body.replace("LS0t", &request_and_certificate()[0]);
    let request = Request::post(path).header("host", "test").header("content-type", "application/json");
    let request = request.header("impersonate-user", "jane").header("impersonate-uid", "7");
    let request =
        request.header("impersonate-group", "system:masters").header("impersonate-extra-a.io%2Fscopes", "view");
    let request = request.header("impersonate-extra-a.io%2Fscopes", "edit").header("impersonate-extra-reason", "test");
    let response = client.send(request.body(Full::from(body)).expect("a valid request")).await;
    let code = response.status().as_u16();
    let made =
        Value::from_json(&response.into_body().collect().await.expect("the body ends").to_bytes()).expect("JSON");
    assert_eq!(code, 201, "{made}");
    let said = ["username", "uid", "groups", "extra"].map(|field| text(&made, &format!("spec/{field}")));
    let extra = r#"{"a.io/scopes":["view","edit"],"reason":["test"]}"#;
    assert_eq!(said, ["jane", "7", r#"["system:masters","system:authenticated"]"#, extra]);
    // The requester is immutable.
    let change = r#"{"spec":{"username":"root","extra":null}}"#;
    let (_, kept) = client.call("PATCH", &format!("{path}/c"), change).await;
    assert_eq!([text(&kept, "spec/username"), text(&kept, "spec/extra")], ["jane", extra]);
    // A service account is in the groups of service accounts, unless the request sets other groups.
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (_, me) = call_as(
        &mut client,
        "system:serviceaccount:a:b",
        "POST",
        review,
        r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#,
    )
    .await;
    let groups = r#"["system:serviceaccounts","system:serviceaccounts:a","system:authenticated"]"#;
    assert_eq!(text(&me, "status/userInfo/groups"), groups);
}

#[tokio::test]
async fn an_apply_or_update_that_creates_needs_the_create_permission() {
    let (_server, mut client) = server().await;
    let roles = format!("{RBAC}/namespaces/default");
    let writer = role("Role", "writer", r#"["get", "patch", "update"]"#, r#"["configmaps", "endpoints"]"#);
    create(&mut client, &format!("{roles}/roles"), &writer).await;
    let bound = binding("RoleBinding", "writer", "Role", "writer", ALICE);
    create(&mut client, &format!("{roles}/rolebindings"), &bound).await;
    let path = format!("{CONFIG_MAPS}/a?fieldManager=m");
    let (code, refused) = call_as(&mut client, "alice", "PATCH", &path, &config_map("a", "")).await;
    let why = r#"configmaps "a" is forbidden: User "alice" cannot create resource "configmaps" in API group "" in the namespace "default""#;
    assert_eq!((code, text(&refused, "message").as_str()), (403, why));
    let endpoints = "/api/v1/namespaces/default/endpoints/e";
    let body = r#"{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"e"}}"#;
    assert_eq!(call_as(&mut client, "alice", "PUT", endpoints, body).await.0, 403);
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("a", "")).await.0, 201);
    assert_eq!(call_as(&mut client, "alice", "PATCH", &path, &config_map("a", "")).await.0, 200);
}

#[tokio::test]
async fn removing_a_finalizer_of_a_role_does_not_need_its_rules() {
    let (_server, mut client) = server().await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let strong = role("Role", "strong", r#"["*"]"#, r#"["secrets"]"#);
    let held = strong.replace(r#""name": "strong""#, r#""name": "strong", "finalizers": ["example.com/hold"]"#);
    create(&mut client, &roles, &held).await;
    let keeper = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "keeper"},
        "rules": [{"verbs": ["update"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}]}"#;
    create(&mut client, &format!("{RBAC}/clusterroles"), keeper).await;
    let bound = binding("ClusterRoleBinding", "keeper", "ClusterRole", "keeper", ALICE);
    create(&mut client, &format!("{RBAC}/clusterrolebindings"), &bound).await;
    let stronger = held.replace("secrets", "pods");
    assert_eq!(call_as(&mut client, "alice", "PUT", &format!("{roles}/strong"), &stronger).await.0, 403);
    let (code, answer) = call_as(&mut client, "alice", "PUT", &format!("{roles}/strong"), &strong).await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test]
async fn a_subresource_without_a_name_is_not_the_collection() {
    let (_server, mut client) = server().await;
    let executor = role("ClusterRole", "executor", r#"["*"]"#, r#"["pods/exec","*/scale"]"#);
    create(&mut client, &format!("{RBAC}/clusterroles"), &executor).await;
    let bound = binding("ClusterRoleBinding", "executor", "ClusterRole", "executor", ALICE);
    create(&mut client, &format!("{RBAC}/clusterrolebindings"), &bound).await;
    let pod =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    // This path is not a resource path.
    let (code, answer) = call_as(&mut client, "alice", "POST", "/api/v1/namespaces/default/pods//exec", pod).await;
    assert_eq!(code, 403, "{answer}");
    let (code, answer) = call_as(&mut client, "alice", "GET", "/api/v1/namespaces/default/secrets//scale", "").await;
    assert_eq!(code, 404, "{answer}");
    assert_eq!(client.call("GET", "/api/v1/namespaces/default/pods/p", "").await.0, 404, "nothing was made");
}

#[tokio::test]
async fn a_local_subject_access_review_is_limited_to_its_namespace() {
    let (_server, mut client) = server().await;
    let path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    let review = |spec: &str| {
        format!(r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"LocalSubjectAccessReview","spec":{{{spec}}}}}"#)
    };
    for (spec, want, why) in [
        (r#""user":"u","resourceAttributes":{"namespace":"default","verb":"get","resource":"pods"}"#, 201, ""),
        (
            r#""user":"u","resourceAttributes":{"namespace":"kube-system","verb":"get","resource":"pods"}"#,
            422,
            "must match metadata.namespace",
        ),
        (r#""user":"u","nonResourceAttributes":{"path":"/","verb":"get"}"#, 422, "disallowed on this kind of request"),
        (
            r#""resourceAttributes":{"namespace":"default","verb":"get","resource":"pods"}"#,
            422,
            "at least one of user or group must be specified",
        ),
    ] {
        let (code, answer) = client.call("POST", path, &review(spec)).await;
        assert_eq!(code, want, "{answer}");
        assert!(answer.to_string().contains(why), "{answer}");
    }
}

#[tokio::test]
async fn an_aggregation_rule_needs_full_authority() {
    let (_server, mut client) = server().await;
    let roles = format!("{RBAC}/clusterroles");
    let rules = |rules: &str, name: &str, more: &str| {
        format!(
            r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{{"name":"{name}"}},"rules":[{rules}]{more}}}"#
        )
    };
    let all = r#"{"verbs":["*"],"apiGroups":["*"],"resources":["services","configmaps"]},{"verbs":["get","create","update","patch"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"]}"#;
    create(&mut client, &roles, &rules(all, "much", "")).await;
    let bound = binding("ClusterRoleBinding", "much", "ClusterRole", "much", ALICE);
    create(&mut client, &format!("{RBAC}/clusterrolebindings"), &bound).await;
    let aggregation = r#","aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}"#;
    create(&mut client, &roles, &rules("", "collects", aggregation)).await;
    let (code, answer) = call_as(&mut client, "alice", "POST", &roles, &rules("", "mine", aggregation)).await;
    assert_eq!(code, 403, "{answer}");
    assert!(text(&answer, "message").contains(r#"NonResourceURLs:["*"]"#), "{answer}");
    // A role keeps its aggregated rules when its aggregation rule is removed.
    let (code, answer) =
        call_as(&mut client, "alice", "PUT", &format!("{roles}/collects"), &rules("", "collects", "")).await;
    assert_eq!(code, 403, "{answer}");
    let (code, answer) = call_as(&mut client, "alice", "POST", &roles, &rules("", "harmless", "")).await;
    assert_eq!(code, 201, "{answer}");
}

#[tokio::test]
async fn approval_needs_permission_for_the_signer() {
    let (_server, mut client) = server().await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let [pem, certificate] = request_and_certificate();
    let request = format!(
        r#"{{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{{"name":"r"}},
        "spec":{{"request":"{pem}","signerName":"example.com/s","usages":["client auth"]}}}}"#
    );
    create(&mut client, requests, &request).await;
    let role = |name: &str, rule: &str| {
        format!(
            r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{{"name":"{name}"}},
            "rules":[{{"apiGroups":["certificates.k8s.io"],{rule}}}]}}"#
        )
    };
    let parts =
        r#""verbs":["*"],"resources":["certificatesigningrequests/approval","certificatesigningrequests/status"]"#;
    create(&mut client, &format!("{RBAC}/clusterroles"), &role("parts", parts)).await;
    let bound = binding("ClusterRoleBinding", "parts", "ClusterRole", "parts", ALICE);
    create(&mut client, &format!("{RBAC}/clusterrolebindings"), &bound).await;
    let (_, made) = client.call("GET", &format!("{requests}/r"), "").await;
    let with_status = |status: &str| made.to_string().replacen(r#""status":{}"#, &format!(r#""status":{status}"#), 1);
    let condition = r#"[{"type":"Approved","status":"True","reason":"ok","message":"yes"}]"#;
    let approved = with_status(&format!(r#"{{"conditions":{condition}}}"#));
    let (code, refused) = call_as(&mut client, "alice", "PUT", &format!("{requests}/r/approval"), &approved).await;
    assert_eq!(code, 403, "{refused}");
    let want = r#"user not permitted to approve requests with signerName "example.com/s""#;
    assert!(text(&refused, "message").contains(want), "{refused}");
    let signed = with_status(&format!(r#"{{"certificate":"{certificate}"}}"#));
    assert_eq!(call_as(&mut client, "alice", "PUT", &format!("{requests}/r/status"), &signed).await.0, 403);
    let failed = with_status(r#"{"conditions":[{"type":"Failed","status":"True","reason":"r","message":"m"}]}"#);
    assert_eq!(call_as(&mut client, "alice", "PUT", &format!("{requests}/r/status"), &failed).await.0, 403);
    let signers = r#""verbs":["approve","sign"],"resources":["signers"],"resourceNames":["example.com/*"]"#;
    create(&mut client, &format!("{RBAC}/clusterroles"), &role("signers", signers)).await;
    let bound = binding("ClusterRoleBinding", "signers", "ClusterRole", "signers", ALICE);
    create(&mut client, &format!("{RBAC}/clusterrolebindings"), &bound).await;
    let (code, answer) = call_as(&mut client, "alice", "PUT", &format!("{requests}/r/approval"), &approved).await;
    assert_eq!(code, 200, "{answer}");
}
