//! serde support for derived types.

use kubewright_core::json::{Reader, Writer};
use kubewright_core::meta::v1::ObjectMeta;
use kubewright_core::{DecodeError, List};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};

/// The status type of a resource without a status.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum NoStatus {}

/// The parts of an object being decoded.
#[derive(Debug, Deserialize)]
pub struct Parts<S, T> {
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The specification.
    pub spec: S,
    /// The status.
    #[serde(default = "none")]
    pub status: Option<T>,
}

fn none<T>() -> Option<T> {
    None
}

impl<S: DeserializeOwned, T: DeserializeOwned> Parts<S, T> {
    /// Decodes the parts from JSON text.
    ///
    /// # Errors
    /// If the text is not such an object.
    pub fn from_json(reader: &mut Reader<'_, '_>) -> Result<Self, DecodeError> {
        let mut parts: Parts<S, T> =
            serde_json::from_str(reader.raw()?).map_err(|error| DecodeError::new(error.to_string()))?;
        if reader.skips_managed_fields() && !parts.metadata.managed_fields.is_empty() {
            parts.metadata.managed_fields = List::new();
        }
        Ok(parts)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SerializedParts<'a, S, T> {
    api_version: &'a str,
    kind: &'a str,
    metadata: &'a ObjectMeta,
    spec: &'a S,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a T>,
}

/// Serialises an object with serde.
///
/// # Errors
/// Those of the format.
pub fn serialize<S: Serialize, T: Serialize, F: Serializer>(
    api_version: &str,
    kind: &str,
    metadata: &ObjectMeta,
    spec: &S,
    status: Option<&T>,
    serializer: F,
) -> Result<F::Ok, F::Error> {
    SerializedParts { api_version, kind, metadata, spec, status }.serialize(serializer)
}

/// Writes an object as JSON.
///
/// # Panics
/// If the type has no JSON representation, such as a map with keys that are not strings.
pub fn write_json(object: &impl Serialize, writer: &mut Writer<'_>) {
    writer.raw(&serde_json::to_string(object).expect("objects of the API have JSON forms"));
}
