//! Lets teams label their own namespaces, without permission to write namespaces.
//!
//! `cargo run -p kubewright-examples --example namespace_labeller -- team-a team-b`
//!
//! A `NamespaceLabels` object lists labels for its namespace. The operator serves the namespaces of
//! its command line only. In each of them it has a Role, and it has no ClusterRole at all: a Role
//! in a namespace also covers the Namespace object of that name. Caches list and watch each of
//! these namespaces separately.
//!
//! Labels are set by server-side apply, with one field manager for each object. So the server knows
//! who owns which label: labels of others are never changed, and a label that is no longer wanted
//! is removed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubewright::api::core::v1::{Namespace, NamespaceApply};
use kubewright::condition::set_status_condition;
use kubewright::meta::v1::Condition;
use kubewright::options::ApplyOptions;
use kubewright::runtime::custom::{self, CustomResource};
use kubewright::runtime::events::{EventApi, EventRecorder};
use kubewright::runtime::{
    BoxError, Context, Finalizing, Manager, ManagerOptions, Outcome, Predicate, finalize, shutdown_on_signals,
};
use kubewright::{Client, Error, Object};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Removes the labels before their object disappears.
const FINALIZER: &str = "labels.example.com/cleanup";
/// A Role cannot permit a watch of namespaces, so changed labels are repaired after this time.
const REPAIR: Duration = Duration::from_secs(600);
/// A label that somebody else owns is tried again after this time.
const CONFLICT_RETRY: Duration = Duration::from_secs(60);

/// The labels of a namespace that its team wants.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[resource(group = "labels.example.com", version = "v1", kind = "NamespaceLabels", plural = "namespacelabels")]
#[resource(namespaced, status = NamespaceLabelsStatus)]
#[resource(column(name = "Applied", type = "string", path = ".status.conditions[?(@.type=='Applied')].status"))]
pub struct NamespaceLabelsSpec {
    /// Labels of the namespace. Others, such as those of Pod Security, are not for teams to set.
    #[schemars(extend("maxProperties" = 16))]
    #[schemars(transform = custom::rule(
        "self.all(name, name.startsWith('team.example.com/'))",
        "labels must start with team.example.com/",
    ))]
    pub labels: BTreeMap<String, String>,
}

/// Whether the labels are set.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceLabelsStatus {
    /// The condition `Applied`.
    #[schemars(transform = custom::list_map(["type"]))]
    pub conditions: Vec<Condition>,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let shutdown = shutdown_on_signals();
    let namespaces: Vec<String> = std::env::args().skip(1).collect();
    if namespaces.is_empty() {
        return Err("usage: namespace_labeller NAMESPACE…".into());
    }
    Ok(manager(&Client::try_default().await?, &namespaces)?.run(&shutdown).await?)
}

/// The operator for these namespaces.
pub fn manager(client: &Client, namespaces: &[String]) -> Result<Manager, BoxError> {
    let mut manager = Manager::new(client, ManagerOptions::default().namespaces(namespaces));
    manager.elect_by_lease("namespace-labeller")?;
    let events = manager.recorder("namespace-labeller", EventApi::Events);
    let controller = manager
        .controller::<NamespaceLabels>("labels")
        .filter(Predicate::generation_changed())
        .every(REPAIR)
        .reconciling_with(events, reconcile);
    manager.add(controller)?;
    Ok(manager)
}

async fn reconcile(
    object: Arc<NamespaceLabels>,
    context: Context,
    events: Arc<EventRecorder>,
) -> Result<Outcome, BoxError> {
    let objects = context.api::<NamespaceLabels>(object.namespace());
    finalize(&objects, FINALIZER, object, async |step| match step {
        Finalizing::Apply(object) => {
            let applied = apply(&object, &object.spec.labels, &context).await;
            report(&object, &applied, &context, &events).await?;
            match applied {
                Err(error) if error.is_conflict() => Ok(Outcome::requeue_after(CONFLICT_RETRY)),
                other => Ok(other.map(|()| Outcome::Done)?),
            }
        }
        Finalizing::Cleanup(object) => Ok(apply(&object, &BTreeMap::new(), &context).await.map(Outcome::from)?),
    })
    .await
}

/// Sets these labels, and removes all others that this object has set before.
async fn apply(object: &NamespaceLabels, labels: &BTreeMap<String, String>, context: &Context) -> Result<(), Error> {
    let labels = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let namespace = NamespaceApply::new(object.namespace()).labels(labels);
    // Without force: a label that somebody else has set to another value is a conflict.
    let options = ApplyOptions::new(format!("namespace-labels-{}", object.uid()));
    context.cluster_api::<Namespace>().apply_configuration(&namespace, &options).await.map(drop)
}

/// Sets the condition, and records an event when it changes.
async fn report(
    object: &NamespaceLabels,
    applied: &Result<(), Error>,
    context: &Context,
    events: &EventRecorder,
) -> Result<(), BoxError> {
    let (reason, message) = match applied {
        Ok(()) => ("Applied", "the namespace has all labels".to_owned()),
        Err(error) if error.is_conflict() => ("Conflict", error.to_string()),
        Err(error) => ("Failed", error.to_string()),
    };
    let condition = Condition::new("Applied", applied.is_ok(), reason, message.as_str()).observing(object);
    let mut changed = object.clone();
    if set_status_condition(&mut changed.status.get_or_insert_default().conditions, condition) {
        context.api::<NamespaceLabels>(object.namespace()).update_status(&changed).await?;
        match applied {
            Ok(()) => events.normal(object, reason, message),
            Err(_) => events.warning(object, reason, message),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
