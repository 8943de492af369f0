// Prints the objects of any resource in the namespace default.

use kubewright::{Client, Object};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let resource = std::env::args().nth(1).unwrap_or("deployments.apps".into());
    let client = Client::try_default().await?;
    let mapping = client.rest_mapper().find(&resource).await?;
    for object in mapping.api(&client, "default").list(&Default::default()).await? {
        println!("{}", object.name());
    }
    Ok(())
}
