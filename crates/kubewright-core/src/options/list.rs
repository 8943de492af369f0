//! Options of listing objects.

use std::fmt;

use super::check;
use super::query::{QueryParameters, append};
use crate::meta::v1::{Status, StatusCause};
use crate::names::quote::Quoted;
use crate::{FieldSelector, Selector, Str};

/// Options of a list: selectors, version and pagination.
///
/// ```
/// use kubewright_core::options::{ListOptions, ResourceVersionMatch};
/// let options = ListOptions::default().labels("app=web".parse()?).limit(500);
/// let mut url = "/api/v1/pods?".to_owned();
/// options.append_query(&mut url);
/// assert_eq!(url, "/api/v1/pods?labelSelector=app%3Dweb&limit=500");
///
/// let incomplete = options.resource_version_match(ResourceVersionMatch::Exact);
/// assert!(incomplete.validate().unwrap_err().is_invalid());
/// # Ok::<(), kubewright_core::selector::SelectorError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Label selector. Matches all objects by default.
    pub label_selector: Selector,
    /// Field selector. Matches all objects by default.
    pub field_selector: FieldSelector,
    /// The version; see `resource_version_match`. Unset by default: the latest.
    pub resource_version: Option<Str>,
    /// How the version is interpreted. Unset by default: at least this version, or exactly for a
    /// page of a limited list.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// Page size; a server may return fewer or more objects. Unset by default: no pagination.
    pub limit: Option<i64>,
    /// The continue token of the previous page, whose other options must be equal. Unset by
    /// default: the first page.
    pub continue_token: Option<Str>,
    /// Server-side timeout in seconds. Unset by default: the server's default.
    pub timeout_seconds: Option<i64>,
    /// Shard selector in the server's syntax, if it supports sharding. Unset by default.
    pub shard_selector: Option<Str>,
}

impl ListOptions {
    /// Restricts the list to objects that match the label selector.
    #[must_use]
    #[inline]
    pub fn labels(mut self, selector: Selector) -> Self {
        self.label_selector = selector;
        self
    }

    /// Restricts the list to objects that match the field selector.
    #[must_use]
    #[inline]
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.field_selector = selector;
        self
    }

    /// The version to list at; `0` accepts any cached version.
    #[must_use]
    pub fn resource_version(mut self, version: impl Into<Str>) -> Self {
        self.resource_version = Some(version.into());
        self
    }

    /// How the version is interpreted.
    #[must_use]
    #[inline]
    pub fn resource_version_match(mut self, how: ResourceVersionMatch) -> Self {
        self.resource_version_match = Some(how);
        self
    }

    /// The page size.
    #[must_use]
    #[inline]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = Some(limit.into());
        self
    }

    /// Requests the page after the one that returned this token. Version options belong to the
    /// first page and are dropped.
    #[must_use]
    #[doc(alias = "Continue")]
    pub fn continue_from(mut self, token: impl Into<Str>) -> Self {
        self.continue_token = Some(token.into());
        self.resource_version = None;
        self.resource_version_match = None;
        self
    }

    /// The server-side timeout in seconds.
    #[must_use]
    #[inline]
    pub fn timeout_seconds(mut self, seconds: u32) -> Self {
        self.timeout_seconds = Some(seconds.into());
        self
    }

    /// Restricts the list to a shard, in the server's syntax.
    #[must_use]
    pub fn shard_selector(mut self, selector: impl Into<Str>) -> Self {
        self.shard_selector = Some(selector.into());
        self
    }

    /// Appends these options to a query.
    #[inline]
    pub fn append_query(&self, query: &mut String) {
        append_some(query, "continue", &self.continue_token);
        append_selectors(query, &self.field_selector, &self.label_selector);
        append_some(query, "limit", &self.limit);
        append_some(query, "resourceVersion", &self.resource_version);
        append_some(query, "resourceVersionMatch", &self.resource_version_match);
        append_some(query, "shardSelector", &self.shard_selector);
        append_some(query, "timeoutSeconds", &self.timeout_seconds);
    }

    /// Parses and validates the options of a request.
    ///
    /// # Errors
    /// The server's status for options that are malformed or invalid.
    #[inline]
    pub fn from_query(query: &QueryParameters) -> Result<Self, Box<Status>> {
        // Numbers are parsed before selectors, because servers report their errors first.
        let (timeout_seconds, limit) = (query.integer("timeoutSeconds")?, query.integer("limit")?);
        let (label_selector, field_selector) = selectors(query)?;
        let options = ListOptions {
            label_selector,
            field_selector,
            resource_version: query.text("resourceVersion").map(Str::from),
            resource_version_match: query.text("resourceVersionMatch").and_then(ResourceVersionMatch::from_name),
            limit,
            continue_token: query.text("continue").map(Str::from),
            timeout_seconds,
            shard_selector: query.text("shardSelector").map(Str::from),
        };
        options.check(query.text("resourceVersionMatch"), query.get("sendInitialEvents").is_some())?;
        Ok(options)
    }

    /// Checks the options as a server would.
    ///
    /// # Errors
    /// The server's status: a version match needs a version, `0` is not allowed for an exact match,
    /// and a continue token already contains a version.
    #[inline]
    pub fn validate(&self) -> Result<(), Box<Status>> {
        self.check(self.resource_version_match.map(ResourceVersionMatch::as_str), false)
    }

    #[inline]
    fn check(&self, how: Option<&str>, sends_initial_events: bool) -> Result<(), Box<Status>> {
        const FIELD: &str = "resourceVersionMatch";
        let version = self.resource_version.as_deref().unwrap_or_default();
        let continues = self.continue_token.as_ref().is_some_and(|token| !token.is_empty());
        let mut causes = Vec::new();
        if let Some(how) = how {
            if version.is_empty() {
                let problem = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                causes.push(StatusCause::forbidden(FIELD, problem));
            }
            if continues {
                let problem = "resourceVersionMatch is forbidden when continue is provided";
                causes.push(StatusCause::forbidden(FIELD, problem));
            }
            match ResourceVersionMatch::from_name(how) {
                None => {
                    let supported = ["Exact", "NotOlderThan", ""];
                    causes.push(StatusCause::not_supported(FIELD, Quoted(how), &supported));
                }
                Some(ResourceVersionMatch::Exact) if version == "0" => {
                    let problem = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                    causes.push(StatusCause::forbidden(FIELD, problem));
                }
                Some(_) => {}
            }
        }
        if sends_initial_events {
            causes.push(StatusCause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        check("ListOptions", causes)?;
        if continues && !matches!(version, "" | "0") {
            let problem = "specifying resource version is not allowed when using continue";
            return Err(Box::new(Status::bad_request(problem)));
        }
        Ok(())
    }
}

/// How the version of a list or a watch is interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResourceVersionMatch {
    /// Exactly this version, if the server still has it.
    Exact,
    /// This version or any later one.
    NotOlderThan,
}

impl ResourceVersionMatch {
    /// The name in a query.
    #[inline]
    pub const fn as_str(self) -> &'static str {
        match self {
            ResourceVersionMatch::Exact => "Exact",
            ResourceVersionMatch::NotOlderThan => "NotOlderThan",
        }
    }

    #[inline]
    pub(super) fn from_name(text: &str) -> Option<Self> {
        [ResourceVersionMatch::Exact, ResourceVersionMatch::NotOlderThan].into_iter().find(|how| how.as_str() == text)
    }
}

impl fmt::Display for ResourceVersionMatch {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

pub(super) fn append_some(query: &mut String, name: &str, value: &Option<impl fmt::Display>) {
    if let Some(value) = value {
        append(query, name, &value);
    }
}

#[inline]
pub(super) fn append_selectors(query: &mut String, fields: &FieldSelector, labels: &Selector) {
    if !fields.is_everything() {
        append(query, "fieldSelector", &fields);
    }
    if !labels.is_everything() {
        append(query, "labelSelector", &labels);
    }
}

#[inline]
pub(super) fn selectors(query: &QueryParameters) -> Result<(Selector, FieldSelector), Box<Status>> {
    let bad = |error: crate::selector::SelectorError| Box::new(Status::bad_request(error.to_string()));
    let labels = query.get("labelSelector").unwrap_or_default().parse().map_err(bad)?;
    let fields = query.get("fieldSelector").unwrap_or_default().parse().map_err(bad)?;
    Ok((labels, fields))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn query(options: &ListOptions) -> String {
        let mut query = String::new();
        options.append_query(&mut query);
        query
    }

    #[test]
    fn default_list_options_send_no_parameters() {
        assert_eq!(query(&ListOptions::default()), "");
        assert_eq!(ListOptions::from_query(&QueryParameters::parse("")), Ok(ListOptions::default()));
        assert_eq!(
            ListOptions::from_query(&QueryParameters::parse("resourceVersion=&continue=")),
            Ok(ListOptions::default())
        );
    }

    #[test]
    fn the_next_page_leaves_versions_to_the_first() {
        // PG-1
        let first = ListOptions::default().limit(500).resource_version("0");
        let first = first.resource_version_match(ResourceVersionMatch::NotOlderThan);
        assert_eq!(first.validate(), Ok(()));
        let second = first.continue_from("token");
        assert_eq!(second.validate(), Ok(()));
        assert_eq!(query(&second), "continue=token&limit=500");
    }

    #[test]
    fn an_empty_match_selector_is_not_sent_as_match_all() {
        assert_eq!(query(&ListOptions::default().labels(Selector::nothing())), "labelSelector=nothing%2C%21nothing");
    }

    #[test]
    fn invalid_options_are_rejected_like_kube_apiserver() {
        for (text, code, message) in [
            ("limit=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
            ("labelSelector=app>>web&limit=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
            ("labelSelector=app>>web", 400, "unable to parse requirement: found '>', expected: identifier"),
            ("fieldSelector=x", 400, "invalid selector: 'x'; can't understand 'x'"),
            ("continue=t&resourceVersion=1", 400, "specifying resource version is not allowed when using continue"),
            (
                "resourceVersionMatch=Exact",
                422,
                "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is \
                 forbidden unless resourceVersion is provided",
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                422,
                "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch \
                 \"exact\" is forbidden for resourceVersion \"0\"",
            ),
            (
                "resourceVersionMatch=Sometimes&resourceVersion=1",
                422,
                "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Unsupported value: \"Sometimes\": \
                 supported values: \"Exact\", \"NotOlderThan\", \"\"",
            ),
            (
                "resourceVersionMatch=Exact&continue=t",
                422,
                "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is \
                 forbidden unless resourceVersion is provided, resourceVersionMatch: Forbidden: resourceVersionMatch \
                 is forbidden when continue is provided]",
            ),
            (
                "sendInitialEvents=true",
                422,
                "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden \
                 for list",
            ),
        ] {
            let answer = ListOptions::from_query(&QueryParameters::parse(text)).unwrap_err();
            assert_eq!((answer.code, answer.to_string().as_str()), (Some(code), message), "{text}");
        }
    }

    proptest! {
        #[test]
        fn writing_and_reading_gives_the_options_back(
            labels in "(a=b|x in \\(a,b\\)|!q|a>4)?",
            fields in "(metadata\\.name=x|a!=b\\\\,c)?",
            version in proptest::option::of("[1-9]{1,4}"),
            exact in any::<bool>(),
            limit in proptest::option::of(0..1000u32),
            token in proptest::option::of("[ -~]{1,12}"),
            timeout in proptest::option::of(0..1000u32),
        ) {
            let mut options = ListOptions::default().labels(labels.parse().unwrap()).fields(fields.parse().unwrap());
            if let Some(version) = version {
                let how = if exact { ResourceVersionMatch::Exact } else { ResourceVersionMatch::NotOlderThan };
                options = options.resource_version(version).resource_version_match(how);
            }
            options.limit = limit.map(i64::from);
            options.timeout_seconds = timeout.map(i64::from);
            if let Some(token) = token {
                options = options.continue_from(token);
            }
            prop_assert_eq!(ListOptions::from_query(&QueryParameters::parse(&query(&options))), Ok(options));
        }
    }
}
