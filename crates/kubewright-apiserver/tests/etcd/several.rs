//! Several servers over one etcd.

use kubewright_apiserver::ApiServer;
use kubewright_testing::EtcdCluster;

use crate::client::{CONFIG_MAPS, config_map, text};
use crate::{Events, start, start_with, version};

#[tokio::test]
async fn each_server_shows_the_writes_of_the_others() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let (first, mut one) = start(&cluster).await;
    let (second, mut two) = start(&cluster).await;
    let mut events = Events::open(&second, CONFIG_MAPS, "").await;
    let mut seen = Vec::new();
    for round in 0..20 {
        let (writer, reader) = if round % 2 == 0 { (&mut one, &mut two) } else { (&mut two, &mut one) };
        let name = format!("c{round}");
        let (code, made) = writer.call("POST", CONFIG_MAPS, &config_map(&name, "")).await;
        assert_eq!(code, 201, "{made}");
        // Immediately, without a wait: reads are consistent.
        assert_eq!(reader.call("GET", &format!("{CONFIG_MAPS}/{name}"), "").await, (200, made.clone()));
        let (_, list) = reader.call("GET", CONFIG_MAPS, "").await;
        assert!(version(&list) >= version(&made));
        // A write through the other server continues from the same revision.
        let path = format!("{CONFIG_MAPS}/{name}");
        let (code, changed) = reader.call("PUT", &path, &made.to_string()).await;
        assert_eq!((code, version(&changed)), (200, version(&made)), "nothing changed");
        let (code, _) = reader.call("PATCH", &path, r#"{"data":{"k":"v"}}"#).await;
        assert_eq!(code, 200);
        assert_eq!(writer.call("PUT", &path, &made.to_string()).await.0, 409);
        seen.push(name);
    }
    let mut added = Vec::new();
    while added.len() < seen.len() {
        let (kind, name, _) = events.next().await.expect("the watch goes on");
        if kind == "ADDED" {
            added.push(name);
        }
    }
    assert_eq!(added, seen);
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn concurrent_changes_through_several_servers_are_all_kept() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let (first, mut client) = start(&cluster).await;
    let (second, _) = start(&cluster).await;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("shared", "")).await.0, 201);
    let writers = (0..8).map(|writer| {
        let stream = if writer % 2 == 0 { first.connect() } else { second.connect() };
        tokio::spawn(async move {
            let mut client = crate::client::Client::over(stream).await;
            for round in 0..5 {
                // A patch without a version is repeated by the server until it wins.
                let patch = format!(r#"{{"data":{{"w{writer}-{round}":"x"}}}}"#);
                let (code, answer) = client.call("PATCH", &format!("{CONFIG_MAPS}/shared"), &patch).await;
                assert_eq!(code, 200, "{answer}");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("no writer fails");
    }
    let (_, shared) = client.call("GET", &format!("{CONFIG_MAPS}/shared"), "").await;
    let data = shared.get("data").and_then(|data| data.as_object()).map_or(0, |data| data.iter().count());
    assert_eq!(data, 40, "{shared}");
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_watch_goes_on_at_another_server() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let (first, mut one) = start(&cluster).await;
    let (second, mut two) = start(&cluster).await;
    let (_, list) = one.call("GET", CONFIG_MAPS, "").await;
    let (mut last, mut seen, mut written) = (version(&list).to_string(), Vec::new(), Vec::new());
    for round in 0..12 {
        // Writes go to either server, also while no watch is open.
        for part in 0..3 {
            let name = format!("c{round}-{part}");
            let writer = if (round + part) % 2 == 0 { &mut one } else { &mut two };
            assert_eq!(writer.call("POST", CONFIG_MAPS, &config_map(&name, "")).await.0, 201);
            written.push(("ADDED".to_owned(), name.clone()));
            if part == 1 {
                assert_eq!(writer.call("DELETE", &format!("{CONFIG_MAPS}/{name}"), "").await.0, 200);
                written.push(("DELETED".to_owned(), name));
            }
        }
        let server = if round % 2 == 0 { &second } else { &first };
        let mut events = Events::open(server, CONFIG_MAPS, &format!("resourceVersion={last}")).await;
        // The watch breaks off before its end.
        while seen.len() + round % 3 < written.len() {
            let (kind, name, version) = events.next().await.expect("the watch goes on");
            seen.push((kind, name));
            last = version;
        }
    }
    let mut events = Events::open(&first, CONFIG_MAPS, &format!("resourceVersion={last}")).await;
    while seen.len() < written.len() {
        let (kind, name, _) = events.next().await.expect("the watch goes on");
        seen.push((kind, name));
    }
    assert_eq!(seen, written);
    // As kube-apiserver, a server has no events from before its start.
    let (third, _) = start(&cluster).await;
    let mut events = Events::open(&third, CONFIG_MAPS, &format!("resourceVersion={}", version(&list))).await;
    let expired = events.next_event().await.expect("the watch says why it ends");
    assert_eq!((text(&expired, "type").as_str(), text(&expired, "object/code").as_str()), ("ERROR", "410"));
    for server in [first, second, third] {
        server.stop().await;
    }
}

#[tokio::test]
async fn a_definition_is_served_by_all_servers() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let (first, mut one) = start(&cluster).await;
    let (second, mut two) = start(&cluster).await;
    let definition = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object"}}}]}}"#;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(one.call("POST", definitions, definition).await.0, 201);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    two.until(widgets, 200).await;
    let widget = r#"{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}"#;
    assert_eq!(two.call("POST", widgets, widget).await.0, 201);
    assert_eq!(text(&one.call("GET", &format!("{widgets}/w"), "").await.1, "metadata/name"), "w");
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn servers_with_the_same_keys_accept_each_others_credentials() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let directory = std::env::temp_dir().join(format!("kubewright-pki-{}", std::process::id()));
    let listen = "127.0.0.1:0".parse().expect("it is an address");
    let set = |server: ApiServer| server.pki_directory(&directory).listen(listen);
    let (first, mut client) = start_with(&cluster, set).await;
    let (second, mut other) = start_with(&cluster, set).await;
    assert!(first.certificate_authority().is_some());
    assert_eq!(first.certificate_authority(), second.certificate_authority());
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a"}}"#;
    assert_eq!(client.call("POST", accounts, account).await.0, 201);
    let (code, token) = client.call("POST", &format!("{accounts}/a/token"), r#"{"spec":{}}"#).await;
    assert_eq!(code, 201, "{token}");
    let token = text(&token, "status/token");
    let review =
        format!(r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{{"token":"{token}"}}}}"#);
    let (_, answer) = other.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
    assert_eq!(text(&answer, "status/user/username"), "system:serviceaccount:default:a", "{answer}");
    first.stop().await;
    second.stop().await;
    std::fs::remove_dir_all(&directory).expect("it exists");
}

#[tokio::test]
async fn background_work_moves_to_another_server() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let (first, mut client) = start(&cluster).await;
    let (second, mut other) = start(&cluster).await;
    let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"brief"}}"#;
    let path = "/api/v1/namespaces/brief";
    assert_eq!(client.call("POST", "/api/v1/namespaces", namespace).await.0, 201);
    assert_eq!(client.call("POST", &format!("{path}/configmaps"), &config_map("a", "")).await.0, 201);
    assert_eq!(client.call("DELETE", path, "").await.0, 200);
    wait_until_gone(&mut client, path).await;
    // The leader stops, and the other server takes over.
    drop(client);
    first.stop().await;
    assert_eq!(other.call("POST", "/api/v1/namespaces", namespace).await.0, 201);
    assert_eq!(other.call("DELETE", path, "").await.0, 200);
    wait_until_gone(&mut other, path).await;
    second.stop().await;
}

/// Waits for the end of a namespace. A leader that has stopped must not keep its lease, which is
/// fifteen seconds long.
async fn wait_until_gone(client: &mut crate::client::Client, path: &str) {
    for _ in 0..80 {
        if client.call("GET", path, "").await.0 == 404 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("{path} is never deleted");
}
