//! MutatingAdmissionPolicies.
//!
//! A mutation is an apply configuration, which is merged as in server-side apply, or a JSON patch.
//! Each mutation sees the changes of the earlier ones. A policy with `reinvocationPolicy: IfNeeded`
//! runs again if a later one changed the object.

use kubewright_cel::Budget;
use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::{Str, Value};
use kubewright_merge::apply::{self, Element, FieldSet};
use kubewright_merge::patch::json_patch;
use kubewright_validation::admission_policy::mutation_environment;

use super::Control;
use super::ControlState;
use super::attributes::Attributes;
use super::matching::ReviewVersion;
use super::policy::{self, BoundPolicy, Compiled};
use kubewright_objects::conversion;
use kubewright_objects::object::{Meta, tree};
use kubewright_objects::rejection::Rejection;

/// One mutation of a policy.
pub(super) struct Mutation {
    is_patch: bool,
    program: Compiled,
}

impl Mutation {
    pub(super) fn read(mutation: &Value) -> Mutation {
        let is_patch = tree::text(mutation, &["patchType"]) == "JSONPatch";
        let field = if is_patch { "jsonPatch" } else { "applyConfiguration" };
        let text = tree::text(mutation, &[field, "expression"]);
        let program = mutation_environment().compile(text).map_err(|error| error.to_string());
        Mutation { is_patch, program }
    }
}

/// Runs all mutating policies. Returns the object if they changed it.
pub(super) fn mutate(
    control: &Control<'_>,
    cluster: &dyn ControlState,
    attributes: Attributes<'_>,
    object: &Value,
) -> Result<Option<Value>, Rejection> {
    let mut changed = object.clone();
    let mut last_change = None;
    for (index, bound) in control.hooks.mutations.iter().enumerate() {
        if run_policy(control, cluster, attributes, bound, &mut changed)? {
            last_change = Some(index);
        }
    }
    if let Some(last) = last_change {
        let wants_again =
            |bound: &&BoundPolicy| tree::text(&bound.policy.value, &["spec", "reinvocationPolicy"]) == "IfNeeded";
        for bound in control.hooks.mutations[..last].iter().filter(wants_again) {
            run_policy(control, cluster, attributes, bound, &mut changed)?;
        }
    }
    Ok(Some(changed).filter(|changed| changed != object))
}

/// Runs one policy with all its parameters. Returns whether it changed the object.
fn run_policy(
    control: &Control<'_>,
    cluster: &dyn ControlState,
    attributes: Attributes<'_>,
    bound: &BoundPolicy,
    object: &mut Value,
) -> Result<bool, Rejection> {
    let before = object.clone();
    let attributes_now = Attributes { object: Some(&before), ..attributes };
    let Some(version) = bound.version(control, cluster, &attributes_now) else { return Ok(false) };
    // The original and the current object, in the version that the policy wants.
    let changed = control.in_version(&version, &attributes_now, |seen| {
        let parameters =
            bound.parameters(cluster, seen).map_err(|why| format!("failed to configure binding: {why}"))?;
        let was = seen.object.cloned().unwrap_or_default();
        let mut changed = was.clone();
        for parameter in parameters {
            changed = apply_policy(control, cluster, *seen, bound, &parameter, changed)?;
        }
        Ok::<_, String>(Some(changed).filter(|changed| *changed != was))
    })?;
    match changed {
        Ok(None) => Ok(false),
        Ok(Some(changed)) => {
            *object = match &version {
                ReviewVersion::Other(other) if control.is_about_object(attributes.resource) => {
                    conversion::across(other, attributes.resource, &changed, control)?.into_owned()
                }
                _ => changed,
            };
            Ok(*object != before)
        }
        Err(_) if !bound.policy.fails_closed() => Ok(false),
        Err(why) => Err(refusal(&attributes, bound, &why)),
    }
}

fn apply_policy(
    control: &Control<'_>,
    cluster: &dyn ControlState,
    attributes: Attributes<'_>,
    bound: &BoundPolicy,
    parameter: &Value,
    mut object: Value,
) -> Result<Value, String> {
    let variables_of = |object: &Value| {
        let mut variables = policy::variables(control, cluster, &Attributes { object: Some(object), ..attributes });
        variables.set("params", kubewright_cel::Value::from_json(parameter));
        variables
    };
    let mut budget = Budget::for_object();
    for (name, condition) in &bound.policy.conditions {
        match policy::evaluate(condition, &variables_of(&object), &mut budget) {
            Ok(true) => {}
            Ok(false) => return Ok(object),
            Err(why) => return Err(format!("match condition '{name}' failed: {why}")),
        }
    }
    for mutation in &bound.policy.mutations {
        let mut variables = variables_of(&object);
        bound.policy.compute(&mut variables, &mut budget);
        let program = mutation.program.as_ref().map_err(|why| format!("compilation failed: {why}"))?;
        let value = program.evaluate(&variables, &mut budget).map_err(|error| error.to_string())?;
        let value = value.to_json().ok_or("the expression evaluated to a type that could not marshal to JSON")?;
        object =
            if mutation.is_patch { patched(object, &value)? } else { merged(control, &attributes, &object, value)? };
    }
    Ok(object)
}

/// Applies a JSON patch. A failed `test` operation leaves the object unchanged.
fn patched(object: Value, operations: &Value) -> Result<Value, String> {
    match json_patch(&object, operations) {
        Ok(changed) => Ok(changed),
        Err(error) => match Status::from(error).to_string() {
            why if why.contains("testing value") || why.contains("test failed") => Ok(object),
            why => Err(format!("JSON Patch: {why}")),
        },
    }
}

/// Merges an apply configuration into the object.
fn merged(
    control: &Control<'_>,
    attributes: &Attributes<'_>,
    object: &Value,
    mut configuration: Value,
) -> Result<Value, String> {
    for field in ["apiVersion", "kind"] {
        if let Some(value) = object.get(field) {
            tree::set(&mut configuration, &[field], value.clone());
        }
    }
    // A subresource kind such as `Scale` has its own schema.
    let resource = attributes.shown.unwrap_or(attributes.resource);
    let schema = match control.expected(resource).entry {
        Some(entry) => apply::MergeSchema::of(entry.info),
        None => resource.merge_schema(),
    };
    let problems = apply::check(&configuration, schema);
    if !problems.is_empty() {
        let why = problems.join(", ");
        return Err(format!("error applying patch: failed to convert patch object to typed object: {why}"));
    }
    let mut atomic = Vec::new();
    find_atomic(&configuration, &apply::field_set(&configuration, schema), "", &mut atomic);
    if !atomic.is_empty() {
        let why = format!("may not mutate atomic arrays, maps or structs: {}", atomic.join(", "));
        return Err(format!("error applying patch: invalid ApplyConfiguration: {why}"));
    }
    Ok(apply::merge(object, &configuration, schema))
}

/// Collects fields with atomic maps or lists, which apply configurations of policies must not set.
fn find_atomic(value: &Value, fields: &FieldSet, path: &str, found: &mut Vec<String>) {
    for (name, field) in value.as_object().into_iter().flat_map(|object| object.iter()) {
        let (path, element) = (format!("{path}.{name}"), Element::field(name));
        let has_parts = match field {
            Value::Object(entries) => !entries.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => false,
        };
        match fields.below(&element) {
            None if has_parts && fields.has(&element) => found.push(path),
            Some(below) if has_parts => find_atomic(field, below, &path, found),
            _ => {}
        }
    }
}

fn refusal(attributes: &Attributes<'_>, bound: &BoundPolicy, why: &str) -> Rejection {
    let (policy, binding) = (bound.policy.value.name(), bound.binding.name());
    let message: Str = format!("policy '{policy}' with binding '{binding}' denied request: {why}").into();
    let mut status = Status::forbidden(&attributes.resource.group_resource(), attributes.shown_name(), "");
    status.message = Some(message.clone());
    status.reason = Some("Invalid".into());
    status.with_cause(StatusCause { reason: None, message: Some(message), field: None }).into()
}
