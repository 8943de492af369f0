//! A cluster in this process, for the tests of all kinds; and tests of the manifests.

use std::path::Path;

use kubewright::runtime::testing::{RunningManager, TestCluster};
use kubewright::{DynamicObject, yaml};

use crate::{kinds, manifests};

/// A cluster with the definitions, and the controllers running as their service account. They have
/// no other permissions than the role in `manifests/`.
pub async fn start() -> (TestCluster, RunningManager) {
    let cluster = TestCluster::start().await.expect("a server in memory starts");
    cluster.install(manifests::definitions().expect("they are valid")).await.expect("the server accepts them");
    for manifest in [
        include_str!("../manifests/00-namespace.yaml"),
        include_str!("../manifests/20-role.yaml"),
        include_str!("../manifests/21-access.yaml"),
    ] {
        let objects = yaml::objects(manifest).expect("it is YAML");
        cluster.apply(objects).await.expect("the server accepts them");
    }
    if let Some(webhooks) = kinds::webhooks() {
        let objects = manifests::webhook_objects(&webhooks).expect("they are valid");
        let objects = objects.into_iter().map(|object| DynamicObject::try_from(object).expect("it is an object"));
        cluster.webhooks_of_service("widget-operator-system", "widget-operator", webhooks);
        cluster.apply(objects).await.expect("the server accepts their configurations");
    }
    let mut manager = cluster.manager_of("widget-operator-system", "widget-operator");
    kinds::add_to(&mut manager).expect("each controller has a name of its own");
    let running = cluster.run(manager);
    (cluster, running)
}

#[tokio::test]
async fn the_manifests_follow_from_the_code() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, text) in manifests::generated().expect("the definitions are valid") {
        let written = std::fs::read_to_string(project.join(name)).unwrap_or_default();
        // `kubewright rbac --from-test` may write a smaller role, under which these tests run.
        let is_role = name.ends_with("role.yaml");
        assert!(is_role || written == text, "{name} differs from the code; run: cargo run -- manifests");
    }
}
