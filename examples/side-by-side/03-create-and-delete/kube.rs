// Creates a config map and deletes it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};

#[tokio::main]
async fn main() -> kube::Result<()> {
    let maps = Api::<ConfigMap>::namespaced(Client::try_default().await?, "default");
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some("side-by-side".into()), ..Default::default() },
        data: Some(BTreeMap::from([("colour".into(), "blue".into())])),
        ..Default::default()
    };
    let created = maps.create(&PostParams::default(), &map).await?;
    println!("created {}", created.name_any());

    // Another config map of this name is not deleted.
    let options = DeleteParams::default()
        .preconditions(Preconditions { uid: created.uid(), resource_version: None });
    maps.delete(&created.name_any(), &options).await?;
    println!("deleted {}", created.name_any());
    Ok(())
}
