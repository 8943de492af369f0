//! The requested response format, from headers and query.

use hyper::HeaderMap;
use hyper::header::{ACCEPT, USER_AGENT};
use kubewright_core::meta::v1::Status;
use kubewright_core::options::QueryParameters;
use kubewright_net::clock;

use crate::rejection::Rejection;
use kubewright_printers::{Include, RowOptions};
use kubewright_resources::accept::{self, Accepted, Form, Format, MetaVersion, Offer};

/// The requested response format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The encoding.
    pub format: Format,
    /// The object, its metadata or a table.
    pub form: Form,
    /// Whether JSON is indented.
    pub pretty: bool,
    /// The object in table rows.
    pub include: Include,
}

impl Wanted {
    /// Plain JSON.
    pub const JSON: Wanted =
        Wanted { format: Format::Json, form: Form::Object, pretty: false, include: Include::Metadata };

    /// Negotiates the best format and form that the client accepts and the path offers.
    pub fn negotiate(headers: &HeaderMap, query: &QueryParameters, offer: Offer) -> Result<Wanted, Rejection> {
        let accepted = accept::negotiate(accept_header(headers).as_deref(), offer);
        let accepted = accepted.map_err(|error| Rejection::from(Status::from(error)))?;
        let mut wanted = Wanted::new(accepted, headers, query);
        if let (Form::Table(_), Some(text)) = (wanted.form, query.get("includeObject")) {
            wanted.include = Include::parse(text)?;
        }
        Ok(wanted)
    }

    /// The format of errors. JSON if negotiation fails.
    pub fn of_errors(headers: &HeaderMap, query: &QueryParameters) -> Wanted {
        match accept::negotiate(accept_header(headers).as_deref(), Offer::Plain) {
            Ok(accepted) => Wanted::new(accepted, headers, query),
            Err(error) => Wanted { format: error.format, ..Wanted::JSON },
        }
    }

    fn new(accepted: Accepted, headers: &HeaderMap, query: &QueryParameters) -> Self {
        let Accepted { format, form, pretty } = accepted;
        Wanted { format, form, pretty: pretty || is_pretty(headers, query), include: Include::Metadata }
    }

    /// The `Content-Type` of the response.
    pub fn content_type(self) -> &'static str {
        Accepted { format: self.format, form: self.form, pretty: self.pretty }.content_type()
    }

    /// The same format with whole objects.
    pub fn as_object(self) -> Self {
        Wanted { form: Form::Object, ..self }
    }

    /// The options for table rows.
    pub fn rows(self, version: MetaVersion) -> RowOptions {
        RowOptions { include: self.include, version, now: clock::now() }
    }
}

/// All `Accept` headers combined.
fn accept_header(headers: &HeaderMap) -> Option<String> {
    let values: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    (!values.is_empty()).then(|| values.join(","))
}

/// Indentation is for explicit requests, browsers and curl.
fn is_pretty(headers: &HeaderMap, query: &QueryParameters) -> bool {
    let is_person = || {
        let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        agent.starts_with("curl") || agent.starts_with("Wget") || agent.starts_with("Mozilla/5.0")
    };
    match query.get("pretty") {
        Some("1" | "t" | "T" | "true" | "True" | "TRUE") => true,
        Some("0" | "f" | "F" | "false" | "False" | "FALSE") => false,
        _ => is_person(),
    }
}
