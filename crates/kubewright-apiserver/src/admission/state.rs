//! The registry as admission sees it.

use kubewright_core::Value;
use kubewright_storage::{KeyRange, Page, StoreListOptions};

use super::plugins::AdmissionPlugin;
use crate::feature_gates::FeatureGate;
use kubewright_auth::authorization::AuthorizationReader;
use kubewright_objects::object::StoredObject;
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;

/// The state of the cluster, as admission reads it.
///
/// Parts of admission that keep an index of their own extend it: [`ServiceState`], [`QuotaState`]
/// and [`ControlState`].
///
/// [`ServiceState`]: super::allocation::ServiceState
/// [`QuotaState`]: super::quota::QuotaState
/// [`ControlState`]: super::control::ControlState
pub(crate) trait ClusterState: AuthorizationReader {
    /// Whether a feature is on.
    fn has_feature(&self, gate: FeatureGate) -> bool;

    /// Whether an admission plugin runs.
    fn has_plugin(&self, plugin: AdmissionPlugin) -> bool;

    /// A part of the objects of a scope. None if the revision of an earlier part is too old.
    fn page(&self, scope: &KeyRange, options: StoreListOptions) -> Option<Page<StoredObject>>;

    /// Changes an object on behalf of the server, without admission.
    ///
    /// # Errors
    ///
    /// The object does not exist, or `change` refuses.
    fn change_object(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        change: &mut dyn FnMut(&Value) -> Result<Value, Rejection>,
    ) -> Result<(), Rejection>;
}
