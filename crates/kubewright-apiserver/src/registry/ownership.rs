//! Who owns which field: `metadata.managedFields` of an object that is written, and what is applied to it.

use std::sync::LazyLock;

use kubewright_core::apply::{ApplyError, FieldSet, Manager, Managers, Operation, Schema, check, compare, field_set};
use kubewright_core::message::Message;
use kubewright_core::meta::v1::{ObjectMeta, Status, StatusCause};
use kubewright_core::scheme::TypeEntry;
use kubewright_core::{CauseType, Map, Str, Time, Value};

use crate::admission;
use crate::catalog::Resource;
use crate::conversion;
use crate::object::{Meta, tree};
use crate::rejection::Rejection;

/// Who owns what was there before anybody applied anything.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager that `kubectl` applies as, for which the server keeps the annotation of older versions up to date.
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// A manager's name is this long at most, in bytes.
const NAME_MAX: usize = 128;

/// What becomes of `managedFields` when an object is written.
#[derive(Clone)]
pub(crate) enum Ownership {
    /// They stay: the server itself writes.
    Keep,
    /// The writer takes over what differs.
    Track(Writer),
    /// The object comes with those that it should have.
    Given,
}

/// Who writes.
#[derive(Clone)]
pub(crate) struct Writer {
    name: Str,
    subresource: Str,
    /// The same each time that the write is done, so that webhooks are not asked again for the time alone.
    time: Time,
}

impl Writer {
    /// The writer that a request names, or else the program that sent it.
    pub(crate) fn new(field_manager: Option<&str>, user_agent: &str, subresource: &str) -> Self {
        let name: Str = match field_manager.unwrap_or_default() {
            "" => program_of(user_agent).into(),
            name => name.into(),
        };
        Writer { name, subresource: subresource.into(), time: Time::now() }
    }

    fn manager(&self, resource: &Resource, operation: Operation) -> Manager {
        let (name, subresource) = (self.name.clone(), self.subresource.clone());
        Manager { name, operation, api_version: resource.api_version.clone(), subresource }
    }

    /// The time of a write. A scale has none, because it is an object of its own that keeps no managers.
    fn now(&self) -> Option<String> {
        (self.subresource != "scale").then(|| self.time.to_string())
    }
}

/// The name of a program in its user agent.
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

/// The managers of `new`, which the writer put in the place of `old`, or created.
///
/// Both are in the version of the resource. Objects whose managers are unknown stay so until somebody applies.
pub(super) fn track(resource: &Resource, writer: &Writer, old: Option<&Value>, new: &Value) -> Option<Value> {
    let mut managers = given_managers(writer, old, new);
    if old.is_some() && managers.is_empty() {
        return None;
    }
    if retain_known(resource, &mut managers).is_err() {
        return None;
    }
    let (schema, ignored) = (schema(resource), ignored(resource, &writer.subresource));
    let manager = writer.manager(resource, Operation::Update);
    let (old, new) = (old.unwrap_or(&resource.empty), defaulted(resource, new));
    managers.update(old, &new, schema, ignored, &manager, writer.now().as_deref());
    managers.to_value()
}

/// The managers that a request starts from: its own where it has some, none where it resets them.
fn given_managers(writer: &Writer, old: Option<&Value>, new: &Value) -> Managers {
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

/// Forgets managers who wrote in a version that there is no more.
///
/// No custom object can be converted to one, nor any object to what is no version at all; there the real server gives up on all managers.
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

/// What a configuration makes of `live`, or of an object that does not exist yet, with its managers.
///
/// # Errors
/// What the real server answers when the configuration does not fit, or is in conflict with other managers.
pub(crate) fn apply(
    resource: &Resource,
    writer: &Writer,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<Value, Rejection> {
    if config.meta("managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil").into());
    }
    let (schema, ignored) = (schema(resource), ignored(resource, &writer.subresource));
    let mut before = live.map(managers_of).unwrap_or_default();
    retain_known(resource, &mut before).map_err(Rejection::unexpected)?;
    let live = without_managers(live.unwrap_or(&resource.empty));
    let now = writer.now();
    let apply = |force: bool| {
        let mut managers = before.clone();
        if managers.is_empty() {
            let first = Writer { name: BEFORE_FIRST_APPLY.into(), ..writer.clone() };
            let first = first.manager(resource, Operation::Update);
            managers.update(&resource.empty, &live, schema, ignored, &first, now.as_deref());
        }
        let manager = writer.manager(resource, Operation::Apply);
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

/// Refuses a configuration that does not fit its type.
pub(crate) fn check_configuration(config: &Value, entry: Option<&'static TypeEntry>) -> Result<(), Rejection> {
    let problems = entry.map(|entry| check(config, Schema::of(entry.info))).unwrap_or_default();
    if problems.is_empty() { Ok(()) } else { Err(refusal(config, ApplyError::Unfit(problems))) }
}

/// The fields that `kubectl` applied on its side and nobody has changed since: it may take these over.
fn last_applied_paths(live: &Value, schema: Schema<'_>) -> Vec<String> {
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

/// Group and version with a slash even where the group is empty.
pub(crate) fn group_version(api_version: &str) -> String {
    if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") }
}

/// The structure of objects of a resource, by which they are merged.
pub(crate) fn schema(resource: &Resource) -> Schema<'_> {
    let metadata = ObjectMeta::default().scheme();
    let described = resource.custom.as_ref().and_then(|custom| custom.version.get("schema")?.get("openAPIV3Schema"));
    match (resource.entry, described) {
        (Some(entry), _) => Schema::of(entry.info),
        (None, Some(schema)) => Schema::described(schema, metadata),
        (None, None) => Schema::custom(metadata),
    }
}

/// The fields that a path never writes, whatever a request says. The managers themselves are owned by nobody.
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

/// The object with its defaults, which belong to whoever made them necessary.
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

/// Whether two objects are the same but for the times of their managers.
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
    // Most writes change more than that, which shows without a copy.
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
