//! Rules that objects have to keep, in the server's words for those who break them.

mod metadata;

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use crate::catalog::Resource;
use crate::registry::Part;

/// What is wrong with a new object.
pub(super) fn create(resource: &Resource, value: &Value) -> Vec<StatusCause> {
    let mut causes = metadata::create(resource, value);
    causes.extend(content(resource, value, None));
    causes
}

/// What is wrong with an object that takes the place of another.
pub(super) fn update(resource: &Resource, old: &Value, new: &Value, part: Part) -> Vec<StatusCause> {
    let mut causes = metadata::update(resource, old, new);
    if part == Part::Main {
        causes.extend(content(resource, new, Some(old)));
    }
    causes
}

/// What the client should know, although the object is taken.
pub(super) fn warnings(_: &Resource, _: &Value, _old: Option<&Value>) -> Vec<String> {
    Vec::new()
}

fn content(_resource: &Resource, _value: &Value, _old: Option<&Value>) -> Vec<StatusCause> {
    Vec::new()
}
