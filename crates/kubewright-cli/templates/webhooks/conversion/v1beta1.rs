//! Converts between v1beta1 and the stored version v1alpha1.
//!
//! A field that one version lacks is lost when a client of that version writes the object. Keep it
//! in an annotation if that matters; `Versions::check_round_trip` tests it.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::{v1alpha1, v1beta1};

impl TryFrom<v1beta1::Widget> for v1alpha1::Widget {
    type Error = serde_json::Error;

    fn try_from(from: v1beta1::Widget) -> Result<Self, Self::Error> {
        let status = from.status.as_ref().map(by_name).transpose()?;
        Ok(v1alpha1::Widget { spec: by_name(&from.spec)?, status, metadata: from.metadata })
    }
}

impl TryFrom<v1alpha1::Widget> for v1beta1::Widget {
    type Error = serde_json::Error;

    fn try_from(from: v1alpha1::Widget) -> Result<Self, Self::Error> {
        let status = from.status.as_ref().map(by_name).transpose()?;
        Ok(v1beta1::Widget { spec: by_name(&from.spec)?, status, metadata: from.metadata })
    }
}

/// Takes the fields over by their names. Assign them one by one when the versions differ.
fn by_name<T: Serialize, U: DeserializeOwned>(fields: &T) -> Result<U, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(fields)?)
}
