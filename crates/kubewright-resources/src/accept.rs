//! Content negotiation by the `Accept` header.
//!
//! Negotiation selects a *format* (JSON, YAML, protobuf) and a *form*: the object itself, a table,
//! its metadata, or aggregated discovery. A clause with a form that the path does not offer is
//! ignored.

use std::fmt;

use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, StatusReason};

pub use kubewright_printers::MetaVersion;

/// The encoding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

impl Format {
    /// All formats in order of preference.
    pub const ALL: [Format; 3] = [Format::Json, Format::Yaml, Format::Protobuf];

    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
            Format::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The format of a `Content-Type` header. Parameters are ignored, and JSON is the default.
    pub fn from_content_type(content_type: Option<&str>) -> Option<Format> {
        let name = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match name {
            "" => Some(Format::Json),
            name => Format::ALL.into_iter().find(|format| format.media_type().eq_ignore_ascii_case(name)),
        }
    }
}

/// The representation that a response contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The object or list itself.
    Object,
    /// A `Table` of this version of `meta.k8s.io`.
    Table(MetaVersion),
    /// `PartialObjectMetadata`: the metadata of one object.
    Metadata(MetaVersion),
    /// `PartialObjectMetadataList`: the metadata of a list.
    MetadataList(MetaVersion),
    /// `APIGroupDiscoveryList`: groups, versions and resources in one document.
    AggregatedDiscovery,
}

impl Form {
    /// Checks that the response can have this form: metadata of an object and of a list have
    /// different forms.
    ///
    /// # Errors
    ///
    /// 406. `kind` is the kind that was found instead.
    pub fn fits(self, is_list: bool, kind: &str) -> Result<(), Box<Status>> {
        let message = match (self, is_list) {
            (Form::Metadata(_), true) => {
                format!("you requested PartialObjectMetadata, but the requested object is a list ({kind})")
            }
            (Form::MetadataList(_), false) => {
                format!("you requested PartialObjectMetadataList, but the requested object is not a list ({kind})")
            }
            _ => return Ok(()),
        };
        Err(Box::new(Status::failure(StatusReason::NotAcceptable, message)))
    }
}

/// The representations that a path offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// Objects and lists of a built-in kind: all formats and forms.
    BuiltIn,
    /// Objects and lists of a custom resource: in protobuf, only their metadata.
    Custom,
    /// Discovery of one group or version, and other documents with one form.
    Plain,
    /// Discovery of a group with custom resources only.
    CustomGroup,
    /// Discovery of all groups, with an aggregated form.
    Discovery,
}

impl Offer {
    fn has(self, format: Format, form: Form) -> bool {
        match (self, form) {
            (Offer::Custom, Form::Object) => format != Format::Protobuf,
            (_, Form::Object) => true,
            (Offer::BuiltIn | Offer::Custom, Form::Table(_)) => format != Format::Protobuf,
            (Offer::BuiltIn | Offer::Custom, Form::Metadata(_) | Form::MetadataList(_)) => true,
            (Offer::Discovery, Form::AggregatedDiscovery) => true,
            _ => false,
        }
    }
}

/// The negotiated response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The format.
    pub format: Format,
    /// The form.
    pub form: Form,
    /// Whether the header asks for indented JSON.
    pub pretty: bool,
}

impl Accepted {
    /// The `Content-Type` of the response.
    pub fn content_type(&self) -> &'static str {
        match (self.format, self.form) {
            (Format::Json, Form::AggregatedDiscovery) => {
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            (Format::Yaml, Form::AggregatedDiscovery) => {
                "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            (Format::Protobuf, Form::AggregatedDiscovery) => {
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            (format, _) => format.media_type(),
        }
    }
}

/// Selects the best offered clause. Without a header, the result is JSON.
///
/// ```
/// use kubewright_resources::accept::{Form, Format, MetaVersion, Offer, negotiate};
/// let header = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
/// let accepted = negotiate(Some(header), Offer::BuiltIn).unwrap();
/// assert_eq!((accepted.format, accepted.form), (Format::Json, Form::Table(MetaVersion::V1)));
/// assert_eq!(negotiate(Some(header), Offer::Plain).unwrap().form, Form::Object);
/// assert!(negotiate(Some("text/html"), Offer::Plain).is_err());
/// ```
#[doc(alias = "NegotiateMediaTypeOptions")]
pub fn negotiate(header: Option<&str>, offer: Offer) -> Result<Accepted, NotAcceptable> {
    let header = header.unwrap_or_default();
    if header.trim().is_empty() {
        return Ok(Accepted { format: Format::Json, form: Form::Object, pretty: false });
    }
    let clauses = Clause::parse_all(header);
    // The real server first matches routes by exact media types. Only custom resources have no
    // routes.
    let is_routed = matches!(offer, Offer::Custom | Offer::CustomGroup) || header.split(',').any(names_format);
    for clause in clauses.iter().filter(|_| is_routed) {
        let Some(form) = clause.form() else { continue };
        if let Some(format) = clause.formats().find(|format| offer.has(*format, form)) {
            return Ok(Accepted { format, form, pretty: clause.parameter("pretty") == Some("1") });
        }
    }
    // The error uses a format that the client accepts, if there is one.
    let plain = clauses.iter().find(|clause| clause.form() == Some(Form::Object));
    Err(match plain.and_then(|clause| clause.formats().next()) {
        Some(format) => NotAcceptable { format, known: is_routed },
        None => NotAcceptable {
            format: Format::Json,
            // Custom resources have no routes whose error could differ.
            known: matches!(offer, Offer::Custom | Offer::CustomGroup)
                || is_routed && clauses.iter().any(|clause| clause.formats().next().is_some()),
        },
    })
}

/// Whether a clause names a format or is `*/*`.
fn names_format(clause: &str) -> bool {
    let name = clause.split(';').next().unwrap_or_default().trim();
    name == "*/*" || Format::ALL.iter().any(|format| format.media_type() == name)
}

/// No clause of the header is on offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAcceptable {
    /// The format of the error.
    pub format: Format,
    /// Whether the client named a format that exists but is not on offer here.
    known: bool,
}

impl fmt::Display for NotAcceptable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.known {
            "only the following media types are accepted: "
        } else {
            "406: Not Acceptable\n\nAvailable representations: "
        })?;
        f.write_str(&Format::ALL.map(Format::media_type).join(", "))
    }
}

impl std::error::Error for NotAcceptable {}

impl From<NotAcceptable> for Status {
    fn from(error: NotAcceptable) -> Status {
        if error.known {
            Status::failure(StatusReason::NotAcceptable, error.to_string())
        } else {
            Status::from_code(406, "", &GroupResource::default(), "", &error.to_string())
        }
    }
}

/// One clause of the header.
#[derive(Debug)]
struct Clause<'h> {
    media_type: &'h str,
    subtype: &'h str,
    quality: f32,
    parameters: Vec<(&'h str, &'h str)>,
}

impl<'h> Clause<'h> {
    /// All clauses, best first: by quality, then exact types before wildcards, then by position.
    fn parse_all(header: &'h str) -> Vec<Self> {
        let mut clauses: Vec<_> = header.split(',').filter_map(Clause::parse).collect();
        let wildcards = |clause: &Clause<'_>| [clause.media_type, clause.subtype].iter().filter(|s| **s == "*").count();
        clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then(wildcards(a).cmp(&wildcards(b))));
        clauses
    }

    fn parse(text: &'h str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (media_type, subtype) = match parts.next()? {
            "*" => ("*", "*"),
            name => name.split_once('/').filter(|(_, subtype)| !subtype.contains('/'))?,
        };
        let mut clause = Clause { media_type, subtype, quality: 1.0, parameters: Vec::new() };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match (key.trim(), value.trim()) {
                ("q", value) => clause.quality = value.parse().ok().filter(|q: &f32| q.is_finite()).unwrap_or(0.0),
                parameter => clause.parameters.push(parameter),
            }
        }
        Some(clause)
    }

    fn parameter(&self, name: &str) -> Option<&'h str> {
        self.parameters.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// The formats that match the clause, in order of preference.
    fn formats(&self) -> impl Iterator<Item = Format> {
        Format::ALL.into_iter().filter(|format| {
            let (media_type, subtype) = format.media_type().split_once('/').expect("a media type has a slash");
            match (self.media_type, self.subtype) {
                ("*", "*") => true,
                (own, "*") => own == media_type,
                (own, own_subtype) => own == media_type && own_subtype == subtype,
            }
        })
    }

    /// The requested form. `None` if it is unknown or unsupported.
    fn form(&self) -> Option<Form> {
        if self.parameter("stream").is_some_and(|stream| !matches!(stream, "" | "watch"))
            || self.parameter("sv").is_some_and(|version| !version.is_empty())
        {
            return None;
        }
        let version = match (self.parameter("g"), self.parameter("v"), self.parameter("as")) {
            (None, None, None) => return Some(Form::Object),
            (Some("apidiscovery.k8s.io"), Some("v2"), Some("APIGroupDiscoveryList")) => {
                return Some(Form::AggregatedDiscovery);
            }
            (Some("meta.k8s.io"), Some("v1"), _) => MetaVersion::V1,
            (Some("meta.k8s.io"), Some("v1beta1"), _) => MetaVersion::V1Beta1,
            _ => return None,
        };
        match self.parameter("as")? {
            "Table" => Some(Form::Table(version)),
            "PartialObjectMetadata" => Some(Form::Metadata(version)),
            "PartialObjectMetadataList" => Some(Form::MetadataList(version)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_header_is_parsed_without_a_panic(header in "([a-z*/;,= .é]|application/json|as=Table|q=|NaN|-1|1e99|g=meta.k8s.io|v=v1){0,20}") {
            for offer in [Offer::BuiltIn, Offer::Custom, Offer::Plain, Offer::Discovery] {
                let _ = negotiate(Some(&header), offer);
            }
        }
    }

    fn chosen(header: &str, offer: Offer) -> Option<(Format, Form)> {
        negotiate(Some(header), offer).ok().map(|accepted| (accepted.format, accepted.form))
    }

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

    #[test]
    fn formats_are_chosen_by_quality_and_then_by_position() {
        use {Form::Object, Format::*};
        for (header, want) in [
            ("", Some((Json, Object))),
            ("*/*", Some((Json, Object))),
            ("*", None),
            ("application/*", None),
            ("application/*, application/yaml;q=0.5", Some((Json, Object))),
            ("application/yaml", Some((Yaml, Object))),
            ("application/json;q=0.5, application/yaml", Some((Yaml, Object))),
            ("*/*, application/vnd.kubernetes.protobuf", Some((Protobuf, Object))),
            ("application/vnd.kubernetes.protobuf,application/json", Some((Protobuf, Object))),
            ("application/json;stream=watch", Some((Json, Object))),
            ("text/html, */*;q=0.8", Some((Json, Object))),
            ("text/html", None),
            ("nonsense", None),
            ("a/b/c,;;;,=", None),
        ] {
            assert_eq!(chosen(header, Offer::BuiltIn), want, "{header}");
        }
        assert_eq!(chosen("application/*", Offer::Custom), Some((Json, Object)));
    }

    #[test]
    fn unsupported_forms_are_ignored() {
        let fallback = |header: &str| format!("{header},application/json");
        let object = Some((Format::Json, Form::Object));
        assert_eq!(chosen(TABLE, Offer::BuiltIn), Some((Format::Json, Form::Table(MetaVersion::V1))));
        assert_eq!(chosen(&fallback(TABLE), Offer::Plain), object);
        assert_eq!(chosen(TABLE, Offer::Plain), None);
        assert_eq!(chosen(&fallback(DISCOVERY), Offer::Discovery), Some((Format::Json, Form::AggregatedDiscovery)));
        assert_eq!(chosen(&fallback(DISCOVERY), Offer::Plain), object);
        let beta = DISCOVERY.replace("v2", "v2beta1");
        assert_eq!(chosen(&beta, Offer::Discovery), None);
        assert_eq!(chosen(&fallback(&beta), Offer::Discovery), object);
        assert_eq!(chosen("application/json;as=Table;v=v2;g=meta.k8s.io", Offer::BuiltIn), None);
    }

    #[test]
    fn protobuf_has_no_tables_and_of_custom_resources_only_metadata() {
        let protobuf = Format::Protobuf.media_type();
        let with = |form: &str| format!("{protobuf};as={form};v=v1;g=meta.k8s.io");
        assert_eq!(chosen(&with("Table"), Offer::BuiltIn), None);
        let list = Some((Format::Protobuf, Form::MetadataList(MetaVersion::V1)));
        assert_eq!(chosen(&with("PartialObjectMetadataList"), Offer::Custom), list);
        assert_eq!(chosen(&format!("{protobuf},application/json"), Offer::Custom), Some((Format::Json, Form::Object)));
        assert_eq!(negotiate(Some(protobuf), Offer::Custom).unwrap_err().format, Format::Protobuf);
        assert_eq!(negotiate(Some(&with("Table")), Offer::Custom).unwrap_err().format, Format::Json);
    }

    #[test]
    fn unknown_media_types_and_unknown_forms_have_different_errors() {
        let unknown = Status::from(negotiate(Some("text/html"), Offer::BuiltIn).unwrap_err());
        assert!(unknown.details.is_some() && unknown.code == Some(406));
        let form = Status::from(negotiate(Some(TABLE), Offer::Plain).unwrap_err());
        assert!(form.details.is_none() && form.code == Some(406));
        assert!(form.to_string().starts_with("only the following media types are accepted: application/json, "));
    }

    #[test]
    fn metadata_of_an_object_and_of_a_list_are_different_forms() {
        let (one, many) = (Form::Metadata(MetaVersion::V1), Form::MetadataList(MetaVersion::V1));
        assert!(one.fits(false, "Pod").is_ok() && many.fits(true, "PodList").is_ok());
        assert_eq!(one.fits(true, "PodList").unwrap_err().code, Some(406));
        assert_eq!(many.fits(false, "Pod").unwrap_err().code, Some(406));
    }

    #[test]
    fn a_body_without_a_type_is_json() {
        assert_eq!(Format::from_content_type(None), Some(Format::Json));
        assert_eq!(Format::from_content_type(Some("application/yaml; charset=utf-8")), Some(Format::Yaml));
        assert_eq!(Format::from_content_type(Some("application/cbor")), None);
    }
}
