//! Pod templates: comparison and hash.

use kubewright_api::core::v1::PodTemplateSpec;
use kubewright_core::json::Writer;

/// The label with the template hash of sets and pods.
pub(super) const HASH_LABEL: &str = "pod-template-hash";

/// Without vowels, so that no hash spells a word.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of a template and the number of collisions.
///
/// Go hashes a debug print of its structs, which cannot be reproduced; it suffices that hashes are
/// stable, short and different.
#[doc(alias = "ComputeHash")]
pub(super) fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let mut bytes = Vec::new();
    Writer::new(&mut bytes).message(template);
    if let Some(collisions) = collisions {
        bytes.extend_from_slice(&collisions.to_le_bytes());
    }
    let mut hash: u32 = 0x811c_9dc5;
    for byte in bytes {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    safe_encode(hash)
}

/// A hash as part of a name.
#[doc(alias = "SafeEncodeString")]
pub(crate) fn safe_encode(hash: u32) -> String {
    let digits = hash.to_string();
    digits.bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

/// Whether two templates are equal except for their hash label.
#[doc(alias = "EqualIgnoreHash")]
pub(super) fn are_equal(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    let without = |template: &PodTemplateSpec| {
        let mut template = template.clone();
        template.metadata.labels.remove(HASH_LABEL);
        template
    };
    without(a) == without(b)
}
