//! Options of a watch.

use super::ResourceVersionMatch;
use super::check;
use super::list::{append_selectors, append_some, selectors};
use super::query::{QueryParameters, append};
use crate::meta::v1::{Status, StatusCause};
use crate::names::quote::Quoted;
use crate::{FieldSelector, Selector, Str};

/// Options of a watch: selectors and start version.
///
/// ```
/// use kubewright_core::options::WatchOptions;
/// let options = WatchOptions::default().resource_version("1234").bookmarks();
/// let mut query = String::new();
/// options.append_query(&mut query);
/// assert_eq!(query, "allowWatchBookmarks=true&resourceVersion=1234&watch=true");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// Label selector. Matches all objects by default.
    pub label_selector: Selector,
    /// Field selector. Matches all objects by default.
    pub field_selector: FieldSelector,
    /// Reports changes after this version. Unset by default: all objects first, then changes.
    pub resource_version: Option<Str>,
    /// How the version is interpreted; only with `send_initial_events`. Unset by default.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// Whether to send all objects first, followed by a bookmark that marks their end. Unset by
    /// default: the version decides, and there is no such bookmark.
    pub send_initial_events: Option<bool>,
    /// Whether the server may send bookmarks: versions to resume from, without an object. Off by
    /// default.
    pub allow_watch_bookmarks: bool,
    /// Server-side timeout in seconds. Unset by default: the server's default.
    pub timeout_seconds: Option<i64>,
    /// Shard selector in the server's syntax, if it supports sharding. Unset by default.
    pub shard_selector: Option<Str>,
}

impl WatchOptions {
    /// Restricts the watch to objects that match the label selector.
    #[must_use]
    #[inline]
    pub fn labels(mut self, selector: Selector) -> Self {
        self.label_selector = selector;
        self
    }

    /// Restricts the watch to objects that match the field selector.
    #[must_use]
    #[inline]
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.field_selector = selector;
        self
    }

    /// Reports changes after this version; `0` sends all cached objects first.
    #[must_use]
    pub fn resource_version(mut self, version: impl Into<Str>) -> Self {
        self.resource_version = Some(version.into());
        self
    }

    /// Requests a streaming list: all objects, at least at the version, then a bookmark, then
    /// changes.
    ///
    /// Also enables bookmarks and sets the version match.
    #[must_use]
    #[doc(alias = "SendInitialEvents")]
    #[doc(alias = "WatchList")]
    #[inline]
    pub fn initial_events(mut self) -> Self {
        self.send_initial_events = Some(true);
        self.resource_version_match = Some(ResourceVersionMatch::NotOlderThan);
        self.allow_watch_bookmarks = true;
        self
    }

    /// Allows the server to send bookmarks.
    #[must_use]
    #[doc(alias = "AllowWatchBookmarks")]
    #[inline]
    pub fn bookmarks(mut self) -> Self {
        self.allow_watch_bookmarks = true;
        self
    }

    /// The server-side timeout in seconds.
    #[must_use]
    #[inline]
    pub fn timeout_seconds(mut self, seconds: u32) -> Self {
        self.timeout_seconds = Some(seconds.into());
        self
    }

    /// Restricts the watch to a shard, in the server's syntax.
    #[must_use]
    pub fn shard_selector(mut self, selector: impl Into<Str>) -> Self {
        self.shard_selector = Some(selector.into());
        self
    }

    /// Appends these options and `watch=true` to a query.
    #[inline]
    pub fn append_query(&self, query: &mut String) {
        if self.allow_watch_bookmarks {
            append(query, "allowWatchBookmarks", &true);
        }
        append_selectors(query, &self.field_selector, &self.label_selector);
        append_some(query, "resourceVersion", &self.resource_version);
        append_some(query, "resourceVersionMatch", &self.resource_version_match);
        append_some(query, "sendInitialEvents", &self.send_initial_events);
        append_some(query, "shardSelector", &self.shard_selector);
        append_some(query, "timeoutSeconds", &self.timeout_seconds);
        append(query, "watch", &true);
    }

    /// Whether a request is a watch and not a list.
    #[inline]
    pub fn is_watch(query: &QueryParameters) -> bool {
        query.flag("watch").unwrap_or_default()
    }

    /// Parses and validates the options of a request.
    ///
    /// # Errors
    /// The server's status for options that are malformed or invalid.
    #[inline]
    pub fn from_query(query: &QueryParameters) -> Result<Self, Box<Status>> {
        // As in a list, numbers are parsed first, even the unused limit.
        let timeout_seconds = query.integer("timeoutSeconds")?;
        query.integer("limit")?;
        let (label_selector, field_selector) = selectors(query)?;
        let options = WatchOptions {
            label_selector,
            field_selector,
            resource_version: query.text("resourceVersion").map(Str::from),
            resource_version_match: query.text("resourceVersionMatch").and_then(ResourceVersionMatch::from_name),
            send_initial_events: query.flag("sendInitialEvents"),
            allow_watch_bookmarks: query.flag("allowWatchBookmarks").unwrap_or_default(),
            timeout_seconds,
            shard_selector: query.text("shardSelector").map(Str::from),
        };
        options.check(query.text("resourceVersionMatch"), query.text("continue").is_some())?;
        Ok(options)
    }

    /// Checks the options as a server would.
    ///
    /// # Errors
    /// The server's status: initial events require the match `NotOlderThan`, and only they allow
    /// it.
    #[inline]
    pub fn validate(&self) -> Result<(), Box<Status>> {
        self.check(self.resource_version_match.map(ResourceVersionMatch::as_str), false)
    }

    #[inline]
    fn check(&self, how: Option<&str>, continues: bool) -> Result<(), Box<Status>> {
        const FIELD: &str = "resourceVersionMatch";
        let lower_bound = ResourceVersionMatch::NotOlderThan.as_str();
        let mut causes = Vec::new();
        if self.send_initial_events.is_some() && how != Some(lower_bound) {
            let problem = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            causes.push(StatusCause::forbidden(FIELD, problem));
        }
        if let Some(how) = how {
            if self.send_initial_events.is_none() {
                let problem = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                causes.push(StatusCause::forbidden(FIELD, problem));
            }
            if how != lower_bound {
                causes.push(StatusCause::not_supported(FIELD, Quoted(how), &[lower_bound]));
            }
            if continues {
                let problem = "resourceVersionMatch is forbidden when continue is provided";
                causes.push(StatusCause::forbidden(FIELD, problem));
            }
        }
        check("ListOptions", causes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn query(options: &WatchOptions) -> String {
        let mut query = String::new();
        options.append_query(&mut query);
        query
    }

    #[test]
    fn a_streaming_list_sets_its_required_options() {
        // RE-2
        let options = WatchOptions::default().initial_events();
        assert_eq!(options.validate(), Ok(()));
        assert_eq!(
            query(&options),
            "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true"
        );
    }

    #[test]
    fn invalid_options_are_rejected_like_kube_apiserver() {
        for (text, message) in [
            (
                "sendInitialEvents=true&allowWatchBookmarks=true",
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to \
                 NotOlderThan",
            ),
            (
                "sendInitialEvents=false",
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to \
                 NotOlderThan",
            ),
            (
                "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
                "[resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to \
                 NotOlderThan, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]",
            ),
            (
                "resourceVersionMatch=NotOlderThan&resourceVersion=1",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless \
                 sendInitialEvents is provided",
            ),
        ] {
            let answer = WatchOptions::from_query(&QueryParameters::parse(text)).unwrap_err();
            assert!(answer.is_invalid());
            assert_eq!(answer.to_string(), format!("ListOptions.meta.k8s.io \"\" is invalid: {message}"), "{text}");
        }
        let answer = WatchOptions::from_query(&QueryParameters::parse("watch=true&labelSelector=a>>b")).unwrap_err();
        assert_eq!(answer.to_string(), "unable to parse requirement: found '>', expected: identifier");
    }

    #[test]
    fn watch_requests_are_distinguished_from_lists() {
        let is_watch = |text| WatchOptions::is_watch(&QueryParameters::parse(text));
        assert!(is_watch("watch=true") && is_watch("watch=1") && is_watch("watch"));
        assert!(!is_watch("") && !is_watch("watch=false") && !is_watch("watch=0"));
    }

    proptest! {
        #[test]
        fn writing_and_reading_gives_the_options_back(
            labels in "(a=b|x in \\(a,b\\)|!q)?",
            version in proptest::option::of("[0-9]{1,4}"),
            initial in any::<bool>(),
            bookmarks in any::<bool>(),
            timeout in proptest::option::of(0..1000u32),
        ) {
            let mut options = WatchOptions::default().labels(labels.parse().unwrap());
            options.resource_version = version.map(Str::from);
            options.allow_watch_bookmarks = bookmarks;
            options.timeout_seconds = timeout.map(i64::from);
            if initial {
                options = options.initial_events();
            }
            let query = QueryParameters::parse(&query(&options));
            prop_assert!(WatchOptions::is_watch(&query));
            prop_assert_eq!(WatchOptions::from_query(&query), Ok(options));
        }
    }
}
