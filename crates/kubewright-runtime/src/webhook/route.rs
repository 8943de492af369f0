//! A path of a webhook server: from a review to its response.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use kubewright_core::meta::v1::Status;
use kubewright_core::{Kind, Map, Object, Value, json};

use super::conversion::Converter;
use super::request::AdmissionRequest;
use super::response::AdmissionResponse;
use super::tree;
use crate::unwind::caught;

/// A response and its status code.
type Answered = (Value, u16);

/// Answers the `request` of a review with its `response`.
type ReviewHandler = Box<dyn Fn(Value) -> Pin<Box<dyn Future<Output = Answered> + Send>> + Send + Sync>;

/// Size limit of an admission review: objects have up to 3 MiB, and there are two of them.
const ADMISSION_MAX: usize = 7 << 20;

/// Size limit of a conversion review. API servers put all objects of a list, or of a page, into one
/// review, so the size of an object is no bound.
const CONVERSION_MAX: usize = 256 << 20;

/// The kind of review that a route answers.
#[derive(Debug, Clone, Copy)]
enum ReviewKind {
    Admission,
    Conversion,
}

/// The handler of reviews at one path.
pub(super) struct Route {
    kind: ReviewKind,
    /// Size limit of a review.
    pub(super) body_max: usize,
    answer: ReviewHandler,
}

/// A route to an admission handler.
pub(super) fn admission<T, F, R>(handler: F) -> Route
where
    T: Object,
    F: Fn(AdmissionRequest<T>) -> R + Send + Sync + 'static,
    R: Future<Output = AdmissionResponse> + Send + 'static,
{
    let handler = Arc::new(handler);
    let answer: ReviewHandler = Box::new(move |request| {
        let handler = handler.clone();
        Box::pin(async move {
            let uid = request.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned();
            let response = match AdmissionRequest::read(&request) {
                Ok(request) => {
                    let mut work = pin!(async move { handler(request).await });
                    poll_fn(|context| caught(|| work.as_mut().poll(context)).unwrap_or_else(panicked)).await
                }
                Err(why) => AdmissionResponse::status(Status::bad_request(why)),
            };
            (response.write(&uid), response.code())
        })
    });
    Route { kind: ReviewKind::Admission, body_max: ADMISSION_MAX, answer }
}

fn panicked(panic: String) -> Poll<AdmissionResponse> {
    Poll::Ready(AdmissionResponse::status(Status::internal(format!("the handler panicked: {panic}"))))
}

/// A route to a converter.
pub(super) fn conversion<H: Kind>(converter: Converter<H>) -> Route {
    let answer: ReviewHandler = Box::new(move |request| {
        let response = converter.answer(&request);
        let code = response.get("result").and_then(|result| result.get("code")?.as_i64()).unwrap_or(200);
        Box::pin(async move { (response, u16::try_from(code).unwrap_or(500)) })
    });
    Route { kind: ReviewKind::Conversion, body_max: CONVERSION_MAX, answer }
}

impl Route {
    /// The review that denies a request which is no review, with the code of the problem.
    pub(super) fn refusal(&self, code: u16, why: &str) -> Answered {
        let response = match self.kind {
            ReviewKind::Admission => AdmissionResponse::refuse(code, why).write(""),
            ReviewKind::Conversion => {
                let status = AdmissionResponse::refuse(code, why).into_status();
                json!({"uid": "", "convertedObjects": [], "result": tree::of_status(&status)})
            }
        };
        let (api_version, kind) = match self.kind {
            ReviewKind::Admission => ("admission.k8s.io/v1", "AdmissionReview"),
            ReviewKind::Conversion => ("apiextensions.k8s.io/v1", "ConversionReview"),
        };
        (json!({"apiVersion": api_version, "kind": kind, "response": response}), code)
    }
}

/// Answers a review in its own version.
pub(super) async fn review(route: &Route, body: &[u8]) -> Answered {
    let review = match Value::from_json(body) {
        Ok(review) => review,
        Err(_) if body.is_empty() => return route.refusal(400, "request body is empty"),
        Err(error) => return route.refusal(400, &error.to_string()),
    };
    let request = review.get("request").filter(|request| request.as_object().is_some());
    let Some(request) = request.cloned() else { return route.refusal(400, "the review has no request") };
    let (response, code) = (route.answer)(request).await;
    let mut answer = Map::new();
    for field in ["apiVersion", "kind"] {
        answer.insert(field, review.get(field).cloned().unwrap_or_default());
    }
    answer.insert("response", response);
    (Value::Object(answer), code)
}
