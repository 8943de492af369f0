//! A patch is rejected, or yields an object that round-trips.
//!
//! The input is the object and the patch as JSON, with a zero byte between them.
#![no_main]

mod parts;

use std::sync::LazyLock;

use kubewright_core::Value;
use kubewright_core::scheme::TypeInfo;
use kubewright_merge::patch::{create_merge_patch, json_patch, merge_patch, strategic_merge};
use libfuzzer_sys::fuzz_target;

static POD: LazyLock<&TypeInfo> = LazyLock::new(|| {
    use kubewright_core::message::Message;
    kubewright_api::core::v1::Pod::default().scheme()
});

fuzz_target!(|input: &[u8]| {
    let [object, patch] = parts::parts(input);
    let (Ok(object), Ok(patch)) = (object.parse::<Value>(), patch.parse::<Value>()) else { return };
    for patched in [json_patch(&object, &patch), merge_patch(&object, &patch), strategic_merge(&object, &patch, *POD)] {
        let Ok(patched) = patched else { continue };
        assert_eq!(patched.to_string().parse(), Ok(patched.clone()));
        let _ = create_merge_patch(&object, &patched);
    }
});
