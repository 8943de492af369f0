//! The lifecycle of a Deployment with the dynamic client: the same steps as with types, by field
//! paths.
//!
//! ```sh
//! cargo run -p kubewright-examples --example dynamic_create_update_delete_deployment -- --embedded
//! ```

use clap::Parser;
use kubewright::client::{RetryPolicy, retry_on_conflict};
use kubewright::options::{DeleteOptions, ListOptions, PropagationPolicy};
use kubewright::{Decoder, DynamicObject, Error, GroupVersionResource, Object, ObjectList};
use kubewright_examples::{Arguments, Outcome, prompt};

const DEPLOYMENT: &str = r#"{"items": [{
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "demo-deployment"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "demo"}},
        "template": {
            "metadata": {"labels": {"app": "demo"}},
            "spec": {"containers": [{"name": "web", "image": "nginx:1.12", "ports": [{"name": "http", "containerPort": 80}]}]}
        }
    }
}]}"#;

#[tokio::main]
async fn main() -> Outcome {
    let connection = Arguments::parse().connect().await?;
    let resource = GroupVersionResource::from_static("apps", "v1", "deployments");
    let deployments = connection.client.dynamic(resource).namespace("default");

    println!("Creating deployment...");
    let wanted: ObjectList<DynamicObject> = ObjectList::from_json(DEPLOYMENT.as_bytes(), &mut Decoder::new())?;
    let created = deployments.create(&wanted.items[0]).await?;
    println!("Created deployment {:?}.", created.name());

    prompt()?;
    println!("Updating deployment...");
    retry_on_conflict(RetryPolicy::CONFLICT, async || {
        let mut deployment = deployments.get(created.name()).await?;
        if deployment.uid() != created.uid() {
            return Err(Error::InvalidRequest("the deployment was replaced by another one of its name".to_owned()));
        }
        let unfit = |error: kubewright::PathError| Error::InvalidRequest(error.to_string());
        deployment.set(&["spec", "replicas"], 1).map_err(unfit)?;
        deployment.set(&["spec", "template", "spec", "containers", "0", "image"], "nginx:1.13").map_err(unfit)?;
        deployments.update(&deployment).await
    })
    .await?;
    println!("Updated deployment...");

    prompt()?;
    println!("Listing deployments in namespace \"default\":");
    for deployment in deployments.list(&ListOptions::default()).await? {
        let replicas = deployment.get(&["spec", "replicas"]).unwrap_or_default();
        println!(" * {} ({replicas} replicas)", deployment.name());
    }

    prompt()?;
    println!("Deleting deployment...");
    // The uid is a precondition: a recreated deployment of this name is not deleted.
    let foreground = DeleteOptions::default().propagation(PropagationPolicy::Foreground).uid(created.uid());
    deployments.delete_with(created.name(), &foreground).await?;
    println!("Deleted deployment.");
    Ok(())
}
