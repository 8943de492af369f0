//! Dynamic admission control: policies and webhooks that change or reject writes.
//!
//! A write calls [`Control::mutate`] before its object is validated, and [`Control::validate`] once
//! nothing changes the object any more.
//!
//! Writes are synchronous functions, and run again after a conflict. Webhooks are slow. So a write
//! that needs an answer which it does not have yet fails with [`Rejection::NeedsWebhook`].
//! [`Control::run_write`] then calls the webhooks, stores their answer and runs the write again. An
//! answer is keyed by the exact objects of the review, so it never applies to another version of
//! them. An expression that asks the `authorizer` for what only an authorization webhook knows ends
//! the write in the same way.

mod attributes;
mod hook_cache;
mod matching;
mod mutation;
mod policy;
mod webhook;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use kubewright_core::meta::v1::Status;
use kubewright_core::{Str, Time, Value};
use kubewright_net::clock;

pub(crate) use attributes::{Attributes, Operation};
pub(crate) use hook_cache::HookCache;
pub(crate) use policy::Policies;

use crate::admission;
use crate::admission::state::ClusterState;
use crate::warnings::Warnings;
use hook_cache::HookConfigurations;
use kubewright_auth::User;
use kubewright_objects::conversion::webhook::{Converted, PendingConversion};
use kubewright_objects::conversion::{self, ConvertWrite};
use kubewright_objects::random;
use kubewright_objects::rejection::{PendingAuthorization, Rejection};
use kubewright_objects::webhook_client::WebhookClients;
use kubewright_resources::catalog::{ConversionWebhook, Resource};
use kubewright_resources::decoding::{self, ExpectedType};
use matching::ReviewVersion;
use webhook::{ConfiguredWebhook, PendingReview, Stage};

/// Maximum number of attempts whose object differs from the one that webhooks have reviewed.
const MAX_REVIEWED_ATTEMPTS: usize = 16;
/// Maximum number of answers of an authorization webhook for one write.
const MAX_AUTHORIZATIONS: usize = 256;
/// Maximum number of calls to each mutating webhook. The second one is the reinvocation.
const MAX_CALLS: usize = 2;

/// The state that policies and webhooks are read from.
pub(crate) trait ControlState: ClusterState {
    /// Admission policies that have been compiled.
    fn policies(&self) -> &Policies;

    /// The configured webhooks and policies.
    fn hook_cache(&self) -> &HookCache;

    /// Connections to webhooks.
    fn webhook_clients(&self) -> &WebhookClients;
}

/// Whether writes of a resource evaluate CEL expressions: those of its schema, of policies or of
/// webhooks. Their cost limits allow for a second of work, whatever the size of the object.
pub(crate) fn evaluates_expressions(cluster: &dyn ControlState, resource: &Resource) -> bool {
    let has_rules = resource.custom.as_ref().is_some_and(|custom| custom.schema.has_rules());
    has_rules || cluster.hook_cache().get(cluster).evaluates_expressions(&resource.plural)
}

/// The admission control of one request, with the hooks that were configured when it arrived.
pub(crate) struct Control<'a> {
    pub(crate) user: &'a User,
    subresource: Str,
    hooks: Arc<HookConfigurations>,
    clients: WebhookClients,
    answers: Mutex<Vec<(PendingReview, webhook::ReviewResult)>>,
    /// Whether a webhook converts objects of the resource, and its answers so far.
    is_converted: bool,
    conversions: Mutex<Vec<(PendingConversion, Converted)>>,
    /// Whether a webhook may have to authorize something.
    is_authorized_by_webhook: bool,
    /// The call that the write needs before it can run again.
    awaited: Mutex<Option<Awaited>>,
    warnings: Mutex<Warnings>,
    /// The UID of a new object. It stays equal when the write runs again.
    pub(crate) uid: String,
    pub(crate) time: Time,
    letters: OnceLock<String>,
}

/// A webhook call that a write needs.
enum Awaited {
    Authorization(PendingAuthorization),
    Review(PendingReview),
    Conversion(PendingConversion),
}

impl<'a> Control<'a> {
    /// The kind that the object must have: that of the subresource if it has its own.
    fn expected<'r>(&self, resource: &'r Resource) -> ExpectedType<'r> {
        match resource.subresource(&self.subresource) {
            Some(part) if !self.is_about_object(resource) => ExpectedType::from(part),
            _ => ExpectedType::from(resource),
        }
    }

    /// Admission control for the writes of a user to a resource or a subresource.
    pub(crate) fn new(cluster: &dyn ControlState, user: &'a User, resource: &Resource, subresource: &Str) -> Self {
        // Hook configurations bypass admission: otherwise a broken hook could block its own repair.
        let is_exempt = resource.group == "admissionregistration.k8s.io";
        let mut control = Control::without_hooks(user);
        control.is_converted = resource.needs_webhook();
        control.is_authorized_by_webhook = cluster.authorization_modes().has_webhook();
        control.clients = cluster.webhook_clients().clone();
        if !is_exempt {
            control.subresource = subresource.clone();
            control.hooks = cluster.hook_cache().get(cluster);
        }
        control
    }

    /// Admission control without webhooks or policies.
    pub(crate) fn without_hooks(user: &'a User) -> Self {
        Control {
            user,
            subresource: Str::new(),
            hooks: Arc::default(),
            clients: WebhookClients::default(),
            answers: Mutex::default(),
            is_converted: false,
            conversions: Mutex::default(),
            is_authorized_by_webhook: false,
            awaited: Mutex::default(),
            warnings: Mutex::default(),
            uid: random::uid(),
            time: clock::now(),
            letters: OnceLock::new(),
        }
    }

    /// The random suffix of a generated name. It stays equal when the write runs again.
    pub(crate) fn letters(&self) -> &str {
        self.letters.get_or_init(|| random::letters(5))
    }

    /// Runs `write` until it needs no further webhook answers.
    ///
    /// The argument of `write` says whether it may run again. It must not consume its input then.
    pub(crate) async fn run_write<T>(
        &self,
        mut write: impl FnMut(bool) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        let runs_again = !self.hooks.webhooks.is_empty() || self.is_converted || self.is_authorized_by_webhook;
        for _ in 0..MAX_REVIEWED_ATTEMPTS + MAX_CALLS * self.hooks.webhooks.len() + MAX_AUTHORIZATIONS {
            match write(runs_again) {
                Err(Rejection::NeedsWebhook) => self.call_awaited().await,
                Err(Rejection::NeedsAuthorization(pending)) => pending.answered().await,
                other => return other,
            }
        }
        Err(Status::internal("too many retries: the object changes faster than its webhooks respond").into())
    }

    /// Converts the objects of the write.
    pub(crate) fn conversions(&self) -> &dyn ConvertWrite {
        self
    }

    /// Ends the write until a webhook has answered.
    fn wait_for(&self, awaited: Awaited) -> Rejection {
        let mut current = self.awaited();
        // A review that was built on an unanswered expression must not be sent.
        if !matches!(*current, Some(Awaited::Authorization(_))) {
            *current = Some(awaited);
        }
        Rejection::NeedsWebhook
    }

    /// Ends the write until an authorization webhook has answered an expression.
    fn wait_for_authorization(&self, pending: Rejection) {
        if let Rejection::NeedsAuthorization(pending) = pending {
            *self.awaited() = Some(Awaited::Authorization(pending));
        }
    }

    /// The result of hooks, unless an expression of theirs waits for an authorization webhook.
    fn unless_waiting<T>(&self, result: Result<T, Rejection>) -> Result<T, Rejection> {
        if matches!(*self.awaited(), Some(Awaited::Authorization(_))) {
            return Err(Rejection::NeedsWebhook);
        }
        result
    }

    fn awaited(&self) -> MutexGuard<'_, Option<Awaited>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the webhook that the write needs, and keeps the answer for the next run.
    async fn call_awaited(&self) {
        let awaited = self.awaited().take();
        match awaited {
            Some(Awaited::Review(review)) => {
                let answer = review.send(self).await;
                self.answers.lock().unwrap_or_else(PoisonError::into_inner).push((review, answer));
            }
            Some(Awaited::Conversion(pending)) => {
                let answer = pending.ask(&self.clients).await;
                self.conversions.lock().unwrap_or_else(PoisonError::into_inner).push((pending, answer));
            }
            Some(Awaited::Authorization(pending)) => pending.answered().await,
            None => {}
        }
    }

    /// Whether hooks receive the stored object, and not the kind of a subresource, such as `Scale`.
    pub(crate) fn is_about_object(&self, resource: &Resource) -> bool {
        resource.subresource(&self.subresource).is_none_or(|subresource| subresource.kind == resource.kind)
    }

    /// Whether any webhook or policy is configured.
    pub(crate) fn has_hooks(&self) -> bool {
        !self.hooks.webhooks.is_empty() || !self.hooks.policies.is_empty() || !self.hooks.mutations.is_empty()
    }

    /// Calls `look` with the write in the version that a hook wants.
    fn in_version<T>(
        &self,
        version: &ReviewVersion,
        attributes: &Attributes<'_>,
        look: impl FnOnce(&Attributes<'_>) -> T,
    ) -> Result<T, Rejection> {
        let shown = match version {
            ReviewVersion::Own => attributes.resource,
            ReviewVersion::Other(other) => other,
        };
        let attributes = Attributes { shown: Some(shown), ..*attributes };
        // A subresource kind is the same in all versions.
        if !self.is_about_object(attributes.resource) {
            return Ok(look(&attributes));
        }
        let convert = |value| conversion::across(attributes.resource, shown, value, self);
        let object = attributes.object.map(convert).transpose()?;
        let old = attributes.old.map(convert).transpose()?;
        Ok(look(&Attributes { object: object.as_deref(), old: old.as_deref(), ..attributes }))
    }

    /// Restricts kubelets, then runs the mutating policies and webhooks.
    pub(crate) fn mutate(
        &self,
        cluster: &dyn ControlState,
        attributes: Attributes<'_>,
        object: Option<&mut Value>,
    ) -> Result<(), Rejection> {
        admission::node_restriction::check(cluster, self.user, &self.subresource, &attributes, object.as_deref())?;
        let has_webhooks = self.webhooks(Stage::Mutate).next().is_some();
        if !has_webhooks && self.hooks.mutations.is_empty() {
            return Ok(());
        }
        self.unless_waiting(self.run_mutating_hooks(cluster, attributes, object, has_webhooks))
    }

    fn run_mutating_hooks(
        &self,
        cluster: &dyn ControlState,
        attributes: Attributes<'_>,
        object: Option<&mut Value>,
        has_webhooks: bool,
    ) -> Result<(), Rejection> {
        let mut seen = object.as_deref().cloned();
        if let Some(seen) = seen.as_mut().filter(|_| self.is_about_object(attributes.resource)) {
            admission::set_defaults(attributes.resource, seen);
        }
        let by_policies = match &seen {
            Some(seen) if !self.hooks.mutations.is_empty() => mutation::mutate(self, cluster, attributes, seen)?,
            _ => None,
        };
        let seen = by_policies.clone().or(seen);
        let attributes = Attributes { object: seen.as_ref(), ..attributes };
        let by_webhooks = if has_webhooks { self.change_by_webhooks(cluster, &attributes)? } else { None };
        let Some(changed) = by_webhooks.or(by_policies) else { return Ok(()) };
        if let Some(object) = object {
            let fit = decoding::normalize(self.expected(attributes.resource), &changed);
            *object = fit
                .map_err(|_| {
                    Status::internal("the object returned by webhooks and policies cannot be decoded as its kind")
                })?
                .value;
        }
        Ok(())
    }

    /// Runs the validating policies, then the validating webhooks.
    pub(crate) fn validate(&self, cluster: &dyn ControlState, attributes: &Attributes<'_>) -> Result<(), Rejection> {
        self.unless_waiting(self.run_validating_hooks(cluster, attributes))
    }

    fn run_validating_hooks(&self, cluster: &dyn ControlState, attributes: &Attributes<'_>) -> Result<(), Rejection> {
        for policy in &self.hooks.policies {
            policy.check(self, cluster, attributes)?;
        }
        let mut matching = Vec::new();
        for (index, webhook) in self.webhooks(Stage::Validate) {
            let version = webhook.version(cluster, attributes, self)?;
            matching.extend(version.map(|version| (index, webhook, version)));
        }
        self.review(cluster, Stage::Validate, attributes, matching).map(|_| ())
    }

    /// Calls the mutating webhooks one after the other: each one's rules see the changes of the
    /// earlier ones. A webhook with `reinvocationPolicy: IfNeeded` runs again if a later one
    /// changed the object.
    fn change_by_webhooks(
        &self,
        cluster: &dyn ControlState,
        attributes: &Attributes<'_>,
    ) -> Result<Option<Value>, Rejection> {
        let mut changed: Option<Value> = None;
        let mut changes = 0;
        // For each webhook, the number of changes after its last call.
        let mut called_at = vec![None; self.hooks.webhooks.len()];
        for turn in 0..MAX_CALLS {
            for (index, webhook) in self.webhooks(Stage::Mutate) {
                let is_due =
                    turn == 0 || webhook.wants_reinvocation() && called_at[index].is_some_and(|at| at < changes);
                if !is_due {
                    continue;
                }
                let attributes = Attributes { object: changed.as_ref().or(attributes.object), ..*attributes };
                let Some(version) = webhook.version(cluster, &attributes, self)? else { continue };
                if let Some(by) = self.review(cluster, Stage::Mutate, &attributes, vec![(index, webhook, version)])? {
                    (changed, changes) = (Some(by), changes + 1);
                }
                called_at[index] = Some(changes);
            }
        }
        Ok(changed)
    }

    /// The webhooks of a stage, with their indexes.
    fn webhooks(&self, stage: Stage) -> impl Iterator<Item = (usize, &ConfiguredWebhook)> {
        self.hooks.webhooks.iter().enumerate().filter(move |(_, webhook)| webhook.stage == stage)
    }

    /// Looks up the answer for exactly these objects, or fails with the review to send.
    fn review(
        &self,
        cluster: &dyn ControlState,
        stage: Stage,
        attributes: &Attributes<'_>,
        webhooks: Vec<(usize, &ConfiguredWebhook, ReviewVersion)>,
    ) -> Result<Option<Value>, Rejection> {
        if webhooks.is_empty() {
            return Ok(None);
        }
        let pending = PendingReview::new(stage, self, cluster, attributes, webhooks);
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        match answers.iter().find(|(review, _)| review.is_same(&pending)) {
            Some((_, Ok(changed))) => Ok(changed.clone()),
            Some((_, Err(status))) => Err(status.clone().into()),
            None => Err(self.wait_for(Awaited::Review(pending))),
        }
    }

    /// Adds a warning to the response. Repeated warnings are sent once.
    pub(crate) fn warn(&self, warning: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).add(warning);
    }

    /// Takes the warnings for the response.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        let warnings = std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner));
        warnings.texts().map(str::to_owned).collect()
    }
}

impl ConvertWrite for Control<'_> {
    fn converted(&self, converter: &Arc<ConversionWebhook>, object: &Value, version: &Str) -> Result<Value, Rejection> {
        let conversions = self.conversions.lock().unwrap_or_else(PoisonError::into_inner);
        match conversions.iter().find(|(asked, _)| asked.is_about(object, version)) {
            Some((_, Ok(converted))) => Ok(converted.clone()),
            Some((_, Err(why))) => Err(Rejection::unexpected(why.as_str())),
            None => Err(self.wait_for(Awaited::Conversion(PendingConversion::new(converter, object, version)))),
        }
    }
}
