//! Tables of objects. The seam for the code that knows the columns of each kind.

use kubewright_core::Value;
use kubewright_core::meta::v1::Status;

use crate::catalog::Resource;
use crate::decoding::MediaType;
use crate::rejection::Rejection;

/// Whether tables can be had; where not, clients fall back to whole objects.
pub(super) const IS_AVAILABLE: bool = false;

/// The table of these objects; `list` is the metadata of the list that they come from.
pub(super) fn of_objects(_: &Resource, _: &[&Value], _list: Option<Value>) -> Result<Value, Rejection> {
    Err(Status::not_acceptable(MediaType::TEXTS).into())
}
