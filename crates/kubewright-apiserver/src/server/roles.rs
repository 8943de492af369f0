//! The default cluster roles and their bindings, as in kube-apiserver.
//!
//! Only roles for users are included. Roles of cluster components (scheduler, controllers, nodes,
//! proxies) are not, because none of these components logs in here.

use kubewright_core::Value;

use super::StartError;
use super::reconciliation::{AUTO_UPDATE, reconcile};
use crate::registry::Registry;
use kubewright_objects::object::tree;

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const ALL: &str = "create delete deletecollection get list patch update watch";

const AUTHENTICATED: &str = "system:authenticated";

/// Verbs, API group and resources; or verbs and non-resource URLs.
enum RoleRule {
    On(&'static str, &'static str, &'static str),
    At(&'static str, &'static str),
}

use RoleRule::{At, On};

/// Name, the role that aggregates it, and rules.
const ROLES: [(&str, &str, &[RoleRule]); 10] = [
    ("cluster-admin", "", &[On("*", "*", "*"), At("*", "*")]),
    (
        "system:discovery",
        "",
        &[At("get", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/")],
    ),
    (
        "system:service-account-issuer-discovery",
        "",
        &[At(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        )],
    ),
    ("system:public-info-viewer", "", &[At("get", "/healthz /livez /readyz /version /version/")]),
    (
        "system:monitoring",
        "",
        &[At("get", "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*")],
    ),
    (
        "system:basic-user",
        "",
        &[
            On("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            On("create", "authentication.k8s.io", "selfsubjectreviews"),
        ],
    ),
    // For programs that authorize the callers of their own endpoints, such as metrics.
    (
        "system:auth-delegator",
        "",
        &[
            On("create", "authentication.k8s.io", "tokenreviews"),
            On("create", "authorization.k8s.io", "subjectaccessreviews"),
        ],
    ),
    (
        "system:aggregate-to-admin",
        "admin",
        &[
            On("create", "authorization.k8s.io", "localsubjectaccessreviews"),
            On(ALL, "rbac.authorization.k8s.io", "rolebindings roles"),
        ],
    ),
    (
        "system:aggregate-to-edit",
        "edit",
        &[
            On(READ, "", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
            On("impersonate", "", "serviceaccounts"),
            On(WRITE, "", "pods pods/attach pods/exec pods/portforward pods/proxy"),
            On("create", "", "pods/eviction"),
            On(
                WRITE,
                "",
                "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets \
                 serviceaccounts services services/proxy",
            ),
            On("create", "", "serviceaccounts/token"),
            On(
                WRITE,
                "apps",
                "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale \
                 statefulsets statefulsets/scale",
            ),
            On(WRITE, "autoscaling", "horizontalpodautoscalers"),
            On(WRITE, "batch", "cronjobs jobs"),
            On(WRITE, "policy", "poddisruptionbudgets"),
            On(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
            On(ALL, "coordination.k8s.io", "leases"),
        ],
    ),
    (
        "system:aggregate-to-view",
        "view",
        &[
            On(
                READ,
                "",
                "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers \
                 replicationcontrollers/scale serviceaccounts services services/status",
            ),
            On(
                READ,
                "",
                "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status \
                 resourcequotas resourcequotas/status",
            ),
            On(READ, "", "namespaces"),
            On(READ, "discovery.k8s.io", "endpointslices"),
            On(
                READ,
                "apps",
                "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status \
                 replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
            ),
            On(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
            On(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
            On(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
            On(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
        ],
    ),
];

/// Aggregated roles, and the role that aggregates each of them in turn.
const COLLECTING: [(&str, &str); 3] = [("admin", ""), ("edit", "admin"), ("view", "edit")];

/// Roles and the groups that they are bound to.
const BINDINGS: [(&str, &[&str]); 6] = [
    ("cluster-admin", &["system:masters"]),
    ("system:basic-user", &[AUTHENTICATED]),
    ("system:discovery", &[AUTHENTICATED]),
    ("system:monitoring", &["system:monitoring"]),
    ("system:service-account-issuer-discovery", &["system:serviceaccounts"]),
    ("system:public-info-viewer", &[AUTHENTICATED, "system:unauthenticated"]),
];

/// Creates the default roles and bindings, or reconciles the stored ones.
pub(super) fn reconcile_roles(registry: &Registry) -> Result<(), StartError> {
    let roles = ROLES.iter().map(|(name, collected_by, rules)| {
        let mut role = object("ClusterRole", name, collected_by);
        tree::set(&mut role, &["rules"], Value::Array(rules.iter().map(rule).collect()));
        role
    });
    let collecting = COLLECTING.iter().map(|(name, collected_by)| {
        let mut role = object("ClusterRole", name, collected_by);
        let labels = [(&*collecting_label(name), Value::from("true"))].into_iter().collect();
        let selector = tree::map([("matchLabels", Value::Object(labels))]);
        let selectors = Value::Array([selector].into_iter().collect());
        tree::set(&mut role, &["aggregationRule", "clusterRoleSelectors"], selectors);
        role
    });
    let bindings = BINDINGS.iter().map(|(name, groups)| {
        let mut binding = object("ClusterRoleBinding", name, "");
        let group = Value::from("rbac.authorization.k8s.io");
        let reference = [("apiGroup", group.clone()), ("kind", "ClusterRole".into()), ("name", Value::from(*name))];
        tree::set(&mut binding, &["roleRef"], tree::map(reference));
        let subjects = groups.iter().map(|name| {
            tree::map([("apiGroup", group.clone()), ("kind", "Group".into()), ("name", Value::from(*name))])
        });
        tree::set(&mut binding, &["subjects"], Value::Array(subjects.collect()));
        binding
    });
    for object in collecting.chain(roles).chain(bindings) {
        reconcile(registry, &object).map_err(|message| StartError::Preload { message })?;
    }
    Ok(())
}

fn object(kind: &str, name: &str, collected_by: &str) -> Value {
    let mut object = tree::map([("apiVersion", "rbac.authorization.k8s.io/v1".into()), ("kind", kind.into())]);
    tree::set(&mut object, &["metadata", "name"], name);
    tree::set(&mut object, &["metadata", "annotations", AUTO_UPDATE], "true");
    tree::set(&mut object, &["metadata", "labels", "kubernetes.io/bootstrapping"], "rbac-defaults");
    if !collected_by.is_empty() {
        tree::set(&mut object, &["metadata", "labels", &collecting_label(collected_by)], "true");
    }
    object
}

fn collecting_label(role: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{role}")
}

fn rule(rule: &RoleRule) -> Value {
    let words = |text: &'static str| tree::list(text.split_whitespace());
    match rule {
        On(verbs, group, resources) => {
            tree::map([("verbs", words(verbs)), ("apiGroups", tree::list([*group])), ("resources", words(resources))])
        }
        At(verbs, paths) => tree::map([("verbs", words(verbs)), ("nonResourceURLs", words(paths))]),
    }
}
