//! Non-resource URLs: version, health, metrics, discovery, OpenAPI and others.

mod backup;
mod discovery;
mod faults;
mod openapi;

use hyper::header::HOST;
use hyper::{Method, StatusCode};
use kubewright_core::Value;

pub(crate) use faults::answer as inject_faults;

use crate::call::Call;
use crate::http::ApiResponse;
use kubewright_auth::authentication::KEY_SET_PATH;
use kubewright_objects::encoding::{self, Wanted};
use kubewright_objects::object::{to_json, tree};
use kubewright_objects::rejection::Rejection;

use kubewright_storage::Disk;

/// The major version of the Kubernetes API.
pub(crate) const MAJOR: &str = "1";
/// The minor version of the Kubernetes API.
pub(crate) const MINOR: &str = "36";
/// The Kubernetes version that `/version` reports.
pub const GIT_VERSION: &str = "v1.36.0+kubewright";

/// The OpenID Connect discovery document of the token issuer.
const PROVIDER_PATH: &str = "/.well-known/openid-configuration";

/// The individual checks of health endpoints.
const CHECKS: [&str; 4] = ["ping", "log", "storage", "housekeeping"];

/// Handles a request for a non-resource URL.
pub(crate) fn answer(call: &Call<'_>) -> Result<ApiResponse, Rejection> {
    let path = call.info.path.trim_end_matches('/');
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match (&parts[..], call.method) {
        ([], _) => indented(&index(call)),
        (["version"], &Method::GET) => Ok(ApiResponse::binary("application/json", version().into())),
        (["version"], _) => Err(Rejection::no_such_method()),
        (["version", ..], _) => Err(Rejection::no_such_resource()),
        ([health @ ("healthz" | "livez" | "readyz"), check @ ..], _) => self::health(call, health, check),
        (["metrics"], _) => Ok(ApiResponse::text(StatusCode::OK, call.metrics.render(&call.registry.store))),
        (["api" | "apis", ..], _) => discovery::answer(call, &parts),
        (["openapi", rest @ ..], &Method::GET | &Method::HEAD) => openapi::answer(call, rest),
        ([".well-known", "openid-configuration"], &Method::GET) => {
            let host = call.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
            Ok(ApiResponse::binary("application/json", to_json(&call.authenticator.accounts.provider(host))))
        }
        (["openid", "v1", "jwks"], &Method::GET) => {
            let keys = to_json(&call.authenticator.accounts.key_set());
            Ok(ApiResponse::binary("application/jwk-set+json", keys))
        }
        (["kubewright", "backup"], &Method::GET) => backup::answer(call),
        _ => Err(Rejection::NoSuchPage),
    }
}

/// The list of all paths.
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

/// The version as indented JSON, in the order of Go's fields.
fn version() -> String {
    let platform = format!("{}/{}", std::env::consts::OS, architecture());
    let fields = [
        ("major", MAJOR),
        ("minor", MINOR),
        ("emulationMajor", MAJOR),
        ("emulationMinor", MINOR),
        ("minCompatibilityMajor", MAJOR),
        ("minCompatibilityMinor", "35"),
        ("gitVersion", GIT_VERSION),
        ("gitCommit", ""),
        ("gitTreeState", "clean"),
        ("buildDate", "2026-01-01T00:00:00Z"),
        ("goVersion", "go1.26"),
        ("compiler", "rustc"),
        ("platform", &platform),
    ];
    let lines: Vec<String> = fields.iter().map(|(name, text)| format!("  \"{name}\": \"{text}\"")).collect();
    format!("{{\n{}\n}}", lines.join(",\n"))
}

/// The CPU architecture by its Go name.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Responds to a health check. A failure of disk or database makes the server unready but not dead:
/// a restart would not help.
fn health(call: &Call<'_>, endpoint: &str, check: &[&str]) -> Result<ApiResponse, Rejection> {
    let of_database = || call.registry.database.as_ref().and_then(|database| database.failure());
    let failure = call.disk.and_then(Disk::failure).or_else(of_database).filter(|_| endpoint != "livez");
    let report = |check: &str| match &failure {
        Some(why) if check == "storage" => format!("[-]{check} failed: {why}\n"),
        _ => format!("[+]{check} ok\n"),
    };
    let is_well = failure.is_none();
    match check {
        [] if call.query.get("verbose").is_some() || !is_well => {
            let text: String = CHECKS.iter().copied().map(report).collect();
            Ok(if is_well {
                ApiResponse::text(StatusCode::OK, text + &format!("{endpoint} check passed\n"))
            } else {
                ApiResponse::text(StatusCode::INTERNAL_SERVER_ERROR, text + &format!("{endpoint} check failed\n"))
            })
        }
        [] => Ok(ApiResponse::text(StatusCode::OK, "ok")),
        ["storage"] if !is_well => Ok(ApiResponse::text(StatusCode::INTERNAL_SERVER_ERROR, report("storage"))),
        [check] if CHECKS.contains(check) => Ok(ApiResponse::text(StatusCode::OK, "ok")),
        _ => Err(Rejection::NoSuchPage),
    }
}

/// Indented JSON, whatever the client accepts.
fn indented(value: &Value) -> Result<ApiResponse, Rejection> {
    let wanted = Wanted { pretty: true, ..Wanted::JSON };
    Ok(ApiResponse::document(StatusCode::OK, wanted, encoding::tree(wanted, value)?))
}
