//! MutatingAdmissionPolicies: expressions that say what becomes of an object.
//!
//! A mutation gives either a configuration that is merged into the object as server-side apply would do it, or the
//! operations of a JSON patch. Each sees what those before it have made. Those that want it are asked again where others
//! changed the object after them.

use kubewright_core::apply::{self, Element, FieldSet};
use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::patch::json_patch;
use kubewright_core::{Str, Value};

use super::Control;
use super::attributes::Attributes;
use super::matching::Version;
use super::policy::{self, Bound, Compiled};
use crate::cel::{self, Budget, Program, Type};
use crate::conversion;
use crate::object::{Meta, tree};
use crate::registry::{Registry, merge_schema};
use crate::rejection::Rejection;

/// One change that a policy makes.
pub(super) struct Mutation {
    is_patch: bool,
    program: Compiled,
}

impl Mutation {
    pub(super) fn read(mutation: &Value) -> Mutation {
        let is_patch = tree::text(mutation, &["patchType"]) == "JSONPatch";
        let field = if is_patch { "jsonPatch" } else { "applyConfiguration" };
        let text = tree::text(mutation, &[field, "expression"]);
        let program = Program::compile(text, &environment()).map_err(|error| error.to_string());
        Mutation { is_patch, program }
    }
}

/// The variables of a mutation, and the types of which it can make objects.
pub(crate) fn environment() -> Vec<(&'static str, Type)> {
    let mut variables = policy::environment();
    variables.extend(["Object", "JSONPatch"].map(|name| (name, Type::Meta)));
    variables
}

/// What the policies make of an object, if they change it.
pub(super) fn mutate(
    control: &Control<'_>,
    registry: &Registry,
    attributes: Attributes<'_>,
    object: &Value,
) -> Result<Option<Value>, Rejection> {
    let mut changed = object.clone();
    let mut last_change = None;
    for (index, bound) in control.listeners.mutations.iter().enumerate() {
        if ask(control, registry, attributes, bound, &mut changed)? {
            last_change = Some(index);
        }
    }
    if let Some(last) = last_change {
        let wants_again =
            |bound: &&Bound| tree::text(&bound.policy.value, &["spec", "reinvocationPolicy"]) == "IfNeeded";
        for bound in control.listeners.mutations[..last].iter().filter(wants_again) {
            ask(control, registry, attributes, bound, &mut changed)?;
        }
    }
    Ok(Some(changed).filter(|changed| changed != object))
}

/// Lets one policy change the object; says whether it did.
fn ask(
    control: &Control<'_>,
    registry: &Registry,
    attributes: Attributes<'_>,
    bound: &Bound,
    object: &mut Value,
) -> Result<bool, Rejection> {
    let before = object.clone();
    let told = Attributes { object: Some(&before), ..attributes };
    let Some(version) = bound.version(control, registry, &told) else { return Ok(false) };
    // What it was and what it is now, in the version of the policy.
    let changed = control.seen_in(&version, &told, |seen| {
        let parameters =
            bound.parameters(registry, seen).map_err(|why| format!("failed to configure binding: {why}"))?;
        let was = seen.object.cloned().unwrap_or_default();
        let mut changed = was.clone();
        for parameter in parameters {
            changed = apply_policy(control, registry, *seen, bound, &parameter, changed)?;
        }
        Ok::<_, String>(Some(changed).filter(|changed| *changed != was))
    })?;
    match changed {
        Ok(None) => Ok(false),
        Ok(Some(changed)) => {
            *object = match &version {
                Version::Other(other) if control.is_about_object(attributes.resource) => {
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
    registry: &Registry,
    attributes: Attributes<'_>,
    bound: &Bound,
    parameter: &Value,
    mut object: Value,
) -> Result<Value, String> {
    let variables_of = |object: &Value| {
        let mut variables = policy::variables(control, registry, &Attributes { object: Some(object), ..attributes });
        variables.set("params", cel::Value::of_tree(parameter));
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
        let value = value.to_tree().ok_or("the expression evaluated to a type that could not marshal to JSON")?;
        object = match mutation.is_patch {
            true => patched(object, &value)?,
            false => merged(control, &attributes, &object, value)?,
        };
    }
    Ok(object)
}

/// The object after the operations of a patch. One that fails a test changes nothing.
fn patched(object: Value, operations: &Value) -> Result<Value, String> {
    match json_patch(&object, operations) {
        Ok(changed) => Ok(changed),
        Err(error) => match Status::from(error).to_string() {
            why if why.contains("testing value") || why.contains("test failed") => Ok(object),
            why => Err(format!("JSON Patch: {why}")),
        },
    }
}

/// The object with a configuration merged into it.
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
    // What a subresource is about has a structure of its own.
    let resource = attributes.shown.unwrap_or(attributes.resource);
    let schema = match control.expected(resource).entry {
        Some(entry) => apply::Schema::of(entry.info),
        None => merge_schema(resource),
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

/// Finds what would be replaced as a whole: it has parts, and is owned without them.
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

fn refusal(attributes: &Attributes<'_>, bound: &Bound, why: &str) -> Rejection {
    let (policy, binding) = (bound.policy.value.name(), bound.binding.name());
    let message: Str = format!("policy '{policy}' with binding '{binding}' denied request: {why}").into();
    let mut status = Status::forbidden(&attributes.resource.group_resource(), attributes.shown_name(), "");
    status.message = Some(message.clone());
    status.reason = Some("Invalid".into());
    status.with_cause(StatusCause { reason: None, message: Some(message), field: None }).into()
}
