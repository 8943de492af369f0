//! The resource metrics API (`metrics.k8s.io`) of simulated pods.
//!
//! In a cluster, metrics-server answers it from what kubelets measure. Here the usage is that of
//! [`nodes::usage`](crate::nodes::usage). `kubectl top` and horizontal pod autoscalers read it.
//!
//! It is an aggregated API server without a socket: the owner of the API server connects it under
//! [`MetricsServer::AUTHORITY`], and [`MetricsServer::register`] creates its APIService.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response};
use kubewright_api::core::v1::{Node, Pod};
use kubewright_cache::Lister;
use kubewright_client::transport::{Body, ResponseFuture, Transport};
use kubewright_client::{Client, clock};
use kubewright_core::meta::v1::Status;
use kubewright_core::options::{ApplyOptions, ListOptions, QueryParameters};
use kubewright_core::{
    DynamicObject, GroupResource, Object, Quantity, QuantityFormat, Selector, Str, Value, json, tree,
};

use crate::context::ControllerContext;
use crate::error::Error;
use crate::nodes::usage;

const GROUP: &str = "metrics.k8s.io";
const API_VERSION: &str = "metrics.k8s.io/v1beta1";
/// The path of the group version.
const ROOT: &str = "/apis/metrics.k8s.io/v1beta1";
/// The period over which usage is measured.
const WINDOW: &str = "15s";
/// The field manager of the registration.
const MANAGER: &str = "kubewright-metrics-server";

/// Answers requests for `metrics.k8s.io`. Clones share the caches.
#[derive(Debug, Clone)]
pub struct MetricsServer {
    pods: Lister<Pod>,
    nodes: Lister<Node>,
}

impl MetricsServer {
    /// The authority of its Service, under which the API server reaches it.
    pub const AUTHORITY: &'static str = "metrics-server.kube-system.svc:443";

    /// A metrics server over the caches of these controllers. It answers with an empty list until
    /// they have synced.
    pub fn new(context: &ControllerContext) -> Self {
        let factory = context.factory();
        MetricsServer { pods: factory.informer::<Pod>().lister(), nodes: factory.informer::<Node>().lister() }
    }

    /// Creates the Service and the APIService, or updates them.
    ///
    /// # Errors
    /// If the server refuses one of them.
    pub async fn register(client: &Client) -> Result<(), Error> {
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "metrics-server", "namespace": "kube-system", "labels": {"k8s-app": "metrics-server"}},
            "spec": {"ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": "https"}]},
        });
        let api_service = json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io", "labels": {"k8s-app": "metrics-server"}},
            "spec": {
                "group": GROUP,
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {"namespace": "kube-system", "name": "metrics-server", "port": 443},
            },
        });
        let mapper = client.rest_mapper();
        for value in [service, api_service] {
            let object = DynamicObject::try_from(value).expect("it is written above");
            mapper.api_of(&object).await?.apply(&object, &ApplyOptions::new(MANAGER).force()).await?;
        }
        Ok(())
    }

    fn answer(&self, request: &Request<Bytes>) -> Result<Value, Box<Status>> {
        let path = request.uri().path();
        let unknown = || Box::new(Status::from_code(404, "", &GroupResource::default(), "", ""));
        let rest = path.strip_prefix(ROOT).ok_or_else(unknown)?;
        if request.method() != Method::GET {
            let method = request.method().as_str().to_lowercase();
            return Err(Box::new(Status::from_code(405, &method, &GroupResource::default(), "", "")));
        }
        let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
        let query = QueryParameters::parse(request.uri().query().unwrap_or_default());
        match parts[..] {
            [] => Ok(resources()),
            ["nodes"] => {
                let options = ListOptions::from_query(&query)?;
                let nodes = self.nodes.list(&options.label_selector);
                let is_selected = |node: &&Arc<Node>| is_selected(&options, node.name(), "");
                Ok(list("NodeMetricsList", nodes.iter().filter(is_selected).map(|node| self.of_node(node))))
            }
            ["nodes", name] => match self.nodes.get(name) {
                Some(node) => Ok(self.of_node(&node)),
                None => Err(not_found("nodes", name)),
            },
            ["pods"] => self.list_pods(None, &query),
            ["namespaces", namespace, "pods"] => self.list_pods(Some(namespace), &query),
            ["namespaces", namespace, "pods", name] => {
                let pod = self.pods.namespace(Str::from(namespace)).get(name);
                // A pod that does not run has no metrics.
                let metrics = pod.and_then(|pod| of_pod(&pod));
                metrics.ok_or_else(|| not_found("pods", &format!("{namespace}/{name}")))
            }
            _ => Err(unknown()),
        }
    }

    fn list_pods(&self, namespace: Option<&str>, query: &QueryParameters) -> Result<Value, Box<Status>> {
        let options = ListOptions::from_query(query)?;
        let pods = match namespace {
            Some(namespace) => self.pods.namespace(Str::from(namespace)).list(&options.label_selector),
            None => self.pods.list(&options.label_selector),
        };
        let selected = pods.iter().filter(|pod| is_selected(&options, pod.name(), pod.namespace()));
        Ok(list("PodMetricsList", selected.filter_map(|pod| of_pod(pod))))
    }

    /// The metrics of a node: the sum of its pods.
    fn of_node(&self, node: &Node) -> Value {
        let pods = self.pods.list(&Selector::everything());
        let is_here =
            |pod: &&Arc<Pod>| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node.name());
        let (mut cpu, mut memory) = (0, 0);
        for container in pods.iter().filter(is_here).flat_map(|pod| usage(pod)) {
            cpu += container.cpu.milli_value();
            memory += container.memory.value();
        }
        let cpu = Quantity::from_scaled(cpu, -3);
        let memory = Quantity::from(memory).with_format(QuantityFormat::BinarySi);
        let mut metrics = measured("NodeMetrics", node.name(), "", &node.metadata.labels);
        tree::set(&mut metrics, &["usage"], amounts(&cpu, &memory));
        metrics
    }
}

impl Transport for MetricsServer {
    fn send(&self, request: Request<Bytes>) -> ResponseFuture {
        let mut body = Vec::new();
        let code = match self.answer(&request) {
            Ok(value) => {
                body.extend(value.to_string().into_bytes());
                200
            }
            Err(status) => {
                json::Writer::new(&mut body).as_server().object(&*status);
                status.code.and_then(|code| u16::try_from(code).ok()).unwrap_or(500)
            }
        };
        body.push(b'\n');
        let chunk = std::iter::once(Ok(Bytes::from(body)));
        let mut response = Response::new(Body::new(futures_util::stream::iter(chunk)));
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Box::pin(async move { Ok(response) })
    }
}

/// The discovery document.
fn resources() -> Value {
    let resource = |name: &str, namespaced: bool, kind: &str| json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]});
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [resource("nodes", false, "NodeMetrics"), resource("pods", true, "PodMetrics")],
    })
}

/// Whether the field selector of a list selects an object.
fn is_selected(options: &ListOptions, name: &str, namespace: &str) -> bool {
    options.field_selector.matches(|field| match field {
        "metadata.name" => Some(name),
        "metadata.namespace" => Some(namespace),
        _ => None,
    })
}

/// The metrics of a pod; `None` if no container runs.
fn of_pod(pod: &Pod) -> Option<Value> {
    let containers = usage(pod);
    if containers.is_empty() {
        return None;
    }
    let mut metrics = measured("PodMetrics", pod.name(), pod.namespace(), &pod.metadata.labels);
    let containers = containers.iter().map(|container| {
        let usage = amounts(&container.cpu, &container.memory.clone().with_format(QuantityFormat::BinarySi));
        json!({"name": container.container.as_str(), "usage": usage})
    });
    tree::set(&mut metrics, &["containers"], Value::Array(containers.collect()));
    Some(metrics)
}

/// An object of metrics that were measured now.
fn measured(kind: &str, name: &str, namespace: &str, labels: &kubewright_core::Map<Str>) -> Value {
    let now = clock::now().to_string();
    let mut metadata = json!({"name": name, "creationTimestamp": now.as_str()});
    if !namespace.is_empty() {
        tree::set(&mut metadata, &["namespace"], namespace);
    }
    if !labels.is_empty() {
        let labels = labels.iter().map(|(name, value)| (name.clone(), Value::from(value.clone())));
        tree::set(&mut metadata, &["labels"], Value::Object(labels.collect()));
    }
    json!({"kind": kind, "apiVersion": API_VERSION, "metadata": metadata, "timestamp": now.as_str(), "window": WINDOW})
}

fn amounts(cpu: &Quantity, memory: &Quantity) -> Value {
    json!({"cpu": cpu.to_string(), "memory": memory.to_string()})
}

fn list(kind: &str, items: impl Iterator<Item = Value>) -> Value {
    json!({"kind": kind, "apiVersion": API_VERSION, "metadata": {}, "items": Value::Array(items.collect())})
}

fn not_found(resource: &str, name: &str) -> Box<Status> {
    Box::new(Status::not_found(&GroupResource::new(GROUP, resource), name))
}
