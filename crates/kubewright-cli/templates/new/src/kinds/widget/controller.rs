//! Reconciles one object, which owns a deployment of the same name.

use std::sync::Arc;

use kubewright::Object;
use kubewright::api::{apps, core};
use kubewright::runtime::ownership::set_controller_reference;
use kubewright::runtime::{BoxError, Context, Manager, Outcome, Permissions};

use super::v1alpha1 as resource;

/// Names the object in the labels of its pods.
const LABEL: &str = "example.com/widget";

/// Adds the controller to `manager`.
pub fn add_to(manager: &mut Manager) -> Result<(), BoxError> {
    let controller = manager.controller::<resource::Widget>("widget").permissions(&permissions());
    manager.add(controller.owns::<apps::v1::Deployment>().workers(4).reconciling(reconcile))?;
    Ok(())
}

/// The permissions of the reconciler. Those to read the watched kinds are always included.
/// `kubewright rbac` writes the role.
fn permissions() -> Permissions {
    Permissions::new()
        .allow::<apps::v1::Deployment>(&["create", "update"])
        .allow_subresource::<resource::Widget>("status", &["update"])
        // An owner reference that delays the deletion of its owner needs this permission.
        .allow_subresource::<resource::Widget>("finalizers", &["update"])
}

/// Called when the object or its deployment has changed. After an error it is retried with
/// exponential back-off.
///
/// It compares the desired state with the observed state, not with the event that triggered it.
/// Repeated calls therefore converge to the same result.
async fn reconcile(object: Arc<resource::Widget>, context: Context) -> Result<Outcome, BoxError> {
    if object.is_being_deleted() {
        // The garbage collector deletes the deployment through its owner reference.
        return Ok(Outcome::Done);
    }
    let deployments = context.api::<apps::v1::Deployment>(object.namespace());
    let (deployment, _) = deployments.create_or_update(object.name(), |deployment| want(deployment, &object)).await?;

    let status = resource::WidgetStatus {
        observed_generation: object.metadata.generation.unwrap_or_default(),
        available_replicas: deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default(),
    };
    if object.status.as_ref() != Some(&status) {
        let mut changed = (*object).clone();
        changed.status = Some(status);
        context.api::<resource::Widget>(object.namespace()).update_status(&changed).await?;
    }
    Ok(Outcome::Done)
}

/// Sets the managed fields, and keeps all others.
///
/// Fails if a deployment of this name has another controller; it is not modified then.
fn want(deployment: &mut apps::v1::Deployment, object: &resource::Widget) -> Result<(), BoxError> {
    set_controller_reference(object, deployment)?;
    let spec = deployment.spec.get_or_insert_default();
    spec.replicas = Some(object.spec.replicas);
    spec.selector.match_labels.insert(LABEL, object.name().into());
    spec.template.metadata.labels.insert(LABEL, object.name().into());
    let pod = spec.template.spec.get_or_insert_default();
    if pod.containers.is_empty() {
        pod.containers = [core::v1::Container { name: "main".into(), ..Default::default() }].into();
    }
    if let Some(container) = pod.containers.iter_mut().find(|container| container.name == "main") {
        container.image = Some(object.spec.image.as_str().into());
    }
    Ok(())
}
