// Prints the resources of the server, each in its preferred version.

use kubewright::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let discovery = Client::try_default().await?.discovery().discover().await?;
    for (version, resource) in discovery.preferred_resources() {
        println!("{version} {}", resource.plural);
    }
    for failure in &discovery.failures {
        println!("incomplete: {failure:?}");
    }
    Ok(())
}
