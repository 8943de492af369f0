//! Which form of an answer a client asks for in its `Accept` header, and which of those on offer it gets.
//!
//! Two things are chosen at once: the *format* (JSON, YAML, protobuf), and the *form*, which asks for
//! something else in place of the object: a table, the metadata alone, aggregated discovery. A clause
//! that asks for a form that the path does not have is passed over, as if it were not there.

use std::fmt;

use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, StatusReason};

/// How an answer is written.
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
    /// All formats, the most preferred one first.
    pub const ALL: [Format; 3] = [Format::Json, Format::Yaml, Format::Protobuf];

    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
            Format::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The format of a `Content-Type` header, whatever its parameters; JSON where there is none.
    pub fn of_body(content_type: Option<&str>) -> Option<Format> {
        let name = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match name {
            "" => Some(Format::Json),
            name => Format::ALL.into_iter().find(|format| format.media_type().eq_ignore_ascii_case(name)),
        }
    }
}

/// What an answer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The object or list itself.
    Object,
    /// A `Table`, of this version of `meta.k8s.io`.
    Table(MetaVersion),
    /// `PartialObjectMetadata`: the metadata of one object.
    Metadata(MetaVersion),
    /// `PartialObjectMetadataList`: the metadata of a list.
    MetadataList(MetaVersion),
    /// `APIGroupDiscoveryList`: groups, versions and resources in one document.
    AggregatedDiscovery,
}

impl Form {
    /// Whether an answer can take this form: metadata of one object and of a list are asked for by different names.
    ///
    /// # Errors
    /// 406, when it cannot; `kind` is what was found there instead.
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

/// A version of the group `meta.k8s.io`; what it holds is the same in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaVersion {
    /// `v1`.
    V1,
    /// `v1beta1`.
    V1Beta1,
}

impl MetaVersion {
    /// The `apiVersion` of objects in this version.
    pub fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What a path can answer with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// Objects and lists of a built-in kind: all formats, as themselves, as tables or as metadata.
    BuiltIn,
    /// Objects and lists of a custom resource: as built-in ones, but in protobuf only their metadata.
    Custom,
    /// Discovery of one group or version, and other answers without another form.
    Plain,
    /// Discovery of a group that has custom resources only.
    CustomGroup,
    /// Discovery of all groups, which has an aggregated form.
    Discovery,
}

impl Offer {
    fn has(self, format: Format, form: Form) -> bool {
        match (self, form) {
            (Offer::Custom, Form::Object) => format != Format::Protobuf,
            (_, Form::Object) => true,
            (Offer::BuiltIn | Offer::Custom, Form::Table(_)) => format != Format::Protobuf,
            (Offer::BuiltIn | Offer::Custom, Form::Metadata(_) | Form::MetadataList(_)) => true,
            // Its types are not among those that we have in protobuf; clients ask for JSON.
            (Offer::Discovery, Form::AggregatedDiscovery) => format != Format::Protobuf,
            _ => false,
        }
    }
}

/// The answer that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// How it is written.
    pub format: Format,
    /// What it shows.
    pub form: Form,
    /// Whether it is indented for people, as far as the header says.
    pub pretty: bool,
}

impl Accepted {
    /// The `Content-Type` of the answer.
    pub fn content_type(&self) -> &'static str {
        match (self.format, self.form) {
            (Format::Json, Form::AggregatedDiscovery) => {
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            (Format::Yaml, Form::AggregatedDiscovery) => {
                "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            (format, _) => format.media_type(),
        }
    }
}

/// Chooses the answer: the first clause, by preference, that is on offer; JSON where there is no header.
///
/// ```
/// use kubewright_apiserver::accept::{Form, Format, MetaVersion, Offer, negotiate};
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
    // The real server looks for a route by whole names first, which only custom resources have none of.
    let is_routed = matches!(offer, Offer::Custom | Offer::CustomGroup) || header.split(',').any(names_format);
    for clause in clauses.iter().filter(|_| is_routed) {
        let Some(form) = clause.form() else { continue };
        if let Some(format) = clause.formats().find(|format| offer.has(*format, form)) {
            return Ok(Accepted { format, form, pretty: clause.parameter("pretty") == Some("1") });
        }
    }
    // The complaint itself is written in a format that the client reads, as far as there is one.
    let plain = clauses.iter().find(|clause| clause.form() == Some(Form::Object));
    Err(match plain.and_then(|clause| clause.formats().next()) {
        Some(format) => NotAcceptable { format, known: is_routed },
        None => NotAcceptable {
            format: Format::Json,
            // Custom resources have no routes of their own that could say it in another way.
            known: matches!(offer, Offer::Custom | Offer::CustomGroup)
                || is_routed && clauses.iter().any(|clause| clause.formats().next().is_some()),
        },
    })
}

/// Whether a clause of a header names a format, or takes any.
fn names_format(clause: &str) -> bool {
    let name = clause.split(';').next().unwrap_or_default().trim();
    name == "*/*" || Format::ALL.iter().any(|format| format.media_type() == name)
}

/// Nothing that the client accepts is on offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAcceptable {
    /// The format in which to say so.
    pub format: Format,
    /// Whether the client named a format that the server has, only not for what was asked.
    known: bool,
}

impl fmt::Display for NotAcceptable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.known {
            true => "only the following media types are accepted: ",
            false => "406: Not Acceptable\n\nAvailable representations: ",
        })?;
        f.write_str(&Format::ALL.map(Format::media_type).join(", "))
    }
}

impl std::error::Error for NotAcceptable {}

impl From<NotAcceptable> for Status {
    fn from(error: NotAcceptable) -> Status {
        match error.known {
            true => Status::failure(StatusReason::NotAcceptable, error.to_string()),
            false => Status::from_code(406, "", &GroupResource::default(), "", &error.to_string()),
        }
    }
}

/// One alternative of the header.
#[derive(Debug)]
struct Clause<'h> {
    media_type: &'h str,
    subtype: &'h str,
    quality: f32,
    parameters: Vec<(&'h str, &'h str)>,
}

impl<'h> Clause<'h> {
    /// All alternatives, best first: by quality, then whole names before wildcards, then as written.
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

    /// The formats whose media type fits the clause, preferred ones first.
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

    /// The form that the parameters ask for, or nothing if it is not known or cannot be served.
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
        fn no_header_is_too_strange(header in "([a-z*/;,= .é]|application/json|as=Table|q=|NaN|-1|1e99|g=meta.k8s.io|v=v1){0,20}") {
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
    fn formats_are_chosen_by_quality_and_then_as_written() {
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
    fn forms_that_a_path_lacks_are_passed_over() {
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
    fn an_unknown_media_type_and_an_unknown_form_are_told_apart() {
        let unknown = Status::from(negotiate(Some("text/html"), Offer::BuiltIn).unwrap_err());
        assert!(unknown.details.is_some() && unknown.code == Some(406));
        let form = Status::from(negotiate(Some(TABLE), Offer::Plain).unwrap_err());
        assert!(form.details.is_none() && form.code == Some(406));
        assert!(form.to_string().starts_with("only the following media types are accepted: application/json, "));
    }

    #[test]
    fn metadata_of_one_and_of_many_are_told_apart() {
        let (one, many) = (Form::Metadata(MetaVersion::V1), Form::MetadataList(MetaVersion::V1));
        assert!(one.fits(false, "Pod").is_ok() && many.fits(true, "PodList").is_ok());
        assert_eq!(one.fits(true, "PodList").unwrap_err().code, Some(406));
        assert_eq!(many.fits(false, "Pod").unwrap_err().code, Some(406));
    }

    #[test]
    fn a_body_without_a_type_is_json() {
        assert_eq!(Format::of_body(None), Some(Format::Json));
        assert_eq!(Format::of_body(Some("application/yaml; charset=utf-8")), Some(Format::Yaml));
        assert_eq!(Format::of_body(Some("application/cbor")), None);
    }
}
