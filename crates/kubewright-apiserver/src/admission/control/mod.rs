//! What the owner of the cluster has a say in: webhooks that change objects, policies and webhooks that refuse them.
//!
//! A write asks twice: [`Control::mutate`] before anything else looks at the object, [`Control::validate`] when nothing
//! changes it any more. Writes are plain functions that may run again if somebody else was faster, and never wait; webhooks
//! are slow. So a write that meets webhooks which have not been asked about exactly this object ends with the question
//! ([`Rejection::Undecided`]); [`Control::decided`] asks it, remembers the answer, and does the write again. An answer
//! therefore never counts for an object that nobody has seen, even if the stored one changed in between.

mod attributes;
mod audience;
mod matching;
mod mutation;
mod policy;
mod webhook;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kubewright_core::meta::v1::Status;
use kubewright_core::{Str, Time, Value};

pub(crate) use attributes::{Attributes, Operation};
pub(crate) use audience::Audience;
pub(crate) use mutation::environment as mutation_environment;
pub(crate) use policy::{Policies, environment as policy_environment};
pub(crate) use webhook::Question;

use crate::authentication::User;
use crate::catalog::Resource;
use crate::conversion;
use crate::conversion::webhook::{Converted, Converter, Pending};
use crate::decoding::{self, Expected};
use crate::http::Warnings;
use crate::random;
use crate::registry::Registry;
use crate::rejection::Rejection;
use audience::Listeners;
use matching::Version;
use webhook::{Stage, Webhook};

/// How often a write may be done again because the object differs from what webhooks have seen.
const ROUNDS: usize = 16;
/// How often each webhook is asked about a write, at most: those that want to be asked again are.
const TURNS: usize = 2;

/// One request and those who have a say in it, as they were when it came.
pub(crate) struct Control<'a> {
    pub(crate) user: &'a User,
    subresource: Str,
    listeners: Arc<Listeners>,
    answers: Mutex<Vec<(Question, webhook::Answer)>>,
    /// Whether objects of the resource are converted by a webhook, and what it has said so far.
    is_converted: bool,
    conversions: Mutex<Vec<(Pending, Converted)>>,
    warnings: Mutex<Warnings>,
    /// What a new object gets, the same each time that the write is done.
    pub(crate) uid: String,
    pub(crate) time: Time,
    letters: OnceLock<String>,
}

impl<'a> Control<'a> {
    /// What a subresource is about, by the names of its kind, or the resource itself.
    fn expected<'r>(&self, resource: &'r Resource) -> Expected<'r> {
        match resource.subresource(&self.subresource) {
            Some(part) if !self.is_about_object(resource) => Expected::from(part),
            _ => Expected::from(resource),
        }
    }

    /// Those who have a say in the writes of a user to a resource or a part of it.
    pub(crate) fn new(registry: &Registry, user: &'a User, resource: &Resource, subresource: &Str) -> Self {
        // A configuration that refuses its own correction could never be put right.
        let is_exempt = resource.group == "admissionregistration.k8s.io";
        let mut control = Control::of_nobody(user);
        control.is_converted = resource.needs_webhook();
        if !is_exempt {
            control.subresource = subresource.clone();
            control.listeners = registry.audience.now(registry);
        }
        control
    }

    /// A request that nobody has a say in.
    pub(crate) fn of_nobody(user: &'a User) -> Self {
        Control {
            user,
            subresource: Str::new(),
            listeners: Arc::default(),
            answers: Mutex::default(),
            is_converted: false,
            conversions: Mutex::default(),
            warnings: Mutex::default(),
            uid: random::uid(),
            time: Time::now(),
            letters: OnceLock::new(),
        }
    }

    /// The letters that a generated name ends with, the same each time as well.
    pub(crate) fn letters(&self) -> &str {
        self.letters.get_or_init(|| random::letters(5))
    }

    /// Does a write until all webhooks have been asked that it meets.
    ///
    /// `write` is told whether it may have to be done again, so that it gives nothing away that it needs then.
    pub(crate) async fn decided<T>(&self, mut write: impl FnMut(bool) -> Result<T, Rejection>) -> Result<T, Rejection> {
        for _ in 0..ROUNDS + TURNS * self.listeners.webhooks.len() {
            match write(!self.listeners.webhooks.is_empty() || self.is_converted) {
                Err(Rejection::Undecided(question)) => {
                    let answer = question.ask(self).await;
                    self.answers.lock().unwrap_or_else(PoisonError::into_inner).push((*question, answer));
                }
                Err(Rejection::Unconverted(pending)) => {
                    let answer = pending.ask().await;
                    self.conversions.lock().unwrap_or_else(PoisonError::into_inner).push((*pending, answer));
                }
                other => return other,
            }
        }
        Err(Status::internal("the object changes faster than its webhooks answer").into())
    }

    /// Whether those who have a say are told of the stored object, and not of something else that a subresource is about,
    /// such as a scale.
    pub(crate) fn is_about_object(&self, resource: &Resource) -> bool {
        resource.subresource(&self.subresource).is_none_or(|subresource| subresource.kind == resource.kind)
    }

    /// Whether anybody might be told of the write.
    pub(crate) fn has_listeners(&self) -> bool {
        !self.listeners.webhooks.is_empty()
            || !self.listeners.policies.is_empty()
            || !self.listeners.mutations.is_empty()
    }

    /// An object in another version, or the question that has to be asked before.
    pub(crate) fn converted(
        &self,
        converter: &Arc<Converter>,
        object: &Value,
        version: &Str,
    ) -> Result<Value, Rejection> {
        let conversions = self.conversions.lock().unwrap_or_else(PoisonError::into_inner);
        match conversions.iter().find(|(asked, _)| asked.is_about(object, version)) {
            Some((_, Ok(converted))) => Ok(converted.clone()),
            Some((_, Err(why))) => Err(Rejection::unexpected(why.as_str())),
            None => Err(Rejection::Unconverted(Box::new(Pending::new(converter, object, version)))),
        }
    }

    /// Looks at a write in the version in which somebody wants to be told of it.
    fn seen_in<T>(
        &self,
        version: &Version,
        attributes: &Attributes<'_>,
        look: impl FnOnce(&Attributes<'_>) -> T,
    ) -> Result<T, Rejection> {
        let shown = match version {
            Version::Own => attributes.resource,
            Version::Other(other) => other,
        };
        let attributes = Attributes { shown: Some(shown), ..*attributes };
        // What a subresource is about is the same in all versions.
        if !self.is_about_object(attributes.resource) {
            return Ok(look(&attributes));
        }
        let convert = |value| conversion::across(attributes.resource, shown, value, self);
        let object = attributes.object.map(convert).transpose()?;
        let old = attributes.old.map(convert).transpose()?;
        Ok(look(&Attributes { object: object.as_deref(), old: old.as_deref(), ..attributes }))
    }

    /// Lets policies and then webhooks change an object on its way in.
    pub(crate) fn mutate(
        &self,
        registry: &Registry,
        attributes: Attributes<'_>,
        object: Option<&mut Value>,
    ) -> Result<(), Rejection> {
        let has_webhooks = self.webhooks(Stage::Mutate).next().is_some();
        if !has_webhooks && self.listeners.mutations.is_empty() {
            return Ok(());
        }
        let mut seen = object.as_deref().cloned();
        if let Some(seen) = seen.as_mut().filter(|_| self.is_about_object(attributes.resource)) {
            super::set_defaults(attributes.resource, seen);
        }
        let by_policies = match &seen {
            Some(seen) if !self.listeners.mutations.is_empty() => mutation::mutate(self, registry, attributes, seen)?,
            _ => None,
        };
        let seen = by_policies.clone().or(seen);
        let attributes = Attributes { object: seen.as_ref(), ..attributes };
        let by_webhooks = match has_webhooks {
            true => self.change_by_webhooks(registry, &attributes)?,
            false => None,
        };
        let Some(changed) = by_webhooks.or(by_policies) else { return Ok(()) };
        if let Some(object) = object {
            let fit = decoding::normalize(self.expected(attributes.resource), &changed);
            *object =
                fit.map_err(|_| Status::internal("what webhooks and policies made is no object of its kind"))?.value;
        }
        Ok(())
    }

    /// Lets policies and webhooks refuse what is about to be written.
    pub(crate) fn validate(&self, registry: &Registry, attributes: &Attributes<'_>) -> Result<(), Rejection> {
        for policy in &self.listeners.policies {
            policy.check(self, registry, attributes)?;
        }
        let mut met = Vec::new();
        for (index, webhook) in self.webhooks(Stage::Validate) {
            let version = webhook.version(registry, attributes, self)?;
            met.extend(version.map(|version| (index, webhook, version)));
        }
        self.ask_webhooks(registry, Stage::Validate, attributes, met).map(|_| ())
    }

    /// Lets webhooks change an object, one after the other: whether one is to be asked depends on what those before it made of the object.
    /// Who wants to be asked again is, where others changed the object later.
    fn change_by_webhooks(&self, registry: &Registry, attributes: &Attributes<'_>) -> Result<Option<Value>, Rejection> {
        let mut changed: Option<Value> = None;
        let mut changes = 0;
        // How many changes there had been when a webhook was last asked, its own included.
        let mut asked = vec![None; self.listeners.webhooks.len()];
        for turn in 0..TURNS {
            for (index, webhook) in self.webhooks(Stage::Mutate) {
                let is_due = turn == 0 || webhook.is_asked_again() && asked[index].is_some_and(|then| then < changes);
                if !is_due {
                    continue;
                }
                let attributes = Attributes { object: changed.as_ref().or(attributes.object), ..*attributes };
                let Some(version) = webhook.version(registry, &attributes, self)? else { continue };
                if let Some(by) =
                    self.ask_webhooks(registry, Stage::Mutate, &attributes, vec![(index, webhook, version)])?
                {
                    (changed, changes) = (Some(by), changes + 1);
                }
                asked[index] = Some(changes);
            }
        }
        Ok(changed)
    }

    /// The webhooks of a stage, each with its place among all.
    fn webhooks(&self, stage: Stage) -> impl Iterator<Item = (usize, &Webhook)> {
        self.listeners.webhooks.iter().enumerate().filter(move |(_, webhook)| webhook.stage == stage)
    }

    /// What webhooks have answered about exactly this; a question where they have not been asked.
    fn ask_webhooks(
        &self,
        registry: &Registry,
        stage: Stage,
        attributes: &Attributes<'_>,
        webhooks: Vec<(usize, &Webhook, Version)>,
    ) -> Result<Option<Value>, Rejection> {
        if webhooks.is_empty() {
            return Ok(None);
        }
        let question = Question::new(stage, self, registry, attributes, webhooks);
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        match answers.iter().find(|(asked, _)| asked.is_same(&question)) {
            Some((_, Ok(changed))) => Ok(changed.clone()),
            Some((_, Err(status))) => Err(status.clone().into()),
            None => Err(Rejection::Undecided(Box::new(question))),
        }
    }

    /// Says something to the client, once.
    pub(crate) fn warn(&self, warning: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).add(warning);
    }

    /// What was said to the client.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        let warnings = std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner));
        warnings.texts().map(str::to_owned).collect()
    }
}
