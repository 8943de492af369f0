//! Requests to what runs behind pods, services and nodes.

use http::Method;
use kubewright_core::Object;

use super::Api;
use crate::rest::Request;

/// Objects that the server passes requests on to.
pub trait HasProxy: Object {}

impl<T: HasProxy> Api<T> {
    /// A request that the server passes on to an object.
    ///
    /// `name` may have a scheme before it and a port behind it: `https:web:8443`. The answer is the object's own; so are
    /// its errors, as far as the server does not know them.
    #[doc(alias = "ProxyGet")]
    pub fn proxy(&self, method: Method, name: &str, path: &str) -> Request<'static> {
        let request = self.subresource_request(method, name, "proxy");
        path.split('/').filter(|step| !step.is_empty()).fold(request, |request, step| request.subresource(step))
    }
}
