//! Encodes objects as protobuf, by way of their typed form.

use kubewright_core::message::Message;
use kubewright_core::meta::v1::{ListMeta as ListMetaMessage, PartialObjectMetadata, Status};
use kubewright_core::protobuf::{Encoder, Envelope};
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

/// The form of the items of a list.
#[derive(Clone, Copy)]
pub(super) enum ItemForm {
    Objects,
    Metadata,
}

/// The bytes before the items of a list whose items have `length` bytes in total.
pub(super) fn list_start(resource: &Resource, form: ItemForm, meta: &ListMeta, length: usize, out: &mut Vec<u8>) {
    let (api_version, kind) = match form {
        ItemForm::Objects => (&*resource.api_version, &*resource.list_kind),
        ItemForm::Metadata => ("meta.k8s.io/v1", "PartialObjectMetadataList"),
    };
    let list_meta = ListMetaMessage {
        resource_version: Some(meta.revision.to_string().into()),
        continue_: meta.continue_token.clone(),
        remaining_item_count: meta.remaining.map(|remaining| remaining as i64),
        ..Default::default()
    };
    // In every list, field 1 is the metadata and field 2 the items.
    let mut start = Vec::new();
    Encoder { out: &mut start }.delimited(1, |inner| inner.message(&list_meta));
    Envelope::encode_start(api_version, kind, start.len() + length, out);
    out.extend_from_slice(&start);
}

/// The bytes after the items of a list.
pub(super) fn list_end(out: &mut Vec<u8>) {
    Envelope::encode_end(out);
}

/// Appends an item of a list.
pub(super) fn list_item(
    resource: &Resource,
    form: ItemForm,
    object: &StoredObject,
    out: &mut Vec<u8>,
) -> Result<(), Rejection> {
    let item = match form {
        ItemForm::Objects => stored_message(resource, object)?,
        ItemForm::Metadata => message(&partial_object_metadata(&object.tree(), MetaVersion::V1))?,
    };
    Encoder { out }.delimited(2, |encoder| encoder.message(&*item));
    Ok(())
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
