//! Validates one version of a CustomResourceDefinition.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Value, tree};

use super::metadata::quoted;

/// The types of a printer column.
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
/// The formats of a printer column.
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
/// Maximum number of selectable fields.
const SELECTABLE_MAX: usize = 8;
/// Maximum length of a deprecation warning, in bytes.
const WARNING_MAX: usize = 256;

/// The fields that all versions have in common.
///
/// The internal type of the real server moves them to the spec. They are validated once, under that
/// path.
pub(super) struct SharedFields(Vec<&'static str>);

impl SharedFields {
    pub(super) fn of(versions: &[Value]) -> Self {
        let is_shared =
            |field: &&'static str| versions.iter().all(|version| version.get(field) == versions[0].get(field));
        let fields = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];
        SharedFields(fields.into_iter().filter(is_shared).collect())
    }

    pub(super) fn has(&self, field: &str) -> bool {
        self.0.contains(&field)
    }
}

/// Validates the version at `index`.
pub(super) fn version(path: &str, index: usize, version: &Value, shared: &SharedFields) -> Vec<StatusCause> {
    let mut causes = deprecation(path, version);
    let place = |field: &str| {
        if shared.has(field) { (index == 0).then(|| format!("spec.{field}")) } else { Some(format!("{path}.{field}")) }
    };
    if let Some(path) = place("subresources") {
        causes.extend(scale(&path, version));
    }
    if let Some(path) = place("additionalPrinterColumns") {
        let columns = tree::items(version, &["additionalPrinterColumns"]).iter().enumerate();
        causes.extend(columns.flat_map(|(index, one)| column(&format!("{path}[{index}]"), one)));
    }
    if let Some(path) = place("selectableFields") {
        causes.extend(selectable(&path, version));
    }
    causes
}

/// Validates the root of a schema with a status subresource. The status is validated against its
/// part of the schema only, so constraints at the root would not apply to it.
pub(super) fn root_beside_status(path: &str, schema: &Value) -> Option<StatusCause> {
    const ALLOWED: [(&str, &str); 22] = [
        ("description", "Description"),
        ("type", "Type"),
        ("format", "Format"),
        ("title", "Title"),
        ("maximum", "Maximum"),
        ("exclusiveMaximum", "ExclusiveMaximum"),
        ("minimum", "Minimum"),
        ("exclusiveMinimum", "ExclusiveMinimum"),
        ("maxLength", "MaxLength"),
        ("minLength", "MinLength"),
        ("pattern", "Pattern"),
        ("maxItems", "MaxItems"),
        ("minItems", "MinItems"),
        ("uniqueItems", "UniqueItems"),
        ("multipleOf", "MultipleOf"),
        ("required", "Required"),
        ("items", "Items"),
        ("properties", "Properties"),
        ("externalDocs", "ExternalDocs"),
        ("example", "Example"),
        ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
        ("x-kubernetes-validations", "XValidations"),
    ];
    let is_allowed = |name: &str| ALLOWED.iter().any(|(allowed, _)| *allowed == name);
    let is_said = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    schema.as_object()?.iter().find(|(name, value)| !is_allowed(name) && is_said(value))?;
    let why = format!(
        "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
        ALLOWED.map(|(_, name)| name).join(" ")
    );
    Some(StatusCause::invalid(path, schema, &why))
}

fn deprecation(path: &str, version: &Value) -> Vec<StatusCause> {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return Vec::new() };
    let mut problems = Vec::new();
    if !tree::is_true(version, &["deprecated"]) {
        problems.push("can only be set for deprecated versions".to_owned());
    } else {
        if warning.len() > WARNING_MAX {
            problems.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            problems.push("must not be an empty string".to_owned());
        }
        if let Some((index, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
            problems.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {index}"
            ));
        }
    }
    let field = format!("{path}.deprecationWarning");
    problems.iter().map(|why| StatusCause::invalid(field.clone(), quoted(warning), why)).collect()
}

/// Validates the paths of the scale subresource, which must be below `.spec` or `.status`.
fn scale(path: &str, version: &Value) -> Vec<StatusCause> {
    let Some(scale) = tree::get(version, &["subresources", "scale"]) else { return Vec::new() };
    let mut causes = Vec::new();
    for (name, parts, is_required) in [
        ("specReplicasPath", &[".spec."][..], true),
        ("statusReplicasPath", &[".status."], true),
        ("labelSelectorPath", &[".spec.", ".status."], false),
    ] {
        let (field, found) = (format!("{path}.scale.{name}"), tree::text(scale, &[name]));
        if found.is_empty() {
            causes.extend(is_required.then(|| StatusCause::required(field, "")));
            continue;
        }
        let why = match parts {
            _ if !found.starts_with('.') => "must be a simple json path starting with .".to_owned(),
            parts if parts.iter().any(|part| found.starts_with(part)) => continue,
            [part] => format!("should be a json path under {}", part.trim_end_matches('.')),
            _ => "should be a json path under either .spec or .status".to_owned(),
        };
        causes.push(StatusCause::invalid(field, quoted(found), &why));
    }
    causes
}

fn column(path: &str, column: &Value) -> Vec<StatusCause> {
    let text = |field: &str| tree::text(column, &[field]);
    let mut causes = Vec::new();
    if text("name").is_empty() {
        causes.push(StatusCause::required(format!("{path}.name"), ""));
    }
    let why = format!("must be one of {}", COLUMN_TYPES.join(","));
    match text("type") {
        "" => causes.push(StatusCause::required(format!("{path}.type"), &why)),
        ty if !COLUMN_TYPES.contains(&ty) => {
            causes.push(StatusCause::invalid(format!("{path}.type"), quoted(ty), &why));
        }
        _ => {}
    }
    let format = text("format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let why = format!("must be one of {}", COLUMN_FORMATS.join(","));
        causes.push(StatusCause::invalid(format!("{path}.format"), quoted(format), &why));
    }
    match text("jsonPath") {
        "" => causes.push(StatusCause::required(format!("{path}.JSONPath"), "")),
        found if !found.starts_with('.') => {
            let why = "must be a simple json path starting with .";
            causes.push(StatusCause::invalid(format!("{path}.JSONPath"), quoted(found), why));
        }
        _ => {}
    }
    causes
}

/// Validates the selectable fields. Each must point to a scalar field of the schema.
fn selectable(path: &str, version: &Value) -> Vec<StatusCause> {
    let (mut causes, mut known) = (Vec::new(), Vec::new());
    let schema = tree::get(version, &["schema", "openAPIV3Schema"]).unwrap_or(&Value::Null);
    for (index, field) in tree::items(version, &["selectableFields"]).iter().enumerate() {
        let (path, found) = (format!("{path}[{index}].jsonPath"), tree::text(field, &["jsonPath"]));
        if found.is_empty() {
            causes.push(StatusCause::required(path, ""));
            continue;
        }
        let place = match place_of(found, schema) {
            Ok(place) => place,
            Err(why) => {
                causes.push(StatusCause::invalid(path, quoted(found), &format!("is an invalid path: {why}")));
                continue;
            }
        };
        if found.starts_with(".metadata.") {
            causes.push(StatusCause::invalid(path.clone(), quoted(found), "must not point to fields in metadata"));
        }
        if !matches!(tree::text(place, &["type"]), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. \
                       Enum string fields and strings with formats are allowed.";
            causes.push(StatusCause::invalid(path.clone(), quoted(found), why));
        }
        if known.contains(&found) {
            causes.push(StatusCause::duplicate(path, quoted(found)))
        } else {
            known.push(found)
        }
    }
    if known.len() > SELECTABLE_MAX {
        causes.push(StatusCause::too_many(path, known.len(), SELECTABLE_MAX));
    }
    causes
}

/// Resolves a path of field names in the schema, or says why it cannot.
fn place_of<'a>(path: &str, schema: &'a Value) -> Result<&'a Value, String> {
    let names = path.strip_prefix('.').ok_or_else(|| {
        let first = path.split(['.', '[']).next().unwrap_or_default();
        format!("expected [ or . but got: {first}")
    })?;
    if names.contains('[') {
        return Err("array notation is not allowed".to_owned());
    }
    let found = names.split('.').try_fold(schema, |schema, name| tree::get(schema, &["properties", name]));
    found.ok_or_else(|| "does not refer to a valid field".to_owned())
}
