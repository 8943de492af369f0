//! Encodes objects as protobuf, by way of their typed form.

use bytes::Bytes;
use kubewright_core::message::Message;
use kubewright_core::meta::v1::{ListMeta as ListMetaMessage, PartialObjectMetadata, Status};
use kubewright_core::protobuf::Envelope;
use kubewright_core::{Decoder, Value};

use super::{ListMeta, json};
use crate::object::{StoredObject, to_json, tree};
use crate::rejection::Rejection;
use kubewright_printers::partial_object_metadata;
use kubewright_resources::accept::{Format, MetaVersion};
use kubewright_resources::catalog::{Resource, type_entry};

/// An object in its envelope.
pub(super) fn object(value: &Value) -> Result<Vec<u8>, Rejection> {
    Ok(enveloped(&*message(value)?))
}

/// A stored object in its envelope. Decodes the stored text directly, without a tree.
pub(super) fn stored(resource: &Resource, object: &StoredObject) -> Result<Vec<u8>, Rejection> {
    Ok(enveloped(&*stored_message(resource, object)?))
}

fn enveloped(message: &dyn Message) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    Envelope::encode(message, &mut out);
    out
}

/// A list of objects in its envelope.
pub(super) fn list<'a>(
    resource: &Resource,
    meta: &ListMeta,
    objects: impl Iterator<Item = &'a StoredObject>,
) -> Result<Bytes, Rejection> {
    let items = objects.map(|object| stored_message(resource, object));
    enveloped_list(&resource.api_version, &resource.list_kind, meta, items)
}

/// A list of metadata in its envelope.
pub(super) fn metadata_list<'a>(
    meta: &ListMeta,
    objects: impl Iterator<Item = &'a StoredObject>,
) -> Result<Bytes, Rejection> {
    let items = objects.map(|object| message(&partial_object_metadata(&object.tree(), MetaVersion::V1)));
    enveloped_list("meta.k8s.io/v1", "PartialObjectMetadataList", meta, items)
}

/// Encodes a list item by item, so that only one item is in memory besides the result.
///
/// The envelope and the list start with their lengths, so nothing can be sent before the last item
/// is encoded.
fn enveloped_list(
    api_version: &str,
    kind: &str,
    meta: &ListMeta,
    mut items: impl Iterator<Item = Result<Box<dyn Message>, Rejection>>,
) -> Result<Bytes, Rejection> {
    let list_meta = ListMetaMessage {
        resource_version: Some(meta.revision.to_string().into()),
        continue_: meta.continue_token.clone(),
        remaining_item_count: meta.remaining.map(|remaining| remaining as i64),
        ..Default::default()
    };
    let (mut out, mut outcome) = (Vec::new(), Ok(()));
    // In every list, field 1 is the metadata and field 2 the items.
    Envelope::encode_with(api_version, kind, &mut out, |encoder| {
        encoder.delimited(1, |inner| inner.message(&list_meta));
        outcome = items.try_for_each(|item| {
            let item = item?;
            encoder.delimited(2, |inner| inner.message(&*item));
            Ok(())
        });
    });
    outcome.map(|()| out.into())
}

fn stored_message(resource: &Resource, object: &StoredObject) -> Result<Box<dyn Message>, Rejection> {
    decoded(&resource.api_version, &resource.kind, &json(resource, object))
}

fn message(value: &Value) -> Result<Box<dyn Message>, Rejection> {
    decoded(tree::text(value, &["apiVersion"]), tree::text(value, &["kind"]), &to_json(value))
}

fn decoded(api_version: &str, kind: &str, json: &[u8]) -> Result<Box<dyn Message>, Rejection> {
    let mut message: Box<dyn Message> = match (api_version, kind) {
        ("v1", "Status") => Box::<Status>::default(),
        ("meta.k8s.io/v1", "PartialObjectMetadata") => Box::<PartialObjectMetadata>::default(),
        _ => {
            let entry = type_entry(api_version, kind);
            (entry.ok_or_else(|| Rejection::from(Status::not_acceptable(&Format::ALL.map(Format::media_type))))?.new)()
        }
    };
    let decoded = Decoder::new().json_into(&mut *message, json);
    decoded.map_err(|error| Rejection::from(Status::internal(error)))?;
    Ok(message)
}
