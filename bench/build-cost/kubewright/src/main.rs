//! Reads a pod and a deployment and writes them again.

use kubewright_api::{apps::v1::Deployment, core::v1::Pod};
use kubewright_core::{DecodeError, Decoder, Object};

fn main() -> Result<(), DecodeError> {
    let input = std::fs::read("input.json").unwrap_or_default();
    let pod: Pod = Decoder::new().json(&input)?;
    let deployment: Deployment = Decoder::new().json(&input)?;
    println!("{}{}", String::from_utf8_lossy(&pod.to_json()), String::from_utf8_lossy(&deployment.to_json()));
    Ok(())
}
