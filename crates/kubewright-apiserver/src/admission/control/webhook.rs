//! Webhooks: servers that are told of a write, and change or refuse it.

use std::time::Duration;

use kubewright_core::meta::v1::Status;
use kubewright_core::patch::json_patch;
use kubewright_core::{ByteString, Decoder, Value};

use super::attributes::Attributes;
use super::{Control, matching, policy};
use crate::cel::{Budget, Program};
use crate::object::{Meta, to_json, tree};
use crate::random;
use crate::registry::Registry;
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
    webhooks: Vec<Webhook>,
    /// What a review tells besides the objects.
    request: Value,
    object: Value,
    old: Value,
    dry_run: bool,
}

/// All webhooks, in the order in which they are asked.
pub(super) fn all(registry: &Registry) -> Vec<Webhook> {
    let mut webhooks = Vec::new();
    for (stage, plural) in
        [(Stage::Mutate, "mutatingwebhookconfigurations"), (Stage::Validate, "validatingwebhookconfigurations")]
    {
        for entry in registry.all(&Scope::resource(format!("{plural}.admissionregistration.k8s.io"))) {
            let listed = tree::items(&entry.object.value, &["webhooks"]).iter();
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

    fn fails_closed(&self) -> bool {
        tree::text(&self.value, &["failurePolicy"]) != "Ignore"
    }

    /// Whether it wants to be told of a write.
    pub(super) fn is_about(&self, registry: &Registry, attributes: &Attributes<'_>, control: &Control<'_>) -> bool {
        let is_equivalent = tree::text(&self.value, &["matchPolicy"]) != "Exact";
        let fits = |rule: &Value| matching::rule_fits(rule, attributes, &control.subresource, is_equivalent);
        if !tree::items(&self.value, &["rules"]).iter().any(fits)
            || !matching::selectors_fit(registry, &self.value, attributes)
        {
            return false;
        }
        if self.conditions.is_empty() {
            return true;
        }
        let variables = policy::variables(control, registry, attributes);
        let mut budget = Budget::for_object();
        let mut has_failed = false;
        for condition in &self.conditions {
            match policy::evaluate(condition, &variables, &mut budget) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(_) => has_failed = true,
            }
        }
        // A condition without an answer is decided by the webhook itself, if it fails closed.
        !has_failed || self.fails_closed()
    }

    /// Asks about one object.
    async fn ask(&self, question: &Question, object: &Value) -> Result<Reviewed, Box<Status>> {
        let side_effects = tree::text(&self.value, &["sideEffects"]);
        if question.dry_run && !matches!(side_effects, "None" | "NoneOnDryRun") {
            let message = format!("admission webhook {:?} does not support dry run", self.name());
            return Err(Box::new(Status::bad_request(message)));
        }
        let mut request = question.request.clone();
        let uid = random::uid();
        tree::set(&mut request, &["uid"], uid.as_str());
        tree::set(&mut request, &["object"], object.clone());
        tree::set(&mut request, &["oldObject"], question.old.clone());
        let review = tree::map([
            ("kind", "AdmissionReview".into()),
            ("apiVersion", "admission.k8s.io/v1".into()),
            ("request", request),
        ]);
        let seconds = tree::int(&self.value, &["timeoutSeconds"]).unwrap_or(TIMEOUT_SECONDS);
        let timeout = Duration::from_secs(seconds.clamp(1, 30).unsigned_abs());
        let config = self.value.get("clientConfig").unwrap_or(&Value::Null);
        match webhook_client::post(config, timeout, to_json(&review))
            .await
            .and_then(|answer| Reviewed::read(&answer, &uid, object))
        {
            Ok(reviewed) => Ok(reviewed),
            Err(_) if !self.fails_closed() => Ok(Reviewed::default()),
            Err(why) => {
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

impl Reviewed {
    fn read(answer: &[u8], uid: &str, object: &Value) -> Result<Reviewed, String> {
        let review = Value::from_json(answer).map_err(|error| format!("the answer is no JSON: {error}"))?;
        let response = review.get("response").ok_or("the answer has no response")?;
        if tree::text(response, &["uid"]) != uid {
            return Err("expected response.uid to be that of the request".to_owned());
        }
        let warnings = matching::texts(response, "warnings").into_iter().map(String::from).collect();
        if !tree::is_true(response, &["allowed"]) {
            return Ok(Reviewed { refusal: Some(response.get("status").cloned()), changed: None, warnings });
        }
        let changed = match (response.get("patch").and_then(Value::as_str), tree::text(response, &["patchType"])) {
            (None, _) => None,
            (Some(patch), "JSONPatch") => {
                let patch = ByteString::from_base64(patch.as_bytes()).map_err(|error| error.to_string())?;
                let patch = Value::from_json(&patch).map_err(|error| error.to_string())?;
                Some(json_patch(object, &patch).map_err(|error| Status::from(error).to_string())?)
            }
            (Some(_), other) => return Err(format!("unsupported patch type {other:?}")),
        };
        Ok(Reviewed { refusal: None, changed: changed.filter(|changed| changed != object), warnings })
    }
}

impl Question {
    /// What these webhooks are to be asked.
    pub(super) fn new(
        stage: Stage,
        control: &Control<'_>,
        attributes: &Attributes<'_>,
        webhooks: Vec<Webhook>,
    ) -> Self {
        Question {
            stage,
            webhooks,
            request: attributes.request(control),
            object: attributes.object.cloned().unwrap_or_default(),
            old: attributes.old.cloned().unwrap_or_default(),
            dry_run: attributes.dry_run,
        }
    }

    /// Whether an answer to one is an answer to the other.
    pub(super) fn is_same(&self, other: &Question) -> bool {
        self.stage == other.stage && self.object == other.object && self.old == other.old
    }

    /// Asks all of them: those that may change the object one after the other, and once more where others changed it
    /// after them if they want that; the rest are told what is to be written.
    pub(super) async fn ask(&self, control: &Control<'_>) -> Answer {
        let mut object = self.object.clone();
        let mut last_change = None;
        for (index, webhook) in self.webhooks.iter().enumerate() {
            if self.ask_one(control, webhook, &mut object).await? {
                last_change = Some(index);
            }
        }
        if let Some(last) = last_change {
            let wants_again = |webhook: &&Webhook| tree::text(&webhook.value, &["reinvocationPolicy"]) == "IfNeeded";
            for webhook in self.webhooks[..last].iter().filter(wants_again) {
                self.ask_one(control, webhook, &mut object).await?;
            }
        }
        Ok(Some(object).filter(|object| *object != self.object))
    }

    /// Asks one of them; returns whether it changed the object.
    async fn ask_one(&self, control: &Control<'_>, webhook: &Webhook, object: &mut Value) -> Result<bool, Box<Status>> {
        let reviewed = webhook.ask(self, object).await?;
        reviewed.warnings.into_iter().for_each(|warning| control.warn(warning));
        if let Some(said) = &reviewed.refusal {
            return Err(webhook.refusal(said.as_ref()));
        }
        match reviewed.changed {
            Some(changed) if self.stage == Stage::Mutate && !object.is_null() => {
                // Who an object is, is not for webhooks to say.
                let is_same = changed.name() == object.name() && changed.namespace() == object.namespace();
                if !is_same {
                    let why = format!("webhook {:?} changed the identity of the object", webhook.name());
                    return Err(Box::new(Status::internal(why)));
                }
                *object = changed;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
