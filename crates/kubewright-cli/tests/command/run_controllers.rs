//! `run`: built-in controllers against a cluster in another process.

use std::io::{Read, Write};
use std::net::TcpStream;

use kubewright_api::apps::v1::{Deployment, ReplicaSet};
use kubewright_api::core::v1::ConfigMap;
use kubewright_api::networking::v1::Ingress;
use kubewright_client::{Api, Scope};
use kubewright_core::options::ListOptions;
use kubewright_core::{ByteString, DynamicObject, GroupVersionResource, Object};

use crate::process::{Cluster, Serving, eventually, kubewright, text};

const FOOS: GroupVersionResource = GroupVersionResource::from_static("samplecontroller.k8s.io", "v1alpha1", "foos");
const LEASES: GroupVersionResource = GroupVersionResource::from_static("coordination.k8s.io", "v1", "leases");

#[test]
fn controllers_that_the_cluster_already_runs_require_force() {
    let cluster = Cluster::start(&["apiserver"]);
    let run = |arguments: &[&str]| {
        let output = kubewright(&cluster.kubeconfig.0, &[&["run"], arguments].concat());
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = run(&["replicaset"]);
    assert!(code == Some(1) && said.contains("kube-controller-manager") && said.contains("--force"), "{said}");
    let (code, said) = run(&["nodes", "--force", "--namespace", "default"]);
    assert!(code == Some(1) && said.contains("leave --namespace out"), "{said}");
    let (code, said) = run(&["sample"]);
    assert!(code == Some(1) && said.contains("--install creates it"), "{said}");
    let (code, said) = run(&["unicorn"]);
    assert!(code == Some(2) && said.contains("there are csr-approving, "), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_of_a_cluster_is_published() {
    for (server, controllers) in [("up", None), ("apiserver", Some("root-ca-cert-publisher"))] {
        let cluster = Cluster::start(&[server]);
        let path = cluster.kubeconfig.path();
        let running = controllers.map(|name| Serving::begin(&["run", name, "--force", "--kubeconfig", path]));
        let maps = Api::<ConfigMap>::namespaced(&cluster.client(), "kube-public");
        eventually("the authority is published", async || {
            maps.get_opt("kube-root-ca.crt").await.is_ok_and(|one| one.is_some())
        })
        .await;
        let published = maps.get("kube-root-ca.crt").await.expect("it is there");
        let pem = published.data.get("ca.crt").expect("it has one").as_bytes();
        let kubeconfig = std::fs::read_to_string(&cluster.kubeconfig.0).expect("it was written");
        assert!(kubeconfig.contains(&ByteString::from(pem).to_base64()), "it is that of the kubeconfig");
        drop(running);
    }
    let cluster = Cluster::start(&["apiserver", "--http"]);
    let output = kubewright(&cluster.kubeconfig.0, &["run", "root-ca-cert-publisher", "--force"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("names no certificate authority"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forced_controllers_run_against_a_bare_server() {
    let cluster = Cluster::start(&["apiserver"]);
    let client = cluster.client();
    // The server taints new nodes, and the node lifecycle controller removes the taint.
    let names = ["deployment", "replicaset", "nodes", "node-lifecycle"];
    let options = ["--force", "--kubeconfig", cluster.kubeconfig.path()];
    let running = Serving::begin(&[&["run"][..], &names, &options].concat());
    let web: Deployment = deployment("web", 3);
    let api = Api::<Deployment>::namespaced(&client, "default");
    api.create(&web).await.expect("it is new");
    eventually("three pods are available", async || {
        let status = api.get("web").await.expect("it is there").status.unwrap_or_default();
        status.available_replicas == Some(3)
    })
    .await;
    let (status, _) = running.stop();
    assert_eq!(status.code(), Some(0), "it stops in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_runs_the_sample_and_the_ingress_manager_and_frees_its_lease() {
    let cluster = Cluster::start(&["up", "--nodes", "1", "--quiet"]);
    let client = cluster.client();
    let running = Serving::begin(&[
        "run",
        "sample",
        "ingress-manager",
        "--install",
        "--namespace",
        "default",
        "--leader-elect",
        "--lease",
        "default/shop",
        "--listen",
        "127.0.0.1:0",
        "--kubeconfig",
        cluster.kubeconfig.path(),
    ]);
    let lines = running.until_it_says("health and metrics are served");
    let address = lines.last().and_then(|line| line.split_once("address=")).expect("an address").1.to_owned();

    let foo = r#"{"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","metadata":{"name":"one","namespace":"default"},
        "spec":{"deploymentName":"one","replicas":2}}"#;
    let foos = Api::<DynamicObject>::new(&client, FOOS, Scope::Cluster).namespace("default");
    eventually("a Foo can be made", async || foos.create(&foo.parse().expect("well formed")).await.is_ok()).await;
    eventually("the Foo tells of two replicas", async || {
        let foo = foos.get("one").await.expect("it is there");
        foo.get(&["status", "availableReplicas"]).and_then(|value| value.as_i64()) == Some(2)
    })
    .await;
    let services = GroupVersionResource::from_static("", "v1", "services");
    let service = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"shop","namespace":"default","annotations":
        {"ingress/http":"true"}},"spec":{"ports":[{"port":80}]}}"#;
    let services = Api::<DynamicObject>::new(&client, services, Scope::Cluster).namespace("default");
    services.create(&service.parse().expect("well formed")).await.expect("it is new");
    let ingresses = Api::<Ingress>::namespaced(&client, "default");
    eventually("the service has an ingress", async || ingresses.get("shop").await.is_ok()).await;

    let leases = Api::<DynamicObject>::new(&client, LEASES, Scope::Cluster).namespace("default");
    let holder = async || {
        let lease = leases.get("shop").await.expect("it is held");
        lease.get(&["spec", "holderIdentity"]).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    assert!(!holder().await.is_empty());
    assert!(ask(&address, "/readyz").starts_with("HTTP/1.1 200"), "{}", ask(&address, "/readyz"));
    assert!(
        ask(&address, "/metrics").contains(r#"workqueue_adds_total{name="sample""#),
        "{}",
        ask(&address, "/metrics")
    );
    let (status, _) = running.stop();
    assert_eq!(status.code(), Some(0));
    assert_eq!(holder().await, "", "the next one need not wait");
    let sets = Api::<ReplicaSet>::namespaced(&client, "default").list(&ListOptions::default()).await.expect("a list");
    assert!(sets.items.iter().any(|set| set.name().starts_with("one-")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_controller_is_installed_and_reports_a_missing_resource() {
    let cluster = Cluster::start(&["apiserver"]);
    let client = cluster.client();
    let running = Serving::begin(&["run", "hooks", "--install", "--kubeconfig", cluster.kubeconfig.path()]);
    let declared = GroupVersionResource::from_static("hooks.kubewright.dev", "v1alpha1", "compositecontrollers");
    let declared = Api::<DynamicObject>::new(&client, declared, Scope::Cluster);
    let unicorns = r#"{"apiVersion":"hooks.kubewright.dev/v1alpha1","kind":"CompositeController","metadata":{"name":"unicorns"},
        "spec":{"parentResource":{"apiVersion":"example.com/v1","resource":"unicorns"},"childResources":[],
        "hooks":{"sync":{"webhook":{"url":"http://127.0.0.1:1/sync"}}}}}"#;
    eventually("one can be declared", async || declared.create(&unicorns.parse().expect("well formed")).await.is_ok())
        .await;
    eventually("it tells that nobody serves its parents", async || {
        let message = declared.get("unicorns").await.expect("it is there").get(&["status", "message"]);
        message.is_some_and(|message| message.to_string().contains("no resource unicorns of example.com/v1"))
    })
    .await;
    let (status, _) = running.stop();
    assert_eq!(status.code(), Some(0));
}

fn ask(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it serves");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// A deployment of pods that run anything.
pub fn deployment(name: &str, replicas: i32) -> Deployment {
    let text = format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"{name}"}},"spec":{{"replicas":{replicas},
        "selector":{{"matchLabels":{{"app":"{name}"}}}},"template":{{"metadata":{{"labels":{{"app":"{name}"}}}},
        "spec":{{"containers":[{{"name":"main","image":"one:1"}}]}}}}}}}}"#
    );
    kubewright_core::Decoder::new().json(text.as_bytes()).expect("well formed")
}
