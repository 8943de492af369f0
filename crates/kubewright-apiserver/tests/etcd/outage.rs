//! etcd that fails: answers meanwhile, and recovery.

use std::time::Duration;

use kubewright_etcd::{Client as EtcdClient, Operation, Transaction};
use kubewright_testing::EtcdCluster;

use crate::client::{CONFIG_MAPS, config_map, text};
use crate::{Events, options, start, version};

#[tokio::test]
async fn without_etcd_requests_fail_and_the_server_recovers_by_itself() {
    let Some(mut cluster) = EtcdCluster::start(1) else { return };
    let (server, mut client) = start(&cluster).await;
    let (_, made) = client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    let mut events = Events::open(&server, CONFIG_MAPS, &format!("resourceVersion={}", version(&made))).await;
    assert_eq!(client.call("GET", "/readyz", "").await.0, 200);
    cluster.kill(0);
    let (code, refused) = client.call("POST", CONFIG_MAPS, &config_map("b", "")).await;
    assert_eq!((code, text(&refused, "reason").as_str()), (504, "Timeout"), "{refused}");
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/a"), "").await.0, 504);
    // Any state is enough for this list.
    let (code, list) = client.call("GET", &format!("{CONFIG_MAPS}?resourceVersion=0"), "").await;
    assert_eq!((code, version(&list) >= version(&made)), (200, true));
    let (code, why) = client.call("GET", "/readyz", "").await;
    assert!(code == 500 && why.to_string().contains("[-]storage failed: cannot reach etcd"), "{why}");
    assert_eq!(client.call("GET", "/livez", "").await.0, 200);
    cluster.restart(0);
    client.until("/readyz", 200).await;
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/b"), "").await.0, 404);
    let (code, later) = client.call("POST", CONFIG_MAPS, &config_map("c", "")).await;
    assert_eq!(code, 201, "{later}");
    // The watch of the client has not noticed anything.
    let event = events.next().await.expect("the watch goes on");
    assert_eq!(event, ("ADDED".to_owned(), "c".to_owned(), version(&later).to_string()));
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_missed_compacted_events_reads_all_objects_again() {
    let Some(mut cluster) = EtcdCluster::start(1) else { return };
    let (server, mut client) = start(&cluster).await;
    let (_, kept) = client.call("POST", CONFIG_MAPS, &config_map("kept", "")).await;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("old", "")).await.0, 201);
    let mut events = Events::open(&server, CONFIG_MAPS, &format!("resourceVersion={}", version(&kept))).await;
    assert_eq!(events.next().await.map(|(_, name, _)| name).as_deref(), Some("old"));
    // The server is stopped from noticing: etcd goes away, changes and is compacted before the
    // server has connected again.
    cluster.kill(0);
    let _ = client.call("GET", CONFIG_MAPS, "").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    cluster.restart(0);
    let etcd = EtcdClient::new(options(&cluster)).expect("the options are valid");
    let delete = Operation::Delete { key: b"/registry/configmaps/default/old".to_vec() };
    let delete = Transaction { success: vec![delete], ..Transaction::default() };
    etcd.transaction(&delete).await.expect("etcd runs");
    // etcd before 3.5.18 loses the event of a deletion at exactly the compacted revision.
    let other = Operation::Put { key: b"/registry/other".to_vec(), value: Vec::new(), lease: 0 };
    let other = Transaction { success: vec![other], ..Transaction::default() };
    let revision = etcd.transaction(&other).await.expect("etcd runs").revision;
    etcd.compact(revision).await.expect("etcd runs");
    client.until(&format!("{CONFIG_MAPS}/kept"), 200).await;
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/old"), "").await.0, 404);
    // Either the deletion, or 410 because it has been compacted.
    let (kind, ..) = events.next().await.expect("the watch says what happened");
    assert!(matches!(kind.as_str(), "DELETED" | "ERROR"), "{kind}");
    server.stop().await;
}
