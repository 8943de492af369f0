//! A path of a webhook server: from a review to its response.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use kubewright_core::meta::v1::Status;
use kubewright_core::{Kind, Map, Object, Value};

use super::conversion::Converter;
use super::request::AdmissionRequest;
use super::response::AdmissionResponse;
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

/// The handler of reviews at one path.
pub(super) struct Route {
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
    Route { body_max: ADMISSION_MAX, answer }
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
    Route { body_max: CONVERSION_MAX, answer }
}

/// Answers a review in its own version.
///
/// # Errors
/// A message, if it is malformed.
pub(super) async fn review(route: &Route, body: &[u8]) -> Result<Answered, String> {
    let review = Value::from_json(body).map_err(|error| error.to_string())?;
    let request = review.get("request").filter(|request| request.as_object().is_some());
    let request = request.ok_or("the review has no request")?.clone();
    let (response, code) = (route.answer)(request).await;
    let mut answer = Map::new();
    for field in ["apiVersion", "kind"] {
        answer.insert(field, review.get(field).cloned().unwrap_or_default());
    }
    answer.insert("response", response);
    Ok((Value::Object(answer), code))
}
