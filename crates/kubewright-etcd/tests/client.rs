//! The client against real etcd processes.

use std::time::Duration;

use kubewright_etcd::{
    Client, ClientOptions, Comparison, EtcdError, Operation, RangeRequest, TlsFiles, Transaction, Watch, WatchRequest,
    WatchResponse, prefix_end,
};
use kubewright_testing::{EtcdCluster, EtcdTls};

fn client(cluster: &EtcdCluster) -> Client {
    Client::new(options(cluster)).expect("the options are valid")
}

fn options(cluster: &EtcdCluster) -> ClientOptions {
    ClientOptions::new(cluster.endpoints().iter().map(|endpoint| endpoint.parse().expect("it is a URL")))
}

fn put(key: &str, value: &str, expected: u64) -> Transaction {
    Transaction {
        compare: vec![Comparison::ModifiedAt { key: key.into(), revision: expected }],
        success: vec![Operation::Put { key: key.into(), value: value.into(), lease: 0 }],
        failure: vec![Operation::Get { key: key.into() }],
    }
}

async fn next_events(watch: &mut Watch) -> WatchResponse {
    loop {
        let next = tokio::time::timeout(Duration::from_secs(20), watch.next()).await.expect("there are events");
        let response = next.expect("the watch runs");
        if !response.events.is_empty() {
            return response;
        }
    }
}

#[tokio::test]
async fn transactions_compare_revisions_and_watches_show_their_writes() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let client = client(&cluster);
    let first = client.transaction(&put("/a/x", "1", 0)).await.expect("etcd runs");
    assert!(first.has_succeeded && first.found.is_empty());
    let lost = client.transaction(&put("/a/x", "2", 0)).await.expect("etcd runs");
    assert!(!lost.has_succeeded);
    let found = lost.found[0].as_ref().expect("the key exists");
    assert_eq!((&found.value[..], found.mod_revision), (&b"1"[..], first.revision));

    let request = WatchRequest { key: b"/a/".to_vec(), end: prefix_end(b"/a/"), start_revision: first.revision + 1 };
    let mut watch = client.watch(&request).await.expect("etcd runs");
    let second = client.transaction(&put("/a/x", "2", first.revision)).await.expect("etcd runs");
    let delete = Transaction { success: vec![Operation::Delete { key: b"/a/x".to_vec() }], ..Transaction::default() };
    let third = client.transaction(&delete).await.expect("etcd runs");
    let mut events = Vec::new();
    while events.len() < 2 {
        events.extend(next_events(&mut watch).await.events);
    }
    assert_eq!((&events[0].entry.value[..], events[0].entry.mod_revision), (&b"2"[..], second.revision));
    assert_eq!((events[1].is_deletion, events[1].entry.mod_revision), (true, third.revision));

    let past = RangeRequest { revision: second.revision, ..RangeRequest::key("/a/x") };
    assert_eq!(&client.range(&past).await.expect("etcd runs").entries[0].value[..], b"2");
    client.compact(third.revision).await.expect("etcd runs");
    assert!(client.range(&past).await.expect_err("it was compacted").is_compacted());
    assert!(client.compact(third.revision).await.expect_err("it was compacted").is_compacted());
    let mut late = client.watch(&request).await.expect("etcd runs");
    let ended = loop {
        let response = late.next().await.expect("etcd runs");
        if !response.is_created {
            break response;
        }
    };
    assert_eq!((ended.is_canceled, ended.compact_revision), (true, third.revision));
    assert!(!client.status().await.expect("etcd runs").version.is_empty());
}

#[tokio::test]
async fn the_end_of_a_lease_deletes_its_keys() {
    let Some(cluster) = EtcdCluster::start(1) else { return };
    let client = client(&cluster);
    let lease = client.grant_lease(Duration::from_secs(60)).await.expect("etcd runs");
    let keys = ["/e/1", "/e/2"];
    for key in keys {
        let put = Operation::Put { key: key.into(), value: b"event".to_vec(), lease };
        let put = Transaction { success: vec![put], ..Transaction::default() };
        assert!(client.transaction(&put).await.expect("etcd runs").has_succeeded);
    }
    let range = RangeRequest { end: prefix_end(b"/e/"), ..RangeRequest::key("/e/") };
    let listed = client.range(&range).await.expect("etcd runs");
    assert!(listed.entries.iter().all(|entry| entry.lease == lease));
    let request = WatchRequest { key: b"/e/".to_vec(), end: prefix_end(b"/e/"), start_revision: listed.revision + 1 };
    let mut watch = client.watch(&request).await.expect("etcd runs");
    assert!(client.keep_lease_alive(lease).await.expect("etcd runs").is_some());
    client.revoke_lease(lease).await.expect("etcd runs");
    let ended = next_events(&mut watch).await;
    // etcd deletes all keys of a lease at one revision.
    assert_eq!(ended.events.len(), 2);
    assert!(ended.events.iter().all(|event| event.is_deletion && event.entry.mod_revision == listed.revision + 1));
    assert_eq!(client.keep_lease_alive(lease).await.expect("etcd runs"), None);
    assert!(client.revoke_lease(lease).await.expect_err("it has ended").is_lease_not_found());
}

#[tokio::test]
async fn calls_go_on_to_a_member_that_works() {
    let Some(mut cluster) = EtcdCluster::start(3) else { return };
    let client = client(&cluster);
    let mut revision = 0;
    for killed in 0..3 {
        cluster.kill(killed);
        // A write may meet the old leader; its result is then unknown, and the key tells.
        loop {
            match client.transaction(&put("/a/x", &killed.to_string(), revision)).await {
                Ok(response) => {
                    let found = response.found.into_iter().flatten().next();
                    revision = found.map_or(response.revision, |found| found.mod_revision);
                    if response.has_succeeded {
                        break;
                    }
                }
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
            let now = client.range(&RangeRequest::key("/a/x")).await.expect("two members run");
            revision = now.entries.first().map_or(0, |entry| entry.mod_revision);
        }
        cluster.restart(killed);
    }
    let found = client.range(&RangeRequest::key("/a/x")).await.expect("all members run");
    assert_eq!(&found.entries[0].value[..], b"2");
}

#[tokio::test]
async fn a_client_without_etcd_gets_an_error_in_time_and_recovers() {
    let Some(mut cluster) = EtcdCluster::start(1) else { return };
    let client = Client::new(options(&cluster).timeout(Duration::from_secs(1))).expect("the options are valid");
    let range = RangeRequest::key("/a");
    client.range(&range).await.expect("etcd runs");
    cluster.kill(0);
    let error = client.range(&range).await.expect_err("etcd is gone");
    assert!(error.is_transient(), "{error:?}");
    let error = client.transaction(&put("/a", "1", 0)).await.expect_err("etcd is gone");
    assert!(matches!(error, EtcdError::Unreachable { .. }) && error.is_unexecuted(), "{error:?}");
    cluster.restart(0);
    assert!(client.transaction(&put("/a", "1", 0)).await.expect("etcd runs").has_succeeded);
}

#[tokio::test]
async fn tls_needs_the_certificate_of_the_client() {
    let directory = std::env::temp_dir().join(format!("kubewright-etcd-tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("it can be written");
    let file = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).expect("it can be written");
        path
    };
    let mut authority = rcgen::CertificateParams::new([]).expect("no names");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().expect("keys can be made");
    let authority_pem = authority.self_signed(&authority_key).expect("it can be signed").pem();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let signed = |usage| {
        let mut params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).expect("it is an address");
        params.extended_key_usages = vec![usage, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().expect("keys can be made");
        (params.signed_by(&key, &issuer).expect("it can be signed").pem(), key.serialize_pem())
    };
    let (server, server_key) = signed(rcgen::ExtendedKeyUsagePurpose::ServerAuth);
    let (user, user_key) = signed(rcgen::ExtendedKeyUsagePurpose::ClientAuth);
    let tls = EtcdTls {
        authority: file("ca.crt", authority_pem),
        certificate: file("server.crt", server),
        key: file("server.key", server_key),
    };
    let (user, user_key) = (file("client.crt", user), file("client.key", user_key));
    if let Some(cluster) = EtcdCluster::start_with(1, Some(&tls)) {
        let range = RangeRequest::key("/a");
        let files = TlsFiles::new(&tls.authority).client_certificate(&user, &user_key);
        let trusted = Client::new(options(&cluster).tls(files)).expect("the files are valid");
        trusted.range(&range).await.expect("the certificate is valid");
        let stranger = options(&cluster).tls(TlsFiles::new(&tls.authority)).timeout(Duration::from_secs(1));
        let stranger = Client::new(stranger).expect("the files are valid");
        assert!(stranger.range(&range).await.expect_err("there is no certificate").is_transient());
        assert!(Client::new(options(&cluster)).is_err(), "https needs an authority");
        assert!(Client::new(options(&cluster).tls(TlsFiles::new(&user_key))).is_err(), "it is no certificate");
    }
    std::fs::remove_dir_all(&directory).expect("it exists");
}
