//! What the client wants its answer to look like, from the `Accept` header.

use hyper::HeaderMap;
use hyper::header::{ACCEPT, USER_AGENT};
use kubewright_core::meta::v1::Status;
use kubewright_core::options::Query;

use super::table;
use crate::decoding::MediaType;
use crate::rejection::Rejection;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) media_type: MediaType,
    pub(crate) shape: Shape,
    /// Whether JSON is written with line breaks for people.
    pub(crate) pretty: bool,
}

/// What is sent of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All of them.
    Object,
    /// Their metadata, of one object.
    Metadata,
    /// Their metadata, of a list.
    MetadataList,
    /// A table to be printed.
    Table,
}

/// What an endpoint can give.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer {
    /// Whether objects have a protobuf form.
    pub(crate) protobuf: bool,
    /// Whether metadata and tables are given on request.
    pub(crate) shapes: bool,
}

impl Format {
    /// Plain JSON.
    pub(crate) const JSON: Format = Format { media_type: MediaType::Json, shape: Shape::Object, pretty: false };

    /// The best form that the client accepts and the endpoint offers.
    pub(crate) fn negotiate(headers: &HeaderMap, query: &Query, offer: Offer) -> Result<Format, Rejection> {
        let clauses = clauses(headers);
        let is_known = |clause: &Clause| MediaType::ALL.iter().any(|media_type| clause.accepts(*media_type));
        if !clauses.is_empty() && !clauses.iter().any(is_known) {
            return Err(Rejection::never_acceptable(MediaType::TEXTS));
        }
        choose(&clauses, offer)
            .map(|format| Format { pretty: is_pretty(headers, query), ..format })
            .ok_or_else(|| Status::not_acceptable(MediaType::TEXTS).into())
    }

    /// The form of an error, which is JSON where nothing else can be agreed on.
    pub(crate) fn of_errors(headers: &HeaderMap, query: &Query) -> Format {
        let format = choose(&clauses(headers), Offer { protobuf: true, shapes: false }).unwrap_or(Format::JSON);
        Format { pretty: is_pretty(headers, query), ..format }
    }
}

fn choose(clauses: &[Clause], offer: Offer) -> Option<Format> {
    if clauses.is_empty() {
        return Some(Format::JSON);
    }
    clauses.iter().find_map(|clause| {
        MediaType::ALL.into_iter().filter(|media_type| clause.accepts(*media_type)).find_map(|media_type| {
            let shape = clause.shape.ok()?;
            let offered = match (shape, media_type) {
                (Shape::Object, MediaType::Protobuf) => offer.protobuf,
                (Shape::Object, _) => true,
                (Shape::Table, MediaType::Protobuf) => false,
                (Shape::Table, _) => offer.shapes && table::IS_AVAILABLE,
                _ => offer.shapes,
            };
            offered.then_some(Format { media_type, shape, pretty: false })
        })
    })
}

/// Line breaks are for those who ask, and for people with a browser or curl.
fn is_pretty(headers: &HeaderMap, query: &Query) -> bool {
    let is_person = || {
        let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        agent.starts_with("curl") || agent.starts_with("Wget") || agent.starts_with("Mozilla/5.0")
    };
    query.flag("pretty").unwrap_or_else(is_person)
}

/// One alternative of the header.
struct Clause {
    kind: String,
    quality: f32,
    /// The shape asked for, or that it is none we know.
    shape: Result<Shape, ()>,
}

impl Clause {
    fn accepts(&self, media_type: MediaType) -> bool {
        match &*self.kind {
            "*/*" | "application/*" => true,
            kind => kind == media_type.as_str(),
        }
    }
}

/// The alternatives in the order in which the client prefers them.
fn clauses(headers: &HeaderMap) -> Vec<Clause> {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut clauses: Vec<Clause> = values.flat_map(|text| text.split(',')).filter_map(clause).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses
}

fn clause(text: &str) -> Option<Clause> {
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().filter(|kind| !kind.is_empty())?.to_ascii_lowercase();
    let (mut quality, mut shape, mut group, mut version) = (1.0, "", "meta.k8s.io", "v1");
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        let value = value.trim().trim_matches('"');
        match name.trim() {
            "q" => quality = value.parse().unwrap_or(0.0),
            "as" => shape = value,
            "g" => group = value,
            "v" => version = value,
            _ => {}
        }
    }
    let is_meta = group == "meta.k8s.io" && matches!(version, "v1" | "v1beta1");
    let shape = match shape {
        "" => Ok(Shape::Object),
        "Table" if is_meta => Ok(Shape::Table),
        "PartialObjectMetadata" if is_meta => Ok(Shape::Metadata),
        "PartialObjectMetadataList" if is_meta => Ok(Shape::MetadataList),
        _ => Err(()),
    };
    (quality > 0.0).then_some(Clause { kind, quality, shape })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(text: &str, offer: Offer) -> Option<(MediaType, Shape)> {
        let headers: HeaderMap = [(ACCEPT, text.parse().expect("a header"))].into_iter().collect();
        let format = Format::negotiate(&headers, &Query::default(), offer).ok()?;
        Some((format.media_type, format.shape))
    }

    #[test]
    fn the_best_clause_that_can_be_met_wins() {
        let all = Offer { protobuf: true, shapes: true };
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(accept(table, all), Some((MediaType::Json, Shape::Table)));
        assert_eq!(accept(table, Offer { shapes: false, ..all }), Some((MediaType::Json, Shape::Object)));
        let both = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(accept(both, all), Some((MediaType::Protobuf, Shape::Object)));
        assert_eq!(accept(both, Offer { protobuf: false, ..all }), Some((MediaType::Json, Shape::Object)));
        assert_eq!(accept("text/html;q=0.9, application/json;q=0.5", all), Some((MediaType::Json, Shape::Object)));
        assert_eq!(accept("*/*", all), Some((MediaType::Json, Shape::Object)));
        assert_eq!(accept("text/html", all), None);
        assert_eq!(accept("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", all), None);
    }
}
