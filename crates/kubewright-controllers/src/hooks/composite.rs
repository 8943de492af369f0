//! A running declared controller.

use std::sync::Arc;
use std::time::Duration;

use kubewright_cache::{FactoryOptions, InformerScope, SharedInformerFactory};
use kubewright_client::discovery::RestMapping;
use kubewright_client::{Api, Client, Scope};
use kubewright_core::{DynamicObject, GroupResource, GroupVersion, GroupVersionResource, Object, Value};
use kubewright_runtime::controller::RunnableController;
use kubewright_runtime::{BoxError, Context, Controller, Finalizing, Outcome, Owns, finalize};

use super::children::{ChildResource, bring_about, observed};
use super::resource::{CompositeController, ResourceRule};
use super::webhook::{Caller, HookResponse, tree};
use crate::hook_error::HookError;
use crate::indices;

/// Default interval of finalize calls.
const CLEANING: Duration = Duration::from_secs(5);

/// State for the reconciler.
struct Composite {
    declaration: Value,
    parent: GroupVersionResource,
    has_status: bool,
    is_namespaced: bool,
    finalizer: String,
    sync: Caller,
    finalize: Option<Caller>,
    children: Vec<ChildResource>,
}

/// Creates the declared controller with its own caches.
pub(super) async fn prepare(
    declared: &CompositeController,
    client: &Client,
    workers: usize,
) -> Result<RunnableController, HookError> {
    let spec = &declared.spec;
    let factory = SharedInformerFactory::new(client, FactoryOptions::default());
    let (parent, has_status) = find(client, &spec.parent_resource).await?;
    let mut children = Vec::with_capacity(spec.child_resources.len());
    for rule in &spec.child_resources {
        let (RestMapping { resource, kind, namespaced, .. }, _) = find(client, rule).await?;
        let informer = factory.dynamic(resource.clone(), InformerScope::default());
        indices::by_controller(&informer);
        children.push(ChildResource { kind, resource, is_namespaced: namespaced, informer });
    }
    let name = format!("hooks/{}", declared.name());
    let informer = factory.dynamic(parent.resource.clone(), InformerScope::default());
    let (kind, resource) = (parent.kind.group_kind(), parent.resource.group_resource().to_string());
    let mut controller =
        Controller::dynamic(name, &factory, informer, kind, resource.into(), parent.namespaced).workers(workers);
    for child in &children {
        let resource = child.resource.group_resource().to_string();
        controller = controller.owns_with(Owns::informer(resource, child.informer.clone()));
    }
    if let Some(seconds) = spec.resync_period_seconds.filter(|seconds| *seconds > 0) {
        controller = controller.every(Duration::from_secs(seconds.into()));
    }
    let composite = Arc::new(Composite {
        declaration: tree(declared),
        parent: parent.resource,
        has_status,
        is_namespaced: parent.namespaced,
        finalizer: format!("hooks.kubewright.dev/{}", declared.name()),
        sync: Caller::new(&spec.hooks.sync.webhook)?,
        finalize: spec.hooks.finalize.as_ref().map(|hook| Caller::new(&hook.webhook)).transpose()?,
        children,
    });
    Ok(controller.reconciling(move |parent, context| composite.clone().reconcile(parent, context)))
}

/// Finds a resource on the server, and whether it has a status subresource.
async fn find(client: &Client, rule: &ResourceRule) -> Result<(RestMapping, bool), HookError> {
    let missing = || HookError::UnknownResource(format!("{} of {}", rule.resource, rule.api_version));
    let version: GroupVersion = rule.api_version.parse().map_err(|_| missing())?;
    let found = client.discovery().version(&version).await;
    let resources =
        found.map_err(|error| if error.is_not_found() { missing() } else { HookError::Discovery(error) })?;
    let found = resources.into_iter().find(|one| one.plural == rule.resource.as_str()).ok_or_else(missing)?;
    let has_status = found.subresource("status").is_some();
    let GroupResource { group, resource } = GroupResource::new(version.group.clone(), rule.resource.as_str());
    let resource = GroupVersionResource::new(group, version.version.clone(), resource);
    let kind = version.with_kind(found.kind.kind.clone());
    Ok((RestMapping { resource, kind, namespaced: found.namespaced }, has_status))
}

impl Composite {
    async fn reconcile(self: Arc<Self>, parent: Arc<DynamicObject>, context: Context) -> Result<Outcome, BoxError> {
        if self.finalize.is_none() {
            // Without a finalize hook, the garbage collector deletes the children.
            return if parent.is_being_deleted() { Ok(Outcome::Done) } else { self.sync(parent, &context).await };
        }
        let api = context.own(self.api(&parent, &context));
        finalize(&api, &self.finalizer, parent, async |what| match what {
            Finalizing::Apply(parent) => self.sync(parent, &context).await,
            Finalizing::Cleanup(parent) => self.clean_up(parent, &context).await,
        })
        .await
    }

    fn api(&self, parent: &DynamicObject, context: &Context) -> Api<DynamicObject> {
        let scope = if self.is_namespaced { Scope::Namespace(parent.namespace().into()) } else { Scope::Cluster };
        Api::new(context.client(), self.parent.clone(), scope)
    }

    async fn sync(&self, parent: Arc<DynamicObject>, context: &Context) -> Result<Outcome, BoxError> {
        let children = observed(&parent, &self.children);
        let answer = self.sync.ask(&self.declaration, &parent, &children, false).await?;
        let resync_after = answer.resync_after;
        self.carry_out(&parent, answer, context).await?;
        Ok(resync_after.map_or(Outcome::Done, Outcome::requeue_after))
    }

    async fn clean_up(&self, parent: Arc<DynamicObject>, context: &Context) -> Result<Outcome, BoxError> {
        let Some(hook) = &self.finalize else { return Ok(Outcome::Done) };
        let children = observed(&parent, &self.children);
        let answer = hook.ask(&self.declaration, &parent, &children, true).await?;
        let (is_finalized, resync_after) = (answer.is_finalized, answer.resync_after);
        self.carry_out(&parent, answer, context).await?;
        Ok(if is_finalized { Outcome::Done } else { Outcome::requeue_after(resync_after.unwrap_or(CLEANING)) })
    }

    async fn carry_out(&self, parent: &DynamicObject, answer: HookResponse, context: &Context) -> Result<(), BoxError> {
        let done = bring_about(parent, answer.children, &self.children, context).await;
        // Written even if a child failed, since it is valid.
        if let Some(status) = answer.status.filter(|_| self.has_status) {
            self.tell(parent, status, context).await?;
        }
        done
    }

    /// Writes the hook's status if it changed.
    async fn tell(&self, parent: &DynamicObject, mut status: Value, context: &Context) -> Result<(), BoxError> {
        if let (Some(fields), Some(generation)) = (status.as_object_mut(), parent.generation()) {
            fields.insert("observedGeneration", Value::from(generation));
        }
        if parent.data.get("status") == Some(&status) {
            return Ok(());
        }
        let mut changed = parent.clone();
        changed.data.insert("status", status);
        context.own(self.api(parent, context)).update_status(&changed).await?;
        Ok(())
    }
}
