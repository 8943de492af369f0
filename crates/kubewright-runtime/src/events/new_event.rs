//! A new event.

use std::fmt;

use kubewright_api::core::v1::ObjectReference;
use kubewright_core::{Map, Object, Str};

/// The severity of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Informational.
    Normal,
    /// May need attention.
    Warning,
}

impl fmt::Display for EventType {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        })
    }
}

/// An event about an object.
#[derive(Debug, Clone)]
pub struct NewEvent {
    pub(super) regarding: ObjectReference,
    pub(super) related: Option<ObjectReference>,
    pub(super) event_type: EventType,
    pub(super) reason: Str,
    pub(super) action: Str,
    pub(super) note: Str,
    pub(super) annotations: Map<Str>,
}

impl NewEvent {
    /// An event about this object, with a reason (one CamelCase word) and a human-readable note.
    pub fn new(regarding: &impl Object, event_type: EventType, reason: impl Into<Str>, note: impl Into<Str>) -> Self {
        let reason = reason.into();
        NewEvent {
            regarding: reference_to(regarding),
            related: None,
            event_type,
            action: reason.clone(),
            reason,
            note: note.into(),
            annotations: Map::new(),
        }
    }

    /// A related object. None by default.
    #[must_use]
    pub fn related(mut self, object: &impl Object) -> Self {
        self.related = Some(reference_to(object));
        self
    }

    /// The action, in one word. The reason by default.
    #[must_use]
    pub fn action(mut self, action: impl Into<Str>) -> Self {
        self.action = action.into();
        self
    }

    /// The part of the object, such as `spec.containers{web}`. The whole object by default.
    #[must_use]
    pub fn field_path(mut self, path: impl Into<Str>) -> Self {
        self.regarding.field_path = Some(path.into());
        self
    }

    /// Adds an annotation. None by default.
    #[doc(alias = "AnnotatedEventf")]
    #[must_use]
    pub fn annotation(mut self, name: impl Into<Str>, value: impl Into<Str>) -> Self {
        self.annotations.insert(name, value.into());
        self
    }
}

/// A reference to an object, as events hold it.
#[doc(alias = "GetReference")]
fn reference_to(object: &impl Object) -> ObjectReference {
    let set = |text: &str| (!text.is_empty()).then(|| Str::from(text));
    let kind = object.group_version_kind();
    ObjectReference {
        api_version: set(&kind.api_version()),
        kind: set(&kind.kind),
        namespace: set(object.namespace()),
        name: set(object.name()),
        uid: set(object.uid()),
        resource_version: set(object.resource_version()),
        ..Default::default()
    }
}
