//! What is served beside resources: versions, health, metrics, and the ways to discovery and OpenAPI.

mod discovery;
mod openapi;

use hyper::header::HOST;
use hyper::{Method, StatusCode};
use kubewright_core::Value;

use crate::accept::Format;
use crate::authentication::{Accounts, KEY_SET_PATH};
use crate::encoding::{self, Wanted};
use crate::http::Answer;
use crate::object::{to_json, tree};
use crate::rejection::Rejection;
use crate::service::Call;

/// The version of Kubernetes whose API this is.
pub(crate) const MAJOR: &str = "1";
/// The minor part of it.
pub(crate) const MINOR: &str = "36";
/// The version of Kubernetes whose API this is, as `/version` says it.
pub const GIT_VERSION: &str = "v1.36.0+kubewright";

/// Where verifiers of tokens look for the issuer's key set.
const PROVIDER_PATH: &str = "/.well-known/openid-configuration";

/// Checks that a health endpoint lists and serves one by one.
const CHECKS: [&str; 4] = ["ping", "log", "storage", "housekeeping"];

/// Answers a request for no resource.
pub(crate) fn answer(call: &Call<'_>) -> Result<Answer, Rejection> {
    let path = call.info.path.trim_end_matches('/');
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match (&parts[..], call.method) {
        ([], _) => json(call, &index(call)),
        (["version"], &Method::GET) => json(call, &version()),
        (["version"], _) => Err(Rejection::no_such_method()),
        ([health @ ("healthz" | "livez" | "readyz"), check @ ..], _) => self::health(call, health, check),
        (["metrics"], _) => Ok(Answer::text(StatusCode::OK, call.metrics.render(&call.registry.store))),
        (["api" | "apis", ..], _) => discovery::answer(call, &parts),
        (["openapi", rest @ ..], &Method::GET | &Method::HEAD) => openapi::answer(call, rest),
        ([".well-known", "openid-configuration"], &Method::GET) => {
            let host = call.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
            json(call, &Accounts::provider(host))
        }
        (["openid", "v1", "jwks"], &Method::GET) => {
            let keys = to_json(&call.authenticator.accounts.key_set());
            Ok(Answer::binary("application/jwk-set+json", keys))
        }
        _ => Err(Rejection::NoSuchPage),
    }
}

/// All paths that lead somewhere.
fn index(call: &Call<'_>) -> Value {
    let mut paths: Vec<String> = ["/api", "/api/v1", "/apis", "/apis/"].map(String::from).to_vec();
    for (group, versions) in call.registry.catalog().groups().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|(version, _)| format!("/apis/{group}/{version}")));
    }
    for health in ["healthz", "livez", "readyz"] {
        paths.push(format!("/{health}"));
        paths.extend(CHECKS.map(|check| format!("/{health}/{check}")));
    }
    paths.extend([PROVIDER_PATH, KEY_SET_PATH, "/metrics", "/openapi/v3", "/version"].map(String::from));
    paths.sort();
    tree::map([("paths", tree::list(paths.iter().map(String::as_str)))])
}

fn version() -> Value {
    let platform = format!("{}/{}", std::env::consts::OS, architecture());
    tree::map([
        ("major", MAJOR.into()),
        ("minor", MINOR.into()),
        ("emulationMajor", MAJOR.into()),
        ("emulationMinor", MINOR.into()),
        ("minCompatibilityMajor", MAJOR.into()),
        ("minCompatibilityMinor", "35".into()),
        ("gitVersion", GIT_VERSION.into()),
        ("gitCommit", "".into()),
        ("gitTreeState", "clean".into()),
        ("buildDate", "2026-01-01T00:00:00Z".into()),
        ("goVersion", "go1.26".into()),
        ("compiler", "rustc".into()),
        ("platform", platform.into()),
    ])
}

/// The architecture in Go's words.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// A server that answers is well, unless it cannot keep what it is given. It lives all the same: to start it anew would not help.
fn health(call: &Call<'_>, endpoint: &str, check: &[&str]) -> Result<Answer, Rejection> {
    let failure = call.disk_failure.as_ref().filter(|_| endpoint != "livez");
    let report = |check: &str| match failure {
        Some(why) if check == "storage" => format!("[-]{check} failed: {why}\n"),
        _ => format!("[+]{check} ok\n"),
    };
    let is_well = failure.is_none();
    match check {
        [] if call.query.get("verbose").is_some() || !is_well => {
            let text: String = CHECKS.iter().copied().map(report).collect();
            Ok(match is_well {
                true => Answer::text(StatusCode::OK, text + &format!("{endpoint} check passed\n")),
                false => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, text + &format!("{endpoint} check failed\n")),
            })
        }
        [] => Ok(Answer::text(StatusCode::OK, "ok")),
        ["storage"] if !is_well => Ok(Answer::text(StatusCode::INTERNAL_SERVER_ERROR, report("storage"))),
        [check] if CHECKS.contains(check) => Ok(Answer::text(StatusCode::OK, "ok")),
        _ => Err(Rejection::NoSuchPage),
    }
}

/// A document that is JSON whatever the client would rather have.
fn json(call: &Call<'_>, value: &Value) -> Result<Answer, Rejection> {
    let wanted = Wanted { format: Format::Json, ..Wanted::of_errors(call.headers, call.query) };
    Ok(Answer::document(StatusCode::OK, wanted, encoding::tree(wanted, value)?))
}
