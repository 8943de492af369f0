//! Requests by verb and path, the base of all clients.
//!
//! A [`Request`] is built and sent; the result is a buffered [`Response`] or a [`Streaming`] one. A
//! request waits for the rate limiter, is retried if that is safe and the server asks for it, and
//! uses protobuf or JSON, depending on what the server supports for the resource.
//!
//! Decisions:
//! - A request is sent again after 429 or 5xx with a `Retry-After` of whole seconds, as in Go.
//!   Unlike in Go, POST and PATCH, which are not idempotent, are retried only after 429 and 503,
//!   which guarantee that nothing was done: after a 504 with a Retry-After, Go may create twice. A
//!   broken connection is retried for GET only.
//! - Builder errors are deferred: the first one is returned instead of sending the request.
//! - There is no global state: limits, handlers and metrics belong to a [`Client`].

mod attempt;
mod client;
mod failure;
mod metrics;
mod negotiation;
mod path;
#[cfg(feature = "metrics")]
mod prometheus;
mod request;
mod response;
mod retry;
mod sending;
mod trace;
mod verbs;
mod warning;
mod whole_body;

pub use client::Client;
#[cfg(feature = "ws")]
pub(crate) use failure::of_answer as failure;
pub use kubewright_net::credentials::Impersonation;
pub use metrics::{AttemptReport, RequestMetrics};
pub(crate) use negotiation::ResponseForm;
#[cfg(feature = "metrics")]
pub use prometheus::PrometheusMetrics;
pub use request::{Encode, Request};
pub use response::{Response, Streaming};
pub use verbs::RestClient;
pub use warning::{Warning, deduplicate_warnings, log_warning, log_warnings_once};
