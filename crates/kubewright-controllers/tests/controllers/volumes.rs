//! Simulated storage.

use kubewright_api::core::v1::{HostPathVolumeSource, PersistentVolume, PersistentVolumeClaim, Pod};
use kubewright_api::storage::v1::StorageClass;
use kubewright_client::Api;
use kubewright_core::Object;
use kubewright_core::options::ListOptions;

use crate::support::{Cluster, template};

fn claim(name: &str, class: Option<&str>) -> PersistentVolumeClaim {
    let mut claim = PersistentVolumeClaim::default();
    claim.metadata.name = Some(name.into());
    let spec = claim.spec.get_or_insert_default();
    spec.access_modes = ["ReadWriteOnce".into()].into();
    spec.storage_class_name = class.map(Into::into);
    spec.resources.get_or_insert_default().requests.insert("storage", "1Gi".parse().unwrap());
    claim
}

fn phase(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// A user-defined volume.
fn disk() -> PersistentVolume {
    let mut volume = PersistentVolume::default();
    volume.metadata.name = Some("disk".into());
    let spec = volume.spec.get_or_insert_default();
    spec.capacity.insert("storage", "5Gi".parse().unwrap());
    spec.access_modes = ["ReadWriteOnce".into()].into();
    spec.persistent_volume_reclaim_policy = Some("Retain".into());
    spec.host_path = Some(HostPathVolumeSource { path: "/data".into(), ..Default::default() }.into());
    volume
}

async fn volumes(cluster: &Cluster) -> Vec<PersistentVolume> {
    Api::all(&cluster.client).list(&ListOptions::default()).await.unwrap().items
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_a_volume_that_is_deleted_with_it() {
    let cluster = Cluster::with_nodes(1).await;
    cluster.create(&claim("data", None)).await;
    let bound = cluster.until::<PersistentVolumeClaim>("data", |claim| phase(claim) == "Bound").await;
    let made = volumes(&cluster).await;
    let volume = &made[0];
    assert_eq!(bound.spec.as_ref().unwrap().volume_name.as_deref(), Some(volume.name()));
    assert_eq!(bound.status.as_ref().unwrap().capacity.get("storage").unwrap().to_string(), "1Gi");
    assert_eq!(volume.status.as_ref().unwrap().phase.as_deref(), Some("Bound"));
    cluster.api::<PersistentVolumeClaim>().delete("data").await.unwrap();
    while !volumes(&cluster).await.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_of_a_user_is_bound_and_then_released() {
    let cluster = Cluster::with_nodes(1).await;
    cluster.create(&claim("data", Some(""))).await;
    let volume = disk();
    let all = Api::<PersistentVolume>::all(&cluster.client);
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(phase(&cluster.get("data").await), "Pending", "nothing is made up for it");
    all.create(&volume).await.unwrap();
    let bound = cluster.until::<PersistentVolumeClaim>("data", |claim| phase(claim) == "Bound").await;
    assert_eq!(bound.status.as_ref().unwrap().capacity.get("storage").unwrap().to_string(), "5Gi");
    cluster.api::<PersistentVolumeClaim>().delete("data").await.unwrap();
    loop {
        let left = all.get("disk").await.unwrap();
        if left.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Released") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_bound_volume_is_removed_after_its_claim() {
    let cluster = Cluster::with_nodes(1).await;
    let all = Api::<PersistentVolume>::all(&cluster.client);
    all.create(&disk()).await.unwrap();
    cluster.create(&claim("data", Some(""))).await;
    cluster.until::<PersistentVolumeClaim>("data", |claim| phase(claim) == "Bound").await;
    all.delete("disk").await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(all.get("disk").await.unwrap().is_being_deleted(), "its claim still uses it");
    cluster.api::<PersistentVolumeClaim>().delete("data").await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(all.get_opt("disk").await.unwrap().map(|left| left.status), None);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_class_can_have_its_volumes_wait_for_a_pod() {
    let cluster = Cluster::with_nodes(1).await;
    cluster.create(&claim("data", Some("local"))).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let mut class = StorageClass { provisioner: "any".into(), ..Default::default() };
    class.metadata.name = Some("local".into());
    class.volume_binding_mode = Some("WaitForFirstConsumer".into());
    class.reclaim_policy = Some("Retain".into());
    Api::all(&cluster.client).create(&class).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(phase(&cluster.get("data").await), "Pending");
    let mut pod = Pod { spec: template("db", "one:1").spec, ..Default::default() };
    pod.metadata.name = Some("db".into());
    let volume = r#"{"spec":{"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data"}}]}}"#;
    let with_volume: Pod = kubewright_core::Decoder::new().json(volume.as_bytes()).unwrap();
    pod.spec.as_mut().unwrap().volumes = with_volume.spec.unwrap().volumes;
    cluster.create(&pod).await;
    cluster.until::<PersistentVolumeClaim>("data", |claim| phase(claim) == "Bound").await;
    let made = volumes(&cluster).await;
    let spec = made[0].spec.as_ref().unwrap();
    assert_eq!(spec.storage_class_name.as_deref(), Some("local"));
    assert_eq!(spec.persistent_volume_reclaim_policy.as_deref(), Some("Retain"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_with_a_claim_reference_is_reserved_for_it() {
    let cluster = Cluster::with_nodes(1).await;
    let mut class = StorageClass { provisioner: "kubernetes.io/no-provisioner".into(), ..Default::default() };
    class.metadata.name = Some("manual".into());
    Api::all(&cluster.client).create(&class).await.unwrap();
    let mut volume = disk();
    let spec = volume.spec.as_mut().unwrap();
    spec.storage_class_name = Some("manual".into());
    let reference = spec.claim_ref.get_or_insert_default();
    (reference.namespace, reference.name) = (Some("default".into()), Some("late".into()));
    let all = Api::<PersistentVolume>::all(&cluster.client);
    all.create(&volume).await.unwrap();
    cluster.create(&claim("early", Some("manual"))).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(phase(&cluster.get("early").await), "Pending", "neither that volume, nor one that is made up");
    let told = all.get("disk").await.unwrap().status.unwrap_or_default();
    assert_eq!(told.phase.as_deref(), Some("Available"));
    cluster.create(&claim("late", Some("manual"))).await;
    cluster.until::<PersistentVolumeClaim>("late", |claim| phase(claim) == "Bound").await;
    cluster.stop().await;
}
