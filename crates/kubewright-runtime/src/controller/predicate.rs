//! Event filters.
//!
//! Deletions always pass: predicates are not called for them. A reconciler that misses a deletion
//! never repairs it, because no later event names the key. controller-runtime does filter
//! deletions, in [`with_event_filter`](crate::Controller::with_event_filter) as in the predicates
//! of a watch.

use std::fmt;
use std::sync::Arc;

use kubewright_cache::Event;
use kubewright_core::meta::v1::{ObjectMeta, PartialObjectMetadata};
use kubewright_core::{Map, Object, Selector, Str, StringMap};

/// The filter of all watches of a controller. It sees metadata, which every kind has.
pub(super) type EventFilter = Predicate<PartialObjectMetadata>;

type Passes<T> = dyn Fn(&Event<T>) -> bool + Send + Sync;

/// Filters the events that lead to a reconcile. Deletions always pass.
///
/// ```
/// use kubewright_core::DynamicObject;
/// use kubewright_runtime::Predicate;
/// let changed = Predicate::<DynamicObject>::generation_changed().or(Predicate::annotations_changed());
/// # drop(changed);
/// ```
#[doc(alias = "predicate.Funcs")]
pub struct Predicate<T> {
    passes: Arc<Passes<T>>,
}

impl<T: Object> Predicate<T> {
    /// Passes events for which the function returns true.
    pub fn new(passes: impl Fn(&Event<T>) -> bool + Send + Sync + 'static) -> Self {
        Predicate { passes: Arc::new(passes) }
    }

    /// Passes updates for which the function of old and new state returns true, and all other
    /// events.
    #[doc(alias = "UpdateFunc")]
    pub fn updates(passes: impl Fn(&T, &T) -> bool + Send + Sync + 'static) -> Self {
        Predicate::new(move |event| match event {
            Event::Updated { old, new } => passes(old, new),
            _ => true,
        })
    }

    /// Passes events of objects for which the function returns true, before or after an update. So
    /// an object that stops matching passes once.
    #[doc(alias = "NewPredicateFuncs")]
    pub fn objects(matters: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        Predicate::new(move |event| match event {
            Event::Updated { old, new } => matters(old) || matters(new),
            event => event.object().is_none_or(|object| matters(object)),
        })
    }

    /// Passes updates of the spec. Kinds without a generation always pass, because their updates
    /// cannot be distinguished.
    #[doc(alias = "GenerationChangedPredicate")]
    pub fn generation_changed() -> Self {
        Predicate::updates(|old: &T, new: &T| new.generation().is_none() || old.generation() != new.generation())
    }

    /// Passes updates of labels.
    #[doc(alias = "LabelChangedPredicate")]
    pub fn labels_changed() -> Self {
        Predicate::updates(|old: &T, new: &T| !old.labels().iter().eq(new.labels().iter()))
    }

    /// Passes updates of annotations.
    #[doc(alias = "AnnotationChangedPredicate")]
    pub fn annotations_changed() -> Self {
        Predicate::updates(|old: &T, new: &T| !old.annotations().iter().eq(new.annotations().iter()))
    }

    /// Passes updates that are not resyncs.
    #[doc(alias = "ResourceVersionChangedPredicate")]
    pub fn resource_version_changed() -> Self {
        Predicate::updates(|old: &T, new: &T| old.resource_version() != new.resource_version())
    }

    /// Passes objects that match the selector, before or after an update.
    #[doc(alias = "LabelSelectorPredicate")]
    pub fn labels_match(selector: Selector) -> Self {
        Predicate::objects(move |object: &T| match object.labels() {
            StringMap::Map(labels) => selector.matches(labels),
            labels => {
                selector.matches(&labels.iter().map(|(key, value)| (key, Str::from(value))).collect::<Map<Str>>())
            }
        })
    }

    /// Passes events that both pass.
    #[doc(alias = "And")]
    #[must_use]
    pub fn and(self, other: Predicate<T>) -> Self {
        Predicate::new(move |event| (self.passes)(event) && (other.passes)(event))
    }

    /// Passes events that either passes.
    #[doc(alias = "Or")]
    #[must_use]
    pub fn or(self, other: Predicate<T>) -> Self {
        Predicate::new(move |event| (self.passes)(event) || (other.passes)(event))
    }

    /// Whether an event passes.
    pub fn passes(&self, event: &Event<T>) -> bool {
        matches!(event, Event::Deleted(_)) || (self.passes)(event)
    }
}

impl EventFilter {
    /// Whether an event of an object of any kind passes.
    pub(super) fn passes_any<K: Object>(&self, event: &Event<K>) -> bool {
        match event {
            Event::Added { object, is_in_initial_list } => {
                self.passes(&Event::Added { object: metadata_of(&**object), is_in_initial_list: *is_in_initial_list })
            }
            Event::Updated { old, new } => {
                self.passes(&Event::Updated { old: metadata_of(&**old), new: metadata_of(&**new) })
            }
            Event::Deleted(_) => true,
        }
    }
}

/// The metadata that the trait [`Object`] shows.
fn metadata_of(object: &impl Object) -> Arc<PartialObjectMetadata> {
    let text = |text: &str| (!text.is_empty()).then(|| Str::from(text));
    let map = |map: StringMap<'_>| match map {
        StringMap::Map(map) => map.clone(),
        other => other.iter().map(|(key, value)| (key, Str::from(value))).collect(),
    };
    let mut metadata = ObjectMeta {
        name: text(object.name()),
        namespace: text(object.namespace()),
        uid: text(object.uid()),
        resource_version: text(object.resource_version()),
        generation: object.generation(),
        creation_timestamp: object.creation_timestamp(),
        labels: map(object.labels()),
        annotations: map(object.annotations()),
        owner_references: object.owner_references().iter().cloned().collect(),
        finalizers: object.finalizers().iter().cloned().collect(),
        ..Default::default()
    };
    metadata.deletion_timestamp = object.deletion_timestamp();
    Arc::new(PartialObjectMetadata { metadata })
}

/// Passes events that the predicate does not, and deletions.
impl<T: Object> std::ops::Not for Predicate<T> {
    type Output = Predicate<T>;

    fn not(self) -> Predicate<T> {
        Predicate::new(move |event| !(self.passes)(event))
    }
}

impl<T> Clone for Predicate<T> {
    fn clone(&self) -> Self {
        Predicate { passes: self.passes.clone() }
    }
}

impl<T> fmt::Debug for Predicate<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predicate").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use kubewright_cache::Deleted;
    use kubewright_core::{DynamicObject, GroupVersionKind, ObjectKey};

    use super::*;

    fn object(version: &str, generation: i64, label: &str) -> Arc<DynamicObject> {
        let mut object = DynamicObject::new(&GroupVersionKind::from_static("example.com", "v1", "Foo"), "foo");
        object.set_resource_version(version);
        object.metadata.generation = (generation > 0).then_some(generation);
        object.metadata.labels.insert("app", label.into());
        object.metadata.annotations.insert("note", label.into());
        Arc::new(object)
    }

    fn updated(old: Arc<DynamicObject>, new: Arc<DynamicObject>) -> Event<DynamicObject> {
        Event::Updated { old, new }
    }

    #[test]
    fn update_predicates_filter_by_the_changed_part() {
        let reminder = updated(object("1", 1, "a"), object("1", 1, "a"));
        let status = updated(object("1", 1, "a"), object("2", 1, "a"));
        let spec = updated(object("1", 1, "a"), object("2", 2, "a"));
        let labels = updated(object("1", 1, "a"), object("2", 1, "b"));
        let unknown = updated(object("1", 0, "a"), object("2", 0, "a"));
        let all = [reminder, status, spec, labels, unknown];
        let passed = |predicate: Predicate<DynamicObject>| all.each_ref().map(|event| predicate.passes(event));
        assert_eq!(passed(Predicate::generation_changed()), [false, false, true, false, true]);
        assert_eq!(passed(Predicate::resource_version_changed()), [false, true, true, true, true]);
        assert_eq!(passed(Predicate::labels_changed()), [false, false, false, true, false]);
        assert_eq!(passed(Predicate::annotations_changed()), [false, false, false, true, false]);
        assert_eq!(passed(!Predicate::labels_changed()), [true, true, true, false, true]);
        let either = Predicate::generation_changed().or(Predicate::labels_changed());
        assert_eq!(passed(either), [false, false, true, true, true]);
        let both = Predicate::resource_version_changed().and(!Predicate::generation_changed());
        assert_eq!(passed(both), [false, true, false, true, false]);
    }

    #[test]
    fn an_object_that_leaves_the_selection_is_reported() {
        let selected = Predicate::labels_match("app=a".parse().unwrap());
        let added = |label| Event::Added { object: object("1", 1, label), is_in_initial_list: false };
        assert!(selected.passes(&added("a")) && !selected.passes(&added("b")));
        assert!(selected.passes(&updated(object("1", 1, "a"), object("2", 1, "b"))));
        assert!(!selected.passes(&updated(object("1", 1, "b"), object("2", 1, "b"))));
    }

    #[test]
    fn no_predicate_loses_a_deletion() {
        let nothing = Predicate::new(|_| false);
        let gone = Deleted::LastKnown { key: ObjectKey::cluster("foo"), object: None };
        for deleted in [Deleted::Final(object("1", 1, "a")), gone] {
            let event = Event::Deleted(deleted);
            assert!(nothing.passes(&event) && nothing.clone().and(nothing.clone()).passes(&event));
            assert!((!Predicate::new(|_| true)).passes(&event));
        }
    }
}
