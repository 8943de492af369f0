//! Validation of custom resources without a server.

use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupKind, Value};
use kubewright_schema::{Schema, validate_schema};

use super::definition::CustomResource;

/// Validates an object as an API server would: defaults are set, then types, limits and CEL rules
/// are checked. With `old`, as an update, which also evaluates transition rules.
pub(super) fn validate<T: CustomResource>(object: &T, old: Option<&T>) -> Result<(), Box<Status>> {
    let tree = |object: &T| Value::from_json(&object.to_json()).unwrap_or_default();
    let (object, old) = (tree(object), old.map(tree));
    validate_tree(&T::schema(), &GroupKind::new(T::RESOURCE.kind.group, T::RESOURCE.kind.kind), object, old)
}

/// Not generic, so that it is compiled once.
fn validate_tree(
    definition: &Value,
    kind: &GroupKind,
    mut object: Value,
    mut old: Option<Value>,
) -> Result<(), Box<Status>> {
    let name = object.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
    let name = name.unwrap_or_default().to_owned();
    // A rule that does not compile would otherwise never fail.
    let mut causes = validate_schema("openAPIV3Schema", definition);
    if causes.is_empty() {
        let schema = Schema::parse(definition);
        schema.apply_defaults(&mut object);
        old.iter_mut().for_each(|old| schema.apply_defaults(old));
        causes = schema.validate(&object, old.as_ref()).causes;
    }
    if causes.is_empty() { Ok(()) } else { Err(Box::new(Status::invalid(kind, &name, causes))) }
}
