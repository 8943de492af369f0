// Tests a controller that copies the value of a config map into its annotation.

use std::sync::Arc;

use kubewright::api::core::v1::ConfigMap;
use kubewright::options::Patch;
use kubewright::runtime::testing::TestCluster;
use kubewright::runtime::{BoxError, Context, Outcome};
use kubewright::{Object, json};

async fn reconcile(map: Arc<ConfigMap>, context: Context) -> Result<Outcome, BoxError> {
    if let Some(colour) = map.data.get("colour") {
        let patch = json!({ "metadata": { "annotations": { "colour": colour.as_str() } } });
        context.api::<ConfigMap>(map.namespace()).patch(map.name(), Patch::merge(patch)).await?;
    }
    Ok(Outcome::Done)
}

#[tokio::test(start_paused = true)]
async fn the_colour_is_copied() -> Result<(), BoxError> {
    let cluster = TestCluster::start().await?;
    let mut manager = cluster.manager();
    manager.add(manager.controller::<ConfigMap>("colours").reconciling(reconcile))?;
    let running = cluster.run(manager);

    let maps = cluster.client().api::<ConfigMap>("default");
    let mut map = ConfigMap::default();
    map.set_name("side-by-side");
    map.data.insert("colour", "blue".into());
    maps.create(&map).await?;
    running.until_idle().await;
    assert_eq!(maps.get("side-by-side").await?.annotations().get("colour"), Some("blue"));
    Ok(())
}
