// Changes a config map, unless somebody else has changed it meanwhile.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

#[tokio::main]
async fn main() -> kube::Result<()> {
    let maps = Api::<ConfigMap>::namespaced(Client::try_default().await?, "default");
    let old = maps.get("side-by-side").await?;
    let patch = json!({
        "metadata": { "resourceVersion": old.resource_version() },
        "data": { "colour": "green" },
    });
    let patched = maps.patch("side-by-side", &PatchParams::default(), &Patch::Merge(patch)).await?;
    println!("{:?}", patched.data.unwrap_or_default().get("colour"));
    Ok(())
}
