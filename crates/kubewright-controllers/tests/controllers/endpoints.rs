//! Endpoints of services.

use std::time::Duration;

use kubewright_api::apps::v1::ReplicaSet;
use kubewright_api::core::v1::{
    ContainerPort, EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service, ServicePort, ServiceSpec,
};
use kubewright_api::discovery::v1::EndpointSlice;
use kubewright_controllers::NodeOptions;
use kubewright_core::Object;
use kubewright_core::options::Patch;
use tokio::time::sleep;

use crate::support::{Cluster, has_ready, labels, replica_set, template};

fn service(name: &str) -> Service {
    let mut service = Service::default();
    service.metadata.name = Some(name.into());
    let port = ServicePort { port: 80, target_port: Some(8080.into()), ..Default::default() };
    service.spec = Some(ServiceSpec { selector: labels(name), ports: [port].into(), ..Default::default() });
    service
}

#[tokio::test(start_paused = true)]
async fn ready_pods_are_behind_their_service() {
    let cluster = Cluster::with_nodes(2).await;
    cluster.create(&service("web")).await;
    cluster.until::<Endpoints>("web", |endpoints| endpoints.subsets.is_empty()).await;
    cluster.create(&replica_set("web", 3)).await;
    let endpoints = cluster
        .until::<Endpoints>("web", |one| one.subsets.first().is_some_and(|subset| subset.addresses.len() == 3))
        .await;
    let subset = &endpoints.subsets[0];
    assert!(subset.not_ready_addresses.is_empty() && subset.ports[0].port == 8080);
    let mut addresses: Vec<_> =
        cluster.pods().await.iter().map(|pod| pod.status.as_ref().unwrap().pod_ip.clone().unwrap()).collect();
    addresses.sort();
    assert_eq!(subset.addresses.iter().map(|one| one.ip.clone()).collect::<Vec<_>>(), addresses);

    sleep(Duration::from_secs(1)).await;
    let slices: Vec<EndpointSlice> = cluster.list().await;
    let of_web: Vec<_> =
        slices.iter().filter(|slice| slice.labels().get("kubernetes.io/service-name") == Some("web")).collect();
    assert_eq!(of_web.len(), 1);
    let ready = |slice: &EndpointSlice| {
        slice.endpoints.iter().filter(|one| one.conditions.as_ref().unwrap().ready == Some(true)).count()
    };
    assert_eq!(ready(of_web[0]), 3);

    cluster.patch::<ReplicaSet>("web", r#"{"spec":{"replicas":1}}"#).await;
    cluster.until::<ReplicaSet>("web", |set| has_ready(set, 1)).await;
    cluster.until::<Endpoints>("web", |one| one.subsets[0].addresses.len() == 1).await;

    // A slice of an earlier service of this name, which is not garbage-collected.
    let mut left = EndpointSlice { address_type: "IPv4".into(), ..Default::default() };
    left.metadata.name = Some("web-left".into());
    left.metadata.labels = of_web[0].metadata.labels.clone();
    cluster.create(&left).await;
    cluster.until_gone::<EndpointSlice>("web-left").await;

    cluster.api::<Service>().delete("web").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(cluster.api::<Endpoints>().get_opt("web").await.unwrap().is_none());
    assert!(cluster.list::<EndpointSlice>().await.iter().all(|slice| !slice.name().starts_with("web")));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_has_room_for_a_hundred_endpoints() {
    let cluster = Cluster::with_nodes(2).await;
    cluster.create(&service("web")).await;
    cluster.create(&replica_set("web", 230)).await;
    cluster.until::<ReplicaSet>("web", |set| has_ready(set, 230)).await;
    sleep(Duration::from_secs(2)).await;
    let slices: Vec<EndpointSlice> = cluster.list().await;
    // As by Go, endpoints stay in their slices: the sizes depend on the order in which pods came.
    let sizes: Vec<_> =
        slices.iter().filter(|one| one.name().starts_with("web")).map(|one| one.endpoints.len()).collect();
    assert!(sizes.len() >= 3 && sizes.iter().all(|size| (1..=100).contains(size)), "{sizes:?}");
    assert_eq!(sizes.iter().sum::<usize>(), 230);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn publish_not_ready_addresses_does_not_mark_endpoints_as_serving() {
    let cluster = Cluster::new(NodeOptions::default().ready_delay(Duration::from_secs(100_000))).await;
    let mut all = service("web");
    all.spec.as_mut().unwrap().publish_not_ready_addresses = Some(true);
    cluster.create(&all).await;
    cluster.create(&replica_set("web", 1)).await;
    let endpoints = cluster.until::<Endpoints>("web", |one| !one.subsets.is_empty()).await;
    assert_eq!((endpoints.subsets[0].addresses.len(), endpoints.subsets[0].not_ready_addresses.len()), (1, 0));
    sleep(Duration::from_secs(1)).await;
    let slices: Vec<EndpointSlice> = cluster.list().await;
    let slice = slices.iter().find(|slice| slice.name().starts_with("web")).unwrap();
    let conditions = slice.endpoints[0].conditions.as_ref().unwrap();
    assert_eq!((conditions.ready, conditions.serving, conditions.terminating), (Some(true), Some(false), Some(false)));
    cluster.stop().await;
}

/// The ports of each slice of `web`, with the names of its pods.
fn by_ports(slices: &[EndpointSlice]) -> Vec<(Vec<i32>, Vec<String>)> {
    let of_web = slices.iter().filter(|slice| slice.labels().get("kubernetes.io/service-name") == Some("web"));
    let mut found: Vec<_> = of_web
        .map(|slice| {
            let mut ports: Vec<_> = slice.ports.iter().filter_map(|port| port.port).collect();
            ports.sort_unstable();
            let pods = slice.endpoints.iter().filter_map(|one| one.target_ref.as_ref()?.name.as_deref());
            (ports, pods.map(str::to_owned).collect())
        })
        .collect();
    found.sort();
    found
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_the_named_port_is_published_with_its_other_ports() {
    let cluster = Cluster::with_nodes(1).await;
    let mut named = service("web");
    let spec = named.spec.as_mut().unwrap();
    spec.ports = [("http", "http"), ("admin", "admin")]
        .map(|(name, target)| ServicePort {
            name: Some(name.into()),
            port: if name == "http" { 80 } else { 81 },
            target_port: Some(target.into()),
            ..Default::default()
        })
        .into();
    cluster.create(&named).await;
    for (name, ports, is_sidecar) in [
        ("both", &["http", "admin"][..], false),
        ("one", &["http"], false),
        ("none", &[], false),
        ("side", &["http"], true),
    ] {
        let mut pod = Pod { spec: template("web", "one:1").spec, ..Default::default() };
        pod.metadata.name = Some(name.into());
        pod.metadata.labels = labels("web");
        let spec = pod.spec.as_mut().unwrap();
        let mut container = spec.containers[0].clone();
        container.ports = ports
            .iter()
            .map(|name| ContainerPort {
                name: Some((*name).into()),
                container_port: if *name == "http" { 8080 } else { 8081 },
                ..Default::default()
            })
            .collect();
        if is_sidecar {
            container.name = "side".into();
            container.restart_policy = Some("Always".into());
            spec.init_containers = [container].into();
        } else {
            spec.containers = [container].into();
        }
        cluster.create(&pod).await;
    }
    let is_there =
        |pods: &[Pod]| pods.len() == 4 && pods.iter().all(|pod| pod.status.as_ref().unwrap().pod_ip.is_some());
    cluster.until_pods(is_there).await;
    sleep(Duration::from_secs(10)).await;
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut found = by_ports(&cluster.list::<EndpointSlice>().await);
    found.iter_mut().for_each(|(_, pods)| pods.sort());
    let want =
        [(vec![], names(&["none"])), (vec![8080], names(&["one", "side"])), (vec![8080, 8081], names(&["both"]))];
    assert_eq!(found, want);
    // Old clients of Endpoints see no object without addresses.
    let legacy: Endpoints = cluster.get("web").await;
    let addresses = legacy.subsets.iter().map(|subset| (subset.ports.len(), subset.addresses.len()));
    let mut addresses: Vec<_> = addresses.collect();
    addresses.sort_unstable();
    assert_eq!(addresses, [(1, 2), (2, 1)]);
    cluster.stop().await;
}

/// A service without a selector, and its endpoints.
fn by_hand(name: &str, subsets: &[EndpointSubset]) -> (Service, Endpoints) {
    let mut service = service(name);
    service.spec.get_or_insert_default().selector = Default::default();
    let mut endpoints = Endpoints { subsets: subsets.iter().cloned().collect(), ..Default::default() };
    endpoints.metadata.name = Some(name.into());
    endpoints.metadata.labels.insert("mine", "yes".into());
    endpoints.metadata.annotations.insert("kubectl.kubernetes.io/last-applied-configuration", "{}".into());
    endpoints.metadata.annotations.insert("note", "kept".into());
    (service, endpoints)
}

fn subset(port: i32, ready: &[&str], unready: &[&str]) -> EndpointSubset {
    let addresses =
        |ips: &[&str]| ips.iter().map(|ip| EndpointAddress { ip: (*ip).into(), ..Default::default() }).collect();
    EndpointSubset {
        addresses: addresses(ready),
        not_ready_addresses: addresses(unready),
        ports: [EndpointPort { name: Some("http".into()), port, ..Default::default() }].into(),
    }
}

/// The content of a service's slices, one text each.
async fn mirrored(cluster: &Cluster) -> Vec<String> {
    let slices: Vec<EndpointSlice> = cluster.list().await;
    let is_mirror = |slice: &&EndpointSlice| {
        slice.labels().get("endpointslice.kubernetes.io/managed-by") == Some("endpointslicemirroring-controller.k8s.io")
    };
    let told = slices.iter().filter(is_mirror).map(|slice| {
        let ends = slice.endpoints.iter().map(|one| {
            let ready = one.conditions.as_ref().and_then(|conditions| conditions.ready);
            format!("{}{}", one.addresses[0], if ready == Some(true) { "" } else { "!" })
        });
        format!("{} {} {}", slice.address_type, slice.ports[0].port.unwrap(), ends.collect::<Vec<_>>().join(","))
    });
    let mut told: Vec<_> = told.collect();
    told.sort();
    told
}

async fn until_mirrored(cluster: &Cluster, want: &[&str]) {
    for _ in 0..1000 {
        if mirrored(cluster).await == want {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?} instead of {want:?}", mirrored(cluster).await);
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_users_write_are_mirrored() {
    let cluster = Cluster::with_nodes(0).await;
    let (service, endpoints) =
        by_hand("db", &[subset(5432, &["10.1.0.1", "2001:db8::1"], &["10.1.0.2"]), subset(80, &["10.1.0.3"], &[])]);
    cluster.create(&endpoints).await;
    sleep(Duration::from_secs(60)).await;
    assert!(mirrored(&cluster).await.is_empty(), "there is no service");
    cluster.create(&service).await;
    let all = ["IPv4 5432 10.1.0.1,10.1.0.2!", "IPv4 80 10.1.0.3", "IPv6 5432 2001:db8::1"];
    until_mirrored(&cluster, &all).await;
    let slices: Vec<EndpointSlice> = cluster.list().await;
    for slice in &slices {
        assert!(slice.name().starts_with("db-") && slice.owner_references()[0].kind == "Endpoints");
        assert_eq!(slice.labels().get("kubernetes.io/service-name"), Some("db"));
        assert_eq!((slice.labels().get("mine"), slice.metadata.annotations.len()), (Some("yes"), 1));
    }
    let versions = |slices: &[EndpointSlice]| -> Vec<_> {
        slices.iter().map(|slice| (slice.uid().to_owned(), slice.resource_version().to_owned())).collect()
    };
    sleep(Duration::from_secs(60)).await;
    assert_eq!(versions(&cluster.list().await), versions(&slices), "nothing is written again and again");

    // One is changed, one deleted; the slice of other ports is reused for the new ones.
    let patch = r#"{"subsets": [{"addresses": [{"ip": "10.1.0.9"}], "ports": [{"name": "http", "port": 5432}]},
        {"addresses": [{"ip": "10.1.0.3"}], "ports": [{"name": "http", "port": 81}]}]}"#;
    let changed: Endpoints = cluster.api().patch("db", Patch::Merge(patch.into())).await.unwrap();
    until_mirrored(&cluster, &["IPv4 5432 10.1.0.9", "IPv4 81 10.1.0.3"]).await;
    let left: Vec<EndpointSlice> = cluster.list().await;
    assert!(left.iter().all(|slice| slices.iter().any(|old| old.uid() == slice.uid())));
    assert_eq!(changed.uid(), left[0].owner_references()[0].uid);

    // A deleted slice is created again.
    cluster.api::<EndpointSlice>().delete(left[0].name()).await.unwrap();
    until_mirrored(&cluster, &["IPv4 5432 10.1.0.9", "IPv4 81 10.1.0.3"]).await;

    for (set, unset) in [
        (
            r#"{"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}"#,
            r#"{"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": null}}}"#,
        ),
        (
            r#"{"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}}"#,
            r#"{"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": null}}}"#,
        ),
    ] {
        cluster.api::<Endpoints>().patch("db", Patch::Merge(set.into())).await.unwrap();
        until_mirrored(&cluster, &[]).await;
        cluster.api::<Endpoints>().patch("db", Patch::Merge(unset.into())).await.unwrap();
        until_mirrored(&cluster, &["IPv4 5432 10.1.0.9", "IPv4 81 10.1.0.3"]).await;
    }

    cluster.api::<Service>().delete("db").await.unwrap();
    until_mirrored(&cluster, &[]).await;
    cluster.until_gone::<Endpoints>("db").await;
    // Endpoints that precede their service stay, even if there was a service of that name.
    cluster.create(&endpoints).await;
    sleep(Duration::from_secs(60)).await;
    cluster.create(&service).await;
    until_mirrored(&cluster, &all).await;
    cluster.patch::<Service>("db", r#"{"spec": {"selector": {"app": "db"}}}"#).await;
    until_mirrored(&cluster, &[]).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn addresses_beyond_a_thousand_are_not_mirrored_and_reported() {
    let cluster = Cluster::with_nodes(0).await;
    let ips: Vec<String> = (0..1005).map(|number| format!("10.1.{}.{}", number / 250, number % 250)).collect();
    let (service, endpoints) = by_hand("many", &[subset(80, &ips.iter().map(String::as_str).collect::<Vec<_>>(), &[])]);
    cluster.create(&service).await;
    cluster.create(&endpoints).await;
    let told = cluster.until_told("Endpoints", "TooManyAddressesToMirror").await;
    assert_eq!(
        told.message.as_deref(),
        Some(
            "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 5 addresses were skipped"
        )
    );
    let slices: Vec<EndpointSlice> = cluster.list().await;
    assert_eq!(slices.iter().map(|slice| slice.endpoints.len()).collect::<Vec<_>>(), [1000]);
    cluster.stop().await;
}
