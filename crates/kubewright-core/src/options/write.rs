//! Options of creating and replacing an object, and common options of writes.

use std::fmt;

use super::check;
use super::list::append_some;
use super::query::{QueryParameters, append};
use crate::Str;
use crate::meta::v1::{Status, StatusCause};
use crate::names::quote::{Quoted, is_printable};

/// Maximum length of a field manager's name, in bytes.
const FIELD_MANAGER_MAX: usize = 128;

/// Options of creating an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreateOptions {
    /// Whether to skip storing the object. Off by default.
    pub dry_run: bool,
    /// The field manager. Unset by default: the client's user agent.
    pub field_manager: Option<Str>,
    /// How unknown and duplicate fields are handled. Unset by default: the server's default is to
    /// warn.
    pub field_validation: Option<FieldValidation>,
}

impl CreateOptions {
    /// Runs the request without storing the object.
    #[must_use]
    #[inline]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Sets the field manager.
    #[must_use]
    pub fn field_manager(mut self, manager: impl Into<Str>) -> Self {
        self.field_manager = Some(manager.into());
        self
    }

    /// How unknown and duplicate fields are handled.
    #[must_use]
    #[inline]
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.field_validation = Some(validation);
        self
    }

    /// Appends these options to a query.
    #[inline]
    pub fn append_query(&self, query: &mut String) {
        append_write(query, self.dry_run, &self.field_manager, self.field_validation);
    }

    /// Parses and validates the options of a request.
    ///
    /// # Errors
    /// The server's status for invalid options.
    #[inline]
    pub fn from_query(query: &QueryParameters) -> Result<Self, Box<Status>> {
        check("CreateOptions", write_causes(query))?;
        Ok(CreateOptions {
            dry_run: query.get("dryRun").is_some(),
            field_manager: query.text("fieldManager").map(Str::from),
            field_validation: query.text("fieldValidation").and_then(FieldValidation::from_name),
        })
    }

    /// Checks the options as a server would.
    ///
    /// # Errors
    /// The server's status: a manager's name may have up to 128 printable bytes.
    #[inline]
    pub fn validate(&self) -> Result<(), Box<Status>> {
        check("CreateOptions", field_manager_causes(self.field_manager.as_deref()))
    }
}

/// Options of replacing an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdateOptions {
    /// Whether to skip storing the object. Off by default.
    pub dry_run: bool,
    /// The field manager. Unset by default: the client's user agent.
    pub field_manager: Option<Str>,
    /// How unknown and duplicate fields are handled. Unset by default: the server's default is to
    /// warn.
    pub field_validation: Option<FieldValidation>,
}

impl UpdateOptions {
    /// Runs the request without storing the object.
    #[must_use]
    #[inline]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Sets the field manager.
    #[must_use]
    pub fn field_manager(mut self, manager: impl Into<Str>) -> Self {
        self.field_manager = Some(manager.into());
        self
    }

    /// How unknown and duplicate fields are handled.
    #[must_use]
    #[inline]
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.field_validation = Some(validation);
        self
    }

    /// Appends these options to a query.
    #[inline]
    pub fn append_query(&self, query: &mut String) {
        append_write(query, self.dry_run, &self.field_manager, self.field_validation);
    }

    /// Parses and validates the options of a request.
    ///
    /// # Errors
    /// The server's status for invalid options.
    #[inline]
    pub fn from_query(query: &QueryParameters) -> Result<Self, Box<Status>> {
        check("UpdateOptions", write_causes(query))?;
        Ok(UpdateOptions {
            dry_run: query.get("dryRun").is_some(),
            field_manager: query.text("fieldManager").map(Str::from),
            field_validation: query.text("fieldValidation").and_then(FieldValidation::from_name),
        })
    }

    /// Checks the options as a server would.
    ///
    /// # Errors
    /// The server's status: a manager's name may have up to 128 printable bytes.
    #[inline]
    pub fn validate(&self) -> Result<(), Box<Status>> {
        check("UpdateOptions", field_manager_causes(self.field_manager.as_deref()))
    }
}

/// How a server handles unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldValidation {
    /// Drops them silently.
    Ignore,
    /// Drops them and returns a warning.
    Warn,
    /// Rejects the request.
    Strict,
}

impl FieldValidation {
    /// The name in a query.
    #[inline]
    pub const fn as_str(self) -> &'static str {
        match self {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        }
    }

    #[inline]
    pub(super) fn from_name(text: &str) -> Option<Self> {
        let all = [FieldValidation::Ignore, FieldValidation::Warn, FieldValidation::Strict];
        all.into_iter().find(|validation| validation.as_str() == text)
    }
}

impl fmt::Display for FieldValidation {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[inline]
pub(super) fn append_write(
    query: &mut String,
    dry_run: bool,
    field_manager: &Option<Str>,
    field_validation: Option<FieldValidation>,
) {
    append_dry_run(query, dry_run);
    append_some(query, "fieldManager", field_manager);
    append_some(query, "fieldValidation", &field_validation);
}

#[inline]
pub(super) fn append_dry_run(query: &mut String, dry_run: bool) {
    if dry_run {
        append(query, "dryRun", &"All");
    }
}

/// Errors in the parameters common to all writes.
#[inline]
pub(super) fn write_causes(query: &QueryParameters) -> Vec<StatusCause> {
    let mut causes = field_manager_causes(query.get("fieldManager"));
    causes.extend(dry_run_cause(query));
    if let Some(text) = query.text("fieldValidation")
        && FieldValidation::from_name(text).is_none()
    {
        let supported = ["", "Ignore", "Strict", "Warn"];
        causes.push(StatusCause::not_supported("fieldValidation", Quoted(text), &supported));
    }
    causes
}

#[inline]
pub(super) fn dry_run_cause(query: &QueryParameters) -> Option<StatusCause> {
    let values: Vec<&str> = query.all("dryRun").collect();
    if values.iter().all(|&value| value == "All") {
        return None;
    }
    let values: Vec<String> = values.iter().map(|value| Quoted(value).to_string()).collect();
    Some(StatusCause::not_supported("dryRun", format!("[{}]", values.join(",")), &["All"]))
}

#[inline]
pub(super) fn field_manager_causes(manager: Option<&str>) -> Vec<StatusCause> {
    const FIELD: &str = "fieldManager";
    let manager = manager.unwrap_or_default();
    let mut causes = Vec::new();
    if manager.len() > FIELD_MANAGER_MAX {
        causes.push(StatusCause::too_long(FIELD, FIELD_MANAGER_MAX));
    }
    for (at, c) in manager.char_indices().filter(|&(_, c)| !is_printable(c)) {
        let problem = format!("invalid character U+{:04X} (at position {at})", c as u32);
        causes.push(StatusCause::invalid(FIELD, Quoted(manager), &problem));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_and_read() {
        let options = CreateOptions::default().dry_run().field_manager("a b").field_validation(FieldValidation::Strict);
        let mut query = String::new();
        options.append_query(&mut query);
        assert_eq!(query, "dryRun=All&fieldManager=a%20b&fieldValidation=Strict");
        assert_eq!(CreateOptions::from_query(&QueryParameters::parse(&query)), Ok(options));
        assert_eq!(UpdateOptions::from_query(&QueryParameters::parse("pretty=true")), Ok(UpdateOptions::default()));
    }

    #[test]
    fn invalid_options_are_rejected_like_kube_apiserver() {
        for (text, message) in [
            ("dryRun=Some", "dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""),
            (
                "fieldValidation=Maybe",
                "fieldValidation: Unsupported value: \"Maybe\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
            ),
            ("fieldManager=a%07b", "fieldManager: Invalid value: \"a\\ab\": invalid character U+0007 (at position 1)"),
            (&format!("fieldManager={}", "m".repeat(129)), "fieldManager: Too long: may not be more than 128 bytes"),
        ] {
            let answer = UpdateOptions::from_query(&QueryParameters::parse(text)).unwrap_err();
            assert_eq!(answer.to_string(), format!("UpdateOptions.meta.k8s.io \"\" is invalid: {message}"));
        }
        assert!(CreateOptions::default().field_manager("a\n").validate().is_err());
        assert_eq!(CreateOptions::default().field_manager("kubectl-create").validate(), Ok(()));
    }
}
