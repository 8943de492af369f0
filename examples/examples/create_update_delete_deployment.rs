//! The lifecycle of a Deployment with the typed client: create, update, list, delete.
//!
//! `cargo run -p kubewright-examples --example create_update_delete_deployment -- --embedded`

use clap::Parser;
use kubewright::api::apps::v1::{Deployment, DeploymentSpec};
use kubewright::api::core::v1::{Container, ContainerPort, PodSpec, PodTemplateSpec};
use kubewright::client::{RetryPolicy, retry_on_conflict};
use kubewright::meta::v1::{LabelSelector, ObjectMeta};
use kubewright::options::{DeleteOptions, ListOptions, PropagationPolicy};
use kubewright::{Error, Object};
use kubewright_examples::{Arguments, Outcome, prompt};

#[tokio::main]
async fn main() -> Outcome {
    let connection = Arguments::parse().connect().await?;
    let deployments = connection.client.apps_v1().deployments("default");

    println!("Creating deployment...");
    let created = deployments.create(&demo_deployment()).await?;
    println!("Created deployment {:?}.", created.name());

    prompt()?;
    println!("Updating deployment...");
    // A concurrent write between read and update is a conflict; both are retried.
    retry_on_conflict(RetryPolicy::CONFLICT, async || {
        let mut deployment = deployments.get(created.name()).await?;
        if deployment.uid() != created.uid() {
            return Err(Error::InvalidRequest("the deployment was replaced by another one of its name".to_owned()));
        }
        let spec = deployment.spec.get_or_insert_default();
        spec.replicas = Some(1);
        let pod = spec.template.spec.get_or_insert_default();
        if let Some(web) = pod.containers.iter_mut().find(|container| container.name == "web") {
            web.image = Some("nginx:1.13".into());
        }
        deployments.update(&deployment).await
    })
    .await?;
    println!("Updated deployment...");

    prompt()?;
    println!("Listing deployments in namespace \"default\":");
    for deployment in deployments.list(&ListOptions::default()).await? {
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
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

fn demo_deployment() -> Deployment {
    let labels = [("app", "demo".into())];
    let container = Container {
        name: "web".into(),
        image: Some("nginx:1.12".into()),
        ports: [ContainerPort { name: Some("http".into()), container_port: 80, ..Default::default() }].into(),
        ..Default::default()
    };
    Deployment {
        metadata: ObjectMeta { name: Some("demo-deployment".into()), ..Default::default() },
        spec: Some(DeploymentSpec {
            replicas: Some(2),
            selector: LabelSelector { match_labels: labels.clone().into(), ..Default::default() },
            template: PodTemplateSpec {
                metadata: ObjectMeta { labels: labels.into(), ..Default::default() },
                spec: Some(PodSpec { containers: [container].into(), ..Default::default() }),
            },
            ..Default::default()
        }),
        ..Default::default()
    }
}
