//! The IPAddress of a cluster IP, as kube-apiserver creates it.

use kubewright_core::Value;
use kubewright_net::clock;

use crate::object::{Meta, ObjectDraft, tree};
use crate::random;

/// The manager of IPAddresses that belong to Services.
const MANAGER: &str = "ipallocator.k8s.io";

/// The IPAddress of a Service.
pub(super) fn ip_address(address: &str, service: &Value) -> ObjectDraft {
    let labels = tree::map([
        ("ipaddress.kubernetes.io/ip-family", "IPv4".into()),
        ("ipaddress.kubernetes.io/managed-by", MANAGER.into()),
    ]);
    let metadata = tree::map([
        ("name", address.into()),
        ("uid", random::uid().into()),
        ("creationTimestamp", clock::now().to_string().into()),
        ("labels", labels),
    ]);
    let parent = tree::map([
        ("resource", "services".into()),
        ("namespace", service.namespace().into()),
        ("name", service.name().into()),
    ]);
    ObjectDraft::new(tree::map([
        ("kind", "IPAddress".into()),
        ("apiVersion", "networking.k8s.io/v1".into()),
        ("metadata", metadata),
        ("spec", tree::map([("parentRef", parent)])),
    ]))
}

/// Whether an IPAddress is that of a Service.
pub(super) fn belongs_to(ip_address: &Value, service: &Value) -> bool {
    let parent = |field| tree::text(ip_address, &["spec", "parentRef", field]);
    (parent("group"), parent("resource")) == ("", "services")
        && (parent("namespace"), parent("name")) == (service.namespace(), service.name())
}
