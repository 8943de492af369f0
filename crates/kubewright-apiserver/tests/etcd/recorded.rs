//! A server over the objects that a kube-apiserver 1.36.4 left in etcd.

use kubewright_apiserver::EtcdOptions;
use kubewright_core::ByteString;
use kubewright_etcd::{Client as EtcdClient, Encryption, Operation, Transaction};
use kubewright_testing::EtcdCluster;

use crate::client::{CONFIG_MAPS, config_map, text};
use crate::{keys, options, start, start_with};

/// A key and its value in base64 per line.
const RECORDED: &str = include_str!("../../../kubewright-objects/src/etcd/recorded.txt");

#[tokio::test]
async fn objects_of_kube_apiserver_are_served_with_its_defaults() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let etcd = EtcdClient::new(options(&cluster)).expect("the options are valid");
    for line in RECORDED.lines() {
        let (key, value) = line.split_once(' ').expect("a line has a key and a value");
        let value = ByteString::from_base64(value.as_bytes()).expect("it is base64").to_vec();
        let put = Operation::Put { key: key.into(), value, lease: 0 };
        let put = Transaction { success: vec![put], ..Transaction::default() };
        etcd.transaction(&put).await.expect("etcd runs");
    }
    let (server, mut client) = start(&cluster).await;
    let namespace = |group: &str, rest: &str| format!("/{group}/namespaces/default/{rest}");
    for (path, field, value) in [
        (namespace("api/v1", "persistentvolumeclaims/pvc"), "status/phase", "Pending"),
        (namespace("apis/batch/v1", "jobs/j"), "metadata/labels/job-name", "j"),
        (namespace("apis/apps/v1", "deployments/d"), "spec/replicas", "2"),
        (namespace("apis/example.com/v1", "widgets/w"), "spec/size", "4"),
        ("/api/v1/nodes/n1".to_owned(), "spec/podCIDR", "10.244.0.0/24"),
        (namespace("apis/autoscaling/v1", "horizontalpodautoscalers/h"), "spec/targetCPUUtilizationPercentage", "50"),
        (namespace("apis/events.k8s.io/v1", "events/e.1"), "note", "hello"),
    ] {
        let (code, found) = client.call("GET", &path, "").await;
        assert_eq!((code, text(&found, field).as_str()), (200, value), "{path}: {found}");
    }
    // A write through this server is one of kube-apiserver's form.
    let path = namespace("apis/networking.k8s.io/v1", "ingresses/i");
    let (code, _) = client.call("PATCH", &path, r#"{"metadata":{"labels":{"a":"b"}}}"#).await;
    assert_eq!(code, 200);
    let stored = keys(&cluster, "/registry/ingress/default/i").await.remove(0);
    assert!(stored.value.starts_with(b"k8s\0\n\x1f\n\x14networking.k8s.io/v1\x12\x07Ingress"), "{:?}", stored.value);
    server.stop().await;
}

#[tokio::test]
async fn values_are_encrypted_as_configured() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let encryption = |provider: &str| {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
             - resources: [secrets]\n  providers: [{provider}, {{identity: {{}}}}]"
        );
        EtcdOptions::new(options(&cluster)).encryption(Encryption::parse(&text).expect("it is valid"))
    };
    let keyed = |provider: &str| {
        format!("{{{provider}: {{keys: [{{name: k1, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}}]}}}}")
    };
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = |name: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"{name}"}},"stringData":{{"p":"hidden"}}}}"#)
    };
    for provider in ["secretbox", "aesgcm", "aescbc"] {
        let (server, mut client) = start_with(&cluster, |server| server.etcd(encryption(&keyed(provider)))).await;
        let (code, made) = client.call("POST", secrets, &secret(provider)).await;
        assert_eq!(code, 201, "{made}");
        assert_eq!(client.call("POST", CONFIG_MAPS, &config_map(provider, "")).await.0, 201);
        let stored = keys(&cluster, &format!("/registry/secrets/default/{provider}")).await.remove(0).value;
        assert!(stored.starts_with(format!("k8s:enc:{provider}:v1:k1:").as_bytes()));
        let plain = keys(&cluster, &format!("/registry/configmaps/default/{provider}")).await.remove(0).value;
        assert!(plain.starts_with(b"k8s\0"));
        server.stop().await;
        let (server, mut client) = start_with(&cluster, |server| server.etcd(encryption(&keyed(provider)))).await;
        assert_eq!(client.call("GET", &format!("{secrets}/{provider}"), "").await, (200, made));
        assert_eq!(client.call("DELETE", &format!("{secrets}/{provider}"), "").await.0, 200);
        server.stop().await;
    }
    // An update without changes encrypts with the first key. So `kubectl replace` changes the key
    // of all objects.
    let (server, mut client) = start_with(&cluster, |server| server.etcd(encryption("{identity: {}}"))).await;
    let (code, mut plain) = client.call("POST", secrets, &secret("plain")).await;
    assert_eq!(code, 201, "{plain}");
    server.stop().await;
    let (server, mut client) = start_with(&cluster, |server| server.etcd(encryption(&keyed("secretbox")))).await;
    for _ in 0..2 {
        let (code, stored) = client.call("PUT", &format!("{secrets}/plain"), &plain.to_string()).await;
        let entry = keys(&cluster, "/registry/secrets/default/plain").await.remove(0);
        // The second update has nothing to do.
        assert_eq!((code, text(&stored, "metadata/resourceVersion")), (200, entry.mod_revision.to_string()));
        assert!(entry.version == 2 && entry.value.starts_with(b"k8s:enc:secretbox:v1:k1:"), "{entry:?}");
        plain = stored;
    }
    server.stop().await;
    // Without the key, the object is set aside, and its name stays reserved.
    let (server, mut client) = start_with(&cluster, |server| server.etcd(encryption(&keyed("aesgcm")))).await;
    assert_eq!(client.call("POST", secrets, &secret("locked")).await.0, 201);
    server.stop().await;
    let (server, mut client) = start(&cluster).await;
    let (code, why) = client.call("GET", &format!("{secrets}/locked"), "").await;
    assert!(code == 500 && text(&why, "message").contains("no matching prefix found"), "{why}");
    assert_eq!(client.call("POST", secrets, &secret("locked")).await.0, 500);
    server.stop().await;
}
