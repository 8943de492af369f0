//! The tests of operator-sdk's scorecard, on the embedded server.
//!
//! There they read the bundle only. Here the definitions are installed, and the examples are
//! created with strict validation.

use std::collections::BTreeSet;
use std::error::Error;
use std::time::Duration;

use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_core::options::{CreateOptions, FieldValidation};
use kubewright_core::{DynamicObject, Object, Value};

use super::read::{Bundle, at, items_at, text_at};
use super::validation::{Level, validate};

/// How long a definition may take until it is served.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(10);

/// The result of a test.
#[derive(Debug, PartialEq, Eq)]
pub struct TestResult {
    /// The name of the test in operator-sdk.
    pub name: &'static str,
    /// The reasons of a failure.
    pub failures: Vec<String>,
}

/// Runs all tests.
pub async fn run(bundle: &Bundle) -> Result<Vec<TestResult>, Box<dyn Error>> {
    let examples = examples(bundle);
    let result = |name, failures| TestResult { name, failures };
    let errors = validate(bundle, &[]).await?.into_iter().filter(|finding| finding.level == Level::Error);
    let server = ApiServer::in_memory().start().await?;
    let rejected = rejected(&server, bundle, &examples).await?;
    server.stop().await;
    Ok(vec![
        result("basic-check-spec", without_spec(&examples)),
        result("olm-bundle-validation", errors.map(|finding| finding.to_string()).collect()),
        result("olm-crds-have-validation", rejected),
        result("olm-crds-have-resources", without_resources(bundle)),
        result("olm-spec-descriptors", without_descriptors(bundle, &examples, "spec")),
        result("olm-status-descriptors", without_descriptors(bundle, &examples, "status")),
    ])
}

/// The examples of the ClusterServiceVersion.
fn examples(bundle: &Bundle) -> Vec<Value> {
    let annotations = at(&bundle.csv, &["metadata", "annotations"]);
    let text = annotations.and_then(|annotations| annotations.get("alm-examples")?.as_str()).unwrap_or_default();
    let list = Value::from_json(text.as_bytes()).unwrap_or(Value::Null);
    list.as_array().map(|items| items.iter().cloned().collect()).unwrap_or_default()
}

fn label(example: &Value) -> String {
    let text = |path: &[&str]| text_at(example, path).unwrap_or_default().to_owned();
    format!("{} {}", text(&["kind"]), text(&["metadata", "name"]))
}

fn without_spec(examples: &[Value]) -> Vec<String> {
    if examples.is_empty() {
        return vec!["there is no example in `alm-examples`".to_owned()];
    }
    let has_spec = |example: &&Value| at(example, &["spec"]).and_then(Value::as_object).is_some();
    examples
        .iter()
        .filter(|example| !has_spec(example))
        .map(|example| format!("{} has no spec", label(example)))
        .collect()
}

/// The examples that the server rejects, for example because a field is not in the schema.
async fn rejected(server: &RunningServer, bundle: &Bundle, examples: &[Value]) -> Result<Vec<String>, Box<dyn Error>> {
    let (client, mut problems) = (server.client(), Vec::new());
    let mapper = client.rest_mapper();
    for definition in &bundle.definitions {
        let object = DynamicObject::try_from(definition.clone())?;
        if let Err(error) = mapper.api_of(&object).await?.create(&object).await {
            problems.push(format!("{}: {error}", object.name()));
        }
    }
    let options = CreateOptions { field_validation: Some(FieldValidation::Strict), ..CreateOptions::default() };
    for example in examples {
        let mut object = DynamicObject::try_from(example.clone())?;
        if object.namespace().is_empty() {
            object.set_namespace("default");
        }
        let find = async {
            loop {
                match mapper.api_of(&object).await {
                    Err(error) if error.is_not_found() => tokio::time::sleep(Duration::from_millis(20)).await,
                    found => return found,
                }
            }
        };
        match tokio::time::timeout(ESTABLISHED_TIMEOUT, find).await {
            Ok(Ok(api)) => {
                if let Err(error) = api.create_with(&object, &options).await {
                    problems.push(format!("{}: {error}", label(example)));
                }
            }
            Ok(Err(error)) => problems.push(format!("{}: {error}", label(example))),
            Err(_) => problems.push(format!("{}: the bundle does not define its kind", label(example))),
        }
    }
    Ok(problems)
}

fn owned(bundle: &Bundle) -> Vec<&Value> {
    items_at(&bundle.csv, &["spec", "customresourcedefinitions", "owned"])
}

fn without_resources(bundle: &Bundle) -> Vec<String> {
    let lacks = |owned: &&Value| items_at(owned, &["resources"]).is_empty();
    let name = |owned: &Value| text_at(owned, &["name"]).unwrap_or_default().to_owned();
    owned(bundle)
        .into_iter()
        .filter(lacks)
        .map(|owned| format!("owned CRD {} lists no resources", name(owned)))
        .collect()
}

/// The fields of examples that the ClusterServiceVersion does not describe.
fn without_descriptors(bundle: &Bundle, examples: &[Value], part: &str) -> Vec<String> {
    let mut missing = BTreeSet::new();
    for example in examples {
        let text = |field: &str| text_at(example, &[field]).unwrap_or_default();
        let of_example = |owned: &&&Value| {
            let version = text("apiVersion").rsplit('/').next().unwrap_or_default();
            text_at(owned, &["kind"]) == Some(text("kind")) && text_at(owned, &["version"]) == Some(version)
        };
        let all = owned(bundle);
        let Some(owned) = all.iter().find(of_example) else { continue };
        let descriptors = items_at(owned, &[&format!("{part}Descriptors")]);
        let is_described = |field: &str| descriptors.iter().any(|one| text_at(one, &["path"]) == Some(field));
        for (field, _) in at(example, &[part]).and_then(Value::as_object).into_iter().flat_map(|fields| fields.iter()) {
            if !is_described(field) {
                missing.insert(format!("{part}.{field} of {} has no descriptor", text("kind")));
            }
        }
    }
    missing.into_iter().collect()
}
