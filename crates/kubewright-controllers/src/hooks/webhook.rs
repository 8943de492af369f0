//! Calls a hook.
//!
//! Requests and responses are those of Metacontroller, so its hooks work unchanged.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Uri;
use kubewright_client::config::CertificateSource;
use kubewright_client::{Client, Config};
use kubewright_core::{ByteString, DynamicObject, List, Map, Object, Value};

use super::resource::Webhook;
use crate::hook_error::HookError;

/// Default timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client of a hook.
#[derive(Debug)]
pub(super) struct Caller {
    client: Client,
    path: String,
    time_limit: Duration,
}

/// Children by kind (`Deployment.apps/v1`) and by name.
pub(super) type ChildrenByKind = BTreeMap<String, BTreeMap<String, std::sync::Arc<DynamicObject>>>;

/// The response of a hook.
#[derive(Debug, Default)]
pub(super) struct HookResponse {
    pub(super) status: Option<Value>,
    pub(super) children: Vec<DynamicObject>,
    pub(super) resync_after: Option<Duration>,
    pub(super) is_finalized: bool,
}

impl Caller {
    pub(super) fn new(hook: &Webhook) -> Result<Self, HookError> {
        let url: Uri = hook.url.parse().map_err(|_| HookError::Url(hook.url.clone()))?;
        let (Some(scheme), Some(host)) = (url.scheme_str(), url.authority()) else {
            return Err(HookError::Url(hook.url.clone()));
        };
        let mut config = Config::new(&format!("{scheme}://{host}")).map_err(HookError::Config)?;
        if let Some(bundle) = &hook.ca_bundle {
            let bundle = ByteString::from_base64(bundle.as_bytes()).map_err(|_| HookError::Bundle)?;
            config.tls.authority = Some(CertificateSource::Data(bundle));
        }
        let client = Client::try_from(config).map_err(HookError::Config)?;
        let time_limit = hook.timeout_seconds.map_or(DEFAULT_TIMEOUT, |seconds| Duration::from_secs(seconds.into()));
        Ok(Caller { client, path: url.path().to_owned(), time_limit })
    }

    /// Calls the hook for one parent.
    pub(super) async fn ask(
        &self,
        controller: &Value,
        parent: &DynamicObject,
        children: &ChildrenByKind,
        is_finalizing: bool,
    ) -> Result<HookResponse, HookError> {
        let children = children.iter().map(|(kind, of_kind)| {
            let of_kind: Map<Value> = of_kind.iter().map(|(name, child)| (name.as_str(), tree(&**child))).collect();
            (kind.as_str(), Value::Object(of_kind))
        });
        let question = Value::Object(Map::from([
            ("controller", controller.clone()),
            ("parent", tree(parent)),
            ("children", Value::Object(children.collect())),
            ("finalizing", Value::from(is_finalizing)),
        ]));
        let request = self.client.rest().post().absolute_path(&self.path).json(question.to_string().into_bytes());
        // The controller decides about retries, because it knows what has changed.
        let response = request.timeout(self.time_limit).retries(0).send().await.map_err(HookError::Call)?;
        let answer = Value::from_json(&response.bytes()).map_err(|error| HookError::Answer(error.to_string()))?;
        HookResponse::read(&answer)
    }
}

/// An object as a tree.
pub(super) fn tree(object: &impl Object) -> Value {
    Value::from_json(&object.to_json()).expect("what we write can be read")
}

impl HookResponse {
    fn read(answer: &Value) -> Result<Self, HookError> {
        if answer.as_object().is_none() {
            return Err(HookError::Answer(format!("it is {}, not an object", answer.kind())));
        }
        let none = List::new();
        let children = match answer.get("children") {
            None | Some(Value::Null) => &none,
            Some(children) => children.as_array().ok_or_else(|| HookError::Answer("children is no array".into()))?,
        };
        let read = |child: &Value| -> Result<DynamicObject, HookError> {
            let object: DynamicObject =
                child.to_string().parse().map_err(|error| HookError::Answer(format!("a child: {error}")))?;
            if object.kind.is_empty() || object.name().is_empty() {
                Err(HookError::Answer("a child has no kind or no name".into()))
            } else {
                Ok(object)
            }
        };
        let seconds = answer.get("resyncAfterSeconds").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0);
        Ok(HookResponse {
            status: answer.get("status").filter(|status| !status.is_null()).cloned(),
            children: children.iter().map(read).collect::<Result<_, _>>()?,
            resync_after: seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            is_finalized: answer.get("finalized").and_then(Value::as_bool).unwrap_or(false),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_response_contains_the_desired_children() {
        let read = |json: &str| HookResponse::read(&Value::from_json(json.as_bytes()).unwrap());
        let answer = read(
            r#"{"status":{"a":1},"children":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}],
                "resyncAfterSeconds":1.5,"finalized":true}"#,
        )
        .unwrap();
        assert_eq!(answer.children[0].name(), "s");
        assert_eq!(answer.resync_after, Some(Duration::from_millis(1500)));
        assert!(answer.is_finalized && answer.status.is_some());
        let nothing = read("{}").unwrap();
        assert!(nothing.children.is_empty() && nothing.status.is_none() && nothing.resync_after.is_none());
        for wrong in ["[]", r#"{"children":{}}"#, r#"{"children":[{"kind":"Secret"}]}"#, r#"{"children":[1]}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
