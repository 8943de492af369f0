//! Strategic merge patch: a type-aware merge patch that merges lists of objects by a key.
//!
//! Directives are among the fields of a patch: `$patch` (`replace` or `delete`) for the enclosing
//! object or list item, `$retainKeys` for the fields of an object to retain,
//! `$setElementOrder/FIELD` and `$deleteFromPrimitiveList/FIELD` for a sibling list. `merging`
//! has the merge, and `schema` the merge rules of the types.

mod directives;
mod items;
mod merging;
mod order;
mod schema;

use kubewright_core::Value;
use kubewright_core::scheme::TypeInfo;

use crate::patch::error::PatchError;
use merging::merge_map;
use schema::PatchSchema;

/// Applies a strategic merge patch to `target`, an object of the type `schema`.
///
/// New list items come before items to which they have no known order, that is, at the front.
///
/// # Errors
/// If the patch is not an object, has an unknown directive, lacks a merge key, or does not match
/// the type.
#[doc(alias = "StrategicMergePatch")]
#[inline]
pub fn strategic_merge(target: &Value, patch: &Value, schema: &'static TypeInfo) -> Result<Value, PatchError> {
    let Some(patch) = patch.as_object() else {
        let kind = patch.kind();
        let message = format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}");
        return Err(PatchError::Malformed(message));
    };
    let target = target.as_object().cloned().unwrap_or_default();
    merge_map(target, patch, PatchSchema::Object(schema)).map(Value::Object)
}

#[cfg(test)]
mod tests;
