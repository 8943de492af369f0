//! The parsed form of a schema.

use kubewright_core::{Map, Str, Value};

use crate::enum_values::EnumValues;
use crate::pattern::Pattern;
use crate::rule::ValidationRule;

/// A structural schema, parsed once and used for many objects.
///
/// The default is the empty schema, which specifies nothing.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    /// The type, empty if any is allowed.
    pub(crate) ty: Str,
    pub(crate) format: Str,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value>,
    pub(crate) properties: Map<Schema>,
    pub(crate) additional: Option<AdditionalProperties>,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) required: Vec<Str>,
    pub(crate) bounds: Bounds,
    pub(crate) enum_values: Option<EnumValues>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) unique_items: bool,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded_resource: bool,
    pub(crate) int_or_string: bool,
    pub(crate) list_type: ListType,
    pub(crate) list_map_keys: Vec<Str>,
    /// Whether `x-kubernetes-map-type` is `atomic`: fields are not correlated with old values.
    pub(crate) is_atomic: bool,
    pub(crate) rules: Vec<ValidationRule>,
    /// Whether the schema or one of its parts has a default.
    pub(crate) has_defaults: bool,
    /// Whether the schema or one of its parts has CEL rules.
    pub(crate) has_rules: bool,
}

/// `additionalProperties`.
#[derive(Debug, Clone)]
pub(crate) enum AdditionalProperties {
    /// A boolean: whether other fields are allowed.
    Allowed(bool),
    /// The schema of other fields.
    Schema(Box<Schema>),
}

/// Limits on values, each optional.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<usize>,
    pub(crate) max_length: Option<usize>,
    pub(crate) min_items: Option<usize>,
    pub(crate) max_items: Option<usize>,
    pub(crate) min_properties: Option<usize>,
    pub(crate) max_properties: Option<usize>,
}

/// `x-kubernetes-list-type`: how items of a list are identified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    /// Not at all: the list is one value.
    #[default]
    Atomic,
    /// By their values.
    Set,
    /// By the fields of `x-kubernetes-list-map-keys`.
    Map,
}

impl Schema {
    /// Whether the schema or one of its parts has CEL rules.
    pub fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// The schema of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&Schema> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Some(AdditionalProperties::Schema(schema))) => Some(schema),
            _ => None,
        }
    }

    /// Whether `allOf`, `anyOf`, `oneOf` or `not` constrain the value.
    pub(crate) fn has_junctors(&self) -> bool {
        !(self.all_of.is_empty() && self.any_of.is_empty() && self.one_of.is_empty() && self.not.is_none())
    }

    /// Whether `value` is a `null` that stands for an absent value.
    pub(crate) fn is_dropped_null(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }
}

/// Whether a field is one of those that every object has. Schemas do not restrict them.
pub(crate) fn is_object_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}
