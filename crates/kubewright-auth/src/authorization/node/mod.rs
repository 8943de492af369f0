//! The authorization mode `Node`: what the kubelet of a node needs.
//!
//! A kubelet is the user `system:node:NAME` of the group `system:nodes`. It may read the secrets,
//! config maps, claims, volumes and service accounts that the pods of its node use, and no others.
//! kube-apiserver keeps a graph of all these references. This server has an index of pods by node,
//! and looks at the pods of one node: there are rarely more than a hundred.

mod references;
mod rules;

use kubewright_core::FieldSelector;
use kubewright_objects::lookup::ObjectReader;

pub use references::node_term;

use super::action::{Action, ResourceAction};
use super::opinion::Opinion;
use crate::User;
use references::NodeObjects;

/// The namespace of the leases of nodes.
const LEASES: &str = "kube-node-lease";

/// Decides for kubelets, and has no opinion about other users.
pub(super) fn decide(objects: &dyn ObjectReader, user: &User, action: Action<'_>) -> Opinion {
    let Some(node) = user.name.strip_prefix("system:node:").filter(|_| user.is_in("system:nodes")) else {
        return Opinion::None(String::new());
    };
    if node.is_empty() {
        return Opinion::None(format!("unknown node for user {:?}", user.name.as_str()));
    }
    let Action::Resource(action) = action else { return Opinion::None(String::new()) };
    let decided = Kubelet { node, objects: NodeObjects { objects, node } }.decide(action);
    match decided {
        Ok(()) => Opinion::Allow(String::new()),
        Err(why) => Opinion::None(why),
    }
}

/// A kubelet that wants to act.
struct Kubelet<'a> {
    node: &'a str,
    objects: NodeObjects<'a>,
}

impl Kubelet<'_> {
    fn decide(&self, action: ResourceAction<'_>) -> Result<(), String> {
        let ResourceAction { verb, subresource, namespace, name, .. } = action;
        let is_read = matches!(verb, "get" | "list" | "watch");
        match (action.group, action.resource) {
            ("", "secrets") => {
                readable(action)?;
                self.related(name, || self.objects.use_secret(namespace, name))
            }
            ("", "configmaps") => {
                readable(action)?;
                self.related(name, || self.objects.use_config_map(namespace, name))
            }
            ("", "persistentvolumeclaims") => {
                if subresource != "status" {
                    gettable(action)?;
                } else if !matches!(verb, "update" | "patch") {
                    return Err("can only get/update/patch this type".to_owned());
                }
                self.related(name, || self.objects.use_claim(namespace, name))
            }
            ("", "persistentvolumes") => {
                gettable(action)?;
                self.related(name, || self.objects.use_volume(name))
            }
            ("", "serviceaccounts") => {
                if verb == "get" && subresource.is_empty() {
                    readable(action)?;
                } else if verb != "create" || name.is_empty() {
                    return Err("can only create tokens for individual service accounts".to_owned());
                } else if subresource != "token" {
                    return Err("can only create token subresource of serviceaccount".to_owned());
                }
                self.related(name, || self.objects.use_service_account(namespace, name))
            }
            ("resource.k8s.io", "resourceclaims") => {
                gettable(action)?;
                self.related(name, || self.objects.use_resource_claim(namespace, name))
            }
            ("resource.k8s.io", "resourceslices") => self.decide_resource_slice(action),
            ("storage.k8s.io", "volumeattachments") => {
                gettable(action)?;
                self.related(name, || self.objects.owns_by("volumeattachments.storage.k8s.io", "", name, "nodeName"))
            }
            ("storage.k8s.io", "csinodes") => {
                own_verb(verb, "a CSINode")?;
                if !subresource.is_empty() {
                    return Err("cannot authorize CSINode subresources".to_owned());
                }
                self.own(verb, name, "can only access CSINode with the same name as the requesting node")
            }
            ("coordination.k8s.io", "leases") => {
                own_verb(verb, "a node lease")?;
                if namespace != LEASES {
                    return Err(format!("can only access leases in the {LEASES:?} system namespace"));
                }
                self.own(verb, name, "can only access node lease with the same name as the requesting node")
            }
            ("", "nodes") => match (subresource, verb) {
                ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
                ("", _) if is_read && name == self.node => Ok(()),
                ("", _) if is_read && name.is_empty() => {
                    Err(format!("node '{}' cannot read all nodes, only its own Node object", self.node))
                }
                ("", _) if is_read => {
                    Err(format!("node '{}' cannot read '{name}', only its own Node object", self.node))
                }
                _ => Err(String::new()),
            },
            ("", "pods") => match (subresource, verb) {
                ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
                ("", "get") => self.related(name, || self.objects.has_pod(namespace, name)),
                ("", "list" | "watch") if self.selects(action.field_selector, "spec.nodeName") => Ok(()),
                ("", "list" | "watch") if !name.is_empty() => {
                    self.related(name, || self.objects.has_pod(namespace, name))
                }
                ("", "list" | "watch") => Err("can only list/watch pods with spec.nodeName field selector".to_owned()),
                _ => Err(String::new()),
            },
            ("certificates.k8s.io", "podcertificaterequests") => self.decide_pod_certificate_request(action),
            _ if rules::allow(action) => Ok(()),
            _ => Err(String::new()),
        }
    }

    fn decide_resource_slice(&self, action: ResourceAction<'_>) -> Result<(), String> {
        if !action.subresource.is_empty() {
            return Err("cannot authorize ResourceSlice subresources".to_owned());
        }
        let name = action.name;
        match action.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => {
                self.related(name, || self.objects.owns_by("resourceslices.resource.k8s.io", "", name, "nodeName"))
            }
            "watch" | "list" | "deletecollection" if self.selects(action.field_selector, "spec.nodeName") => Ok(()),
            "watch" | "list" | "deletecollection" => {
                Err("can only list/watch/deletecollection resourceslices with nodeName field selector".to_owned())
            }
            _ => Err("only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, \
                      patch, delete, deletecollection"
                .to_owned()),
        }
    }

    fn decide_pod_certificate_request(&self, action: ResourceAction<'_>) -> Result<(), String> {
        let ResourceAction { verb, namespace, name, .. } = action;
        if !action.subresource.is_empty() {
            return Err("nodes may not access the status subresource of PodCertificateRequests".to_owned());
        }
        let resource = "podcertificaterequests.certificates.k8s.io";
        match verb {
            "create" => Ok(()),
            "get" => self.related(name, || self.objects.owns_by(resource, namespace, name, "nodeName")),
            "list" | "watch" if self.selects(action.field_selector, "spec.nodeName") => Ok(()),
            "list" | "watch" => {
                Err("can only list/watch podcertificaterequests with nodeName field selector".to_owned())
            }
            _ => Err(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    /// Whether a field selector requires this node.
    fn selects(&self, selector: Option<&FieldSelector>, field: &str) -> bool {
        selector.and_then(|selector| selector.requires_exact_match(field)) == Some(self.node)
    }

    /// Requires that the object `name` has to do with the node.
    fn related(&self, name: &str, is_related: impl FnOnce() -> bool) -> Result<(), String> {
        if name.is_empty() {
            return Err("No Object name found".to_owned());
        }
        if is_related() {
            return Ok(());
        }
        Err(format!("no relationship found between node '{}' and this object", self.node))
    }

    /// Requires the object of the node itself. The name of a new object is not known yet.
    fn own(&self, verb: &str, name: &str, why: &str) -> Result<(), String> {
        if verb == "create" || name == self.node { Ok(()) } else { Err(why.to_owned()) }
    }
}

/// Requires a read of objects in a namespace.
fn readable(action: ResourceAction<'_>) -> Result<(), String> {
    if !matches!(action.verb, "get" | "list" | "watch") {
        return Err("can only read resources of this type".to_owned());
    }
    if !action.subresource.is_empty() {
        return Err("cannot read subresource".to_owned());
    }
    if action.namespace.is_empty() {
        return Err("can only read namespaced object of this type".to_owned());
    }
    Ok(())
}

/// Requires a read of one object.
fn gettable(action: ResourceAction<'_>) -> Result<(), String> {
    if action.verb != "get" {
        return Err("can only get individual resources of this type".to_owned());
    }
    if !action.subresource.is_empty() {
        return Err("cannot get subresource".to_owned());
    }
    Ok(())
}

/// Requires a verb for the object of the node itself.
fn own_verb(verb: &str, what: &str) -> Result<(), String> {
    if matches!(verb, "get" | "create" | "update" | "patch" | "delete") {
        return Ok(());
    }
    Err(format!("can only get, create, update, patch, or delete {what}"))
}
