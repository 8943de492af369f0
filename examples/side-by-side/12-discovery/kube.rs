// Prints the resources of the server, each in its preferred version.

use kube::Client;
use kube::discovery::Discovery;

#[tokio::main]
async fn main() -> kube::Result<()> {
    let discovery = Discovery::new(Client::try_default().await?).run().await?;
    for group in discovery.groups() {
        for (resource, _) in group.recommended_resources() {
            println!("{} {}", resource.api_version, resource.plural);
        }
    }
    Ok(())
}
