//! Forwards requests to aggregated API servers.

use std::error::Error;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, StatusCode};
use kubewright_streaming::proxy::end_to_end;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{AggregatedServer, Aggregation};
use crate::call::Call;
use crate::http::ApiResponse;
use kubewright_auth::User;

/// Characters that the names of extra attributes keep: those of HTTP tokens.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'!');

/// Answers a call whose path belongs to an aggregated server. `None` if it belongs to this server.
pub(crate) async fn answer(aggregation: &Aggregation, call: &Call<'_>) -> Option<ApiResponse> {
    let server = aggregation.find(&call.info.path)?;
    Some(forward(&server, call).await)
}

async fn forward(server: &AggregatedServer, call: &Call<'_>) -> ApiResponse {
    let unavailable = |message: &str| ApiResponse::text(StatusCode::SERVICE_UNAVAILABLE, format!("{message}\n"));
    let Some(connection) = &server.connection else { return unavailable("service unavailable") };
    let path = call.url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::new(call.body.clone());
    *request.method_mut() = call.method.clone();
    match path.parse() {
        Ok(path) => *request.uri_mut() = path,
        Err(_) => return ApiResponse::text(StatusCode::BAD_REQUEST, "the path cannot be forwarded\n"),
    }
    *request.headers_mut() = end_to_end(call.headers);
    add_identity(request.headers_mut(), call.user);
    match connection.transport.send(request).await {
        Ok(response) => {
            let (head, body) = response.into_parts();
            ApiResponse::forwarded(head.status, end_to_end(&head.headers), body)
        }
        Err(error) => unavailable(&format!("error trying to reach service: {}", chain(&error))),
    }
}

/// States the identity of the caller, which the server believes because of the client certificate.
pub(super) fn add_identity(headers: &mut HeaderMap, user: &User) {
    let mut add = |name: &str, value: &str| {
        // A name that no header can contain must not become another one.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes())) {
            headers.append(name, value);
        }
    };
    add("x-remote-user", &user.name);
    if !user.uid.is_empty() {
        add("x-remote-uid", &user.uid);
    }
    user.groups.iter().for_each(|group| add("x-remote-group", group));
    for (name, values) in &user.extra {
        let name = format!("x-remote-extra-{}", utf8_percent_encode(&name.to_lowercase(), KEPT));
        values.iter().for_each(|value| add(&name, value));
    }
}

/// An error with its causes.
pub(super) fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_and_foreign_identities_are_not_forwarded() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("x-remote-user", "system:admin"),
            ("impersonate-user", "root"),
            ("connection", "close"),
            ("accept", "application/json"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let mut sent = end_to_end(&headers);
        let user = User::authenticated("jane", "7", vec!["people".into()]).with_extra("Example.com/Team", "a");
        add_identity(&mut sent, &user);
        let mut shown: Vec<String> =
            sent.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        shown.sort();
        let expected = [
            "accept: application/json",
            "x-remote-extra-example.com%2Fteam: a",
            "x-remote-group: people",
            "x-remote-group: system:authenticated",
            "x-remote-uid: 7",
            "x-remote-user: jane",
        ];
        assert_eq!(shown.iter().map(|line| line.to_lowercase()).collect::<Vec<_>>(), expected.map(str::to_lowercase));
    }
}
