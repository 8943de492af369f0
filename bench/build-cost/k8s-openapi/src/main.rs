//! Reads a pod and a deployment and writes them again.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};

fn main() -> Result<(), serde_json::Error> {
    let input = std::fs::read("input.json").unwrap_or_default();
    let pod: Pod = serde_json::from_slice(&input)?;
    let deployment: Deployment = serde_json::from_slice(&input)?;
    println!("{}{}", serde_json::to_string(&pod)?, serde_json::to_string(&deployment)?);
    Ok(())
}
