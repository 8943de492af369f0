//! Finalizers: names that delay the deletion of an object until its cleanup is done.

use crate::Str;
use crate::meta::v1::ObjectMeta;

/// Whether the object has this finalizer.
#[doc(alias = "ContainsFinalizer")]
#[inline]
pub fn contains_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().any(|have| have == finalizer)
}

/// Adds a finalizer, unless the object has it; returns whether it was added.
///
/// ```
/// use kubewright_core::finalizer::{add_finalizer, contains_finalizer, remove_finalizer};
/// # let mut meta = kubewright_core::meta::v1::ObjectMeta::default();
/// assert!(add_finalizer(&mut meta, "example.com/cleanup"));
/// assert!(!add_finalizer(&mut meta, "example.com/cleanup"));
/// assert!(remove_finalizer(&mut meta, "example.com/cleanup"));
/// assert!(!contains_finalizer(&meta, "example.com/cleanup"));
/// ```
#[doc(alias = "AddFinalizer")]
pub fn add_finalizer(meta: &mut ObjectMeta, finalizer: impl Into<Str>) -> bool {
    let finalizer = finalizer.into();
    let is_new = !contains_finalizer(meta, &finalizer);
    if is_new {
        meta.finalizers.push(finalizer);
    }
    is_new
}

/// Removes a finalizer; returns whether it was present.
#[doc(alias = "RemoveFinalizer")]
#[inline]
pub fn remove_finalizer(meta: &mut ObjectMeta, finalizer: &str) -> bool {
    let before = meta.finalizers.len();
    meta.finalizers.retain(|have| have != finalizer);
    meta.finalizers.len() < before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_keep_their_order() {
        let mut meta = ObjectMeta { finalizers: ["a", "b", "a"].map(Str::from).into(), ..Default::default() };
        assert!(add_finalizer(&mut meta, "c") && !add_finalizer(&mut meta, "b"));
        assert!(remove_finalizer(&mut meta, "a") && !remove_finalizer(&mut meta, "a"));
        assert_eq!(meta.finalizers.to_vec(), ["b", "c"]);
    }
}
