//! Addresses, node ports and quotas that several servers give at the same time.

use std::collections::HashSet;

use kubewright_apiserver::RunningServer;
use kubewright_core::Value;
use kubewright_etcd::{Client as EtcdClient, Operation, Transaction};
use kubewright_testing::EtcdCluster;

use crate::client::{CONFIG_MAPS, Client, config_map, text};
use crate::{keys, options, start, start_with};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

/// A Service. `port` and `spec` are further fields of its port and spec.
fn service(name: &str, port: &str, spec: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{name}"}},
        "spec":{{"ports":[{{"port":80{port}}}]{spec}}}}}"#
    )
}

/// Services that request a node port, by name.
fn service_at_port(port: &str) -> impl Fn(&str) -> String {
    let port = format!(r#","nodePort":{port}"#);
    move |name| service(name, &port, r#","type":"NodePort""#)
}

/// Sends requests through several servers at a time. Returns codes and answers.
async fn race(servers: &[&RunningServer], requests: &[(&str, String)]) -> Vec<(u16, Value)> {
    let calls = requests.iter().enumerate().map(|(index, (path, body))| {
        let (stream, path, body) = (servers[index % servers.len()].connect(), (*path).to_owned(), body.clone());
        tokio::spawn(async move { Client::over(stream).await.call("POST", &path, &body).await })
    });
    let mut answers = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        answers.push(call.await.expect("no client fails"));
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_never_give_the_same_address_or_port() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    // Fourteen addresses, of which one is that of the API server.
    let small = |server: kubewright_apiserver::ApiServer| {
        server.service_addresses("10.0.0.16/28".parse().expect("it is a network"))
    };
    let (first, mut client) = start_with(&cluster, small).await;
    let (second, _) = start_with(&cluster, small).await;
    let (third, _) = start_with(&cluster, small).await;
    for round in 0..3 {
        let requests: Vec<_> = (0..18).map(|index| (SERVICES, service(&format!("s{index}"), "", ""))).collect();
        let answers = race(&[&first, &second, &third], &requests).await;
        let made: Vec<_> = answers.iter().filter(|(code, _)| *code == 201).collect();
        let addresses: HashSet<String> = made.iter().map(|(_, made)| text(made, "spec/clusterIP")).collect();
        assert_eq!((made.len(), addresses.len()), (13, 13), "round {round}");
        for (_, refused) in answers.iter().filter(|(code, _)| *code != 201) {
            assert!(text(refused, "message").contains("range is full"), "{refused}");
        }
        assert_eq!(keys(&cluster, "/registry/ipaddresses/").await.len(), 14);
        for (_, made) in made {
            let path = format!("{SERVICES}/{}", text(made, "metadata/name"));
            assert_eq!(client.call("DELETE", &path, "").await.0, 200);
        }
        assert_eq!(keys(&cluster, "/registry/ipaddresses/").await.len(), 1);
    }
    for round in 0..8 {
        // Each server knows of no user of the number when it decides.
        let wanted = format!(r#","clusterIP":"10.0.0.{}""#, 20 + round);
        let requests: Vec<_> = (0..3).map(|index| (SERVICES, service(&format!("s{index}"), "", &wanted))).collect();
        let answers = race(&[&first, &second, &third], &requests).await;
        let made: Vec<_> = answers.iter().filter(|(code, _)| *code == 201).collect();
        assert_eq!(made.len(), 1, "{answers:?}");
        for (_, refused) in answers.iter().filter(|(code, _)| *code != 201) {
            assert!(text(refused, "message").contains("provided IP is already allocated"), "{refused}");
        }
        let path = format!("{SERVICES}/{}", text(&made[0].1, "metadata/name"));
        assert_eq!(client.call("DELETE", &path, "").await.0, 200);
    }
    for server in [first, second, third] {
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_never_give_the_same_node_port() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let (first, mut client) = start(&cluster).await;
    let (second, _) = start(&cluster).await;
    for round in 0..10 {
        let wanted = service_at_port("30007");
        let requests: Vec<_> = (0..4).map(|index| (SERVICES, wanted(&format!("s{index}")))).collect();
        let answers = race(&[&first, &second], &requests).await;
        let made: Vec<_> = answers.iter().filter(|(code, _)| *code == 201).collect();
        assert_eq!(made.len(), 1, "round {round}: {answers:?}");
        for (_, refused) in answers.iter().filter(|(code, _)| *code != 201) {
            assert!(text(refused, "message").contains("provided port is already allocated"), "{refused}");
        }
        let path = format!("{SERVICES}/{}", text(&made[0].1, "metadata/name"));
        // A Service gives its port back when it changes its type, or is deleted.
        if round % 2 == 0 {
            let (code, changed) = client.call("PATCH", &path, r#"{"spec":{"type":"ClusterIP"}}"#).await;
            assert!(code == 200 && !changed.to_string().contains("30007"), "{changed}");
        }
        assert_eq!(client.call("DELETE", &path, "").await.0, 200);
    }
    let bitmap = keys(&cluster, "/registry/ranges/servicenodeports").await.remove(0);
    assert!(bitmap.value.starts_with(b"k8s\0\n\x15\n\x02v1\x12\x0fRangeAllocation"), "{:?}", bitmap.value);
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn numbers_that_kube_apiserver_has_reserved_are_not_given() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let (server, mut client) = start(&cluster).await;
    let (code, made) = client.call("POST", SERVICES, &service_at_port("30001")("mine")).await;
    assert_eq!(code, 201, "{made}");
    let (_, address) = client
        .call("GET", &format!("/apis/networking.k8s.io/v1/ipaddresses/{}", text(&made, "spec/clusterIP")), "")
        .await;
    assert_eq!(text(&address, "spec/parentRef/name"), "mine");
    assert_eq!(text(&address, "spec/parentRef/resource"), "services");
    // kube-apiserver first creates the IPAddress and sets the bit, and then stores the Service.
    let address = r#"{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{"name":"10.96.0.77"},
        "spec":{"parentRef":{"resource":"services","namespace":"default","name":"theirs"}}}"#;
    assert_eq!(client.call("POST", "/apis/networking.k8s.io/v1/ipaddresses", address).await.0, 201);
    let (code, refused) = client.call("POST", SERVICES, &service("late", "", r#","clusterIP":"10.96.0.77""#)).await;
    assert!(code == 422 && text(&refused, "message").contains("provided IP is already allocated"), "{refused}");
    // Bits 0 and 1, with the empty name of kube-apiserver.
    let value =
        b"k8s\0\n\x15\n\x02v1\x12\x0fRangeAllocation\x12\x14\n\x02\n\0\x12\x0b30000-32767\x1a\x01\x03\x1a\0\"\0";
    let etcd = EtcdClient::new(options(&cluster)).expect("the options are valid");
    let put = Operation::Put { key: b"/registry/ranges/servicenodeports".to_vec(), value: value.to_vec(), lease: 0 };
    etcd.transaction(&Transaction { success: vec![put], ..Transaction::default() }).await.expect("etcd runs");
    let (code, refused) = client.call("POST", SERVICES, &service_at_port("30000")("late")).await;
    assert!(code == 422 && text(&refused, "message").contains("provided port is already allocated"), "{refused}");
    assert_eq!(client.call("DELETE", &format!("{SERVICES}/mine"), "").await.0, 200);
    let stored = keys(&cluster, "/registry/ranges/servicenodeports").await.remove(0).value;
    assert!(stored.ends_with(b"\x1a\x01\x01\x1a\0\"\0"), "the bit of the other server stays: {stored:?}");
    server.stop().await;
}

#[tokio::test]
async fn services_of_an_older_server_get_their_allocations() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let (server, mut client) = start(&cluster).await;
    let (code, made) = client.call("POST", SERVICES, &service("old", "", r#","type":"NodePort""#)).await;
    assert_eq!(code, 201, "{made}");
    drop(client);
    server.stop().await;
    let etcd = EtcdClient::new(options(&cluster)).expect("the options are valid");
    let address = format!("/registry/ipaddresses/{}", text(&made, "spec/clusterIP"));
    let before = keys(&cluster, "/registry/ranges/").await.remove(0).value;
    for key in [address.as_bytes(), b"/registry/ranges/servicenodeports"] {
        let delete = Operation::Delete { key: key.to_vec() };
        etcd.transaction(&Transaction { success: vec![delete], ..Transaction::default() }).await.expect("etcd runs");
    }
    let (server, _) = start(&cluster).await;
    assert_eq!(keys(&cluster, &address).await.len(), 1);
    assert_eq!(keys(&cluster, "/registry/ranges/").await.remove(0).value, before);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_never_exceed_a_quota() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let (first, mut client) = start(&cluster).await;
    let (second, _) = start(&cluster).await;
    let (third, _) = start(&cluster).await;
    let quota = |hard: usize| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ResourceQuota","metadata":{{"name":"q"}},
            "spec":{{"hard":{{"count/configmaps":"{hard}"}}}}}}"#
        )
    };
    let (_, before) = client.call("GET", CONFIG_MAPS, "").await;
    let existing = before.get("items").and_then(Value::as_array).map_or(0, |items| items.len());
    assert_eq!(client.call("POST", QUOTAS, &quota(existing + 10)).await.0, 201);
    for round in 0..3 {
        let requests: Vec<_> = (0..18).map(|index| (CONFIG_MAPS, config_map(&format!("c{index}"), ""))).collect();
        let answers = race(&[&first, &second, &third], &requests).await;
        let made: Vec<_> = answers.iter().filter(|(code, _)| *code == 201).collect();
        assert_eq!(made.len(), 10, "round {round}");
        for (code, refused) in answers.iter().filter(|(code, _)| *code != 201) {
            assert!(*code == 403 && text(refused, "message").contains("exceeded quota: q"), "{refused}");
        }
        let (_, shown) = client.call("GET", &format!("{QUOTAS}/q"), "").await;
        assert_eq!(used(&shown), (existing + 10).to_string(), "{shown}");
        for (_, made) in made {
            let path = format!("{CONFIG_MAPS}/{}", text(made, "metadata/name"));
            assert_eq!(client.call("DELETE", &path, "").await.0, 200);
        }
        until_used(&mut client, existing).await;
    }
    for server in [first, second, third] {
        server.stop().await;
    }
}

#[tokio::test]
async fn a_charge_of_another_server_counts_before_its_object_is_stored() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let (server, mut client) = start(&cluster).await;
    let quota = r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"count/configmaps":"5"}}}"#;
    assert_eq!(client.call("POST", QUOTAS, quota).await.0, 201);
    until_used(&mut client, 0).await;
    // kube-apiserver charges the status, and then stores the object.
    let charge = r#"{"status":{"used":{"count/configmaps":"5"}}}"#;
    let (code, charged) = client.call("PATCH", &format!("{QUOTAS}/q/status"), charge).await;
    assert_eq!(code, 200, "{charged}");
    let (code, refused) = client.call("POST", CONFIG_MAPS, &config_map("late", "")).await;
    assert!(code == 403 && text(&refused, "message").contains("used: count/configmaps=5"), "{refused}");
    let (_, shown) = client.call("GET", &format!("{QUOTAS}/q"), "").await;
    assert_eq!(used(&shown), "5", "the charge stays");
    server.stop().await;
}

/// The shown usage of the quota.
fn used(quota: &Value) -> String {
    let used = ["status", "used", "count/configmaps"].iter().try_fold(quota, |value, key| value.get(key));
    used.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Waits until the quota shows this usage.
async fn until_used(client: &mut Client, count: usize) {
    for _ in 0..400 {
        let (_, shown) = client.call("GET", &format!("{QUOTAS}/q"), "").await;
        if used(&shown) == count.to_string() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the quota never shows {count}");
}
