//! One server: objects, watches, restarts, leases and compaction.

use std::time::Duration;

use kubewright_apiserver::EtcdOptions;
use kubewright_core::Value;
use kubewright_etcd::Client as EtcdClient;
use kubewright_testing::EtcdCluster;

use crate::client::{CONFIG_MAPS, config_map, text};
use crate::{Events, keys, options, start, start_with, version};

const DEFINITION: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
    "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "storage": true,
    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}"#;
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

#[tokio::test]
async fn objects_have_the_revisions_of_etcd_and_survive_a_restart() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let (server, mut client) = start(&cluster).await;
    let (code, made) = client.call("POST", CONFIG_MAPS, &config_map("kept", "")).await;
    assert_eq!(code, 201, "{made}");
    let stored = keys(&cluster, "/registry/configmaps/default/kept").await;
    assert_eq!(stored[0].mod_revision, version(&made));
    assert!(stored[0].value.starts_with(b"k8s\0"));

    let mut events = Events::open(&server, CONFIG_MAPS, &format!("resourceVersion={}", version(&made))).await;
    let path = format!("{CONFIG_MAPS}/kept");
    let (code, changed) = client.call("PATCH", &path, r#"{"data":{"k":"v"}}"#).await;
    assert_eq!((code, text(&changed, "data/k")), (200, "v".to_owned()));
    assert!(version(&changed) > version(&made));
    assert_eq!(client.call("PUT", &path, &made.to_string()).await.0, 409);
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("kept", "")).await.0, 409);
    let (_, gone) = client.call("POST", CONFIG_MAPS, &config_map("gone", "")).await;
    assert_eq!(client.call("DELETE", &format!("{CONFIG_MAPS}/gone"), "").await.0, 200);
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/gone"), "").await.0, 404);
    let event = |kind: &str, name: &str, version: u64| Some((kind.to_owned(), name.to_owned(), version.to_string()));
    assert_eq!(events.next().await, event("MODIFIED", "kept", version(&changed)));
    assert_eq!(events.next().await, event("ADDED", "gone", version(&gone)));
    let (kind, name, last) = events.next().await.expect("the watch goes on");
    assert_eq!((kind.as_str(), name.as_str()), ("DELETED", "gone"));
    assert!(last.parse::<u64>().expect("a number") > version(&gone));

    assert_eq!(client.call("POST", DEFINITIONS, DEFINITION).await.0, 201);
    let widget = r#"{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"a": "<"}}"#;
    let (code, widget) = client.call("POST", WIDGETS, widget).await;
    assert_eq!(code, 201, "{widget}");
    let stored = keys(&cluster, "/registry/example.com/widgets/").await;
    assert_eq!(&stored[0].key[..], b"/registry/example.com/widgets/default/w");
    let json = std::str::from_utf8(&stored[0].value).expect("it is JSON");
    assert!(json.starts_with(r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"#), "{json}");
    assert!(json.contains(r#""a":"\u003c""#) && json.ends_with("}\n") && !json.contains("resourceVersion"), "{json}");
    drop((client, events));
    server.stop().await;

    let (server, mut client) = start(&cluster).await;
    assert_eq!(client.call("GET", &path, "").await, (200, changed.clone()));
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/gone"), "").await.0, 404);
    assert_eq!(client.call("GET", &format!("{WIDGETS}/w"), "").await, (200, widget));
    let (_, list) = client.call("GET", CONFIG_MAPS, "").await;
    assert!(version(&list) >= version(&changed));
    assert_eq!(client.call("DELETE", &path, "").await.0, 200);
    drop(client);
    server.stop().await;
}

#[tokio::test]
async fn events_end_with_their_lease() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let (server, mut client) = start_with(&cluster, |server| server.event_ttl(Duration::from_secs(2))).await;
    let events = "/api/v1/namespaces/default/events";
    let event = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Event","metadata":{{"name":"{name}"}},"reason":"Tested",
            "involvedObject":{{"kind":"Pod","namespace":"default","name":"web"}}}}"#
        )
    };
    let mut watch = Events::open(&server, events, "").await;
    for name in ["one", "two"] {
        assert_eq!(client.call("POST", events, &event(name)).await.0, 201);
        assert_eq!(watch.next().await.map(|(kind, ..)| kind).as_deref(), Some("ADDED"));
    }
    let stored = keys(&cluster, "/registry/events/default/").await;
    assert!(stored.len() == 2 && stored.iter().all(|entry| entry.lease != 0), "{stored:?}");
    assert_eq!(keys(&cluster, "/registry/namespaces/default").await[0].lease, 0);
    let mut gone = Vec::new();
    for _ in 0..2 {
        let (kind, name, revision) = watch.next().await.expect("the watch goes on");
        assert_eq!(kind, "DELETED");
        gone.push((name, revision));
    }
    gone.sort();
    assert_eq!(gone.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    // One lease, one transaction.
    assert_eq!(gone[0].1, gone[1].1);
    server.stop().await;
}

#[tokio::test]
async fn a_continue_token_is_good_until_etcd_is_compacted() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let (server, mut client) = start_with(&cluster, |server| server.history(2)).await;
    let odd = |index: usize| if index % 2 == 1 { r#","labels":{"is":"odd"}"# } else { "" };
    for index in 0..6 {
        assert_eq!(client.call("POST", CONFIG_MAPS, &config_map(&format!("c{index}"), odd(index))).await.0, 201);
    }
    let (_, page) = client.call("GET", &format!("{CONFIG_MAPS}?limit=2"), "").await;
    let token = text(&page, "metadata/continue");
    let next = format!("{CONFIG_MAPS}?limit=2&continue={token}");
    let (_, odd) = client.call("GET", &format!("{CONFIG_MAPS}?limit=1&labelSelector=is%3Dodd"), "").await;
    let odd = format!("{CONFIG_MAPS}?limit=1&labelSelector=is%3Dodd&continue={}", text(&odd, "metadata/continue"));
    let exact = format!("{CONFIG_MAPS}?resourceVersion={}&resourceVersionMatch=Exact", version(&page));
    let expected = [client.call("GET", &next, "").await, client.call("GET", &odd, "").await];
    assert_eq!((names(&expected[0].1), names(&expected[1].1)), (vec!["c2", "c3"], vec!["c3"]));
    // The log forgets these revisions.
    for name in ["c0", "c2", "c3", "c4"] {
        assert_eq!(client.call("DELETE", &format!("{CONFIG_MAPS}/{name}"), "").await.0, 200);
    }
    for (path, expected) in [&next, &odd].into_iter().zip(&expected) {
        assert_eq!(client.call("GET", path, "").await, *expected);
    }
    let (code, all) = client.call("GET", &exact, "").await;
    assert_eq!((code, names(&all)), (200, vec!["c0", "c1", "c2", "c3", "c4", "c5"]));
    drop(client);
    server.stop().await;
    // Another server does not have them either.
    let (server, mut client) = start(&cluster).await;
    for (path, expected) in [&next, &odd].into_iter().zip(&expected) {
        assert_eq!(client.call("GET", path, "").await, *expected);
    }
    let (_, page) = client.call("GET", &next, "").await;
    let last = format!("{CONFIG_MAPS}?limit=2&continue={}", text(&page, "metadata/continue"));
    let (code, last) = client.call("GET", &last, "").await;
    assert_eq!((code, names(&last), text(&last, "metadata/continue").as_str()), (200, vec!["c4", "c5"], ""));
    let etcd = EtcdClient::new(options(&cluster)).expect("the options are valid");
    let (_, now) = client.call("GET", CONFIG_MAPS, "").await;
    etcd.compact(version(&now)).await.expect("etcd runs");
    let (code, expired) = client.call("GET", &next, "").await;
    assert_eq!((code, text(&expired, "reason").as_str()), (410, "Expired"), "{expired}");
    assert_eq!(client.call("GET", &exact, "").await.0, 410);
    // The rest of the list as it is now.
    let rest = format!("{CONFIG_MAPS}?limit=2&continue={}", text(&expired, "metadata/continue"));
    let (code, rest) = client.call("GET", &rest, "").await;
    assert_eq!((code, names(&rest)), (200, vec!["c5"]));
    server.stop().await;
}

/// The names in a list.
fn names(list: &Value) -> Vec<&str> {
    let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.get("metadata")?.get("name")?.as_str()).collect()
}

#[tokio::test]
async fn compaction_is_left_to_one_server() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let compacting = || EtcdOptions::new(options(&cluster)).compaction_interval(Duration::from_millis(200));
    let (first, mut client) = start_with(&cluster, |server| server.etcd(compacting())).await;
    let (second, _) = start_with(&cluster, |server| server.etcd(compacting())).await;
    let (_, made) = client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    let etcd = EtcdClient::new(options(&cluster)).expect("the options are valid");
    let past = kubewright_etcd::RangeRequest {
        revision: version(&made) - 1,
        ..kubewright_etcd::RangeRequest::key("/registry/configmaps/default/a")
    };
    let mut is_compacted = false;
    for _ in 0..100 {
        is_compacted = etcd.range(&past).await.is_err_and(|error| error.is_compacted());
        if is_compacted {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(is_compacted);
    // The servers go on: their own events are in their logs.
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/a"), "").await, (200, made));
    first.stop().await;
    second.stop().await;
}
