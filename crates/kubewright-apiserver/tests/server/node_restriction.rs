//! The admission plugin NodeRestriction.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use kubewright_apiserver::{AdmissionPlugin, ApiServer, AuthorizationMode, AuthorizationModes};
use kubewright_core::Value;

use crate::client::{Client, text};

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Sends a request of the kubelet of the node `n1`.
async fn as_kubelet(client: &mut Client, method: &str, path: &str, body: &str) -> (u16, String) {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request =
        Request::builder().method(method).uri(path).header("host", "test").header("content-type", content_type);
    let request = request.header("impersonate-user", "system:node:n1").header("impersonate-group", "system:nodes");
    let response = client.send(request.body(Full::<Bytes>::from(body.to_owned())).expect("a valid request")).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("the body ends").to_bytes();
    (code, text(&Value::from_json(&body).unwrap_or_default(), "message"))
}

#[tokio::test]
async fn a_kubelet_changes_its_own_node_and_pods_only() {
    let server = ApiServer::in_memory()
        .enable_admission_plugin(AdmissionPlugin::NodeRestriction)
        .authorization_modes(AuthorizationModes::new([AuthorizationMode::AlwaysAllow]))
        .start()
        .await
        .expect("it starts");
    let mut client = Client::over(server.connect()).await;
    let node = |name: &str, labels: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}","labels":{labels}}}}}"#)
    };
    let refused = |(code, message): (u16, String), why: &str| {
        assert!(code == 403 && message.ends_with(why), "{code} {message:?} is not about {why:?}");
    };
    let other = as_kubelet(&mut client, "POST", NODES, &node("n2", "{}")).await;
    refused(other, r#"nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2""#);
    let label = r#"{"node-restriction.kubernetes.io/zone":"a"}"#;
    let labelled = as_kubelet(&mut client, "POST", NODES, &node("n1", label)).await;
    refused(labelled, r#"is not allowed to set the following labels: node-restriction.kubernetes.io/zone"#);
    let label = r#"{"kubernetes.io/os":"linux"}"#;
    assert_eq!(as_kubelet(&mut client, "POST", NODES, &node("n1", label)).await.0, 201);
    let own = format!("{NODES}/n1");
    let relabelled = as_kubelet(&mut client, "PATCH", &own, r#"{"metadata":{"labels":{"k8s.io/x":"1"}}}"#).await;
    refused(relabelled, "is not allowed to modify labels: k8s.io/x");
    let untainted = as_kubelet(&mut client, "PATCH", &own, r#"{"spec":{"taints":[]}}"#).await;
    refused(untainted, r#"node "n1" is not allowed to modify taints"#);
    let status = r#"{"status":{"phase":"Running"}}"#;
    assert_eq!(as_kubelet(&mut client, "PATCH", &format!("{own}/status"), status).await.0, 200);

    let pod = |name: &str, node: &str, metadata: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"{metadata}}},
            "spec":{{"nodeName":"{node}","containers":[{{"name":"c","image":"i"}}]}}}}"#
        )
    };
    refused(
        as_kubelet(&mut client, "POST", PODS, &pod("p", "n1", "")).await,
        r#"pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods"#,
    );
    let (_, found) = client.call("GET", &own, "").await;
    let uid = text(&found, "metadata/uid");
    let mirror = |uid: &str| {
        format!(
            r#","annotations":{{"kubernetes.io/config.mirror":"x"}},"ownerReferences":[{{"apiVersion":"v1",
            "kind":"Node","name":"n1","uid":"{uid}","controller":true}}]"#
        )
    };
    let forged = as_kubelet(&mut client, "POST", PODS, &pod("mirror", "n1", &mirror("other"))).await;
    refused(forged, &format!("node n1 UID mismatch: expected other got {uid}"));
    assert_eq!(as_kubelet(&mut client, "POST", PODS, &pod("mirror", "n1", &mirror(&uid))).await.0, 201);

    for name in ["here", "there"] {
        let node = if name == "here" { "n1" } else { "n2" };
        assert_eq!(client.call("POST", PODS, &pod(name, node, "")).await.0, 201);
    }
    assert_eq!(as_kubelet(&mut client, "PATCH", &format!("{PODS}/here/status"), status).await.0, 200);
    refused(
        as_kubelet(&mut client, "PATCH", &format!("{PODS}/there/status"), status).await,
        r#"node "n1" can only update pod status for pods with spec.nodeName set to itself"#,
    );
    let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    refused(
        as_kubelet(&mut client, "PATCH", &format!("{PODS}/here/status"), label).await,
        r#"node "n1" cannot update labels through pod status"#,
    );
    refused(
        as_kubelet(&mut client, "PATCH", &format!("{PODS}/here"), label).await,
        r#"unexpected operation "UPDATE", node "n1" can only create and delete mirror pods"#,
    );
    refused(
        as_kubelet(&mut client, "DELETE", &format!("{PODS}/there"), "").await,
        r#"node "n1" can only delete pods with spec.nodeName set to itself"#,
    );
    let eviction = r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"there"}}"#;
    refused(
        as_kubelet(&mut client, "POST", &format!("{PODS}/there/eviction"), eviction).await,
        "node n1 can only evict pods with spec.nodeName set to itself",
    );
    assert_eq!(as_kubelet(&mut client, "DELETE", &format!("{PODS}/here?gracePeriodSeconds=0"), "").await.0, 200);

    let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a"}}"#;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(client.call("POST", accounts, account).await.0, 201);
    let token = as_kubelet(&mut client, "POST", &format!("{accounts}/a/token"), r#"{"spec":{}}"#).await;
    refused(token, "node requested token not bound to a pod");
    let lease = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"n2"}}"#;
    let leases = |namespace: &str| format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    refused(
        as_kubelet(&mut client, "POST", &leases("default"), lease).await,
        r#"can only access leases in the "kube-node-lease" system namespace"#,
    );
    refused(
        as_kubelet(&mut client, "POST", &leases("kube-node-lease"), lease).await,
        "can only access node lease with the same name as the requesting node",
    );
    // Others are not restricted.
    assert_eq!(client.call("POST", &leases("default"), lease).await.0, 201);
}

#[tokio::test]
async fn an_expression_asks_the_authorizer_with_selectors() {
    let modes = AuthorizationModes::new([AuthorizationMode::Node, AuthorizationMode::Rbac]);
    let server = ApiServer::in_memory().authorization_modes(modes).start().await.expect("it starts");
    let mut client = Client::over(server.connect()).await;
    // A kubelet may list the pods of its node, and no others.
    let pods = "authorizer.group('').resource('pods')";
    let validations = [
        format!("{pods}.fieldSelector('spec.nodeName=n1').check('list').allowed()"),
        format!("!{pods}.check('list').allowed()"),
        format!("!{pods}.fieldSelector('spec.nodeName=n2').check('list').allowed()"),
        format!("!{pods}.fieldSelector('not a selector').check('list').allowed()"),
    ];
    let validations = validations.map(|expression| format!(r#"{{"expression":"{expression}"}}"#)).join(",");
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let policy = format!(
        r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{{"name":"p"}},
        "spec":{{"matchConstraints":{{"resourceRules":[{{"apiGroups":["coordination.k8s.io"],"apiVersions":["v1"],
        "operations":["CREATE"],"resources":["leases"]}}]}},"validations":[{validations}]}}}}"#
    );
    let (code, made) = client.call("POST", &format!("{admission}/validatingadmissionpolicies"), &policy).await;
    assert_eq!(code, 201, "{made}");
    let binding = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding",
        "metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Deny"]}}"#;
    let (code, made) = client.call("POST", &format!("{admission}/validatingadmissionpolicybindings"), binding).await;
    assert_eq!(code, 201, "{made}");
    let lease = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"n1"}}"#;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    assert_eq!(as_kubelet(&mut client, "POST", leases, lease).await, (201, String::new()));
    let (code, refused) = client.call("POST", leases, &lease.replace("n1", "other")).await;
    assert!(code == 422 && text(&refused, "message").contains("failed expression: !authorizer"), "{refused}");
}
