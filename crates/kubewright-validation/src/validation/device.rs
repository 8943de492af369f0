//! Validates DeviceClasses, and the device names, selectors and configurations of all DRA kinds.

use kubewright_cel::{Environment, SizeLimits, Type};
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, to_json};
use kubewright_core::validation::dns1123_subdomain;
use kubewright_core::{Str, Value};

use super::metadata::quoted;
use super::text;

/// Maximum length of most device lists.
pub(super) const LIST_MAX: usize = 32;
/// Maximum lengths of the domain and the identifier of a qualified name, in bytes.
const DOMAIN_MAX: usize = 63;
const ID_MAX: usize = 32;
/// Maximum length of a string or version attribute, in bytes.
pub(super) const VALUE_MAX: usize = 64;
/// Maximum number of attributes and capacities of a device.
pub(super) const ATTRIBUTES_MAX: usize = 32;
/// Maximum length of a pool name, in bytes.
const POOL_MAX: usize = 253;
/// Maximum length and CEL cost of a selector expression.
const EXPRESSION_MAX: usize = 10 << 10;
const COST_MAX: u64 = 1_000_000;
/// Maximum size of opaque driver parameters, in bytes.
pub(super) const PARAMETERS_MAX: usize = 10 << 10;

/// Validates a DeviceClass.
pub(super) fn class(value: &Value) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let mut causes = selectors("spec.selectors", spec);
    causes.extend(each("spec.config", tree::items(spec, &["config"]), LIST_MAX, config));
    if let Some(name) = spec.get("extendedResourceName").and_then(Value::as_str)
        && !is_extended(name)
    {
        let why = "must be a valid extended resource name";
        causes.push(StatusCause::invalid("spec.extendedResourceName", quoted(name), why));
    }
    causes
}

/// Applies `rule` to each item. A list longer than `max` gets only that error.
pub(super) fn each(
    field: &str,
    items: &[Value],
    max: usize,
    rule: impl Fn(&str, &Value) -> Vec<StatusCause>,
) -> Vec<StatusCause> {
    if items.len() > max {
        return vec![StatusCause::too_many(field, items.len(), max)];
    }
    items.iter().enumerate().flat_map(|(index, item)| rule(&format!("{field}[{index}]"), item)).collect()
}

/// Like [`each`], and rejects items with equal keys.
pub(super) fn distinct(
    field: &str,
    items: &[Value],
    max: usize,
    rule: impl Fn(&str, &Value) -> Vec<StatusCause>,
    key: impl Fn(&Value) -> String,
) -> Vec<StatusCause> {
    let mut causes = each(field, items, max, rule);
    if items.len() <= max {
        let keys: Vec<String> = items.iter().map(key).collect();
        let repeated = (0..keys.len()).filter(|index| keys[..*index].contains(&keys[*index]));
        causes.extend(repeated.map(|index| StatusCause::duplicate(format!("{field}[{index}]"), quoted(&keys[index]))));
    }
    causes
}

/// The name of an item, as a key for [`distinct`].
pub(super) fn name_of(item: &Value) -> String {
    tree::text(item, &["name"]).to_owned()
}

/// A string item as its own key for [`distinct`].
pub(super) fn string_key(item: &Value) -> String {
    item.as_str().unwrap_or_default().to_owned()
}

/// Validates the CEL selectors of a class or a request.
pub(super) fn selectors(field: &str, request: &Value) -> Vec<StatusCause> {
    each(field, tree::items(request, &["selectors"]), LIST_MAX, selector)
}

fn selector(field: &str, selector: &Value) -> Vec<StatusCause> {
    let Some(cel) = selector.get("cel") else { return vec![StatusCause::required(format!("{field}.cel"), "")] };
    let (field, expression) = (format!("{field}.cel.expression"), tree::text(cel, &["expression"]));
    if expression.len() > EXPRESSION_MAX {
        return vec![StatusCause::too_long(field, EXPRESSION_MAX)];
    }
    if expression.is_empty() {
        return vec![StatusCause::required(field, "")];
    }
    let environment = Environment::new().variable("device", device()).with_bindings();
    let cause = match environment.compile(expression) {
        Err(error) => StatusCause::invalid(field, quoted(expression), &format!("compilation failed: {error}")),
        Ok(program) if !matches!(program.result_type(), Type::Bool | Type::Dyn) => {
            let why = format!("must evaluate to bool or the unknown type, not {}", program.result_type());
            StatusCause::invalid(field, quoted(expression), &why)
        }
        Ok(program) if environment.max_cost(&program, &device_limits()) > COST_MAX => {
            StatusCause::forbidden(field, "too complex, exceeds cost limit")
        }
        Ok(_) => return Vec::new(),
    };
    vec![cause]
}

/// The CEL type of a device: attributes and capacities by domain, then by name.
fn device() -> Type {
    let by_name = |ty: Type| Type::map(Type::map(ty));
    Type::object([
        ("driver", Type::String),
        ("attributes", by_name(Type::Dyn)),
        ("capacity", by_name(Type::Opaque("quantity"))),
        ("allowMultipleAllocations", Type::Bool),
    ])
}

/// The size limits of a device, for the CEL cost estimate.
fn device_limits() -> SizeLimits {
    let text = |max: usize| SizeLimits::scalar(max as u64);
    let by_name = |value: SizeLimits| {
        let map = |keys: usize, items: SizeLimits| SizeLimits {
            max: ATTRIBUTES_MAX as u64,
            keys: Some(keys as u64),
            items: Some(Box::new(items)),
            ..SizeLimits::default()
        };
        map(DOMAIN_MAX, SizeLimits { has_named_items: true, ..map(ID_MAX, value) })
    };
    let fields = [
        ("driver", text(DOMAIN_MAX)),
        ("attributes", by_name(text(VALUE_MAX))),
        ("capacity", by_name(SizeLimits::default())),
        ("allowMultipleAllocations", SizeLimits::default()),
    ];
    SizeLimits {
        fields: fields.into_iter().map(|(name, limits)| (Str::from(name), limits)).collect(),
        ..SizeLimits::default()
    }
}

/// Validates the opaque parameters of a driver.
pub(super) fn config(field: &str, config: &Value) -> Vec<StatusCause> {
    let field = format!("{field}.opaque");
    let Some(opaque) = config.get("opaque") else { return vec![StatusCause::required(field, "")] };
    let mut causes = driver(&format!("{field}.driver"), tree::text(opaque, &["driver"]));
    causes.extend(raw(&format!("{field}.parameters"), opaque.get("parameters"), PARAMETERS_MAX));
    causes
}

/// Validates raw driver data.
pub(super) fn raw(field: &str, data: Option<&Value>, max: usize) -> Option<StatusCause> {
    match data.filter(|data| !data.is_null()) {
        None => Some(StatusCause::required(field, "")),
        Some(data) if to_json(data).len() > max => Some(StatusCause::too_long(field, max)),
        Some(data) if data.as_object().is_none() => {
            Some(StatusCause::invalid(field, "\"<value omitted>\"", "must be a valid JSON object"))
        }
        Some(_) => None,
    }
}

/// Validates a driver name.
pub(super) fn driver(field: &str, name: &str) -> Vec<StatusCause> {
    let too_long = (name.len() > DOMAIN_MAX).then(|| StatusCause::too_long(field, DOMAIN_MAX));
    let rest = text::required(field, name, |name| dns1123_subdomain(&name.to_lowercase()));
    too_long.into_iter().chain(rest).collect()
}

/// Validates a pool name, such as `node/part`.
pub(super) fn pool(field: &str, name: &str) -> Vec<StatusCause> {
    if name.is_empty() {
        return vec![StatusCause::required(field, "")];
    }
    let too_long = (name.len() > POOL_MAX).then(|| StatusCause::too_long(field, POOL_MAX));
    let parts = name.split('/').flat_map(|part| text::check(field, part, dns1123_subdomain));
    too_long.into_iter().chain(parts).collect()
}

/// Validates the name of an attribute or a capacity. The domain is optional.
pub(super) fn qualified(field: &str, name: &str) -> Vec<StatusCause> {
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [id] => identifier(field, id),
        [domain, id] => {
            let mut causes = match domain {
                "" => vec![StatusCause::invalid(field, "\"\"", "the domain must not be empty")],
                domain => driver(field, domain),
            };
            match id {
                "" => causes.push(StatusCause::invalid(field, "\"\"", "the name must not be empty")),
                id => causes.extend(identifier(field, id)),
            }
            causes
        }
        // The real server accepts names with several slashes, too.
        _ => Vec::new(),
    }
}

/// Like [`qualified`], with a required domain.
pub(super) fn fully_qualified(field: &str, name: &str) -> Vec<StatusCause> {
    let mut causes = qualified(field, name);
    if !name.contains('/') {
        let why = "a fully qualified name must be a domain and a name separated by a slash";
        causes.push(StatusCause::invalid(field, quoted(name), why));
    }
    causes
}

fn identifier(field: &str, id: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if id.len() > ID_MAX {
        causes.push(StatusCause::too_long(field, ID_MAX));
    }
    let begins = id.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_');
    if !begins || !id.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_') {
        let why = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
                   alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for \
                   validation is '[A-Za-z_][A-Za-z0-9_]*')";
        causes.push(StatusCause::invalid(field, quoted(id), why));
    }
    causes
}

/// Whether this is an extended resource name: its domain is not one of Kubernetes.
fn is_extended(name: &str) -> bool {
    let is_foreign = name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.");
    is_foreign && kubewright_core::validation::qualified_name(&format!("requests.{name}")).is_empty()
}
