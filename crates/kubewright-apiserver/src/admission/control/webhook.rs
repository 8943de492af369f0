//! Admission webhooks.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use kubewright_cel::{Budget, Program};
use kubewright_core::meta::v1::Status;
use kubewright_core::{ByteString, Decoder, Value};
use kubewright_merge::patch::json_patch;

use super::ControlState;
use super::attributes::Attributes;
use super::matching::ReviewVersion;
use super::{Control, matching, policy};
use crate::admission::plugins::AdmissionPlugin;
use kubewright_objects::conversion;
use kubewright_objects::object::{Meta, to_json, tree};
use kubewright_objects::random;
use kubewright_objects::rejection::Rejection;
use kubewright_objects::webhook_client::WebhookClients;
use kubewright_resources::catalog::Resource;
use kubewright_storage::KeyRange;
use kubewright_validation::admission_policy::policy_environment;

/// Timeout of a webhook call without `timeoutSeconds`.
const TIMEOUT_SECONDS: i64 = 10;

/// The stage in which a webhook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Before defaults and validation, so it may change the object.
    Mutate,
    /// After all changes, so it sees the final object.
    Validate,
}

/// A webhook of a configuration.
#[derive(Debug, Clone)]
pub(super) struct ConfiguredWebhook {
    pub(super) stage: Stage,
    value: Value,
    /// The compiled match conditions, or their compilation errors.
    conditions: Vec<Result<Program, String>>,
}

/// The result of a review: the object if it was changed, or the rejection.
pub(super) type ReviewResult = Result<Option<Value>, Box<Status>>;

/// A review that still has to be sent.
#[derive(Debug)]
pub(crate) struct PendingReview {
    stage: Stage,
    webhooks: Vec<WebhookCall>,
    /// The resource of the object. `None` for objects of a subresource kind.
    resource: Option<Arc<Resource>>,
    object: Value,
    old: Value,
    dry_run: bool,
}

/// One webhook call of a review.
#[derive(Debug)]
struct WebhookCall {
    /// Index in the list of all webhooks.
    index: usize,
    webhook: ConfiguredWebhook,
    /// The review request without the objects.
    request: Value,
    /// The resource of the version that the webhook wants, if it differs from the request's.
    shown: Option<Arc<Resource>>,
}

/// All webhooks in calling order.
pub(super) fn all(cluster: &dyn ControlState) -> Vec<ConfiguredWebhook> {
    let mut webhooks = Vec::new();
    for (stage, plugin, plural) in [
        (Stage::Mutate, AdmissionPlugin::MutatingAdmissionWebhook, "mutatingwebhookconfigurations"),
        (Stage::Validate, AdmissionPlugin::ValidatingAdmissionWebhook, "validatingwebhookconfigurations"),
    ] {
        if !cluster.has_plugin(plugin) {
            continue;
        }
        for entry in cluster.all(&KeyRange::resource(format!("{plural}.admissionregistration.k8s.io"))) {
            let listed = tree::items(entry.object.value(), &["webhooks"]).iter();
            webhooks.extend(listed.map(|value| ConfiguredWebhook::read(stage, value)));
        }
    }
    webhooks
}

impl ConfiguredWebhook {
    fn read(stage: Stage, value: &Value) -> ConfiguredWebhook {
        let environment = policy_environment();
        let compile = |condition: &Value| {
            let text = tree::text(condition, &["expression"]);
            environment.compile(text).map_err(|error| error.to_string())
        };
        let conditions = tree::items(value, &["matchConditions"]).iter().map(compile).collect();
        ConfiguredWebhook { stage, value: value.clone(), conditions }
    }

    fn name(&self) -> &str {
        tree::text(&self.value, &["name"])
    }

    /// Whether CEL expressions restrict the requests.
    pub(super) fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// The resources and operations that the webhook matches.
    pub(super) fn rules(&self) -> &[Value] {
        tree::items(&self.value, &["rules"])
    }

    /// Whether the webhook wants reinvocation after later changes.
    pub(super) fn wants_reinvocation(&self) -> bool {
        tree::text(&self.value, &["reinvocationPolicy"]) == "IfNeeded"
    }

    fn fails_closed(&self) -> bool {
        tree::text(&self.value, &["failurePolicy"]) != "Ignore"
    }

    /// The version in which the webhook receives a write. `None` if it does not match.
    pub(super) fn version(
        &self,
        cluster: &dyn ControlState,
        attributes: &Attributes<'_>,
        control: &Control<'_>,
    ) -> Result<Option<ReviewVersion>, Rejection> {
        let rules = tree::items(&self.value, &["rules"]);
        let match_policy = tree::text(&self.value, &["matchPolicy"]);
        let version = matching::version(cluster, rules, attributes, &control.subresource, match_policy)
            .filter(|_| matching::selectors_fit(cluster, &self.value, attributes));
        let Some(version) = version else { return Ok(None) };
        if self.conditions.is_empty() {
            return Ok(Some(version));
        }
        match control.in_version(&version, attributes, |seen| self.holds(cluster, seen, control))? {
            Ok(is_met) => Ok(Some(version).filter(|_| is_met)),
            // A failed condition counts as a failed call, so the failure policy decides.
            Err(_) if !self.fails_closed() => Ok(None),
            Err(why) => Err(Status::forbidden(&attributes.resource.group_resource(), attributes.name, why).into()),
        }
    }

    /// Evaluates the match conditions. A false one decides, whatever errors the others have.
    fn holds(
        &self,
        cluster: &dyn ControlState,
        attributes: &Attributes<'_>,
        control: &Control<'_>,
    ) -> Result<bool, String> {
        let variables = policy::variables(control, cluster, attributes);
        let mut budget = Budget::for_object();
        let mut failures = Vec::new();
        for (condition, said) in self.conditions.iter().zip(tree::items(&self.value, &["matchConditions"])) {
            match policy::evaluate(condition, &variables, &mut budget) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(why) => {
                    let expression = tree::text(said, &["expression"]);
                    failures.push(format!("expression '{expression}' resulted in error: {why}"));
                }
            }
        }
        match &failures[..] {
            [] => Ok(true),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    /// Sends one review request.
    async fn call(
        &self,
        clients: &WebhookClients,
        review: &PendingReview,
        request: &Value,
        object: &Value,
        old: &Value,
    ) -> Result<ReviewResponse, Box<Status>> {
        let side_effects = tree::text(&self.value, &["sideEffects"]);
        if review.dry_run && !matches!(side_effects, "None" | "NoneOnDryRun") {
            let message = format!("admission webhook {:?} does not support dry run", self.name());
            return Err(Box::new(Status::bad_request(message)));
        }
        let mut request = request.clone();
        let uid = random::uid();
        tree::set(&mut request, &["uid"], uid.as_str());
        tree::set(&mut request, &["object"], object.clone());
        tree::set(&mut request, &["oldObject"], old.clone());
        let body = tree::map([
            ("kind", "AdmissionReview".into()),
            ("apiVersion", "admission.k8s.io/v1".into()),
            ("request", request),
        ]);
        let seconds = tree::int(&self.value, &["timeoutSeconds"]).unwrap_or(TIMEOUT_SECONDS);
        let timeout = Duration::from_secs(seconds.clamp(1, 30).unsigned_abs());
        let config = self.value.get("clientConfig").unwrap_or(&Value::Null);
        let answer = clients.post(config, timeout, to_json(&body)).await;
        match answer.map_err(ReviewError::Response).and_then(|answer| ReviewResponse::read(&answer, &uid, object)) {
            Ok(reviewed) => Ok(reviewed),
            Err(ReviewError::Patch(why)) => Err(Box::new(Status::internal(why))),
            Err(ReviewError::Response(_)) if !self.fails_closed() => Ok(ReviewResponse::default()),
            Err(ReviewError::Response(why)) => {
                let why = format!("failed calling webhook {:?}: failed to call webhook: {why}", self.name());
                Err(Box::new(Status::internal(why)))
            }
        }
    }

    /// The rejection with the status that the webhook returned.
    fn refusal(&self, said: Option<&Value>) -> Box<Status> {
        let mut status: Status = said.and_then(|said| Decoder::new().json(&to_json(said)).ok()).unwrap_or_default();
        status.code = Some(status.code.unwrap_or_default().max(400));
        status.status = Some("Failure".into());
        let by = format!("admission webhook {:?} denied the request", self.name());
        let why = status.message.take().or_else(|| status.reason.clone()).filter(|why| !why.is_empty());
        status.message =
            Some(why.map_or_else(|| format!("{by} without explanation"), |why| format!("{by}: {why}")).into());
        Box::new(status)
    }
}

/// A parsed review response.
#[derive(Default)]
struct ReviewResponse {
    /// `Some` if the webhook denied the write, with the status that it returned.
    refusal: Option<Option<Value>>,
    changed: Option<Value>,
    warnings: Vec<String>,
}

/// Why a review response cannot be used.
enum ReviewError {
    /// An invalid response. The failure policy decides.
    Response(String),
    /// A patch that cannot be applied. This fails the write whatever the failure policy.
    Patch(String),
}

impl ReviewResponse {
    fn read(answer: &[u8], uid: &str, object: &Value) -> Result<ReviewResponse, ReviewError> {
        let invalid = |why: &str| ReviewError::Response(why.to_owned());
        let review =
            Value::from_json(answer).map_err(|error| invalid(&format!("the response is not JSON: {error}")))?;
        let response =
            review.get("response").ok_or_else(|| invalid("the review in the response has no field `response`"))?;
        if tree::text(response, &["uid"]) != uid {
            return Err(invalid("expected response.uid to be that of the request"));
        }
        let warnings = matching::texts(response, "warnings").into_iter().map(String::from).collect();
        if !tree::is_true(response, &["allowed"]) {
            return Ok(ReviewResponse { refusal: Some(response.get("status").cloned()), changed: None, warnings });
        }
        let patch = response.get("patch").map_or(Ok(Vec::new()), bytes).map_err(|why| invalid(&why))?;
        let changed = match (&patch[..], tree::text(response, &["patchType"])) {
            ([], _) => None,
            (patch, "JSONPatch") => {
                let patch = Value::from_json(patch).map_err(|error| ReviewError::Patch(error.to_string()))?;
                let changed = json_patch(object, &patch);
                Some(changed.map_err(|error| ReviewError::Patch(Status::from(error).to_string()))?)
            }
            (_, other) => return Err(invalid(&format!("unsupported patch type {other:?}"))),
        };
        Ok(ReviewResponse { refusal: None, changed: changed.filter(|changed| changed != object), warnings })
    }
}

/// The bytes of a value: base64, or an array of numbers, as Go reads them. kube-rs writes arrays.
fn bytes(value: &Value) -> Result<Vec<u8>, String> {
    let numbers = || -> Option<Vec<u8>> {
        let byte = |number: &Value| number.as_i64().and_then(|number| u8::try_from(number).ok());
        value.as_array()?.iter().map(byte).collect()
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => {
            ByteString::from_base64(text.as_bytes()).map(|bytes| bytes.to_vec()).map_err(|error| error.to_string())
        }
        _ => numbers().ok_or_else(|| "response.patch must be a string in base64".to_owned()),
    }
}

impl PendingReview {
    /// Builds the review for these webhooks.
    pub(super) fn new(
        stage: Stage,
        control: &Control<'_>,
        cluster: &dyn ControlState,
        attributes: &Attributes<'_>,
        webhooks: Vec<(usize, &ConfiguredWebhook, ReviewVersion)>,
    ) -> Self {
        let call = |(index, webhook, version): (usize, &ConfiguredWebhook, ReviewVersion)| {
            let shown = match version {
                ReviewVersion::Own => None,
                ReviewVersion::Other(other) => Some(other),
            };
            let request = Attributes { shown: shown.as_deref(), ..*attributes }.request(control);
            WebhookCall { index, webhook: webhook.clone(), request, shown }
        };
        let catalog = cluster.catalog();
        let resource = catalog.find(attributes.resource).filter(|_| control.is_about_object(attributes.resource));
        PendingReview {
            stage,
            webhooks: webhooks.into_iter().map(call).collect(),
            resource: resource.cloned(),
            object: attributes.object.cloned().unwrap_or_default(),
            old: attributes.old.cloned().unwrap_or_default(),
            dry_run: attributes.dry_run,
        }
    }

    /// Whether both have the same webhooks and objects, so that an answer applies to both.
    pub(super) fn is_same(&self, other: &PendingReview) -> bool {
        let indexes = |review: &PendingReview| review.webhooks.iter().map(|call| call.index).collect::<Vec<_>>();
        indexes(self) == indexes(other) && self.object == other.object && self.old == other.old
    }

    /// Calls all webhooks of the review. Those that validate are called at the same time, and the
    /// first rejection in their order counts.
    pub(super) async fn send(&self, control: &Control<'_>) -> ReviewResult {
        if self.stage == Stage::Validate {
            let calls = self.webhooks.iter().map(async |call| {
                let mut object = self.object.clone();
                self.call_one(control, call, &mut object).await
            });
            let results = join_all(calls).await;
            return results.into_iter().collect::<Result<(), _>>().map(|()| None);
        }
        let mut object = self.object.clone();
        for call in &self.webhooks {
            self.call_one(control, call, &mut object).await?;
        }
        Ok(Some(object).filter(|object| *object != self.object))
    }

    /// Converts an object to the version that a webhook wants.
    async fn across(
        &self,
        clients: &WebhookClients,
        object: &Value,
        to: Option<&Arc<Resource>>,
    ) -> Result<Value, Box<Status>> {
        match (&self.resource, to) {
            (Some(from), Some(to)) if !object.is_null() => {
                conversion::across_now(clients, from, to, object).await.map_err(|why| Box::new(Status::internal(why)))
            }
            _ => Ok(object.clone()),
        }
    }

    /// Calls one webhook and applies its patch to `object`.
    async fn call_one(&self, control: &Control<'_>, call: &WebhookCall, object: &mut Value) -> Result<(), Box<Status>> {
        let WebhookCall { webhook, request, shown, .. } = call;
        let shown = shown.as_ref().or(self.resource.as_ref());
        let clients = &control.clients;
        let seen = self.across(clients, object, shown).await?;
        let old = self.across(clients, &self.old, shown).await?;
        let reviewed = webhook.call(clients, self, request, &seen, &old).await?;
        reviewed.warnings.into_iter().for_each(|warning| control.warn(warning));
        if let Some(status) = &reviewed.refusal {
            return Err(webhook.refusal(status.as_ref()));
        }
        if let Some(changed) = reviewed.changed
            && self.stage == Stage::Mutate
            && !object.is_null()
        {
            let changed = self.across(clients, &changed, self.resource.as_ref()).await?;
            // A webhook must not change the identity of the object.
            let is_same = changed.name() == object.name() && changed.namespace() == object.namespace();
            if !is_same {
                let why = format!("webhook {:?} changed the identity of the object", webhook.name());
                return Err(Box::new(Status::internal(why)));
            }
            *object = changed;
        }
        Ok(())
    }
}
