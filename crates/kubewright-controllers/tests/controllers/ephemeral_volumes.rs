//! Claims for the ephemeral volumes of pods.

use std::time::Duration;

use kubewright_api::core::v1::{
    EphemeralVolumeSource, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimTemplate, Pod, Volume,
};
use kubewright_core::{Object, owner};
use tokio::time::sleep;

use crate::support::{Cluster, labels, template};

const CLAIM: &str = "web-scratch";

fn claim_spec() -> PersistentVolumeClaimSpec {
    let mut spec = PersistentVolumeClaimSpec { access_modes: ["ReadWriteOnce".into()].into(), ..Default::default() };
    spec.resources.get_or_insert_default().requests.insert("storage", "1Gi".parse().unwrap());
    spec
}

fn pod() -> Pod {
    let mut claim = PersistentVolumeClaimTemplate { spec: claim_spec(), ..Default::default() };
    claim.metadata.labels = labels("scratch");
    claim.metadata.annotations.insert("note", "kept".into());
    let source = EphemeralVolumeSource { volume_claim_template: Some(claim.into()) };
    let template = template("web", "one:1");
    let mut pod = Pod { metadata: template.metadata.clone(), spec: template.spec, ..Default::default() };
    pod.metadata.name = Some("web".into());
    let mut volume = Volume { name: "scratch".into(), ..Default::default() };
    volume.ephemeral = Some(source.into());
    pod.spec.get_or_insert_default().volumes = [volume].into();
    pod
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound"))
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_volume_has_a_claim_owned_by_its_pod() {
    let cluster = Cluster::with_nodes(1).await;
    let made = cluster.create(&pod()).await;
    let claim = cluster.until::<PersistentVolumeClaim>(CLAIM, is_bound).await;
    assert!(owner::is_controlled_by(&claim.metadata, &made.metadata));
    assert_eq!((claim.labels().get("app"), claim.annotations().get("note")), (Some("scratch"), Some("kept")));

    // The claim exists as long as the pod.
    let claims = cluster.api::<PersistentVolumeClaim>();
    claims.delete(CLAIM).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    let kept = claims.get(CLAIM).await.unwrap();
    assert!(kept.uid() == claim.uid() && kept.is_being_deleted());

    cluster.api::<Pod>().delete("web").await.unwrap();
    cluster.until_gone::<Pod>("web").await;
    cluster.until_gone::<PersistentVolumeClaim>(CLAIM).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_with_another_owner_is_not_used_for_an_ephemeral_volume() {
    let cluster = Cluster::with_nodes(0).await;
    let mut other = PersistentVolumeClaim { spec: Some(claim_spec()), ..Default::default() };
    other.metadata.name = Some(CLAIM.into());
    let other = cluster.create(&other).await;
    let made = cluster.create(&pod()).await;
    let told = cluster.until_told("Pod", "FailedBinding").await;
    let words =
        "ephemeral volume scratch: PVC default/web-scratch was not created for pod default/web (pod is not owner)";
    assert_eq!((told.message.as_deref(), told.type_.as_deref()), (Some(words), Some("Warning")));
    cluster.api::<PersistentVolumeClaim>().delete(CLAIM).await.unwrap();
    let is_another = |claim: &PersistentVolumeClaim| claim.uid() != other.uid();
    let claim = cluster.until::<PersistentVolumeClaim>(CLAIM, is_another).await;
    assert!(owner::is_controlled_by(&claim.metadata, &made.metadata));
    cluster.stop().await;
}
