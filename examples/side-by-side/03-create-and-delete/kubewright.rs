// Creates a config map and deletes it.

use kubewright::api::core::v1::ConfigMap;
use kubewright::options::DeleteOptions;
use kubewright::{Client, Object};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let maps = Client::try_default().await?.api::<ConfigMap>("default");
    let mut map = ConfigMap::default();
    map.set_name("side-by-side");
    map.data.insert("colour", "blue".into());
    let created = maps.create(&map).await?;
    println!("created {}", created.name());

    // Another config map of this name is not deleted.
    maps.delete_with(created.name(), &DeleteOptions::default().uid(created.uid())).await?;
    println!("deleted {}", created.name());
    Ok(())
}
