//! The parameters of a request's URL.

use hyper::StatusCode;

use crate::refusal::Refusal;

/// The parameters of a URL.
pub(crate) struct Query<'a>(pub(crate) &'a str);

impl Query<'_> {
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let query = kubewright_core::options::QueryParameters::parse(self.0);
        query.get(name).map(|value| value.to_string())
    }

    pub(crate) fn required(&self, name: &str) -> Result<String, Refusal> {
        self.get(name)
            .ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, format!("the parameter {name:?} is missing")))
    }
}
