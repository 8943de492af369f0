//! The names of admission plugins, and the set of enabled ones.

use std::fmt;
use std::str::FromStr;

/// An admission plugin that can be turned on and off, under the name that kube-apiserver gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmissionPlugin {
    /// Signers are approved only by users with the permission for them.
    CertificateApproval,
    /// Certificates are issued only by users with the permission for the signer.
    CertificateSigning,
    /// Ingresses without a class get the default one.
    DefaultIngressClass,
    /// Claims without a storage class get the default one.
    DefaultStorageClass,
    /// Pods tolerate nodes that are not ready or unreachable for five minutes.
    DefaultTolerationSeconds,
    /// LimitRanges.
    LimitRanger,
    /// MutatingAdmissionPolicies.
    MutatingAdmissionPolicy,
    /// Mutating webhooks.
    MutatingAdmissionWebhook,
    /// No objects are created in namespaces that are missing or terminating.
    NamespaceLifecycle,
    /// Kubelets change their own node and the pods on it only. Off by default, as in
    /// kube-apiserver.
    NodeRestriction,
    /// Claims grow only if their storage class allows it.
    PersistentVolumeClaimResize,
    /// Pod Security Standards.
    PodSecurity,
    /// PriorityClasses.
    Priority,
    /// ResourceQuotas.
    ResourceQuota,
    /// RuntimeClasses.
    RuntimeClass,
    /// Pods get the service account `default` and its token. Off by default, as in envtest.
    ServiceAccount,
    /// New nodes are tainted as not ready.
    TaintNodesByCondition,
    /// ValidatingAdmissionPolicies.
    ValidatingAdmissionPolicy,
    /// Validating webhooks.
    ValidatingAdmissionWebhook,
}

impl AdmissionPlugin {
    /// All plugins that can be turned on and off.
    pub const ALL: [AdmissionPlugin; 19] = [
        AdmissionPlugin::CertificateApproval,
        AdmissionPlugin::CertificateSigning,
        AdmissionPlugin::DefaultIngressClass,
        AdmissionPlugin::DefaultStorageClass,
        AdmissionPlugin::DefaultTolerationSeconds,
        AdmissionPlugin::LimitRanger,
        AdmissionPlugin::MutatingAdmissionPolicy,
        AdmissionPlugin::MutatingAdmissionWebhook,
        AdmissionPlugin::NamespaceLifecycle,
        AdmissionPlugin::NodeRestriction,
        AdmissionPlugin::PersistentVolumeClaimResize,
        AdmissionPlugin::PodSecurity,
        AdmissionPlugin::Priority,
        AdmissionPlugin::ResourceQuota,
        AdmissionPlugin::RuntimeClass,
        AdmissionPlugin::ServiceAccount,
        AdmissionPlugin::TaintNodesByCondition,
        AdmissionPlugin::ValidatingAdmissionPolicy,
        AdmissionPlugin::ValidatingAdmissionWebhook,
    ];
}

impl fmt::Display for AdmissionPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The name of a plugin that this server cannot turn on or off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPlugin {
    name: String,
}

impl fmt::Display for UnknownPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = AdmissionPlugin::ALL.map(|plugin| plugin.to_string()).join(", ");
        write!(f, "admission plugin {:?} is unknown; known are {known}", self.name)
    }
}

impl std::error::Error for UnknownPlugin {}

impl FromStr for AdmissionPlugin {
    type Err = UnknownPlugin;

    fn from_str(name: &str) -> Result<Self, UnknownPlugin> {
        let found = AdmissionPlugin::ALL.into_iter().find(|plugin| plugin.to_string() == name);
        found.ok_or_else(|| UnknownPlugin { name: name.to_owned() })
    }
}

/// The plugins that run.
#[derive(Debug, Clone)]
pub(crate) struct EnabledPlugins {
    disabled: Vec<AdmissionPlugin>,
}

impl Default for EnabledPlugins {
    fn default() -> Self {
        EnabledPlugins { disabled: vec![AdmissionPlugin::NodeRestriction, AdmissionPlugin::ServiceAccount] }
    }
}

impl EnabledPlugins {
    pub(crate) fn contains(&self, plugin: AdmissionPlugin) -> bool {
        !self.disabled.contains(&plugin)
    }

    pub(crate) fn enable(&mut self, plugin: AdmissionPlugin) {
        self.disabled.retain(|disabled| *disabled != plugin);
    }

    pub(crate) fn disable(&mut self, plugin: AdmissionPlugin) {
        self.enable(plugin);
        self.disabled.push(plugin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_have_the_names_of_kube_apiserver() {
        for plugin in AdmissionPlugin::ALL {
            assert_eq!(plugin.to_string().parse(), Ok(plugin));
        }
        let error = "NoSuchPlugin".parse::<AdmissionPlugin>().unwrap_err().to_string();
        assert!(error.starts_with(r#"admission plugin "NoSuchPlugin" is unknown; known are CertificateApproval, "#));
    }

    #[test]
    fn the_last_setting_of_a_plugin_wins() {
        let mut plugins = EnabledPlugins::default();
        assert!(!plugins.contains(AdmissionPlugin::ServiceAccount) && plugins.contains(AdmissionPlugin::Priority));
        plugins.enable(AdmissionPlugin::ServiceAccount);
        plugins.disable(AdmissionPlugin::Priority);
        assert!(plugins.contains(AdmissionPlugin::ServiceAccount) && !plugins.contains(AdmissionPlugin::Priority));
    }
}
