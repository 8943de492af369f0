//! What the owner of the cluster has a say in: webhooks that change objects, policies and webhooks that refuse them.
//!
//! A write asks twice: [`Control::mutate`] before anything else looks at the object, [`Control::validate`] when nothing
//! changes it any more. Writes are plain functions that may run again if somebody else was faster, and never wait; webhooks
//! are slow. So a write that meets webhooks which have not been asked about exactly this object ends with the question
//! ([`Rejection::Undecided`]); [`Control::decided`] asks it, remembers the answer, and does the write again. An answer
//! therefore never counts for an object that nobody has seen, even if the stored one changed in between.

mod attributes;
mod client;
mod matching;
mod policy;
mod webhook;

use std::sync::{Mutex, PoisonError};

use kubewright_core::meta::v1::Status;
use kubewright_core::{Str, Time, Value};

pub(crate) use attributes::{Attributes, Operation};
pub(crate) use policy::{Policies, environment as policy_environment};
pub(crate) use webhook::Question;

use crate::authentication::User;
use crate::catalog::Resource;
use crate::decoding::{self, Expected};
use crate::random;
use crate::registry::Registry;
use crate::rejection::Rejection;
use policy::Bound;
use webhook::{Stage, Webhook};

/// How often a write may be done again because the object differs from what webhooks have seen.
const ROUNDS: usize = 16;

/// One request and those who have a say in it, as they were when it came.
pub(crate) struct Control<'a> {
    pub(crate) user: &'a User,
    subresource: Str,
    webhooks: Vec<Webhook>,
    policies: Vec<Bound>,
    answers: Mutex<Vec<(Question, webhook::Answer)>>,
    warnings: Mutex<Vec<String>>,
    /// What a new object gets, the same each time that the write is done.
    pub(crate) uid: String,
    pub(crate) time: Time,
    pub(crate) letters: String,
}

impl<'a> Control<'a> {
    /// Those who have a say in the writes of a user to a resource or a part of it.
    pub(crate) fn new(registry: &Registry, user: &'a User, resource: &Resource, subresource: &Str) -> Self {
        // A configuration that refuses its own correction could never be put right. A scale is another kind of object
        // than the one that is stored, and only that is at hand.
        let is_exempt = resource.group == "admissionregistration.k8s.io" || subresource == "scale";
        let mut control = Control::of_nobody(user);
        if !is_exempt {
            control.subresource = subresource.clone();
            control.webhooks = webhook::all(registry);
            control.policies = policy::all(registry);
        }
        control
    }

    /// A request that nobody has a say in.
    pub(crate) fn of_nobody(user: &'a User) -> Self {
        Control {
            user,
            subresource: Str::new(),
            webhooks: Vec::new(),
            policies: Vec::new(),
            answers: Mutex::default(),
            warnings: Mutex::default(),
            uid: random::uid(),
            time: Time::now(),
            letters: random::letters(5),
        }
    }

    /// Does a write until all webhooks have been asked that it meets.
    ///
    /// `write` is told whether it may have to be done again, so that it gives nothing away that it needs then.
    pub(crate) async fn decided<T>(&self, mut write: impl FnMut(bool) -> Result<T, Rejection>) -> Result<T, Rejection> {
        for _ in 0..ROUNDS {
            match write(!self.webhooks.is_empty()) {
                Err(Rejection::Undecided(question)) => {
                    let answer = question.ask(self).await;
                    self.answers.lock().unwrap_or_else(PoisonError::into_inner).push((*question, answer));
                }
                other => return other,
            }
        }
        Err(Status::internal("the object changes faster than its webhooks answer").into())
    }

    /// Lets webhooks change an object on its way in.
    pub(crate) fn mutate(
        &self,
        registry: &Registry,
        attributes: Attributes<'_>,
        object: Option<&mut Value>,
    ) -> Result<(), Rejection> {
        if !self.webhooks.iter().any(|webhook| webhook.stage == Stage::Mutate) {
            return Ok(());
        }
        let mut seen = object.as_deref().cloned();
        if let Some(seen) = &mut seen {
            super::set_defaults(attributes.resource, seen);
        }
        let attributes = Attributes { object: seen.as_ref(), ..attributes };
        let Some(changed) = self.ask_webhooks(registry, Stage::Mutate, &attributes)? else { return Ok(()) };
        if let Some(object) = object {
            let fit = decoding::normalize(Expected::from(attributes.resource), &changed);
            *object = fit.map_err(|_| Status::internal("a webhook made an object that is none of its kind"))?.value;
        }
        Ok(())
    }

    /// Lets policies and webhooks refuse what is about to be written.
    pub(crate) fn validate(&self, registry: &Registry, attributes: &Attributes<'_>) -> Result<(), Rejection> {
        for policy in &self.policies {
            policy.check(self, registry, attributes)?;
        }
        self.ask_webhooks(registry, Stage::Validate, attributes).map(|_| ())
    }

    /// What webhooks have answered about exactly this; a question where they have not been asked.
    fn ask_webhooks(
        &self,
        registry: &Registry,
        stage: Stage,
        attributes: &Attributes<'_>,
    ) -> Result<Option<Value>, Rejection> {
        let of_stage = self.webhooks.iter().filter(|webhook| webhook.stage == stage);
        let met: Vec<Webhook> =
            of_stage.filter(|webhook| webhook.is_about(registry, attributes, self)).cloned().collect();
        if met.is_empty() {
            return Ok(None);
        }
        let question = Question::new(stage, self, attributes, met);
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        match answers.iter().find(|(asked, _)| asked.is_same(&question)) {
            Some((_, Ok(changed))) => Ok(changed.clone()),
            Some((_, Err(status))) => Err(status.clone().into()),
            None => Err(Rejection::Undecided(Box::new(question))),
        }
    }

    /// Says something to the client, once.
    pub(crate) fn warn(&self, warning: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// What was said to the client.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
