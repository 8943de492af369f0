//! One fault: which requests it hits, and what happens to them.

use std::time::Duration;

use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, Str};

use crate::request::RequestInfo;

/// A fault to be [injected](super::Faults::inject): hits every request, and every time, unless told otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub(super) effect: Effect,
    verb: Option<Str>,
    resource: Option<Str>,
    namespace: Option<Str>,
    name: Option<Str>,
    times: Option<u32>,
    probability: f64,
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// It is answered with this instead.
    Answer { code: u16, retry_after: Option<u32> },
    /// It is answered later.
    Delay(Duration),
    /// Its connection is closed without an answer; it was not carried out.
    Drop,
    /// It is carried out, and the answer breaks off after so many bytes of its body.
    Cut(usize),
}

impl Fault {
    /// Answers with an error of this code instead of carrying the request out: 409, 410, 429, 500, 503 or any other.
    pub fn answer(code: u16) -> Self {
        Fault::new(Effect::Answer { code, retry_after: None })
    }

    /// Carries the request out after this time.
    pub fn delay(time: Duration) -> Self {
        Fault::new(Effect::Delay(time))
    }

    /// Closes the connection without an answer, and without carrying the request out.
    pub fn drop_request() -> Self {
        Fault::new(Effect::Drop)
    }

    /// Carries the request out, and breaks the connection after so many bytes of the answer's body.
    pub fn cut_after(bytes: usize) -> Self {
        Fault::new(Effect::Cut(bytes))
    }

    fn new(effect: Effect) -> Self {
        Fault { effect, verb: None, resource: None, namespace: None, name: None, times: None, probability: 1.0 }
    }

    /// Hits requests of this verb only: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    #[must_use]
    pub fn verb(mut self, verb: impl Into<Str>) -> Self {
        self.verb = Some(verb.into());
        self
    }

    /// Hits requests for this resource only, by its plural: `pods`, `pods/status`, `deployments`.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<Str>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Hits requests in this namespace only.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<Str>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Hits requests for the object of this name only.
    #[must_use]
    pub fn name(mut self, name: impl Into<Str>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Hits so many requests and is then over.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Hits only this share of the requests that it fits, from 0 to 1.
    #[must_use]
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Tells the client of an [`answer`](Self::answer) to come again after so many seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        if let Effect::Answer { retry_after, .. } = &mut self.effect {
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

    /// Throws the dice, where it has to.
    pub(super) fn is_due(&self, chance: &mut u64) -> bool {
        if self.probability >= 1.0 {
            return true;
        }
        // Marsaglia's xorshift: even enough for faults, and the same everywhere.
        *chance ^= *chance << 13;
        *chance ^= *chance >> 7;
        *chance ^= *chance << 17;
        ((*chance >> 11) as f64 / (1u64 << 53) as f64) < self.probability
    }

    /// Counts a hit. True if it was the last.
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

/// The answer of a fault, about what the request names.
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
