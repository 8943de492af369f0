//! `get` prints what kubectl prints.

use std::process::{Command, Output};

use kubewright_yaml as yaml;

use crate::kubectl::is_there;
use crate::process::{Cluster, kubewright, text};

/// Objects in two namespaces; none has an age in its table that changes while the test runs.
const OBJECTS: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: default, labels: {app: web}}, data: {a: MQ==}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: default, labels: {app: web}}, data: {a: "1"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: web-with-a-long-name, namespace: default}, data: {"y": "no", b: "x\\ny\\n"}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: cart, namespace: shop}, data: {a: "1", b: "<&>"}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: default}, spec: {replicas: 0,
  selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: a}]}}}}
"#;

/// Served in two versions, one of which is deprecated.
const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: foos, kind: Foo}
  versions:
  - {name: v1, served: true, storage: true, deprecated: true, deprecationWarning: example.com/v1 Foo goes away,
     schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
"#;

fn kubectl(cluster: &Cluster, arguments: &[&str]) -> Output {
    let mut command = Command::new("kubectl");
    command.args(arguments).args(["--kubeconfig", cluster.kubeconfig.path()]).output().expect("it was there before")
}

async fn cluster() -> Cluster {
    let cluster = Cluster::start(&["apiserver"]);
    let client = cluster.client();
    let mapper = client.rest_mapper();
    for object in yaml::objects(&format!("{OBJECTS}---{DEFINITION}")).expect("valid") {
        mapper.api_of(&object).await.expect("served").create(&object).await.expect("new");
    }
    cluster
}

/// The words of each line: the width of columns differs where the age of an object has more digits.
fn words(output: &[u8]) -> Vec<Vec<String>> {
    let is_age = |word: &&str| word.strip_suffix('s').is_some_and(|number| number.parse::<u32>().is_ok());
    text(output)
        .lines()
        .map(|line| line.split_whitespace().filter(|word| !is_age(word)).map(str::to_owned).collect())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn get_prints_what_kubectl_prints() {
    if !is_there() {
        return;
    }
    let cluster = cluster().await;
    let tables: &[&[&str]] = &[
        &["get", "all"],
        &["get", "all", "-A"],
        &["get", "cm,svc"],
        &["get", "ConfigMaps"],
        &["get", "cm", "web", "web-with-a-long-name"],
        &["get", "cm,svc,secret", "web"],
        &["get", "cm/web", "svc/web", "deployment.apps/web"],
        &["get", "cm", "missing", "web"],
        &["get", "cm,secrets", "-l", "app=web"],
        &["get", "pods,jobs"],
        &["get", "pods,namespaces", "-l", "none=1"],
        &["get", "cm", "-n", "shop"],
        &["get", "cm", "-A"],
    ];
    for arguments in tables {
        let (ours, theirs) = (kubewright(&cluster.kubeconfig.0, arguments), kubectl(&cluster, arguments));
        assert_eq!(words(&ours.stdout), words(&theirs.stdout), "{arguments:?}");
        assert_eq!(ours.status.code(), theirs.status.code(), "{arguments:?}");
        // kubectl has another prefix for errors.
        if theirs.status.success() {
            assert_eq!(text(&ours.stderr), text(&theirs.stderr), "{arguments:?}");
        }
    }
    let exact: &[&[&str]] = &[
        &["get", "cm", "web", "-o", "json"],
        &["get", "cm", "-o", "json"],
        &["get", "cm,deploy", "-o", "json"],
        &["get", "cm", "missing", "web", "-o", "json"],
        &["get", "pods", "-o", "json"],
        &["get", "cm", "web-with-a-long-name", "-o", "yaml"],
        &["get", "cm", "-A", "-o", "yaml"],
        &["get", "deploy", "web", "-o", "yaml", "--show-managed-fields"],
        &["get", "svc/web", "cm/web", "-o", "yaml"],
        &["get", "cm,svc", "-o", "name"],
        &["get", "all", "-o", "name"],
    ];
    for arguments in exact {
        let (ours, theirs) = (kubewright(&cluster.kubeconfig.0, arguments), kubectl(&cluster, arguments));
        assert_eq!(text(&ours.stdout), text(&theirs.stdout), "{arguments:?}");
        assert_eq!(ours.status.code(), theirs.status.code(), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn warnings_of_the_server_are_printed_once() {
    let cluster = cluster().await;
    let output = kubewright(&cluster.kubeconfig.0, &["get", "foos,foos.example.com", "-o", "name"]);
    assert_eq!(text(&output.stderr), "Warning: example.com/v1 Foo goes away\n");
}
