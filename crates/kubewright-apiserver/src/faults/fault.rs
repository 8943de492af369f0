//! A fault: its request filter and its effect.

use std::time::Duration;

use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, Str};

use crate::request::RequestInfo;

/// A fault for [`inject`](super::Faults::inject). By default it affects every request, without
/// limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub(super) effect: FaultEffect,
    verb: Option<Str>,
    resource: Option<Str>,
    namespace: Option<Str>,
    name: Option<Str>,
    times: Option<u32>,
    probability: f64,
}

/// The effect on a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FaultEffect {
    /// Respond with this error instead.
    Answer { code: u16, retry_after: Option<u32> },
    /// Delay the request.
    Delay(Duration),
    /// Close the connection without processing the request.
    Drop,
    /// Process the request, and close the connection after this many bytes of the response body.
    Cut(usize),
}

impl Fault {
    /// Responds with an error instead of processing the request: 409, 410, 429, 500, 503 or any
    /// other.
    pub fn answer(code: u16) -> Self {
        Fault::new(FaultEffect::Answer { code, retry_after: None })
    }

    /// Delays the request.
    pub fn delay(time: Duration) -> Self {
        Fault::new(FaultEffect::Delay(time))
    }

    /// Closes the connection without a response, and without processing the request.
    pub fn drop_request() -> Self {
        Fault::new(FaultEffect::Drop)
    }

    /// Processes the request, and closes the connection after this many bytes of the response body.
    pub fn cut_after(bytes: usize) -> Self {
        Fault::new(FaultEffect::Cut(bytes))
    }

    fn new(effect: FaultEffect) -> Self {
        Fault { effect, verb: None, resource: None, namespace: None, name: None, times: None, probability: 1.0 }
    }

    /// Affects requests with this verb only: `get`, `list`, `watch`, `create`, `update`, `patch`,
    /// `delete`, `deletecollection`.
    #[must_use]
    pub fn verb(mut self, verb: impl Into<Str>) -> Self {
        self.verb = Some(verb.into());
        self
    }

    /// Affects requests for this resource only, named by its plural: `pods`, `pods/status`,
    /// `deployments`.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<Str>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Affects requests in this namespace only.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<Str>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Affects requests for the object of this name only.
    #[must_use]
    pub fn name(mut self, name: impl Into<Str>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Affects this many requests. Unlimited by default.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Affects a matching request with this probability, from 0 to 1.
    #[must_use]
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Sets `Retry-After` of an [`answer`](Self::answer), in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        if let FaultEffect::Answer { retry_after, .. } = &mut self.effect {
            *retry_after = Some(seconds);
        }
        self
    }

    pub(super) fn fits(&self, info: &RequestInfo) -> bool {
        let is = |wanted: &Option<Str>, have: &str| wanted.as_ref().is_none_or(|wanted| wanted == have);
        let Some(target) = &info.target else {
            return is(&self.verb, info.verb)
                && self.resource.is_none()
                && self.namespace.is_none()
                && self.name.is_none();
        };
        let resource = match &*target.subresource {
            "" => target.resource.clone(),
            subresource => format!("{}/{subresource}", target.resource).into(),
        };
        is(&self.verb, info.verb)
            && is(&self.resource, &resource)
            && is(&self.namespace, &target.namespace)
            && is(&self.name, &target.name)
            && self.times != Some(0)
    }

    /// Decides by chance whether a matching request is affected.
    pub(super) fn is_due(&self, chance: &mut fastrand::Rng) -> bool {
        self.probability >= 1.0 || chance.f64() < self.probability
    }

    /// Counts a use. Returns whether it was the last one.
    pub(super) fn is_used_up(&mut self) -> bool {
        match &mut self.times {
            Some(times) => {
                *times = times.saturating_sub(1);
                *times == 0
            }
            None => false,
        }
    }
}

/// The Status of an [`answer`](Fault::answer), about the object of the request.
pub(crate) fn status(code: u16, retry_after: Option<u32>, info: &RequestInfo) -> Status {
    let (resource, name) = match &info.target {
        Some(target) => (GroupResource::new(target.group.clone(), target.resource.clone()), target.name.clone()),
        None => (GroupResource::default(), Str::new()),
    };
    let mut status = match code {
        409 => Status::modified(&resource, &name),
        410 => Status::expired("a fault was injected: the version is too old"),
        429 => Status::too_many_requests("a fault was injected: too many requests", 1),
        code => Status::from_code(code, info.verb, &resource, &name, "a fault was injected"),
    };
    if let Some(seconds) = retry_after {
        status.details.get_or_insert_default().retry_after_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX));
    }
    status
}
