//! Objects stored by an older server can still be updated.

use redb::{Database, ReadableTable, TableDefinition};

use crate::client::{Client, text};
use crate::durable::{Directory, start};

const PODS: &str = "/api/v1/namespaces/default/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
/// The current tables of the data file, and those of format 1, without checksums.
const OBJECTS: TableDefinition<'_, (&str, &str), (u64, u32, &[u8])> = TableDefinition::new("objects.2");
const OBJECTS_1: TableDefinition<'_, (&str, &str), (u64, &[u8])> = TableDefinition::new("objects");
const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("kubewright");

/// Converts the data file to format 1.
fn downgrade(directory: &Directory) {
    let database = Database::open(directory.0.join("objects.redb")).expect("its server has stopped");
    let transaction = database.begin_write().expect("there is no other writer");
    {
        let objects = transaction.open_table(OBJECTS).expect("it has objects");
        let mut older = transaction.open_table(OBJECTS_1).expect("it can be created");
        for entry in objects.iter().expect("they can be read") {
            let (key, value) = entry.expect("it can be read");
            let (revision, _, json) = value.value();
            older.insert(key.value(), (revision, json)).expect("there is room");
        }
        transaction.open_table(FACTS).expect("it has facts").insert("format", 1).expect("there is room");
    }
    transaction.delete_table(OBJECTS).expect("it is there");
    transaction.commit().expect("it can be written");
}

/// Replaces text in all stored objects of a resource. Fails if a text is missing.
fn rewrite(directory: &Directory, resource: &str, words: &[(&str, &str)]) {
    let database = Database::open(directory.0.join("objects.redb")).expect("its server has stopped");
    let transaction = database.begin_write().expect("there is no other writer");
    {
        let mut objects = transaction.open_table(OBJECTS_1).expect("it has objects");
        let all = objects.iter().expect("they can be read").map(|entry| entry.expect("it can be read"));
        let all: Vec<_> = all
            .filter(|(key, _)| key.value().0.starts_with(resource))
            .map(|(key, value)| {
                let (revision, json) = value.value();
                let json = String::from_utf8(json.to_vec()).expect("it is text");
                (key.value().1.to_owned(), key.value().0.to_owned(), revision, json)
            })
            .collect();
        assert!(!all.is_empty(), "{resource}");
        for (path, resource, revision, mut json) in all {
            for (from, to) in words {
                assert!(json.contains(from), "{from}: {json}");
                json = json.replace(from, to);
            }
            objects.insert((&*resource, &*path), (revision, json.as_bytes())).expect("there is room");
        }
    }
    transaction.commit().expect("it can be written");
}

#[tokio::test]
async fn objects_without_current_defaults_can_be_updated() {
    let directory = Directory::new("lacking");
    let (server, mut client) = start(&directory).await;
    let containers = r#""containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"3m"}},
        "env":[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"v","path":"p","key":"k"}}}]}],
        "volumes":[{"name":"v","emptyDir":{}}]"#;
    let pod = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"}},"spec":{{"resources":{{"limits":{{"memory":"7Mi"}}}},{containers}}}}}"#
    );
    let (code, made) = client.call("POST", PODS, &pod).await;
    assert_eq!(code, 201, "{made}");
    let job = format!(
        r#"{{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"j"}},"spec":{{"template":{{"spec":{{"restartPolicy":"Never",{containers}}}}}}}}}"#
    );
    let (code, made) = client.call("POST", JOBS, &job).await;
    assert_eq!(code, 201, "{made}");
    drop(client);
    server.stop().await;
    downgrade(&directory);
    let older = [(r#"{"cpu":"3m"}"#, r#"{"cpu":"2100u"}"#), (r#","optional":false"#, "")];
    rewrite(&directory, "jobs", &older);
    rewrite(&directory, "pods", &older);
    rewrite(&directory, "pods", &[(r#","requests":{"cpu":"3m","memory":"7Mi"}"#, "")]);

    let (_server, mut client) = start(&directory).await;
    for path in [format!("{PODS}/p"), format!("{JOBS}/j")] {
        let (code, changed) = client.call("PATCH", &path, r#"{"metadata":{"labels":{"a":"b"}}}"#).await;
        assert_eq!(code, 200, "{changed}");
        assert_eq!(text(&changed, "metadata/generation"), "1", "the spec is unchanged: {changed}");
        assert!(changed.to_string().contains(r#"{"cpu":"3m"}"#), "{changed}");
    }
    let (code, refused) = client.call("PATCH", &format!("{PODS}/p"), r#"{"spec":{"hostname":"h"}}"#).await;
    assert_eq!(code, 422, "{refused}");
}

#[tokio::test]
async fn objects_that_violate_newer_rules_can_be_updated() {
    let directory = Directory::new("lenient");
    let (server, mut client) = start(&directory).await;
    let expression = r#"[{"matchExpressions":[{"key":"k","operator":"In","values":["good"]}]}]"#;
    let spec = format!(
        r#"{{"hostnameOverride":"host","containers":[{{"name":"c","image":"i"}}],"affinity":{{"nodeAffinity":
        {{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":{expression}}}}}}}}}"#
    );
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let volumes = "/api/v1/persistentvolumes";
    for (path, object) in [
        (PODS, format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"o"}},"spec":{spec}}}"#)),
        (
            deployments,
            format!(
                r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"o"}},"spec":{{"selector":{{"matchLabels":
                {{"a":"b"}}}},"template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{spec}}}}}}}"#
            ),
        ),
        (
            volumes,
            format!(
                r#"{{"apiVersion":"v1","kind":"PersistentVolume","metadata":{{"name":"o"}},"spec":{{"capacity":{{"storage":"1Gi"}},
                "accessModes":["ReadWriteOnce"],"hostPath":{{"path":"/a"}},"nodeAffinity":{{"required":{{"nodeSelectorTerms":{expression}}}}}}}}}"#
            ),
        ),
    ] {
        let (code, made) = client.call("POST", path, &object).await;
        assert_eq!(code, 201, "{made}");
    }
    drop(client);
    server.stop().await;
    downgrade(&directory);
    let labels = (r#"["good"]"#, r#"["not/good"]"#);
    rewrite(&directory, "persistentvolumes", &[labels]);
    for resource in ["pods", "deployments"] {
        rewrite(&directory, resource, &[labels, (r#""hostnameOverride":"host""#, r#""hostnameOverride":"Host""#)]);
    }

    let (_server, mut client) = start(&directory).await;
    for path in [PODS, deployments, volumes] {
        let (code, changed) = client.call("PATCH", &format!("{path}/o"), r#"{"metadata":{"labels":{"x":"y"}}}"#).await;
        assert_eq!(code, 200, "{changed}");
        assert!(changed.to_string().contains("not/good"), "{changed}");
    }
    let deployment = format!("{deployments}/o");
    let merge = "application/merge-patch+json";
    let template = |spec: &str| format!(r#"{{"spec":{{"template":{{"spec":{{{spec}}}}}}}}}"#);
    let terms = expression.replace("good", "worse/still");
    let other = template(&format!(
        r#""affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":{terms}}}}}}}"#
    ));
    let (code, changed) = client.call_with(merge, "PATCH", &deployment, &other).await;
    assert_eq!(code, 200, "one such label stands for all: {changed}");
    let (code, refused) =
        client.call_with(merge, "PATCH", &deployment, &template(r#""hostnameOverride":"Other""#)).await;
    assert_eq!(code, 422, "this is a new mistake: {refused}");
}

/// A field of an object.
async fn read(client: &mut Client, object: &str, field: &str) -> String {
    text(&client.call("GET", &format!("/apis/rbac.authorization.k8s.io/v1/{object}"), "").await.1, field)
}

#[tokio::test]
async fn default_roles_and_bindings_are_reconciled() {
    let directory = Directory::new("roles");
    let (server, mut client) = start(&directory).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let all_rules = read(&mut client, "clusterroles/cluster-admin", "rules").await;
    let viewing = read(&mut client, "clusterroles/view", "rules").await;
    let own = r#"{"verbs":["own"],"apiGroups":[""],"resources":["pods"]}"#;
    let kept = r#"{"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}},"rules":[]}"#;
    for (object, change) in [
        ("clusterroles/cluster-admin", format!(r#"{{"metadata":{{"labels":null}},"rules":[{own}]}}"#)),
        ("clusterroles/system:aggregate-to-view", r#"{"rules":[]}"#.to_owned()),
        ("clusterroles/view", r#"{"aggregationRule":null,"rules":[]}"#.to_owned()),
        ("clusterroles/system:monitoring", kept.to_owned()),
        ("clusterrolebindings/cluster-admin", r#"{"subjects":[{"kind":"User","name":"jane"}]}"#.to_owned()),
    ] {
        let (code, changed) = client.call("PATCH", &format!("{rbac}/{object}"), &change).await;
        assert_eq!(code, 200, "{changed}");
    }
    assert_eq!(client.call("DELETE", &format!("{rbac}/clusterroles/system:discovery"), "").await.0, 200);
    let other = "clusterrolebindings/system:basic-user";
    assert_eq!(client.call("DELETE", &format!("{rbac}/{other}"), "").await.0, 200);
    let binding = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"system:basic-user"},
        "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[]}"#;
    assert_eq!(client.call("POST", &format!("{rbac}/clusterrolebindings"), binding).await.0, 201);
    drop(client);
    server.stop().await;

    let (server, mut client) = start(&directory).await;
    let rules = read(&mut client, "clusterroles/cluster-admin", "rules").await;
    assert_eq!(rules, format!("[{},{}", own_rule(own), &all_rules[1..]));
    let label = read(&mut client, "clusterroles/cluster-admin", "metadata/labels").await;
    assert_eq!(label, r#"{"kubernetes.io/bootstrapping":"rbac-defaults"}"#);
    assert_eq!(read(&mut client, "clusterroles/view", "rules").await, viewing);
    assert_eq!(read(&mut client, "clusterroles/system:monitoring", "rules").await, "null");
    assert!(read(&mut client, "clusterroles/system:discovery", "rules").await.contains("/healthz"));
    let subjects = read(&mut client, "clusterrolebindings/cluster-admin", "subjects").await;
    assert!(subjects.contains("jane") && subjects.contains("system:masters"), "{subjects}");
    assert_eq!(read(&mut client, other, "roleRef/name").await, "system:basic-user");
    assert!(read(&mut client, other, "subjects").await.contains("system:authenticated"));
    let version = read(&mut client, "clusterroles/cluster-admin", "metadata/resourceVersion").await;
    drop(client);
    server.stop().await;
    // Complete roles are not written again.
    let (_server, mut client) = start(&directory).await;
    assert_eq!(read(&mut client, "clusterroles/cluster-admin", "metadata/resourceVersion").await, version);
}

/// A rule in the server's encoding.
fn own_rule(rule: &str) -> String {
    rule.parse::<kubewright_core::Value>().expect("valid JSON").to_string()
}
