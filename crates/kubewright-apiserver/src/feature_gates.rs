//! Features of kube-apiserver that can be turned on and off, by the names of its feature gates.

use std::fmt;

/// A feature gate of kube-apiserver that has an effect on this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeatureGate {
    /// Large responses are compressed. On by default.
    APIResponseCompression,
    /// NodeRestriction accepts certificate requests of a kubelet for any name. Off by default.
    AllowInsecureKubeletCertificateSigningRequests,
    /// Autoscalers may scale to zero replicas. Off by default.
    HPAScaleToZero,
    /// MutatingAdmissionPolicies are applied. On by default.
    MutatingAdmissionPolicy,
    /// Front proxies may send the UID of a user. On by default.
    RemoteRequestHeaderUID,
    /// NodeRestriction checks the audience of a token that a kubelet requests. On by default.
    ServiceAccountNodeAudienceRestriction,
    /// Watches may start with the existing objects by `sendInitialEvents`. On by default.
    WatchList,
}

impl FeatureGate {
    /// All gates that have an effect.
    pub const ALL: [FeatureGate; 7] = [
        FeatureGate::APIResponseCompression,
        FeatureGate::AllowInsecureKubeletCertificateSigningRequests,
        FeatureGate::HPAScaleToZero,
        FeatureGate::MutatingAdmissionPolicy,
        FeatureGate::RemoteRequestHeaderUID,
        FeatureGate::ServiceAccountNodeAudienceRestriction,
        FeatureGate::WatchList,
    ];

    /// Whether the feature is on unless it is turned off.
    pub fn is_on_by_default(self) -> bool {
        !matches!(self, FeatureGate::AllowInsecureKubeletCertificateSigningRequests | FeatureGate::HPAScaleToZero)
    }
}

impl fmt::Display for FeatureGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The features that are on.
#[derive(Debug, Clone, Default)]
pub(crate) struct FeatureGates {
    /// Gates that differ from their defaults.
    changed: Vec<FeatureGate>,
}

impl FeatureGates {
    pub(crate) fn set(&mut self, gate: FeatureGate, is_on: bool) {
        self.changed.retain(|changed| *changed != gate);
        if gate.is_on_by_default() != is_on {
            self.changed.push(gate);
        }
    }

    pub(crate) fn contains(&self, gate: FeatureGate) -> bool {
        gate.is_on_by_default() != self.changed.contains(&gate)
    }
}
