//! The sample controller: a `Foo` owns a deployment with the given name and size.
//!
//! Its objects are dynamic, so a custom kind needs no types. Unlike the Go sample, it writes status
//! and events only on changes, so it never triggers itself. It is not run by default.

// `Foo` is the name of the sample kind.
#![allow(clippy::disallowed_names)]

use std::sync::Arc;

use kubewright_api::apps::v1::{Deployment, DeploymentSpec};
use kubewright_api::core::v1::{Container, PodSpec};
use kubewright_cache::{Event, InformerScope, Lister};
use kubewright_client::{Api, Client, Scope};
use kubewright_core::meta::v1::LabelSelector;
use kubewright_core::{
    DynamicObject, GroupVersionKind, GroupVersionResource, Map, Object, ObjectKey, Selector, Str, owner,
};
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::context::ControllerContext;
use crate::error::Error;
use crate::owner_events::owners_of;
use crate::worker::{self, Reconcile, Synced, work};

/// The reconciled kind.
pub const FOO: GroupVersionKind = GroupVersionKind::from_static("samplecontroller.k8s.io", "v1alpha1", "Foo");
const FOOS: GroupVersionResource = GroupVersionResource::from_static("samplecontroller.k8s.io", "v1alpha1", "foos");

/// The CustomResourceDefinition, as JSON.
pub const DEFINITION: &str = r#"{
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
  "metadata": {
    "name": "foos.samplecontroller.k8s.io",
    "annotations": {"api-approved.kubernetes.io": "unapproved, an example"}
  },
  "spec": {
    "group": "samplecontroller.k8s.io", "scope": "Namespaced", "names": {"kind": "Foo", "plural": "foos"},
    "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {
      "type": "object", "properties": {
        "spec": {"type": "object", "properties": {
          "deploymentName": {"type": "string"}, "replicas": {"type": "integer", "minimum": 1, "maximum": 10}}},
        "status": {"type": "object", "properties": {"availableReplicas": {"type": "integer"}}}}}}}]
  }
}"#;

struct Sample {
    client: Client,
    foos: Lister<DynamicObject>,
    deployments: Lister<Deployment>,
    events: EventRecorder,
}

/// Maintains the deployments of all `Foo`s until `stop` is cancelled.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "sample-controller")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, Sample::NAME);
    let foos = factory.dynamic(FOOS, InformerScope::default());
    let deployments = factory.informer::<Deployment>();
    let of_foos = foos.add_handler({
        let queue = queue.clone();
        move |event: &Event<DynamicObject>| queue.add(event.key())
    })?;
    let of_deployments = deployments.add_handler({
        let (queue, foos) = (queue.clone(), foos.lister());
        move |event: &Event<Deployment>| {
            owners_of(event, &foos, "Foo", |_| Some(Selector::nothing()), |key| queue.add(key));
        }
    })?;
    factory.start(stop);
    if of_foos.synced().await && of_deployments.synced().await {
        let sample = Sample {
            client: client.clone(),
            foos: foos.lister(),
            deployments: deployments.lister(),
            events: context.recorder("sample-controller"),
        };
        work(Arc::new(sample), &queue, context, stop).await;
    }
    of_foos.remove();
    of_deployments.remove();
    Ok(())
}

impl Reconcile for Sample {
    const NAME: &'static str = "sample";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(foo) = self.foos.namespace(key.namespace().clone()).get(key.name()) else { return Ok(None) };
        let name = foo.get(&["spec", "deploymentName"]);
        let Some(name) = name.as_ref().and_then(|name| name.as_str()).filter(|name| !name.is_empty()) else {
            // A retry is useless: the object must change first, which queues it again.
            tracing::warn!(%key, "spec.deploymentName must be given");
            return Ok(None);
        };
        let replicas = foo.get(&["spec", "replicas"]).and_then(|value| value.as_i64()).unwrap_or(1);
        let replicas = i32::try_from(replicas).unwrap_or(i32::MAX);
        let api = Api::<Deployment>::namespaced(&self.client, key.namespace().clone());
        let (deployment, is_changed) = match self.deployments.namespace(key.namespace().clone()).get(name) {
            None => (Arc::new(api.create(&deployment_of(&foo, name, replicas)).await?), true),
            Some(deployment) if !owner::is_controlled_by(&deployment.metadata, &foo.metadata) => {
                let message = format!("Resource {name:?} already exists and is not managed by Foo");
                self.events.warning(&*foo, "ErrResourceExists", message);
                let object = format!("deployment {}/{name}", key.namespace());
                return Err(Error::NotControlled { object, owner: format!("Foo {key}") });
            }
            Some(deployment) if deployment.spec.as_ref().and_then(|spec| spec.replicas) != Some(replicas) => {
                let mut changed = (*deployment).clone();
                changed.spec.get_or_insert_default().replicas = Some(replicas);
                (Arc::new(api.update(&changed).await?), true)
            }
            Some(deployment) => (deployment, false),
        };
        let is_told = self.tell(&foo, &deployment).await?;
        if is_changed || is_told {
            self.events.normal(&*foo, "Synced", "Foo synced successfully");
        }
        Ok(None)
    }
}

impl Sample {
    /// Writes the number of available replicas; returns whether it changed.
    async fn tell(&self, foo: &DynamicObject, deployment: &Deployment) -> Result<bool, Error> {
        let available = deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default();
        let path = ["status", "availableReplicas"];
        if foo.get(&path).and_then(|value| value.as_i64()) == Some(i64::from(available)) {
            return Ok(false);
        }
        let mut changed = foo.clone();
        if changed.set(&path, i64::from(available)).is_ok() {
            let api = Api::<DynamicObject>::new(&self.client, FOOS, Scope::Cluster).namespace(foo.namespace());
            api.update_status(&changed).await?;
        }
        Ok(true)
    }
}

fn deployment_of(foo: &DynamicObject, name: &str, replicas: i32) -> Deployment {
    let labels = Map::from([("app", Str::from("nginx")), ("controller", foo.name().into())]);
    let container = Container { name: "nginx".into(), image: Some("nginx:latest".into()), ..Default::default() };
    let mut spec = DeploymentSpec {
        replicas: Some(replicas),
        selector: LabelSelector { match_labels: labels.clone(), ..Default::default() },
        ..Default::default()
    };
    spec.template.metadata.labels = labels;
    spec.template.spec = Some(PodSpec { containers: [container].into(), ..Default::default() });
    let mut deployment = Deployment { spec: Some(spec), ..Default::default() };
    deployment.metadata.name = Some(name.into());
    deployment.metadata.namespace = foo.metadata.namespace.clone();
    deployment.metadata.owner_references = [owner::new_controller_ref(&foo.metadata, &FOO)].into();
    deployment
}
