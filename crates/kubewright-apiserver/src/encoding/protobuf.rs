//! Trees as protobuf, through the types that know their numbers.

use bytes::Bytes;
use kubewright_core::message::Message;
use kubewright_core::meta::v1::{ListMeta as ListMetaMessage, PartialObjectMetadata, Status};
use kubewright_core::protobuf::Envelope;
use kubewright_core::{Decoder, Value};

use super::{ListMeta, served};
use crate::accept::{Format, MetaVersion};
use crate::catalog::{Resource, type_entry};
use crate::object::{StoredObject, to_json, tree};
use crate::rejection::Rejection;
use crate::table::partial_object_metadata;

/// An object in its envelope.
pub(super) fn object(value: &Value) -> Result<Vec<u8>, Rejection> {
    let message = message(value)?;
    let mut out = Vec::new();
    Envelope::encode(&*message, &mut out);
    Ok(out)
}

/// A list of objects in its envelope.
pub(super) fn list<'a>(
    resource: &Resource,
    meta: &ListMeta,
    objects: impl Iterator<Item = &'a StoredObject>,
) -> Result<Bytes, Rejection> {
    let items = objects.map(|object| message(&served(resource, &object.value))).collect::<Result<Vec<_>, _>>()?;
    Ok(enveloped_list(&resource.api_version, &resource.list_kind, meta, &items))
}

/// A list of metadata in its envelope.
pub(super) fn metadata_list<'a>(meta: &ListMeta, objects: impl Iterator<Item = &'a StoredObject>) -> Bytes {
    let items: Vec<_> =
        objects.filter_map(|object| message(&partial_object_metadata(&object.value, MetaVersion::V1)).ok()).collect();
    enveloped_list("meta.k8s.io/v1", "PartialObjectMetadataList", meta, &items)
}

fn enveloped_list(api_version: &str, kind: &str, meta: &ListMeta, items: &[Box<dyn Message>]) -> Bytes {
    let list_meta = ListMetaMessage {
        resource_version: Some(meta.revision.to_string().into()),
        continue_: meta.continue_token.clone(),
        remaining_item_count: meta.remaining.map(|remaining| remaining as i64),
        ..Default::default()
    };
    let mut out = Vec::new();
    // Every list has its metadata as field 1 and its items as field 2.
    Envelope::encode_with(api_version, kind, &mut out, |encoder| {
        encoder.delimited(1, |inner| inner.message(&list_meta));
        for item in items {
            encoder.delimited(2, |inner| inner.message(&**item));
        }
    });
    out.into()
}

fn message(value: &Value) -> Result<Box<dyn Message>, Rejection> {
    let (api_version, kind) = (tree::text(value, &["apiVersion"]), tree::text(value, &["kind"]));
    let mut message: Box<dyn Message> = match (api_version, kind) {
        ("v1", "Status") => Box::<Status>::default(),
        ("meta.k8s.io/v1", "PartialObjectMetadata") => Box::<PartialObjectMetadata>::default(),
        _ => {
            let entry = type_entry(api_version, kind);
            (entry.ok_or_else(|| Rejection::from(Status::not_acceptable(&Format::ALL.map(Format::media_type))))?.new)()
        }
    };
    let decoded = Decoder::new().json_into(&mut *message, &to_json(value));
    decoded.map_err(|error| Rejection::from(Status::internal(error)))?;
    Ok(message)
}
