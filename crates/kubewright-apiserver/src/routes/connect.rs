//! Connect subresources and logs: the kubelet or the pod answers, over the network of the cluster.
//!
//! Where kube-apiserver dials, this server asks the transport of
//! [`connect_network`](crate::RunningServer::connect_network). Without one, no node runs anything.

use kubewright_core::Value;
use kubewright_core::meta::v1::Status;
use kubewright_net::transport::{Body, Upgrade};
use kubewright_streaming::location::{self, Location};
use kubewright_streaming::{handshake, options, proxy};

use super::ResourceRequest;
use crate::admission::control::Operation;
use crate::aggregation;
use crate::http::ApiResponse;
use kubewright_auth::authorization::{self, Action, ResourceAction};
use kubewright_objects::object::tree;
use kubewright_objects::rejection::{Rejection, retry_with_answers};
use kubewright_resources::catalog::Subresource;

impl ResourceRequest<'_, '_> {
    /// Runs admission for the connect options in the query, then connects.
    ///
    /// As in the real server, admission precedes the lookup of the object.
    pub(super) async fn connect(&mut self, subresource: &Subresource) -> Result<ApiResponse, Rejection> {
        let query = self.call.query;
        if query.all("dryRun").next().is_some() {
            return Err(Status::bad_request("dryRun is not supported").into());
        }
        let (kind, path) = ((&subresource.api_version, &subresource.kind), self.path_behind());
        let options = options::of_query(&subresource.name, kind, query, &path)?;
        let admit = |_| self.admit(Operation::Connect, &mut options.clone(), None, false);
        self.control.run_write(admit).await?;
        if &*subresource.name == "proxy" {
            return self.proxy().await;
        }
        // A GET of a WebSocket client needs the permission of a POST.
        let action = Action::Resource(ResourceAction {
            verb: "create",
            group: &self.resource.group,
            resource: &self.resource.plural,
            subresource: &subresource.name,
            namespace: self.target.authorized_namespace(),
            name: &self.target.name,
            ..ResourceAction::default()
        });
        retry_with_answers(|| authorization::authorize(self.call.registry, self.call.user, action)).await?;
        let object = self.find()?;
        let pod = &object.tree();
        let Some(network) = self.call.registry.network() else { return Err(self.needs_node(&subresource.name)) };
        let path = match &*subresource.name {
            "portforward" => location::port_forward_path(pod, query),
            name => location::command_path(name, pod, query)?,
        };
        let location = self.at_kubelet(pod, path)?;
        match proxy::upgrade(&*network, &location, self.call.method, self.call.headers).await? {
            Upgrade::Refused(response) => Ok(forwarded(response)),
            Upgrade::Switched(response, stream) => {
                let tunnel = self.call.tunnel.ok_or_else(|| Status::bad_request("Upgrade request required"))?;
                tunnel.put(stream);
                let body = Body::new(futures_util::stream::empty());
                Ok(ApiResponse::forwarded(response.status(), response.headers().clone(), body))
            }
        }
    }

    /// The log of a container.
    pub(super) async fn log(&mut self) -> Result<ApiResponse, Rejection> {
        let object = self.find()?;
        let pod = &object.tree();
        let Some(network) = self.call.registry.network() else { return Err(self.needs_node("log")) };
        let path = location::log_path(pod, self.call.query)?;
        if tree::text(pod, &["spec", "nodeName"]).is_empty() {
            return Ok(ApiResponse::text(hyper::StatusCode::OK, ""));
        }
        let location = self.at_kubelet(pod, path)?;
        let resource = self.resource.group_resource();
        Ok(forwarded(proxy::log(&*network, &location, (&resource, &self.target.name)).await?))
    }

    async fn proxy(&mut self) -> Result<ApiResponse, Rejection> {
        let (registry, namespace) = (self.call.registry, &*self.target.namespace);
        let kind = self.resource.plural.trim_end_matches('s');
        let (scheme, name, port) = location::split_name(kind, &self.target.name)?;
        let object = registry.get(self.resource, namespace, name)?.object;
        let object = &object.tree();
        let Some(network) = registry.network() else { return Err(self.needs_node("proxy")) };
        let (scheme, authority) = match kind {
            "pod" => (scheme, location::pod_authority(object, port)?),
            "node" if port.is_empty() || port == location::kubelet_port(object) => ("https", location::kubelet(object)),
            "node" => (scheme, format!("{name}:{port}")),
            _ => {
                let ports = tree::items(object, &["spec", "ports"]);
                let port = match port.parse::<i64>() {
                    Err(_) => port,
                    Ok(number) => {
                        let found = ports.iter().find(|port| tree::int(port, &["port"]) == Some(number));
                        let message = || format!("no service port {number} found for service {name:?}");
                        tree::text(found.ok_or_else(|| Status::service_unavailable(message()))?, &["name"])
                    }
                };
                let message = || format!("no endpoints available for service {name:?}");
                let found = aggregation::endpoint_of(registry, namespace, name, port);
                (scheme, found.ok_or_else(|| Status::service_unavailable(message()))?)
            }
        };
        // The undecoded path after `/api/v1/namespaces/NAMESPACE/pods/NAME/proxy`, or after
        // `/api/v1/nodes/NAME/proxy`.
        let (url, segments) = (self.call.url, if self.resource.namespaced { 7 } else { 5 });
        let end = url.path().match_indices('/').nth(segments).map_or(url.path().len(), |(at, _)| at);
        let (prefix, path) = url.path().split_at(end);
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let location = Location { scheme, authority, path: format!("{path}{query}") };
        if handshake::is_upgrade(self.call.headers) {
            let answer = proxy::upgrade(&*network, &location, self.call.method, self.call.headers).await?;
            return match (answer, self.call.tunnel) {
                (Upgrade::Switched(response, stream), Some(tunnel)) => {
                    tunnel.put(stream);
                    let body = Body::new(futures_util::stream::empty());
                    Ok(ApiResponse::forwarded(response.status(), response.headers().clone(), body))
                }
                (Upgrade::Refused(response), _) => Ok(forwarded(response)),
                _ => Err(Status::bad_request("Upgrade request required").into()),
            };
        }
        let request = (self.call.method, self.call.headers, self.call.body.clone());
        Ok(forwarded(proxy::forward(&*network, &location, prefix, request).await?))
    }

    /// A path at the kubelet of a pod.
    fn at_kubelet(&self, pod: &Value, path: String) -> Result<Location, Rejection> {
        let (registry, node) = (self.call.registry, location::node_of(pod)?);
        let catalog = registry.catalog();
        let nodes = catalog.of_storage("nodes").ok_or_else(Rejection::no_such_resource)?;
        let authority = location::kubelet(&registry.get(nodes, "", node)?.object.tree());
        Ok(Location { scheme: "https", authority, path })
    }

    fn needs_node(&self, subresource: &str) -> Rejection {
        let name = self.target.name.split(':').rev().nth(usize::from(self.target.name.contains(':')));
        Rejection::needs_node(&self.resource.plural, name.unwrap_or_default(), subresource)
    }

    /// The path after `proxy`, including a trailing slash.
    fn path_behind(&self) -> String {
        let mut path: String = self.target.rest.iter().map(|part| format!("/{part}")).collect();
        if self.call.info.path.ends_with('/') && !path.ends_with('/') {
            path.push('/');
        }
        path
    }
}

fn forwarded(response: hyper::Response<Body>) -> ApiResponse {
    let (head, body) = response.into_parts();
    ApiResponse::forwarded(head.status, proxy::end_to_end(&head.headers), body)
}
