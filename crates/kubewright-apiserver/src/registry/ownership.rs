//! Field ownership (`metadata.managedFields`) and server-side apply.

use std::sync::LazyLock;

use kubewright_core::message::TypeEntry;
use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::{CauseType, Map, Str, Time, Value};
use kubewright_merge::apply::{
    ApplyError, FieldSet, ManagedFieldsOperation, ManagerIdentifier, Managers, MergeSchema, check, compare, field_set,
};
use kubewright_net::clock;

use crate::admission;
use kubewright_objects::conversion;
use kubewright_objects::object::{Meta, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;

/// The manager of fields from before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager name of `kubectl apply`. For it the server also maintains the last-applied
/// annotation.
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Maximum length of a manager name, in bytes.
const NAME_MAX: usize = 128;

/// How a write updates `managedFields`.
#[derive(Clone)]
pub(crate) enum Ownership {
    /// Leave it unchanged. For the server's own writes.
    Keep,
    /// The writer becomes the owner of changed fields.
    Track(FieldManager),
    /// The object already contains the intended value.
    Given,
}

/// The field manager of a write.
#[derive(Clone)]
pub(crate) struct FieldManager {
    name: Str,
    subresource: Str,
    /// Fixed per request. Otherwise a retry would differ in this time alone, and invalidate the
    /// answers of webhooks.
    time: Time,
}

impl FieldManager {
    /// The field manager of a request. Defaults to the program in the user agent.
    pub(crate) fn new(field_manager: Option<&str>, user_agent: &str, subresource: &str) -> Self {
        let name: Str = match field_manager.unwrap_or_default() {
            "" => program_of(user_agent).into(),
            name => name.into(),
        };
        FieldManager { name, subresource: subresource.into(), time: clock::now() }
    }

    fn manager(&self, resource: &Resource, operation: ManagedFieldsOperation) -> ManagerIdentifier {
        let (name, subresource) = (self.name.clone(), self.subresource.clone());
        ManagerIdentifier { name, operation, api_version: resource.api_version.clone(), subresource }
    }

    /// The time of the write. `None` for a scale, which is a separate object without managers.
    fn now(&self) -> Option<String> {
        (self.subresource != "scale").then(|| self.time.to_string())
    }
}

/// The program name of a user agent.
fn program_of(user_agent: &str) -> String {
    let mut name = String::new();
    for c in user_agent.split('/').next().unwrap_or_default().chars().filter(|c| !c.is_control()) {
        if name.len() + c.len_utf8() > NAME_MAX {
            break;
        }
        name.push(c);
    }
    if name.is_empty() { "unknown".into() } else { name }
}

/// The managers of `new`, which the writer stores in place of `old` or creates.
///
/// Both are in the version of the resource. An object without managers stays so until the first
/// apply.
pub(super) fn track(resource: &Resource, writer: &FieldManager, old: Option<&Value>, new: &Value) -> Option<Value> {
    let mut managers = given_managers(writer, old, new);
    if old.is_some() && managers.is_empty() {
        return None;
    }
    if retain_known(resource, &mut managers).is_err() {
        return None;
    }
    let (schema, ignored) = (resource.merge_schema(), ignored(resource, &writer.subresource));
    let manager = writer.manager(resource, ManagedFieldsOperation::Update);
    let (old, new) = (old.unwrap_or(&resource.empty), defaulted(resource, new));
    managers.update(old, &new, schema, ignored, &manager, writer.now().as_deref());
    managers.to_value()
}

/// The managers to start from: those in the request, none if it resets them, else the stored ones.
fn given_managers(writer: &FieldManager, old: Option<&Value>, new: &Value) -> Managers {
    let stored = || old.map(managers_of).unwrap_or_default();
    if !writer.subresource.is_empty() {
        return stored();
    }
    let given = tree::items(new, &["metadata", "managedFields"]);
    let is_blank = |entry: &Value| entry.as_object().is_some_and(Map::is_empty);
    if new.meta("managedFields").is_some() && given.iter().all(is_blank) && given.len() < 2 {
        return Managers::new();
    }
    let given = managers_of(new);
    if given.is_empty() { stored() } else { given }
}

/// Drops managers of versions that are no longer served.
///
/// # Errors
///
/// Custom objects cannot be converted to an unknown version, and an invalid version cannot be
/// parsed. The real server then discards all managers.
fn retain_known(resource: &Resource, managers: &mut Managers) -> Result<(), String> {
    let unknown: Vec<_> = managers.iter().map(|manager| &manager.api_version).collect();
    let mut unknown = unknown.into_iter().filter(|version| !resource.has_version(version));
    if resource.is_custom() {
        return unknown
            .next()
            .map_or(Ok(()), |version| Err(format!("request to convert CR to an invalid group/version: {version}")));
    }
    if let Some(version) = unknown.find(|version| version.matches('/').count() > 1) {
        return Err(format!("unexpected GroupVersion string: {version}"));
    }
    managers.retain(|manager| resource.has_version(&manager.api_version));
    Ok(())
}

fn managers_of(value: &Value) -> Managers {
    value.meta("managedFields").and_then(Managers::from_value).unwrap_or_default()
}

/// Applies a configuration to `live`, or creates the object, and updates its managers.
///
/// # Errors
///
/// The configuration does not match the schema, or conflicts with other managers.
pub(crate) fn apply(
    resource: &Resource,
    writer: &FieldManager,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<Value, Rejection> {
    if config.meta("managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil").into());
    }
    let (schema, ignored) = (resource.merge_schema(), ignored(resource, &writer.subresource));
    let mut before = live.map(managers_of).unwrap_or_default();
    retain_known(resource, &mut before).map_err(Rejection::unexpected)?;
    let live = without_managers(live.unwrap_or(&resource.empty));
    let now = writer.now();
    let apply = |force: bool| {
        let mut managers = before.clone();
        if managers.is_empty() {
            let first = FieldManager { name: BEFORE_FIRST_APPLY.into(), ..writer.clone() };
            let first = first.manager(resource, ManagedFieldsOperation::Update);
            managers.update(&resource.empty, &live, schema, ignored, &first, now.as_deref());
        }
        let manager = writer.manager(resource, ManagedFieldsOperation::Apply);
        let applied = managers.apply(&live, config, schema, ignored, &manager, force, now.as_deref())?;
        Ok((applied, managers))
    };
    let applied = apply(force).or_else(|error| match error {
        ApplyError::Conflicts(conflicts) if writer.name == KUBECTL => {
            let allowed = last_applied_paths(&live, schema);
            let left: Vec<_> = conflicts.into_iter().filter(|found| !allowed.contains(&found.field)).collect();
            if left.is_empty() { apply(true) } else { Err(ApplyError::Conflicts(left)) }
        }
        error => Err(error),
    });
    let (applied, managers) = applied.map_err(|error| refusal(config, error))?;
    let mut new = applied.unwrap_or(live);
    if writer.name == KUBECTL && tree::get(&new, &["metadata", "annotations", LAST_APPLIED]).is_some() {
        let mut shown = config.clone();
        tree::remove(&mut shown, &["metadata", "annotations", LAST_APPLIED]);
        tree::set(&mut new, &["metadata", "annotations", LAST_APPLIED], format!("{shown}\n"));
    }
    if let Some(managers) = managers.to_value() {
        new.set_meta("managedFields", managers);
    }
    Ok(new)
}

/// Rejects a configuration that does not match its type.
pub(crate) fn check_configuration(config: &Value, entry: Option<&'static TypeEntry>) -> Result<(), Rejection> {
    let problems = entry.map(|entry| check(config, MergeSchema::of(entry.info))).unwrap_or_default();
    if problems.is_empty() { Ok(()) } else { Err(refusal(config, ApplyError::SchemaViolation(problems))) }
}

/// Fields of the last-applied annotation that still have the applied value. `kubectl` may take them
/// over.
fn last_applied_paths(live: &Value, schema: MergeSchema<'_>) -> Vec<String> {
    let text = tree::text(live, &["metadata", "annotations", LAST_APPLIED]);
    let Ok(applied) = text.parse::<Value>() else { return Vec::new() };
    let found = compare(live, &applied, schema);
    field_set(&applied, schema).difference(&found.modified).difference(&found.added).difference(&found.removed).paths()
}

fn refusal(config: &Value, error: ApplyError) -> Rejection {
    match &error {
        ApplyError::Conflicts(conflicts) => {
            let cause = |(manager, field): (&str, &str)| StatusCause {
                field: Some(field.into()),
                ..StatusCause::of(CauseType::FieldManagerConflict, format!("conflict with {manager}"))
            };
            let causes = conflicts.iter().map(|conflict| cause((&conflict.manager, &conflict.field)));
            Status::apply_conflict(causes.collect::<Vec<_>>(), error.to_string()).into()
        }
        _ => {
            let (namespace, name) = (config.namespace(), config.name());
            let (api_version, kind) = (tree::text(config, &["apiVersion"]), tree::text(config, &["kind"]));
            let group_version = group_version(api_version);
            let what = format!("{namespace}/{name}; {group_version}, Kind={kind}");
            Rejection::unexpected(format!("failed to create typed patch object ({what}): {error}"))
        }
    }
}

/// Group and version with a slash, even for the core group.
pub(crate) fn group_version(api_version: &str) -> String {
    if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") }
}

/// Fields that this request path never writes. `managedFields` itself has no owner.
fn ignored(resource: &Resource, subresource: &str) -> &'static FieldSet {
    const MANAGERS: &[&str] = &["metadata", "managedFields"];
    static OBJECT: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[MANAGERS]));
    static NOT_STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["status"], MANAGERS]));
    static NOT_SPEC: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["spec"], MANAGERS]));
    static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["spec"], &["metadata"]]));
    static APPS_STATUS: LazyLock<FieldSet> =
        LazyLock::new(|| FieldSet::of_fields(&[&["spec"], &["metadata", "labels"], MANAGERS]));
    match subresource {
        "" if resource.has_status() => &NOT_STATUS,
        "status" if resource.is_custom() => &STATUS,
        "status" if resource.group == "apps" => &APPS_STATUS,
        "status" => &NOT_SPEC,
        _ => &OBJECT,
    }
}

/// The object with its defaults. They belong to the writer whose fields caused them.
fn defaulted(resource: &Resource, value: &Value) -> Value {
    let mut value = conversion::to_stored(resource, value.clone());
    admission::set_defaults(resource, &mut value);
    conversion::to_version(resource, value)
}

fn without_managers(value: &Value) -> Value {
    let mut value = value.clone();
    value.remove_meta("managedFields");
    value
}

/// Whether two objects are equal except for the times of their managers.
pub(super) fn is_unchanged(old: &Value, new: &Value) -> bool {
    let timeless = |value: &Value| {
        let mut value = value.clone();
        if let Some(metadata) = tree::field_mut(&mut value, "metadata") {
            for entry in tree::items_mut(metadata, "managedFields") {
                tree::remove(entry, &["time"]);
            }
        }
        value
    };
    // Most writes differ in these fields, which shows without copying the objects.
    let differs = |field: &str| old.get(field) != new.get(field);
    !["spec", "data", "status"].into_iter().any(differs) && timeless(old) == timeless(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_first_part_of_its_user_agent() {
        assert_eq!(program_of("kubectl/v1.33.0 (linux/amd64)"), "kubectl");
        assert_eq!(program_of(""), "unknown");
        assert_eq!(program_of(&"x".repeat(200)).len(), NAME_MAX);
    }
}
