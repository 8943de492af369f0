//! Backups, and copies from one cluster to another.

use std::os::unix::fs::PermissionsExt;

use std::process::{Command, Output};

use kubewright_core::options::ListOptions;
use kubewright_core::{DynamicObject, Object, Value};
use kubewright_yaml as yaml;

use crate::process::{Cluster, Scratch, kubewright, text};

const MANIFEST: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: first, namespace: shop}
spec: {size: 3}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Secret
metadata: {name: password, namespace: shop}
stringData: {password: open sesame}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{port: 80}], selector: {app: web}}
";

fn server(data: &[&str]) -> Cluster {
    Cluster::start(&[&["apiserver", "--quiet"], data].concat())
}

fn run(cluster: &Cluster, arguments: &[&str]) -> Output {
    kubewright(&cluster.kubeconfig.0, arguments)
}

fn restore(backup: &Scratch, data: &Scratch) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubewright"));
    command.args(["restore", backup.path(), "--data", data.path()]).output().expect("the command was built")
}

fn import(cluster: &Cluster, manifest: &str) {
    let file = Scratch::new("manifest");
    std::fs::write(&file.0, manifest).expect("a file of our own");
    let output = run(cluster, &["import", file.path()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

async fn names(cluster: &Cluster, resource: &str) -> Vec<String> {
    let client = cluster.client();
    let mapping = client.rest_mapper().find(resource).await.expect("it is served");
    let list = mapping.api(&client, "shop").list(&ListOptions::default()).await.expect("it can be listed");
    list.items.iter().map(|object: &DynamicObject| object.name().to_owned()).collect()
}

#[tokio::test]
async fn a_backup_of_a_running_server_starts_another_one() {
    let (backup, data) = (Scratch::new("backup"), Scratch::new("restored"));
    let first = server(&[]);
    import(&first, MANIFEST);
    let output = run(&first, &["backup", backup.path()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mode = std::fs::metadata(&backup.0).expect("it was written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let output = restore(&backup, &data);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let again = restore(&backup, &data);
    let message = text(&again.stderr);
    assert!(!again.status.success() && message.contains("it exists already"), "{message}");
    let restored = server(&["--data", data.path()]);
    for resource in ["widgets", "secrets", "services"] {
        assert_eq!(names(&restored, resource).await, names(&first, resource).await, "{resource}");
    }
    assert_eq!(names(&restored, "widgets").await, ["first"]);
}

#[test]
fn a_damaged_or_incomplete_backup_is_not_restored() {
    let (backup, data) = (Scratch::new("backup"), Scratch::new("refused"));
    assert!(run(&server(&[]), &["backup", backup.path()]).status.success());
    let whole = std::fs::read_to_string(&backup.0).expect("it is text");
    let half = whole[..whole.len() / 2].to_owned();
    let without_end = whole[..whole.trim_end().rfind('\n').expect("it has lines") + 1].to_owned();
    let changed = whole.replacen("kube-system", "kube-sistem", 1);
    for (content, expected) in [
        (half, "it is incomplete"),
        (without_end, "it is incomplete"),
        (changed, "the checksum does not match"),
        ("{}\n".to_owned(), "not a backup"),
    ] {
        std::fs::write(&backup.0, content).expect("a file of our own");
        let output = restore(&backup, &data);
        let message = text(&output.stderr);
        assert!(!output.status.success() && message.contains(expected), "{message}");
        assert!(!data.0.join("objects.redb").exists());
    }
}

#[tokio::test]
async fn an_export_is_imported_by_another_cluster() {
    let (from, to) = (server(&[]), server(&[]));
    import(&from, MANIFEST);
    let owned = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"child","namespace":"shop",
        "ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"x","uid":"u","controller":true}]}}"#;
    let source = from.client();
    let maps = source.rest_mapper().find("configmaps").await.expect("it is built in").api(&source, "shop");
    let owned: DynamicObject = yaml::objects(owned).expect("valid YAML").remove(0);
    maps.create(&owned).await.expect("it can be created");

    let output = run(&from, &["export"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let exported = text(&output.stdout);
    for server_field in ["resourceVersion", "uid:", "managedFields", "clusterIP", "status:", "name: child"] {
        assert!(!exported.contains(server_field), "{server_field} in {exported}");
    }
    assert!(!exported.contains("name: cluster-admin"), "bootstrap roles are not exported");
    import(&to, &exported);
    for resource in ["widgets", "secrets", "services"] {
        assert_eq!(names(&to, resource).await, names(&from, resource).await, "{resource}");
    }
    assert_eq!(password(&to).await, password(&from).await);
}

async fn password(cluster: &Cluster) -> Option<Value> {
    let client = cluster.client();
    let secrets = client.rest_mapper().find("secrets").await.expect("it is built in").api(&client, "shop");
    secrets.get("password").await.expect("it is there").data.get("data").cloned()
}

#[test]
fn an_import_names_each_object_that_fails() {
    let manifest = Scratch::new("manifest");
    let objects = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: missing}\n---\n\
                apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: default}\n---\n\
                apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: c}\n";
    std::fs::write(&manifest.0, objects).expect("a file of our own");
    let output = run(&server(&[]), &["import", manifest.path()]);
    let message = text(&output.stderr);
    assert!(!output.status.success() && message.contains("2 of 3 objects were not imported"), "{message}");
    assert!(message.contains("configmap/a: ") && message.contains("nothing/c: "), "{message}");
    assert_eq!(text(&output.stdout), "configmap/b imported\n");
}
