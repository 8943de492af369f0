use std::time::Duration;

use super::*;

fn configmaps() -> GroupResource {
    GroupResource::new("", "configmaps")
}

fn deployments() -> GroupResource {
    GroupResource::new("apps", "deployments")
}

/// Reason, code, name, group and kind of a recorded response.
fn shape(status: &Status) -> (Str, i32, Str, Str, Str) {
    assert_eq!(status.status.as_deref(), Some("Failure"));
    let details = status.details.as_deref().cloned().unwrap_or_default();
    let text = |part: &Option<Str>| part.clone().unwrap_or_default();
    (text(&status.reason), status.code.unwrap_or(0), text(&details.name), text(&details.group), text(&details.kind))
}

#[test]
fn failure_messages_equal_those_of_kube_apiserver() {
    let cause = |field: &'static str| StatusCause::required(field, "");
    let pod = GroupKind::new("", "Pod");
    for (status, message, want) in [
        (Status::not_found(&configmaps(), "a"), "configmaps \"a\" not found", ("NotFound", 404, "a", "", "configmaps")),
        (
            Status::already_exists(&deployments(), "a"),
            "deployments.apps \"a\" already exists",
            ("AlreadyExists", 409, "a", "apps", "deployments"),
        ),
        (
            Status::modified(&deployments(), "w"),
            "Operation cannot be fulfilled on deployments.apps \"w\": the object has been modified; please apply your \
             changes to the latest version and try again",
            ("Conflict", 409, "w", "apps", "deployments"),
        ),
        (Status::invalid(&pod, "x", []), "Pod \"x\" is invalid", ("Invalid", 422, "x", "", "Pod")),
        (
            Status::invalid(&pod, "x", [cause("spec.foo")]),
            "Pod \"x\" is invalid: spec.foo: Required value",
            ("Invalid", 422, "x", "", "Pod"),
        ),
        (
            Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", [cause("a"), cause("b"), cause("a")]),
            "ListOptions.meta.k8s.io \"\" is invalid: [a: Required value, b: Required value]",
            ("Invalid", 422, "", "meta.k8s.io", "ListOptions"),
        ),
        (
            Status::forbidden(&configmaps(), "", "User \"u\" cannot list resource"),
            "configmaps is forbidden: User \"u\" cannot list resource",
            ("Forbidden", 403, "", "", "configmaps"),
        ),
        (
            Status::forbidden(&deployments(), "a", "no"),
            "deployments.apps \"a\" is forbidden: no",
            ("Forbidden", 403, "a", "apps", "deployments"),
        ),
        (
            Status::forbidden(&GroupResource::default(), "", "User \"u\" cannot get path \"/apis\""),
            "forbidden: User \"u\" cannot get path \"/apis\"",
            ("Forbidden", 403, "", "", ""),
        ),
        (Status::unauthorized("Unauthorized"), "Unauthorized", ("Unauthorized", 401, "", "", "")),
        (Status::bad_request("m"), "m", ("BadRequest", 400, "", "", "")),
        (Status::gone("m"), "m", ("Gone", 410, "", "", "")),
        (Status::expired("too old resource version: 1"), "too old resource version: 1", ("Expired", 410, "", "", "")),
        (Status::too_many_requests("m", 1), "m", ("TooManyRequests", 429, "", "", "")),
        (
            Status::method_not_allowed(&deployments(), "create"),
            "create is not supported on resources of kind \"deployments.apps\"",
            ("MethodNotAllowed", 405, "", "apps", "deployments"),
        ),
        (
            Status::not_acceptable(&["application/json", "application/yaml"]),
            "only the following media types are accepted: application/json, application/yaml",
            ("NotAcceptable", 406, "", "", ""),
        ),
        (
            Status::unsupported_media_type(&["application/json"]),
            "the body of the request was in an unknown format - accepted media types include: application/json",
            ("UnsupportedMediaType", 415, "", "", ""),
        ),
        (
            Status::request_entity_too_large("limit is 3145728"),
            "Request entity too large: limit is 3145728",
            ("RequestEntityTooLarge", 413, "", "", ""),
        ),
        (Status::internal("disk full"), "Internal error occurred: disk full", ("InternalError", 500, "", "", "")),
        (Status::timeout("slow", 1), "Timeout: slow", ("Timeout", 504, "", "", "")),
        (
            Status::server_timeout(&configmaps(), "list", 2),
            "The list operation against configmaps could not be completed at this time, please try again.",
            ("ServerTimeout", 500, "list", "", "configmaps"),
        ),
        (
            Status::too_large_resource_version(9, 5, 1),
            "Timeout: Too large resource version: 9, current: 5",
            ("Timeout", 504, "", "", ""),
        ),
        (Status::service_unavailable("m"), "m", ("ServiceUnavailable", 503, "", "", "")),
    ] {
        assert_eq!(status.to_string(), message);
        let (reason, code, name, group, kind) = want;
        assert_eq!(shape(&status), (reason.into(), code, name.into(), group.into(), kind.into()), "{message}");
    }
}

#[test]
fn an_answer_that_is_no_status_is_known_by_its_code() {
    // RC-7
    let nothing = GroupResource::default();
    for (code, verb, message, reason) in [
        (404, "GET", "the server could not find the requested resource", StatusReason::NotFound),
        (405, "PUT", "the server does not allow this method on the requested resource", StatusReason::MethodNotAllowed),
        (409, "POST", "the server reported a conflict", StatusReason::AlreadyExists),
        (409, "PUT", "the server reported a conflict", StatusReason::Conflict),
        (403, "GET", "body", StatusReason::Forbidden),
        (422, "GET", "the server rejected our request due to an error in our request", StatusReason::Invalid),
        (
            500,
            "GET",
            "an error on the server (\"body\") has prevented the request from succeeding",
            StatusReason::InternalError,
        ),
        (
            502,
            "GET",
            "an error on the server (\"body\") has prevented the request from succeeding",
            StatusReason::InternalError,
        ),
        (
            418,
            "GET",
            "the server responded with the status code 418 but did not return more information",
            StatusReason::Unknown,
        ),
    ] {
        let status = Status::from_code(code, verb, &nothing, "", "body");
        assert_eq!((status.to_string().as_str(), status.status_reason()), (message, reason));
        assert_eq!(status.code, Some(code.into()));
        assert!(status.details.is_some() && status.causes().is_empty());
    }
    let status = Status::from_code(503, "GET", &deployments(), "web", "try later")
        .with_retry_after_seconds(7)
        .with_cause(StatusCause::of(CauseType::UnexpectedServerResponse, "try later"));
    assert_eq!(status.to_string(), "the server is currently unable to handle the request (get deployments.apps web)");
    assert_eq!(status.retry_after(), Some(Duration::from_secs(7)));
    assert!(status.is_unexpected_server_error());
    assert!(Status::from_code(429, "GET", &deployments(), "", "").to_string().ends_with("(get deployments.apps)"));
}

#[test]
fn the_code_counts_only_where_no_known_reason_is_given() {
    let status = |reason: &str, code| Status { reason: some_text(reason), code: Some(code), ..Default::default() };
    assert!(status("", 404).is_not_found() && status("Odd", 404).is_not_found());
    assert!(!status("Forbidden", 404).is_not_found() && status("Forbidden", 404).is_forbidden());
    assert!(status("", 409).is_conflict() && !status("", 409).is_already_exists());
    assert!(status("AlreadyExists", 409).is_already_exists() && !status("AlreadyExists", 409).is_conflict());
    assert!(status("Forbidden", 429).is_too_many_requests() && status("Forbidden", 413).is_request_entity_too_large());
    assert!(status("", 500).is_internal_error() && !status("", 500).is_server_timeout());
    assert!(status("", 504).is_timeout() && status("", 401).is_unauthorized() && status("", 422).is_invalid());
}

#[test]
fn both_reasons_for_an_old_version_are_expired() {
    // RE-8
    assert!(Status::expired("too old").is_expired() && Status::gone("too old").is_expired());
    assert!(Status { code: Some(410), ..Default::default() }.is_expired());
    assert!(!Status::timeout("too old", 0).is_expired());
}

#[test]
fn a_too_large_version_is_recognised_from_every_server_generation() {
    // RE-8
    assert!(Status::too_large_resource_version(9, 5, 1).is_too_large_resource_version());

    let cause = StatusCause { message: Some("Too large resource version".into()), ..Default::default() };
    assert!(Status::timeout("slow", 1).with_cause(cause).is_too_large_resource_version());

    assert!(Status::timeout("Too large resource version: 9, current: 5", 1).is_too_large_resource_version());
    assert!(!Status::timeout("slow", 1).is_too_large_resource_version());
    assert!(!Status::bad_request("Too large resource version").is_too_large_resource_version());
}

#[test]
fn a_success_is_no_failure() {
    // RC-7
    assert!(!Status::success().is_failure() && Status::bad_request("m").is_failure());
}

#[test]
fn the_wish_to_wait_is_passed_on() {
    assert_eq!(Status::too_many_requests("m", 3).retry_after(), Some(Duration::from_secs(3)));
    assert_eq!(Status::too_many_requests("m", 0).retry_after(), None);
    assert_eq!(Status::server_timeout(&configmaps(), "get", 0).retry_after(), Some(Duration::ZERO));
    assert_eq!(Status::timeout("m", -1).retry_after(), None);
    assert_eq!(Status::not_found(&configmaps(), "a").retry_after(), None);
}

#[test]
fn a_status_without_message_has_a_display_text() {
    assert_eq!(Status { reason: Some("Expired".into()), ..Default::default() }.to_string(), "Expired");
    assert_eq!(Status { code: Some(500), ..Default::default() }.to_string(), "status code 500");
    assert_eq!(Status::default().to_string(), "unknown status");
}
