//! The HTTP endpoint for fault injection, if it is enabled.

use hyper::{Method, StatusCode};
use kubewright_core::Value;
use kubewright_core::meta::v1::Status;
use std::time::Duration;

use crate::faults::{Fault, Faults};
use crate::http::ApiResponse;
use kubewright_objects::object::tree;
use kubewright_objects::rejection::Rejection;

/// Handles a request below `/kubewright/faults`: `POST` a fault, `DELETE` all of them, or `POST` to
/// one of the actions `compact`, `cut-watches`, `freeze`, `restart` and `thaw`.
pub(crate) fn answer(faults: &Faults, method: &Method, action: &[&str], body: &[u8]) -> Result<ApiResponse, Rejection> {
    match (method, action) {
        (&Method::DELETE, []) => faults.clear(),
        (&Method::POST, []) => faults.inject(read(body).map_err(Status::bad_request)?),
        (&Method::POST, ["compact"]) => faults.compact(),
        (&Method::POST, ["cut-watches"]) => faults.cut_watches(),
        (&Method::POST, ["freeze"]) => faults.freeze(),
        (&Method::POST, ["restart"]) => faults.restart(),
        (&Method::POST, ["thaw"]) => faults.thaw(),
        (_, [] | ["compact" | "cut-watches" | "freeze" | "restart" | "thaw"]) => {
            return Err(Rejection::no_such_method());
        }
        _ => return Err(Rejection::NoSuchPage),
    }
    Ok(ApiResponse::text(StatusCode::OK, "ok\n"))
}

/// Parses a fault such as `{"answer": 429, "retryAfter": 1, "verb": "list", "resource": "pods",
/// "times": 3}`.
fn read(body: &[u8]) -> Result<Fault, String> {
    let value = Value::from_json(body).map_err(|error| format!("the fault is not JSON: {error}"))?;
    let fields = value.as_object().ok_or("the fault is not an object")?;
    let number = |field: &str| tree::int(&value, &[field]).and_then(|number| u32::try_from(number).ok());
    let mut fault = match ["answer", "delayMilliseconds", "drop", "cutAfter"].map(|effect| fields.get(effect).is_some())
    {
        [true, false, false, false] => {
            let code = number("answer").and_then(|code| u16::try_from(code).ok());
            Fault::answer(
                code.filter(|code| (400..600).contains(code)).ok_or("answer is not a status code from 400 to 599")?,
            )
        }
        [false, true, false, false] => {
            let time = number("delayMilliseconds").ok_or("delayMilliseconds is not a number")?;
            Fault::delay(Duration::from_millis(time.into()))
        }
        [false, false, true, false] => Fault::drop_request(),
        [false, false, false, true] => Fault::cut_after(number("cutAfter").ok_or("cutAfter is not a number")? as usize),
        _ => return Err("a fault needs exactly one of answer, delayMilliseconds, drop and cutAfter".to_owned()),
    };
    for (name, field) in fields.iter() {
        let text = || field.as_str().ok_or_else(|| format!("{name} is not a string"));
        fault = match name.as_str() {
            "verb" => fault.verb(text()?),
            "resource" => fault.resource(text()?),
            "namespace" => fault.namespace(text()?),
            "name" => fault.name(text()?),
            "times" => fault.times(number("times").ok_or("times is not a number")?),
            "retryAfter" => fault.retry_after(number("retryAfter").ok_or("retryAfter is not a number")?),
            "probability" => match field {
                Value::Float(share) if (0.0..=1.0).contains(share) => fault.probability(*share),
                Value::Int(share @ 0..=1) => fault.probability(*share as f64),
                _ => return Err("probability is not a number from 0 to 1".to_owned()),
            },
            "answer" | "delayMilliseconds" | "drop" | "cutAfter" => fault,
            other => return Err(format!("unknown field {other:?} in the fault")),
        };
    }
    Ok(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_fault_is_rejected() {
        let fault = read(br#"{"answer": 429, "retryAfter": 2, "verb": "list", "resource": "pods", "times": 3}"#);
        assert_eq!(fault, Ok(Fault::answer(429).retry_after(2).verb("list").resource("pods").times(3)));
        for (json, why) in [
            ("{", "not JSON"),
            ("{}", "one of"),
            (r#"{"answer": 200}"#, "400"),
            (r#"{"drop": true, "cutAfter": 1}"#, "one of"),
            (r#"{"drop": true, "verbs": "get"}"#, "verbs"),
            (r#"{"drop": true, "probability": 2}"#, "probability"),
        ] {
            let error = read(json.as_bytes()).expect_err(json);
            assert!(error.contains(why), "{json}: {error}");
        }
    }
}
