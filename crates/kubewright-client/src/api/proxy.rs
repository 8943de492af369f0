//! Proxy requests to pods, services and nodes.

use http::Method;
use kubewright_core::Object;

use super::Api;
use crate::rest::Request;

/// Objects with a `proxy` subresource.
pub trait HasProxy: Object {}

impl<T: HasProxy> Api<T> {
    /// A request that the server forwards to an object.
    ///
    /// `name` may have a scheme prefix and a port suffix: `https:web:8443`. Response and errors are
    /// those of the target.
    #[doc(alias = "ProxyGet")]
    pub fn proxy(&self, method: Method, name: &str, path: &str) -> Request<'static> {
        let request = self.subresource_request(method, name, "proxy");
        path.split('/').filter(|step| !step.is_empty()).fold(request, |request, step| request.subresource(step))
    }
}
