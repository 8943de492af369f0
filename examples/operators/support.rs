//! Clusters with the manifests of an operator, and clients with its permissions.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::Request;
use kubewright::api::apiextensions::v1::CustomResourceDefinition;
use kubewright::api::rbac::v1::PolicyRule;
use kubewright::apiserver::ApiServer;
use kubewright::client::rest::Impersonation;
use kubewright::client::transport::ResponseFuture;
use kubewright::runtime::testing::TestCluster;
use kubewright::{Client, Decoder, Object, Value, yaml};

/// A server with the objects of these manifests.
pub async fn cluster(manifests: &[&str]) -> TestCluster {
    let server = manifests.iter().fold(ApiServer::in_memory(), |server, manifest| server.preload(*manifest));
    TestCluster::over(server.start().await.expect("the manifests are valid"))
}

/// A request, as RBAC sees it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Action {
    verb: &'static str,
    group: String,
    /// With its subresource, such as `widgets/status`.
    resource: String,
    namespace: String,
}

/// The requests of a service account.
#[derive(Clone, Default)]
pub struct Audit {
    allowed: Arc<Mutex<BTreeSet<Action>>>,
    denied: Arc<Mutex<BTreeSet<Action>>>,
    is_cut: Arc<AtomicBool>,
}

/// A client of the service account `name` in the namespace `name`, and a record of its requests.
pub fn operator(cluster: &TestCluster, name: &str) -> (Client, Audit) {
    let (server, audit) = (cluster.server().client(), Audit::default());
    let recorded = audit.clone();
    let client = Client::over(move |request: Request<Bytes>| -> ResponseFuture {
        if recorded.is_cut.load(Ordering::Relaxed) {
            return Box::pin(std::future::pending());
        }
        let action = Action::of(request.method().as_str(), request.uri().path(), request.uri().query().unwrap_or(""));
        let (response, audit) = (server.transport().send(request), recorded.clone());
        Box::pin(async move {
            let response = response.await?;
            let actions = if response.status() == 403 { &audit.denied } else { &audit.allowed };
            let is_created = response.status() == 201;
            if let Some(action) = action {
                let mut actions = lock(actions);
                if is_created {
                    // A server-side apply that creates an object needs this permission, too.
                    actions.insert(Action { verb: "create", ..action.clone() });
                }
                actions.insert(action);
            }
            Ok(response)
        })
    });
    let user = Impersonation::user(format!("system:serviceaccount:{name}:{name}"));
    (client.namespace(name).add_user_agent(name).impersonate(user), audit)
}

impl Action {
    /// The action on a resource; `None` for other requests, such as discovery.
    fn of(method: &str, path: &str, query: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) = match parts[..] {
            ["api", _, ref rest @ ..] => ("", rest),
            ["apis", group, _, ref rest @ ..] => (group, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            // A namespace is in itself.
            ["namespaces", name] => (*name, rest),
            _ => ("", rest),
        };
        let (resource, has_name) = match rest {
            [resource] => (resource.to_string(), false),
            [resource, _] => (resource.to_string(), true),
            [resource, _, subresource] => (format!("{resource}/{subresource}"), true),
            _ => return None,
        };
        let verb = match method {
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if has_name => "delete",
            "DELETE" => "deletecollection",
            _ if has_name => "get",
            _ if query.contains("watch=") => "watch",
            _ => "list",
        };
        Some(Action { verb, group: group.to_owned(), resource, namespace: namespace.to_owned() })
    }
}

impl Audit {
    /// From now on, requests get no answer, as those of a process that is killed or cut off.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// The namespaces of all requests; empty for cluster-wide ones.
    pub fn namespaces(&self) -> BTreeSet<String> {
        let (allowed, denied) = (lock(&self.allowed), lock(&self.denied));
        allowed.iter().chain(&*denied).map(|action| action.namespace.clone()).collect()
    }

    /// Asserts that the operator has used each permission of these manifests, and lacked none.
    pub fn assert_exact(&self, manifest: &str) {
        let denied = lock(&self.denied);
        assert!(denied.is_empty(), "denied: {denied:#?}");
        let allowed = lock(&self.allowed);
        for object in yaml::objects(manifest).expect("valid YAML") {
            for rule in object.get(&["rules"]).iter().flat_map(|rules| rules.as_array().into_iter().flatten()) {
                let rule: PolicyRule = Decoder::new().json(rule.to_string().as_bytes()).expect("a valid rule");
                let of_resource = |group: &str, resource: &str, verb: &str| {
                    allowed.iter().any(|action| {
                        let namespace = object.namespace();
                        // Each way to read is granted with the others: a list of older servers, and
                        // the reads after a conflict.
                        let is_read = |verb: &str| ["get", "list", "watch"].contains(&verb);
                        // A recorder changes an event only if it repeats soon after.
                        let is_event = |verb: &str| resource == "events" && ["create", "patch"].contains(&verb);
                        let is_verb = action.verb == verb
                            || (is_read(verb) && is_read(action.verb))
                            || (is_event(verb) && is_event(action.verb));
                        let is_here = namespace.is_empty() || action.namespace == namespace;
                        is_verb && is_here && action.group == group && action.resource == resource
                    })
                };
                for group in rule.api_groups.iter() {
                    for resource in rule.resources.iter() {
                        for verb in rule.verbs.iter() {
                            assert!(
                                of_resource(group, resource, verb),
                                "{} permits {verb} of {resource} in group {group:?}, which is not used: {allowed:#?}",
                                object.key()
                            );
                        }
                    }
                }
            }
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asserts that a manifest is this definition. With `UPDATE_MANIFESTS=1` it is written instead.
pub fn assert_written(path: &str, manifest: &str, definition: &CustomResourceDefinition) {
    let mut text = String::new();
    yaml::write(&Value::from_json(&definition.to_json()).expect("valid JSON"), &mut text);
    if std::env::var_os("UPDATE_MANIFESTS").is_some() {
        let file = format!("{}/operators/{path}", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(file, text).expect("the folder exists");
    } else {
        assert_eq!(manifest, text, "run: UPDATE_MANIFESTS=1 cargo test -p kubewright-examples --test operators");
    }
}
