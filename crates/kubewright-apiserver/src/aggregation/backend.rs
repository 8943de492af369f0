//! The server behind an APIService: its Service, address and TLS settings.

use std::sync::Arc;

use kubewright_core::{ByteString, Str, Value};
use kubewright_net::Config;
use kubewright_net::config::{CertificateSource, ProxyChoice};
use kubewright_objects::object::{Meta, tree};

use super::availability::Unavailable;
use super::front_proxy::FrontProxy;
use super::{AggregatedServer, Connection};
use crate::registry::Registry;

/// Label of an EndpointSlice: the name of its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// How to reach the server of an APIService.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) group: Str,
    pub(super) version: Str,
    namespace: Str,
    service: Str,
    port: i64,
    /// In base64.
    ca_bundle: Str,
    insecure: bool,
}

impl Backend {
    /// The backend of an APIService. `None` if this server itself serves the group version.
    pub(super) fn of(api_service: &Value) -> Option<Self> {
        let text = |path: &[&str]| Str::from(tree::text(api_service, path));
        tree::get(api_service, &["spec", "service"]).filter(|service| !service.is_null())?;
        Some(Backend {
            group: text(&["spec", "group"]),
            version: text(&["spec", "version"]),
            namespace: text(&["spec", "service", "namespace"]),
            service: text(&["spec", "service", "name"]),
            port: tree::int(api_service, &["spec", "service", "port"]).unwrap_or(443),
            ca_bundle: text(&["spec", "caBundle"]),
            insecure: tree::get(api_service, &["spec", "insecureSkipTLSVerify"]) == Some(&Value::Bool(true)),
        })
    }

    /// The path of the discovery document of the group version.
    pub(super) fn discovery_path(&self) -> String {
        format!("/apis/{}/{}", self.group, self.version)
    }

    /// Connects to the server. Reuses the connections of `former` if the address is unchanged.
    pub(super) fn connect(
        &self,
        registry: &Registry,
        front_proxy: Option<&FrontProxy>,
        former: Option<&AggregatedServer>,
    ) -> Result<Connection, Unavailable> {
        if let Some(transport) = registry.webhook_clients.service(&self.namespace, &self.service, self.port) {
            let authority = format!("{}.{}.svc:{}", self.service, self.namespace, self.port);
            return Ok(Connection { authority, transport });
        }
        let authority = self.resolve(registry)?;
        if let Some(former) = former.filter(|former| former.backend == *self)
            && let Some(connection) = former.connection.as_ref().filter(|have| have.authority == authority)
        {
            return Ok(connection.clone());
        }
        let failed = |error: String| Unavailable { reason: "FailedDiscoveryCheck", message: error };
        let mut config = Config::new(&format!("https://{authority}")).map_err(|error| failed(error.to_string()))?;
        config.tls.insecure = self.insecure;
        config.tls.server_name = Some(format!("{}.{}.svc", self.service, self.namespace));
        if !self.ca_bundle.is_empty() {
            let bundle = ByteString::from_base64(self.ca_bundle.as_bytes());
            config.tls.authority = Some(CertificateSource::Data(bundle.map_err(|error| failed(error.to_string()))?));
        }
        config.credentials.client_certificate = front_proxy.map(FrontProxy::certificate);
        config.proxy = ProxyChoice::Direct;
        config.disable_compression = true;
        let transport = config.connect().map_err(|error| failed(error.to_string()))?;
        Ok(Connection { authority, transport: Arc::new(transport) })
    }

    /// Host and port of the server, by its Service.
    fn resolve(&self, registry: &Registry) -> Result<String, Unavailable> {
        let (name, namespace) = (&self.service, &self.namespace);
        let unavailable = |reason, message| Unavailable { reason, message };
        let not_found =
            || unavailable("ServiceNotFound", format!("service/{name} in {:?} is not present", namespace.as_str()));
        let catalog = registry.catalog();
        let services = catalog.of_storage("services").ok_or_else(not_found)?;
        let service = registry.store.get(&services.key(namespace, name)).ok_or_else(not_found)?;
        let service = service.object.tree();
        if tree::text(&service, &["spec", "type"]) == "ExternalName" {
            return Ok(format!("{}:{}", tree::text(&service, &["spec", "externalName"]), self.port));
        }
        let ports = tree::items(&service, &["spec", "ports"]);
        let port = ports.iter().find(|port| tree::int(port, &["port"]) == Some(self.port)).ok_or_else(|| {
            let namespace = namespace.as_str();
            let message = format!("service/{name} in {namespace:?} is not listening on port {}", self.port);
            unavailable("ServicePortError", message)
        })?;
        let port_name = tree::text(port, &["name"]);
        let slices = endpoint_slices(registry, namespace, name);
        if slices.is_empty() {
            let message = format!("cannot find endpointslices for service/{name} in {:?}", namespace.as_str());
            return Err(unavailable("EndpointsNotFound", message));
        }
        slices.iter().find_map(|slice| endpoint(slice, port_name)).ok_or_else(|| {
            let namespace = namespace.as_str();
            let message = format!(
                "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
            );
            unavailable("MissingEndpoints", message)
        })
    }
}

/// The endpoint slices of a Service.
fn endpoint_slices(registry: &Registry, namespace: &str, service: &str) -> Vec<Arc<Value>> {
    let catalog = registry.catalog();
    let Some(resource) = catalog.of_storage("endpointslices.discovery.k8s.io") else { return Vec::new() };
    let slices = registry.all(&resource.scope(namespace)).into_iter();
    let slices = slices.map(|entry| Arc::new(entry.object.tree().into_owned()));
    slices.filter(|slice| slice.labels().get(SERVICE_NAME).is_some_and(|name| name == service)).collect()
}

/// Host and port of a ready endpoint of a Service, for the port of this name.
pub(crate) fn endpoint_of(registry: &Registry, namespace: &str, service: &str, port_name: &str) -> Option<String> {
    endpoint_slices(registry, namespace, service).iter().find_map(|slice| endpoint(slice, port_name))
}

/// Host and port of a ready endpoint with a port of this name.
fn endpoint(slice: &Value, port_name: &str) -> Option<String> {
    let ports = tree::items(slice, &["ports"]);
    let port = ports.iter().find(|port| tree::text(port, &["name"]) == port_name)?;
    let port = tree::int(port, &["port"])?;
    let is_ready = |endpoint: &&Value| tree::get(endpoint, &["conditions", "ready"]) != Some(&Value::Bool(false));
    let endpoints = tree::items(slice, &["endpoints"]);
    let address = tree::items(endpoints.iter().find(is_ready)?, &["addresses"]).first()?.as_str()?;
    Some(if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") })
}
