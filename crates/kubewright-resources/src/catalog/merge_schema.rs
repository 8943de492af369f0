//! The merge schema of a resource.

use kubewright_core::message::Message;
use kubewright_core::meta::v1::ObjectMeta;
use kubewright_merge::apply::MergeSchema;

use super::Resource;

impl Resource {
    /// The merge keys and list types of the resource's objects, for server-side apply.
    pub fn merge_schema(&self) -> MergeSchema<'_> {
        let metadata = ObjectMeta::default().scheme();
        let described = self.custom.as_ref().and_then(|custom| custom.version.get("schema")?.get("openAPIV3Schema"));
        match (self.entry, described) {
            (Some(entry), _) => MergeSchema::of(entry.info),
            (None, Some(schema)) => MergeSchema::described(schema, metadata),
            (None, None) => MergeSchema::custom(metadata),
        }
    }
}
