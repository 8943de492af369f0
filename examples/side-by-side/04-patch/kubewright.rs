// Changes a config map, unless somebody else has changed it meanwhile.

use kubewright::Client;
use kubewright::api::core::v1::ConfigMap;
use kubewright::options::Patch;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let maps = Client::try_default().await?.api::<ConfigMap>("default");
    let old = maps.get("side-by-side").await?;
    let mut new = old.clone();
    new.data.insert("colour", "green".into());
    let patch = Patch::merge_from(&old, &new)?.if_unchanged(&old)?;
    let patched = maps.patch("side-by-side", patch).await?;
    println!("{:?}", patched.data.get("colour"));
    Ok(())
}
