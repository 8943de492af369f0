//! Status causes: the details of a failure, one per field or circumstance.

use std::fmt;

use super::some_text;
use crate::Str;
use crate::meta::v1::StatusCause;
use crate::names::quote::Quoted;

/// The type of a status cause; the field `reason` in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CauseType {
    /// A referenced value does not exist.
    FieldValueNotFound,
    /// A value is missing.
    FieldValueRequired,
    /// A value must be unique but is not.
    FieldValueDuplicate,
    /// A value is malformed.
    FieldValueInvalid,
    /// A value is not one of the allowed ones.
    FieldValueNotSupported,
    /// A value is well-formed, but not allowed in this context.
    FieldValueForbidden,
    /// A value has too many bytes.
    FieldValueTooLong,
    /// A list has too many items.
    FieldValueTooMany,
    /// A value has the wrong type.
    FieldValueTypeInvalid,
    /// An internal server error.
    InternalError,
    /// The response was not an API status; a proxy may have sent it.
    UnexpectedServerResponse,
    /// Another manager owns an applied field.
    FieldManagerConflict,
    /// The server has not reached the requested version yet.
    ResourceVersionTooLarge,
    /// The namespace is terminating.
    NamespaceTerminating,
}

impl CauseType {
    const ALL: [CauseType; 14] = {
        use CauseType::*;
        [
            FieldValueNotFound,
            FieldValueRequired,
            FieldValueDuplicate,
            FieldValueInvalid,
            FieldValueNotSupported,
            FieldValueForbidden,
            FieldValueTooLong,
            FieldValueTooMany,
            FieldValueTypeInvalid,
            InternalError,
            UnexpectedServerResponse,
            FieldManagerConflict,
            ResourceVersionTooLarge,
            NamespaceTerminating,
        ]
    };

    /// The name in a `Status`.
    #[inline]
    pub const fn as_str(self) -> &'static str {
        match self {
            CauseType::FieldValueNotFound => "FieldValueNotFound",
            CauseType::FieldValueRequired => "FieldValueRequired",
            CauseType::FieldValueDuplicate => "FieldValueDuplicate",
            CauseType::FieldValueInvalid => "FieldValueInvalid",
            CauseType::FieldValueNotSupported => "FieldValueNotSupported",
            CauseType::FieldValueForbidden => "FieldValueForbidden",
            CauseType::FieldValueTooLong => "FieldValueTooLong",
            CauseType::FieldValueTooMany => "FieldValueTooMany",
            CauseType::FieldValueTypeInvalid => "FieldValueTypeInvalid",
            CauseType::InternalError => "InternalError",
            CauseType::UnexpectedServerResponse => "UnexpectedServerResponse",
            CauseType::FieldManagerConflict => "FieldManagerConflict",
            CauseType::ResourceVersionTooLarge => "ResourceVersionTooLarge",
            CauseType::NamespaceTerminating => "NamespaceTerminating",
        }
    }

    /// The type of this name, if known.
    #[inline]
    pub fn from_name(text: &str) -> Option<Self> {
        CauseType::ALL.into_iter().find(|cause| cause.as_str() == text)
    }

    /// How a message of this type begins.
    #[inline]
    fn headline(self) -> &'static str {
        match self {
            CauseType::FieldValueNotFound => "Not found",
            CauseType::FieldValueRequired => "Required value",
            CauseType::FieldValueDuplicate => "Duplicate value",
            CauseType::FieldValueInvalid | CauseType::FieldValueTypeInvalid => "Invalid value",
            CauseType::FieldValueNotSupported => "Unsupported value",
            CauseType::FieldValueForbidden => "Forbidden",
            CauseType::FieldValueTooLong => "Too long",
            CauseType::FieldValueTooMany => "Too many",
            CauseType::InternalError => "Internal error",
            other => other.as_str(),
        }
    }
}

impl fmt::Display for CauseType {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl StatusCause {
    /// A cause without a field.
    pub fn of(cause: CauseType, message: impl Into<Str>) -> Self {
        StatusCause { reason: Some(Str::from_static(cause.as_str())), message: Some(message.into()), field: None }
    }

    /// Its type, if known.
    #[inline]
    pub fn cause_type(&self) -> Option<CauseType> {
        self.reason.as_deref().and_then(CauseType::from_name)
    }
}

/// Causes about a field with the server's messages, for
/// [`Status::invalid`](super::Status::invalid).
///
/// A value is printed as given, so quote text: `format!("{name:?}")`.
impl StatusCause {
    /// A value is missing. An empty `detail` is omitted.
    pub fn required(field: impl Into<Str>, detail: &str) -> Self {
        field_cause(CauseType::FieldValueRequired, field, None, detail)
    }

    /// A value is malformed.
    pub fn invalid(field: impl Into<Str>, value: impl fmt::Display, detail: &str) -> Self {
        field_cause(CauseType::FieldValueInvalid, field, Some(&value), detail)
    }

    /// A value has the wrong type.
    pub fn type_invalid(field: impl Into<Str>, value: impl fmt::Display, detail: &str) -> Self {
        field_cause(CauseType::FieldValueTypeInvalid, field, Some(&value), detail)
    }

    /// A value is not allowed in this context.
    pub fn forbidden(field: impl Into<Str>, detail: &str) -> Self {
        field_cause(CauseType::FieldValueForbidden, field, None, detail)
    }

    /// A referenced value does not exist.
    pub fn not_found(field: impl Into<Str>, value: impl fmt::Display) -> Self {
        field_cause(CauseType::FieldValueNotFound, field, Some(&value), "")
    }

    /// A value must be unique but is not.
    pub fn duplicate(field: impl Into<Str>, value: impl fmt::Display) -> Self {
        field_cause(CauseType::FieldValueDuplicate, field, Some(&value), "")
    }

    /// A value is not supported.
    pub fn not_supported(field: impl Into<Str>, value: impl fmt::Display, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| Quoted(value).to_string()).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        let detail = if supported.is_empty() { "" } else { &detail };
        field_cause(CauseType::FieldValueNotSupported, field, Some(&value), detail)
    }

    /// A value has more than `max` bytes.
    pub fn too_long(field: impl Into<Str>, max: usize) -> Self {
        field_cause(CauseType::FieldValueTooLong, field, None, &format!("may not be more than {max} bytes"))
    }

    /// A list has more than `max` items.
    pub fn too_many(field: impl Into<Str>, actual: usize, max: usize) -> Self {
        let detail = format!("must have at most {max} items");
        field_cause(CauseType::FieldValueTooMany, field, Some(&actual), &detail)
    }
}

fn field_cause(cause: CauseType, field: impl Into<Str>, value: Option<&dyn fmt::Display>, detail: &str) -> StatusCause {
    let mut message = cause.headline().to_owned();
    if let Some(value) = value {
        message += &format!(": {value}");
    }
    if !detail.is_empty() {
        message += &format!(": {detail}");
    }
    StatusCause {
        reason: Some(Str::from_static(cause.as_str())),
        message: Some(message.into()),
        field: some_text(&field.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_type_parses_from_its_name() {
        for cause in CauseType::ALL {
            assert_eq!(CauseType::from_name(cause.as_str()), Some(cause));
        }
        assert_eq!(CauseType::from_name("DisruptionBudget"), None);
    }

    #[test]
    fn cause_messages_equal_those_of_kube_apiserver() {
        for (cause, want) in [
            (StatusCause::required("f", ""), "Required value"),
            (
                StatusCause::required("f", "name or generateName is required"),
                "Required value: name or generateName is required",
            ),
            (
                StatusCause::invalid("f", -1, "must be greater than or equal to 0"),
                "Invalid value: -1: must be greater than or equal to 0",
            ),
            (StatusCause::forbidden("f", "field is immutable"), "Forbidden: field is immutable"),
            (StatusCause::not_found("f", "\"nope\""), "Not found: \"nope\""),
            (StatusCause::duplicate("f", "\"x\""), "Duplicate value: \"x\""),
            (
                StatusCause::not_supported("f", "\"green\"", &["red", "blue"]),
                "Unsupported value: \"green\": supported values: \"red\", \"blue\"",
            ),
            (StatusCause::too_long("f", 128), "Too long: may not be more than 128 bytes"),
            (StatusCause::too_many("f", 4, 3), "Too many: 4: must have at most 3 items"),
        ] {
            assert_eq!(cause.message.as_deref(), Some(want));
            assert_eq!(cause.field.as_deref(), Some("f"));
        }
    }
}
