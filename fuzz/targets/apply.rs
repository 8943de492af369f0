//! Any configuration applies to any object with any managed fields, or is rejected.
//!
//! The input is the object, the configuration and the managed fields, with zero bytes between them.
//! The configuration is YAML, the others are JSON.
#![no_main]

mod parts;

use kubewright_core::message::Message;
use kubewright_core::Value;
use kubewright_yaml as yaml;
use kubewright_merge::apply::{FieldSet, ManagedFieldsOperation, ManagerIdentifier, Managers, MergeSchema};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [live, config, managed] = parts::parts(input);
    let (Ok(live), Ok(config)) = (live.parse::<Value>(), yaml::parse(config)) else { return };
    let managed: Value = managed.parse().unwrap_or_default();
    let pod = kubewright_api::core::v1::Pod::default().scheme();
    let [name, api_version] = ["fuzz", "v1"].map(Into::into);
    let manager =
        ManagerIdentifier { name, operation: ManagedFieldsOperation::Apply, api_version, subresource: "".into() };
    for schema in [MergeSchema::of(pod), MergeSchema::custom(&kubewright_core::meta::v1::OBJECT_META)] {
        let mut managers = Managers::from_value(&managed).unwrap_or_default();
        let applied = managers.apply(&live, &config.value, schema, &FieldSet::new(), &manager, true, None);
        if applied.is_ok() {
            let again = managers.to_value().map(|value| Managers::from_value(&value).expect("we wrote it"));
            assert_eq!(again.and_then(|managers| managers.to_value()), managers.to_value());
        }
    }
});
