//! Classes of devices.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::dns1123_subdomain;

use super::metadata::quoted;
use super::text;
use crate::object::{to_json, tree};

const LIST_MAX: usize = 32;
/// The longest expression, in bytes.
const EXPRESSION_MAX: usize = 10 << 10;
/// The longest parameters for a driver, in bytes.
const PARAMETERS_MAX: usize = 10 << 10;

/// What is wrong with a class of devices.
pub(super) fn class(value: &Value) -> Vec<StatusCause> {
    let [selectors, configs] = ["selectors", "config"].map(|part| tree::items(value, &["spec", part]));
    let mut causes = Vec::new();
    for (index, selector) in selectors.iter().enumerate() {
        causes.extend(self::selector(&format!("spec.selectors[{index}]"), selector));
    }
    if selectors.len() > LIST_MAX {
        causes.push(StatusCause::too_many("spec.selectors", selectors.len(), LIST_MAX));
    }
    for (index, config) in configs.iter().enumerate() {
        causes.extend(self::config(&format!("spec.config[{index}]"), config));
    }
    if configs.len() > LIST_MAX {
        causes.push(StatusCause::too_many("spec.config", configs.len(), LIST_MAX));
    }
    if let Some(name) = tree::get(value, &["spec", "extendedResourceName"]).and_then(Value::as_str)
        && !is_extended(name)
    {
        let why = "must be a valid extended resource name";
        causes.push(StatusCause::invalid("spec.extendedResourceName", quoted(name), why));
    }
    causes
}

/// Devices are chosen by expressions, of which the length is looked at here; see the notes on compatibility.
fn selector(field: &str, selector: &Value) -> Vec<StatusCause> {
    let Some(cel) = selector.get("cel") else { return vec![StatusCause::required(format!("{field}.cel"), "")] };
    let expression = tree::text(cel, &["expression"]);
    if expression.len() > EXPRESSION_MAX {
        return vec![StatusCause::too_long(format!("{field}.cel.expression"), EXPRESSION_MAX)];
    }
    text::missing(&format!("{field}.cel"), cel, &["expression"])
}

fn config(field: &str, config: &Value) -> Vec<StatusCause> {
    let field = format!("{field}.opaque");
    let Some(opaque) = config.get("opaque") else { return vec![StatusCause::required(field, "")] };
    let driver = tree::text(opaque, &["driver"]);
    let mut causes = Vec::new();
    if driver.len() > 63 {
        causes.push(StatusCause::too_long(format!("{field}.driver"), 63));
    }
    causes.extend(text::required(&format!("{field}.driver"), driver, |name| dns1123_subdomain(&name.to_lowercase())));
    let field = format!("{field}.parameters");
    match opaque.get("parameters").filter(|parameters| !parameters.is_null()) {
        None => causes.push(StatusCause::required(field, "")),
        Some(parameters) if to_json(parameters).len() > PARAMETERS_MAX => {
            causes.push(StatusCause::too_long(field, PARAMETERS_MAX));
        }
        Some(parameters) if parameters.as_object().is_none() => {
            let why = "must be a valid JSON object";
            causes.push(StatusCause::invalid(field, "\"<value omitted>\"", why));
        }
        Some(_) => {}
    }
    causes
}

/// Names of what others have invented have a domain that is not the project's own.
fn is_extended(name: &str) -> bool {
    let is_foreign = name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.");
    is_foreign && kubewright_core::validation::qualified_name(&format!("requests.{name}")).is_empty()
}
