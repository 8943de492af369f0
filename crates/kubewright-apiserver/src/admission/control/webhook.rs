//! Webhooks: servers that are told of a write, and change or refuse it.

use std::sync::Arc;
use std::time::Duration;

use kubewright_core::meta::v1::Status;
use kubewright_core::patch::json_patch;
use kubewright_core::{ByteString, Decoder, Value};

use super::attributes::Attributes;
use super::matching::Version;
use super::{Control, matching, policy};
use crate::catalog::Resource;
use crate::cel::{Budget, Program};
use crate::conversion;
use crate::object::{Meta, to_json, tree};
use crate::random;
use crate::registry::Registry;
use crate::rejection::Rejection;
use crate::storage::Scope;
use crate::webhook_client;

/// How long a webhook may take that does not say.
const TIMEOUT_SECONDS: i64 = 10;

/// When a webhook is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Before anybody else, so that it may change the object.
    Mutate,
    /// Last, so that nothing changes any more what it has seen.
    Validate,
}

/// A webhook as its configuration describes it.
#[derive(Debug, Clone)]
pub(super) struct Webhook {
    pub(super) stage: Stage,
    value: Value,
    /// Programs of its conditions; none if one of them cannot be read.
    conditions: Vec<Result<Program, String>>,
}

/// What webhooks said: the object if they changed it, or a refusal.
pub(super) type Answer = Result<Option<Value>, Box<Status>>;

/// A write that webhooks are to be asked about.
#[derive(Debug)]
pub(crate) struct Question {
    stage: Stage,
    webhooks: Vec<Asked>,
    /// The resource that is written, if its objects are what this is about.
    resource: Option<Arc<Resource>>,
    object: Value,
    old: Value,
    dry_run: bool,
}

/// A webhook that is to be asked.
#[derive(Debug)]
struct Asked {
    /// Which of all webhooks it is.
    index: usize,
    webhook: Webhook,
    /// What a review tells besides the objects.
    request: Value,
    /// The version in which it is shown them, where that is another one.
    shown: Option<Arc<Resource>>,
}

/// All webhooks, in the order in which they are asked.
pub(super) fn all(registry: &Registry) -> Vec<Webhook> {
    let mut webhooks = Vec::new();
    for (stage, plural) in
        [(Stage::Mutate, "mutatingwebhookconfigurations"), (Stage::Validate, "validatingwebhookconfigurations")]
    {
        for entry in registry.all(&Scope::resource(format!("{plural}.admissionregistration.k8s.io"))) {
            let listed = tree::items(entry.object.value(), &["webhooks"]).iter();
            webhooks.extend(listed.map(|value| Webhook::read(stage, value)));
        }
    }
    webhooks
}

impl Webhook {
    fn read(stage: Stage, value: &Value) -> Webhook {
        let environment = policy::environment();
        let compile = |condition: &Value| {
            let text = tree::text(condition, &["expression"]);
            Program::compile(text, &environment).map_err(|error| error.to_string())
        };
        let conditions = tree::items(value, &["matchConditions"]).iter().map(compile).collect();
        Webhook { stage, value: value.clone(), conditions }
    }

    fn name(&self) -> &str {
        tree::text(&self.value, &["name"])
    }

    /// Whether it is to be asked again about what others made of an object after it.
    pub(super) fn is_asked_again(&self) -> bool {
        tree::text(&self.value, &["reinvocationPolicy"]) == "IfNeeded"
    }

    fn fails_closed(&self) -> bool {
        tree::text(&self.value, &["failurePolicy"]) != "Ignore"
    }

    /// The version in which it wants to be told of a write, if it does.
    pub(super) fn version(
        &self,
        registry: &Registry,
        attributes: &Attributes<'_>,
        control: &Control<'_>,
    ) -> Result<Option<Version>, Rejection> {
        let rules = tree::items(&self.value, &["rules"]);
        let match_policy = tree::text(&self.value, &["matchPolicy"]);
        let version = matching::version(registry, rules, attributes, &control.subresource, match_policy)
            .filter(|_| matching::selectors_fit(registry, &self.value, attributes));
        let Some(version) = version else { return Ok(None) };
        if self.conditions.is_empty() {
            return Ok(Some(version));
        }
        match control.seen_in(&version, attributes, |seen| self.holds(registry, seen, control))? {
            Ok(is_met) => Ok(Some(version).filter(|_| is_met)),
            // A condition without an answer is like a webhook without one.
            Err(_) if !self.fails_closed() => Ok(None),
            Err(why) => Err(Status::forbidden(&attributes.resource.group_resource(), attributes.name, why).into()),
        }
    }

    /// Whether its conditions hold. One that does not decides, whatever becomes of the others.
    fn holds(&self, registry: &Registry, attributes: &Attributes<'_>, control: &Control<'_>) -> Result<bool, String> {
        let variables = policy::variables(control, registry, attributes);
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

    /// Asks about one object.
    async fn ask(
        &self,
        question: &Question,
        request: &Value,
        object: &Value,
        old: &Value,
    ) -> Result<Reviewed, Box<Status>> {
        let side_effects = tree::text(&self.value, &["sideEffects"]);
        if question.dry_run && !matches!(side_effects, "None" | "NoneOnDryRun") {
            let message = format!("admission webhook {:?} does not support dry run", self.name());
            return Err(Box::new(Status::bad_request(message)));
        }
        let mut request = request.clone();
        let uid = random::uid();
        tree::set(&mut request, &["uid"], uid.as_str());
        tree::set(&mut request, &["object"], object.clone());
        tree::set(&mut request, &["oldObject"], old.clone());
        let review = tree::map([
            ("kind", "AdmissionReview".into()),
            ("apiVersion", "admission.k8s.io/v1".into()),
            ("request", request),
        ]);
        let seconds = tree::int(&self.value, &["timeoutSeconds"]).unwrap_or(TIMEOUT_SECONDS);
        let timeout = Duration::from_secs(seconds.clamp(1, 30).unsigned_abs());
        let config = self.value.get("clientConfig").unwrap_or(&Value::Null);
        let answer = webhook_client::post(config, timeout, to_json(&review)).await;
        match answer.map_err(Unusable::Answer).and_then(|answer| Reviewed::read(&answer, &uid, object)) {
            Ok(reviewed) => Ok(reviewed),
            Err(Unusable::Patch(why)) => Err(Box::new(Status::internal(why))),
            Err(Unusable::Answer(_)) if !self.fails_closed() => Ok(Reviewed::default()),
            Err(Unusable::Answer(why)) => {
                let why = format!("failed calling webhook {:?}: failed to call webhook: {why}", self.name());
                Err(Box::new(Status::internal(why)))
            }
        }
    }

    /// The refusal of a write, in the words of the webhook.
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

/// What one webhook answered.
#[derive(Default)]
struct Reviewed {
    /// The status that goes with a refusal.
    refusal: Option<Option<Value>>,
    changed: Option<Value>,
    warnings: Vec<String>,
}

/// Why there is no answer to go by.
enum Unusable {
    /// As if the webhook could not be reached, which its policy decides about.
    Answer(String),
    /// It wants a change that cannot be made, which is a failure whatever its policy.
    Patch(String),
}

impl Reviewed {
    fn read(answer: &[u8], uid: &str, object: &Value) -> Result<Reviewed, Unusable> {
        let unusable = |why: &str| Unusable::Answer(why.to_owned());
        let review = Value::from_json(answer).map_err(|error| unusable(&format!("the answer is no JSON: {error}")))?;
        let response = review.get("response").ok_or_else(|| unusable("the answer has no response"))?;
        if tree::text(response, &["uid"]) != uid {
            return Err(unusable("expected response.uid to be that of the request"));
        }
        let warnings = matching::texts(response, "warnings").into_iter().map(String::from).collect();
        if !tree::is_true(response, &["allowed"]) {
            return Ok(Reviewed { refusal: Some(response.get("status").cloned()), changed: None, warnings });
        }
        let changed = match (response.get("patch").and_then(Value::as_str), tree::text(response, &["patchType"])) {
            (None, _) => None,
            (Some(patch), "JSONPatch") => {
                let patch = ByteString::from_base64(patch.as_bytes()).map_err(|error| unusable(&error.to_string()))?;
                let patch = Value::from_json(&patch).map_err(|error| Unusable::Patch(error.to_string()))?;
                let changed = json_patch(object, &patch);
                Some(changed.map_err(|error| Unusable::Patch(Status::from(error).to_string()))?)
            }
            (Some(_), other) => return Err(unusable(&format!("unsupported patch type {other:?}"))),
        };
        Ok(Reviewed { refusal: None, changed: changed.filter(|changed| changed != object), warnings })
    }
}

impl Question {
    /// What these webhooks are to be asked.
    pub(super) fn new(
        stage: Stage,
        control: &Control<'_>,
        registry: &Registry,
        attributes: &Attributes<'_>,
        webhooks: Vec<(usize, &Webhook, Version)>,
    ) -> Self {
        let asked = |(index, webhook, version): (usize, &Webhook, Version)| {
            let shown = match version {
                Version::Own => None,
                Version::Other(other) => Some(other),
            };
            let request = Attributes { shown: shown.as_deref(), ..*attributes }.request(control);
            Asked { index, webhook: webhook.clone(), request, shown }
        };
        let catalog = registry.catalog();
        let resource = catalog.find(attributes.resource).filter(|_| control.is_about_object(attributes.resource));
        Question {
            stage,
            webhooks: webhooks.into_iter().map(asked).collect(),
            resource: resource.cloned(),
            object: attributes.object.cloned().unwrap_or_default(),
            old: attributes.old.cloned().unwrap_or_default(),
            dry_run: attributes.dry_run,
        }
    }

    /// Whether an answer to one is an answer to the other.
    pub(super) fn is_same(&self, other: &Question) -> bool {
        let asked = |question: &Question| question.webhooks.iter().map(|asked| asked.index).collect::<Vec<_>>();
        asked(self) == asked(other) && self.object == other.object && self.old == other.old
    }

    /// Asks all of them.
    pub(super) async fn ask(&self, control: &Control<'_>) -> Answer {
        let mut object = self.object.clone();
        for asked in &self.webhooks {
            self.ask_one(control, asked, &mut object).await?;
        }
        Ok(Some(object).filter(|object| *object != self.object))
    }

    /// An object as this version shows it.
    async fn across(&self, object: &Value, to: Option<&Arc<Resource>>) -> Result<Value, Box<Status>> {
        match (&self.resource, to) {
            (Some(from), Some(to)) if !object.is_null() => {
                conversion::across_now(from, to, object).await.map_err(|why| Box::new(Status::internal(why)))
            }
            _ => Ok(object.clone()),
        }
    }

    /// Asks one of them, which may change the object.
    async fn ask_one(&self, control: &Control<'_>, asked: &Asked, object: &mut Value) -> Result<(), Box<Status>> {
        let Asked { webhook, request, shown, .. } = asked;
        let shown = shown.as_ref().or(self.resource.as_ref());
        let (seen, old) = (self.across(object, shown).await?, self.across(&self.old, shown).await?);
        let reviewed = webhook.ask(self, request, &seen, &old).await?;
        reviewed.warnings.into_iter().for_each(|warning| control.warn(warning));
        if let Some(said) = &reviewed.refusal {
            return Err(webhook.refusal(said.as_ref()));
        }
        if let Some(changed) = reviewed.changed
            && self.stage == Stage::Mutate
            && !object.is_null()
        {
            let changed = self.across(&changed, self.resource.as_ref()).await?;
            // Who an object is, is not for webhooks to say.
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
