//! The CustomResourceDefinition of a derived type.

use kubewright_api::apiextensions::v1::CustomResourceDefinition;
use kubewright_core::{Decoder, Kind};
use serde_json::{Value, json};

/// What a definition says beside names; written by the derive macro.
#[derive(Debug, Clone, Copy)]
pub struct Details {
    /// The kind of lists.
    pub list_kind: &'static str,
    /// Whether objects are stored in this version.
    pub is_stored: bool,
    /// Whether this version is served.
    pub is_served: bool,
    /// Why this version should not be used any more, if so.
    pub deprecated: Option<&'static str>,
    /// Where the replicas are, if there are any.
    pub scale: Option<ScalePaths>,
    /// What a table shows.
    pub columns: &'static [Column],
    /// CEL rules of the whole object.
    pub rules: &'static [Rule],
    /// Fields by which objects can be selected.
    pub selectable: &'static [&'static str],
    /// The schema of the specification.
    pub spec: fn() -> Value,
    /// The schema of the status, if there is one.
    pub status: Option<fn() -> Value>,
}

/// Where a scalable resource has its replicas.
#[derive(Debug, Clone, Copy)]
pub struct ScalePaths {
    /// How many are wanted.
    pub spec: &'static str,
    /// How many there are.
    pub status: &'static str,
    /// By which labels they are found.
    pub selector: Option<&'static str>,
}

/// A CEL rule.
#[derive(Debug, Clone, Copy)]
#[doc(alias = "ValidationRule")]
pub struct Rule {
    /// What has to hold.
    pub rule: &'static str,
    /// What is said if it does not.
    pub message: Option<&'static str>,
    /// What is said, as an expression of its own.
    pub message_expression: Option<&'static str>,
    /// The reason that the server gives, such as `FieldValueForbidden`.
    pub reason: Option<&'static str>,
    /// The field that it is about.
    pub field_path: Option<&'static str>,
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// The type of its cells.
    pub ty: &'static str,
    /// Where the value is.
    pub path: &'static str,
    /// The format of its cells.
    pub format: Option<&'static str>,
    /// What it means.
    pub description: Option<&'static str>,
    /// 0 for columns that are always shown.
    pub priority: i32,
}

/// A resource of the user's own, made by `#[derive(CustomResource)]`.
pub trait CustomResource: Kind {
    /// What its definition says beside names.
    const DETAILS: Details;

    /// Its CustomResourceDefinition, with this version only; [`merge_versions`] makes one of several.
    ///
    /// # Panics
    /// If the schema is none, which no type gives.
    fn definition() -> CustomResourceDefinition {
        let json = definition_of(Self::RESOURCE, &Self::DETAILS).to_string();
        Decoder::new().json(json.as_bytes()).expect("the schema of a type is a schema of the API")
    }
}

fn definition_of(resource: &kubewright_core::ResourceInfo, details: &Details) -> Value {
    let mut properties = json!({"spec": (details.spec)()});
    let mut subresources = json!({});
    if let Some(status) = details.status {
        properties["status"] = status();
        properties["status"]["nullable"] = true.into();
        subresources["status"] = json!({});
    }
    if let Some(ScalePaths { spec, status, selector }) = details.scale {
        subresources["scale"] = json!({"specReplicasPath": spec, "statusReplicasPath": status});
        if let Some(selector) = selector {
            subresources["scale"]["labelSelectorPath"] = selector.into();
        }
    }
    let mut schema = json!({"type": "object", "required": ["spec"], "properties": properties});
    if !details.rules.is_empty() {
        schema["x-kubernetes-validations"] = details.rules.iter().map(rule).collect();
    }
    let mut version = json!({
        "name": resource.kind.version,
        "served": details.is_served,
        "storage": details.is_stored,
        "schema": {"openAPIV3Schema": schema},
        "subresources": subresources,
        "additionalPrinterColumns": details.columns.iter().map(column).collect::<Value>(),
        "selectableFields": details.selectable.iter().map(|path| json!({"jsonPath": path})).collect::<Value>(),
    });
    if let Some(warning) = details.deprecated {
        version["deprecated"] = true.into();
        version["deprecationWarning"] = warning.into();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", resource.plural, resource.kind.group)},
        "spec": {
            "group": resource.kind.group,
            "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
            "names": {
                "plural": resource.plural,
                "singular": resource.singular,
                "kind": resource.kind.kind,
                "listKind": details.list_kind,
                "shortNames": resource.short_names,
                "categories": resource.categories,
            },
            "versions": [version],
        },
    })
}

fn rule(rule: &Rule) -> Value {
    let mut written = json!({"rule": rule.rule});
    for (name, text) in [
        ("message", rule.message),
        ("messageExpression", rule.message_expression),
        ("reason", rule.reason),
        ("fieldPath", rule.field_path),
    ] {
        if let Some(text) = text {
            written[name] = text.into();
        }
    }
    written
}

fn column(column: &Column) -> Value {
    let mut written = json!({"name": column.name, "type": column.ty, "jsonPath": column.path});
    if column.priority != 0 {
        written["priority"] = column.priority.into();
    }
    for (name, text) in [("format", column.format), ("description", column.description)] {
        if let Some(text) = text {
            written[name] = text.into();
        }
    }
    written
}

/// Why definitions are not of one resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There are none.
    #[error("there is no version to merge")]
    Empty,
    /// They are of different resources.
    #[error("{first} and {second} are not versions of one resource")]
    Different {
        /// The first.
        first: String,
        /// Another.
        second: String,
    },
    /// Objects have to be stored in exactly one version.
    #[error("{stored} versions are stored, instead of one")]
    Stored {
        /// How many are.
        stored: usize,
    },
}

/// One definition of several versions of a resource. Those but one say `not_stored`.
///
/// # Errors
/// If they are not versions of one resource, or not exactly one of them is stored.
pub fn merge_versions(
    definitions: impl IntoIterator<Item = CustomResourceDefinition>,
) -> Result<CustomResourceDefinition, MergeError> {
    let mut definitions = definitions.into_iter();
    let mut merged = definitions.next().ok_or(MergeError::Empty)?;
    for definition in definitions {
        if definition.metadata.name != merged.metadata.name || definition.spec.scope != merged.spec.scope {
            let name = |one: &CustomResourceDefinition| one.metadata.name.as_deref().unwrap_or_default().to_owned();
            return Err(MergeError::Different { first: name(&merged), second: name(&definition) });
        }
        merged.spec.versions.extend(definition.spec.versions);
    }
    match merged.spec.versions.iter().filter(|version| version.storage).count() {
        1 => Ok(merged),
        stored => Err(MergeError::Stored { stored }),
    }
}
