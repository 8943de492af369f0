//! Options of deleting an object.

use std::fmt::{self, Write};

use super::check;
use super::list::append_some;
use super::query::QueryParameters;
use super::write::{append_dry_run, dry_run_cause};
use crate::Str;
use crate::meta::v1::{ObjectMeta, Status, StatusCause};
use crate::names::quote::Quoted;

/// Options of deleting an object and its dependents.
///
/// ```
/// use kubewright_core::options::{DeleteOptions, PropagationPolicy};
/// let options = DeleteOptions::default().propagation(PropagationPolicy::Foreground).uid("1f2e");
/// assert_eq!(
///     options.to_json(),
///     r#"{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"1f2e"},"propagationPolicy":"Foreground"}"#
/// );
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Whether to skip deleting the object. Off by default.
    pub dry_run: bool,
    /// Grace period in seconds; 0 deletes immediately. Unset by default: the default of its kind.
    pub grace_period_seconds: Option<i64>,
    /// How dependents are deleted. Unset by default: decided by the object's kind and finalizers,
    /// in the background for most.
    pub propagation_policy: Option<PropagationPolicy>,
    /// Preconditions of the deletion. None by default.
    pub preconditions: Preconditions,
}

/// Preconditions of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The uid, which distinguishes the object from a later one of the same name.
    pub uid: Option<Str>,
    /// The resource version: the object has not changed.
    pub resource_version: Option<Str>,
}

impl DeleteOptions {
    /// Runs the request without deleting the object.
    #[must_use]
    #[inline]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// The grace period in seconds; 0 deletes immediately.
    #[must_use]
    #[inline]
    pub fn grace_period_seconds(mut self, seconds: u32) -> Self {
        self.grace_period_seconds = Some(seconds.into());
        self
    }

    /// How dependents are deleted.
    #[must_use]
    #[inline]
    pub fn propagation(mut self, policy: PropagationPolicy) -> Self {
        self.propagation_policy = Some(policy);
        self
    }

    /// Deletes only an object with this uid.
    #[must_use]
    #[doc(alias = "NewUIDPreconditions")]
    pub fn uid(mut self, uid: impl Into<Str>) -> Self {
        self.preconditions.uid = Some(uid.into());
        self
    }

    /// Deletes only an object at this version.
    #[must_use]
    #[doc(alias = "NewRVDeletionPrecondition")]
    pub fn resource_version(mut self, version: impl Into<Str>) -> Self {
        self.preconditions.resource_version = Some(version.into());
        self
    }

    /// Appends these options to a query, except for preconditions, which must be in the body.
    #[inline]
    pub fn append_query(&self, query: &mut String) {
        append_dry_run(query, self.dry_run);
        append_some(query, "gracePeriodSeconds", &self.grace_period_seconds);
        append_some(query, "propagationPolicy", &self.propagation_policy);
    }

    /// The request body.
    #[inline]
    pub fn to_json(&self) -> String {
        let mut json = r#"{"kind":"DeleteOptions","apiVersion":"v1""#.to_owned();
        if let Some(seconds) = self.grace_period_seconds {
            write!(json, r#","gracePeriodSeconds":{seconds}"#).expect("writing to a string cannot fail");
        }
        let Preconditions { uid, resource_version } = &self.preconditions;
        if uid.is_some() || resource_version.is_some() {
            json.push_str(r#","preconditions":{"#);
            for (name, value) in [("uid", uid), ("resourceVersion", resource_version)] {
                if let Some(value) = value {
                    json.push_str(if json.ends_with('{') { "" } else { "," });
                    push_json_text(&mut json, name);
                    json.push(':');
                    push_json_text(&mut json, value);
                }
            }
            json.push('}');
        }
        if let Some(policy) = self.propagation_policy {
            json.push_str(r#","propagationPolicy":"#);
            push_json_text(&mut json, policy.as_str());
        }
        if self.dry_run {
            json.push_str(r#","dryRun":["All"]"#);
        }
        json.push('}');
        json
    }

    /// Parses and validates the options in a request's query. The body may contain more.
    ///
    /// The deprecated parameter `orphanDependents` is converted to its replacement policy.
    ///
    /// # Errors
    /// The server's status for options that are malformed or invalid.
    #[inline]
    pub fn from_query(query: &QueryParameters) -> Result<Self, Box<Status>> {
        const FIELD: &str = "propagationPolicy";
        let grace_period_seconds = query.integer("gracePeriodSeconds")?;
        let policy = query.text(FIELD);
        let orphan = query
            .flag("orphanDependents")
            .map(|orphan| if orphan { PropagationPolicy::Orphan } else { PropagationPolicy::Background });
        let mut causes = Vec::new();
        match (policy, orphan) {
            (Some(policy), Some(_)) => {
                let problem = "orphanDependents and deletionPropagation cannot be both set";
                causes.push(StatusCause::invalid(FIELD, Quoted(policy), problem));
            }
            (Some(policy), None) if PropagationPolicy::from_name(policy).is_none() => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                causes.push(StatusCause::not_supported(FIELD, Quoted(policy), &supported));
            }
            _ => {}
        }
        causes.extend(dry_run_cause(query));
        check("DeleteOptions", causes)?;
        Ok(DeleteOptions {
            dry_run: query.get("dryRun").is_some(),
            grace_period_seconds,
            propagation_policy: policy.and_then(PropagationPolicy::from_name).or(orphan),
            preconditions: Preconditions::default(),
        })
    }
}

impl Preconditions {
    /// Whether an object satisfies them.
    #[inline]
    pub fn are_met_by(&self, meta: &ObjectMeta) -> bool {
        let meets = |want: &Option<Str>, have: &Option<Str>| want.is_none() || want == have;
        meets(&self.uid, &meta.uid) && meets(&self.resource_version, &meta.resource_version)
    }
}

/// Treatment of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "DeletionPropagation")]
pub enum PropagationPolicy {
    /// They are orphaned.
    Orphan,
    /// The object is deleted immediately, its dependents afterwards.
    Background,
    /// The dependents are deleted first.
    Foreground,
}

impl PropagationPolicy {
    /// The name in a request.
    #[inline]
    pub const fn as_str(self) -> &'static str {
        match self {
            PropagationPolicy::Orphan => "Orphan",
            PropagationPolicy::Background => "Background",
            PropagationPolicy::Foreground => "Foreground",
        }
    }

    /// The policy of this name.
    #[inline]
    pub fn from_name(text: &str) -> Option<Self> {
        let all = [PropagationPolicy::Orphan, PropagationPolicy::Background, PropagationPolicy::Foreground];
        all.into_iter().find(|policy| policy.as_str() == text)
    }
}

impl fmt::Display for PropagationPolicy {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[inline]
fn push_json_text(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c < ' ' => write!(json, "\\u{:04x}", c as u32).expect("writing to a string cannot fail"),
            c => json.push(c),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_json() {
        let options = DeleteOptions::default()
            .dry_run()
            .grace_period_seconds(0)
            .propagation(PropagationPolicy::Orphan)
            .uid("a\"\\\n")
            .resource_version("5");
        let json: serde_json::Value = serde_json::from_str(&options.to_json()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "dryRun": ["All"],
                "preconditions": {"uid": "a\"\\\n", "resourceVersion": "5"}, "propagationPolicy": "Orphan",
            })
        );
        assert_eq!(DeleteOptions::default().to_json(), r#"{"kind":"DeleteOptions","apiVersion":"v1"}"#);
    }

    #[test]
    fn options_are_written_and_read() {
        let options =
            DeleteOptions::default().dry_run().grace_period_seconds(5).propagation(PropagationPolicy::Background);
        let mut query = String::new();
        options.append_query(&mut query);
        assert_eq!(query, "dryRun=All&gracePeriodSeconds=5&propagationPolicy=Background");
        assert_eq!(DeleteOptions::from_query(&QueryParameters::parse(&query)), Ok(options));
        let old = DeleteOptions::from_query(&QueryParameters::parse("orphanDependents=true")).unwrap();
        assert_eq!(old.propagation_policy, Some(PropagationPolicy::Orphan));
    }

    #[test]
    fn invalid_options_are_rejected_like_kube_apiserver() {
        for (text, message) in [
            (
                "propagationPolicy=Sideways",
                "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Sideways\": \
                 supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
            ),
            (
                "propagationPolicy=Orphan&orphanDependents=true",
                "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": \
                 orphanDependents and deletionPropagation cannot be both set",
            ),
            ("gracePeriodSeconds=soon", "strconv.ParseInt: parsing \"soon\": invalid syntax"),
        ] {
            assert_eq!(DeleteOptions::from_query(&QueryParameters::parse(text)).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn preconditions_distinguish_an_object_from_its_recreation() {
        let meta = ObjectMeta { uid: Some("1".into()), resource_version: Some("7".into()), ..Default::default() };
        let preconditions = |uid: Option<&str>, version: Option<&str>| Preconditions {
            uid: uid.map(Str::from),
            resource_version: version.map(Str::from),
        };
        assert!(preconditions(None, None).are_met_by(&meta));
        assert!(preconditions(Some("1"), Some("7")).are_met_by(&meta));
        assert!(!preconditions(Some("2"), None).are_met_by(&meta));
        assert!(!preconditions(None, Some("6")).are_met_by(&meta));
    }
}
