//! Deletions by controllers are subject to admission.

use std::sync::Mutex;
use std::time::Duration;

use kubewright_core::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::client::{CONFIG_MAPS, Client, config_map, server, text};
use crate::control::{Hook, REGISTRATION};

const DELETIONS: &str = r#"{"apiGroups":[""],"apiVersions":["v1"],"operations":["DELETE"],"resources":["configmaps"]}"#;

/// Creates a config map with an owner.
async fn owned(client: &mut Client, path: &str, name: &str, owner: &Value) {
    let reference = format!(
        r#","ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap","name":"{}","uid":"{}"}}]"#,
        text(owner, "metadata/name"),
        text(owner, "metadata/uid")
    );
    let kind = if path.ends_with("secrets") { "Secret" } else { "ConfigMap" };
    let object = config_map(name, &reference)
        .replace(r#""kind":"ConfigMap","metadata""#, &format!(r#""kind":"{kind}","metadata""#));
    assert_eq!(client.call("POST", path, &object).await.0, 201);
}

/// Rejects deletions of config maps whose names begin with `kept`.
async fn forbid(client: &mut Client) {
    let policy = format!(
        r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{{"name":"p"}},
        "spec":{{"matchConstraints":{{"resourceRules":[{DELETIONS}]}},"validations":[{{"message":"keep it",
        "expression":"!oldObject.metadata.name.startsWith('kept')"}}]}}}}"#
    );
    let policies = format!("{REGISTRATION}/validatingadmissionpolicies");
    assert_eq!(client.call("POST", &policies, &policy).await.0, 201);
    let binding = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding",
        "metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Deny"]}}"#;
    assert_eq!(client.call("POST", &format!("{REGISTRATION}/validatingadmissionpolicybindings"), binding).await.0, 201);
}

async fn allow(client: &mut Client) {
    let binding = format!("{REGISTRATION}/validatingadmissionpolicybindings/b");
    assert_eq!(client.call("DELETE", &binding, "").await.0, 200);
}

#[tokio::test]
async fn rejected_garbage_is_retried_until_it_may_be_deleted() {
    let (_server, mut client) = server().await;
    forbid(&mut client).await;
    let (_, owner) = client.call("POST", CONFIG_MAPS, &config_map("owner", "")).await;
    owned(&mut client, CONFIG_MAPS, "kept", &owner).await;
    owned(&mut client, CONFIG_MAPS, "not-kept", &owner).await;
    client.call("DELETE", &format!("{CONFIG_MAPS}/owner"), "").await;
    client.until(&format!("{CONFIG_MAPS}/not-kept"), 404).await;
    sleep(Duration::from_millis(200)).await;
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/kept"), "").await.0, 200);
    allow(&mut client).await;
    client.until(&format!("{CONFIG_MAPS}/kept"), 404).await;
}

#[tokio::test]
async fn a_namespace_reports_why_its_content_remains() {
    let (_server, mut client) = server().await;
    forbid(&mut client).await;
    let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}"#;
    assert_eq!(client.call("POST", "/api/v1/namespaces", namespace).await.0, 201);
    let inside = "/api/v1/namespaces/shop/configmaps";
    for name in ["kept", "kept-too", "other"] {
        assert_eq!(client.call("POST", inside, &config_map(name, "")).await.0, 201);
    }
    client.call("DELETE", "/api/v1/namespaces/shop", "").await;
    client.until(&format!("{inside}/other"), 404).await;
    sleep(Duration::from_millis(100)).await;
    let (_, shop) = client.call("GET", "/api/v1/namespaces/shop", "").await;
    let conditions = shop.get("status").and_then(|status| status.get("conditions")).and_then(Value::as_array);
    let said = |kind: &str| {
        let found = conditions.into_iter().flat_map(|list| list.iter()).find(|one| text(one, "type") == kind);
        found.map(|one| ["status", "reason", "message"].map(|field| text(one, field)).join(" ")).unwrap_or_default()
    };
    assert_eq!(
        said("NamespaceDeletionContentFailure"),
        "True ContentDeletionFailed Failed to delete all resource types, 1 remaining: configmaps \"kept\" is forbidden: \
         ValidatingAdmissionPolicy 'p' with binding 'b' denied request: keep it"
    );
    assert_eq!(
        said("NamespaceContentRemaining"),
        "True SomeResourcesRemain Some resources are remaining: configmaps. has 2 resource instances"
    );
    allow(&mut client).await;
    client.until("/api/v1/namespaces/shop", 404).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slow_webhook_does_not_block_other_deletions() {
    let (_server, mut client) = server().await;
    let (asked, mut was_asked) = mpsc::unbounded_channel();
    let (answer, answers) = watch::channel("");
    let answers = Mutex::new(answers);
    let hook = Hook::start(move |request| {
        let _ = asked.send(text(request, "userInfo/username"));
        let mut answers = answers.lock().expect("no panic before").clone();
        let wait =
            async { answers.wait_for(|answer| !answer.is_empty()).await.map(|answer| *answer).unwrap_or_default() };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(wait)).to_owned()
    })
    .await;
    let secrets = "/api/v1/namespaces/default/secrets";
    // Create the owners before the webhook is registered, so that their deletion needs no review.
    let (_, owner) = client.call("POST", CONFIG_MAPS, &config_map("owner", "")).await;
    let (_, other) = client.call("POST", CONFIG_MAPS, &config_map("other", "")).await;
    let hold = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
    for (path, name, owner) in [(CONFIG_MAPS, "map", &owner), (secrets, "quick", &other)] {
        owned(&mut client, path, name, owner).await;
        let owner = format!("{CONFIG_MAPS}/{}", text(owner, "metadata/name"));
        assert_eq!(client.call("PATCH", &owner, hold).await.0, 200);
        assert_eq!(client.call("DELETE", &owner, "").await.0, 200);
    }
    hook.register_for(&mut client, "Validating", DELETIONS, "").await;
    let release = r#"{"metadata":{"finalizers":null}}"#;
    client.call("PATCH", &format!("{CONFIG_MAPS}/owner"), release).await;
    let mut asked_by = async || {
        let asked = tokio::time::timeout(Duration::from_secs(10), was_asked.recv()).await;
        asked.expect("the webhook is asked").expect("it is there")
    };
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    assert_eq!(asked_by().await, collector);
    client.call("PATCH", &format!("{CONFIG_MAPS}/other"), release).await;
    client.until(&format!("{secrets}/quick"), 404).await;
    answer.send_replace(r#""allowed":false"#);
    assert_eq!(asked_by().await, collector, "it is tried again");
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/map"), "").await.0, 200);
    answer.send_replace(r#""allowed":true"#);
    client.until(&format!("{CONFIG_MAPS}/map"), 404).await;
}
