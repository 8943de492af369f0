//! Error responses.

use hyper::StatusCode;

/// An error response: a status code and a sentence for the user.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: StatusCode,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(code: StatusCode, message: impl Into<String>) -> Self {
        Refusal { code, message: message.into() }
    }
}

impl From<kubewright_client::Error> for Refusal {
    /// The message of the API server, with its code.
    fn from(error: kubewright_client::Error) -> Self {
        let code = error.status().and_then(|status| u16::try_from(status.code?).ok());
        let code = code.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::BAD_GATEWAY);
        Refusal::new(code, crate::pipeline::chain(&error))
    }
}
