//! Input and output of exec plugins: `ExecCredential` of `client.authentication.k8s.io`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kubewright_core::{Map, Time, Value};
use tokio::time::Instant;

use super::credential::{CredentialExpiry, ExecCredential};
use crate::credentials::Identity;
use crate::secret::Secret;

/// The value of `KUBERNETES_EXEC_INFO`.
pub(super) fn info(version: &str, is_interactive: bool, cluster: Option<&Value>) -> String {
    let mut spec = Map::from([("interactive", Value::Bool(is_interactive))]);
    if let Some(cluster) = cluster {
        spec.insert("cluster", cluster.clone());
    }
    let info =
        [("apiVersion", Value::from(version)), ("kind", Value::from("ExecCredential")), ("spec", Value::Object(spec))];
    Value::Object(Map::from(info)).to_string()
}

/// Parses the output of the program. Errors do not quote it.
pub(super) fn read(version: &str, output: &[u8]) -> Result<ExecCredential, String> {
    let answer = Value::from_json(output).map_err(|_| "it is not JSON".to_owned())?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    if text(answer.get("kind")).as_deref() != Some("ExecCredential") {
        return Err("it is not an ExecCredential".to_owned());
    }
    let found = text(answer.get("apiVersion")).unwrap_or_default();
    if found != version {
        return Err(format!("it is of version {found:?}, and {version:?} is configured"));
    }
    let status = answer.get("status").filter(|status| !status.is_null()).ok_or("it has no status")?;
    // Trimmed as it will be sent, so that it can be compared with a rejected one.
    let token = status.get("token").and_then(Value::as_str).map(str::trim);
    let token = token.filter(|token| !token.is_empty()).map(Secret::from);
    let certificate = text(status.get("clientCertificateData"));
    let key = text(status.get("clientKeyData"));
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => {
            let identity = Identity::from_pem(certificate.as_bytes(), key.as_bytes(), "the answer");
            let checked = identity.and_then(|identity| identity.check().map(|()| identity));
            Some(Arc::new(checked.map_err(|error| error.to_string())?))
        }
        (None, None) => None,
        _ => return Err("it has a certificate without a key, or a key without a certificate".to_owned()),
    };
    if token.is_none() && identity.is_none() {
        return Err("it has neither a token nor a certificate".to_owned());
    }
    let expires = match status.get("expirationTimestamp").filter(|value| !value.is_null()) {
        Some(value) => Some(expiry(value).ok_or("its expirationTimestamp is no time")?),
        None => None,
    };
    Ok(ExecCredential { token, identity, expires, since: Instant::now() })
}

/// An expiry by both clocks.
fn expiry(value: &Value) -> Option<CredentialExpiry> {
    let by_calendar = SystemTime::try_from(Time::parse(value.as_str()?.as_bytes()).ok()?).ok()?;
    let left = by_calendar.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO);
    // Capped at a century, because monotonic clocks have a smaller range.
    let by_clock = Instant::now() + left.min(Duration::from_secs(100 * 365 * 86_400));
    Some(CredentialExpiry { by_clock, by_calendar })
}

#[cfg(test)]
mod tests {
    use super::*;

    // AU-1
    #[test]
    fn expiry_by_either_clock_counts() {
        let credential = |seconds: i64| {
            let time = Time::from_unix(Time::now().as_unix() + seconds).expect("it is near");
            expiry(&Value::from(time.to_string().as_str())).expect("a time")
        };
        let fresh = credential(3600);
        assert!(!fresh.has_come());
        // The machine was suspended, or its clock was set.
        assert!(CredentialExpiry { by_calendar: SystemTime::now() - Duration::from_secs(1), ..fresh }.has_come());
        assert!(CredentialExpiry { by_clock: Instant::now(), ..fresh }.has_come());
        assert!(credential(-1).has_come());
    }
}
