//! Validates ResourceSlices.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{dns1123_label, dns1123_subdomain, label_value, qualified_name};
use kubewright_core::{Quantity, Value, tree};

use super::device::{ATTRIBUTES_MAX, LIST_MAX, VALUE_MAX, distinct, driver, each, name_of, pool, qualified};
use super::device_claim::EFFECTS;
use super::metadata::quoted;
use super::{affinity, device_status, number, text};

/// Maximum number of devices, and the lower maximum when devices have taints or consume counters.
const DEVICES_MAX: usize = 128;
const TAINTED_DEVICES_MAX: usize = 64;
const COUNTER_SETS_MAX: usize = 8;
const CONSUMED_SETS_MAX: usize = 2;
const TAINTS_MAX: usize = 16;
/// Maximum number of `validValues`.
const AMOUNTS_MAX: usize = 10;

/// Validates a ResourceSlice. Its driver, pool and node are immutable.
pub(super) fn slice(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let mut causes = driver("spec.driver", tree::text(spec, &["driver"]));
    causes.extend(pool("spec.pool.name", tree::text(spec, &["pool", "name"])));
    let count = |part: &str| tree::int(spec, &["pool", part]).unwrap_or_default();
    if count("resourceSliceCount") <= 0 {
        let (field, shown) = ("spec.pool.resourceSliceCount", count("resourceSliceCount"));
        causes.push(StatusCause::invalid(field, shown, "must be greater than zero"));
    }
    if count("generation") < 0 {
        let why = "must be greater than or equal to zero";
        causes.push(StatusCause::invalid("spec.pool.generation", count("generation"), why));
    }
    if let Some(old) = old {
        for path in [&["spec", "pool", "name"][..], &["spec", "driver"], &["spec", "nodeName"]] {
            causes.extend(number::immutable(value, old, path));
        }
    }
    causes.extend(place(spec));
    if spec.get("sharedCounters").is_some() && spec.get("devices").is_some() {
        causes.push(StatusCause::invalid("spec", "\"\"", "only one of `sharedCounters` or `devices` is allowed"));
    }
    let devices = tree::items(spec, &["devices"]);
    let before = old.map_or(&[][..], |old| tree::items(old, &["spec", "devices"]));
    let has_taints_or_counters =
        |device: &Value| ["taints", "consumesCounters"].iter().any(|list| !tree::items(device, &[list]).is_empty());
    let max = if devices.iter().any(has_taints_or_counters) { TAINTED_DEVICES_MAX } else { DEVICES_MAX };
    let chooses_nodes = tree::is_true(spec, &["perDeviceNodeSelection"]);
    let device = |field: &str, device: &Value| {
        let before = before.iter().find(|other| name_of(other) == name_of(device));
        device_causes(field, device, before, chooses_nodes)
    };
    causes.extend(distinct("spec.devices", devices, max, device, name_of));
    let sets = tree::items(spec, &["sharedCounters"]);
    let counters = |field: &str, set: &Value| counters(field, set, "name");
    causes.extend(distinct("spec.sharedCounters", sets, COUNTER_SETS_MAX, counters, name_of));
    causes
}

/// Validates the node selection of a slice. Exactly one field of it must be set.
fn place(spec: &Value) -> Vec<StatusCause> {
    const WHY: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut causes = Vec::new();
    let mut set = Vec::new();
    match spec.get("nodeName").and_then(Value::as_str) {
        Some("") => {
            let why = "must be either unset or set to a non-empty string";
            causes.push(StatusCause::invalid("spec.nodeName", "\"\"", why));
        }
        Some(name) => {
            set.push("`nodeName`");
            causes.extend(text::check("spec.nodeName", name, dns1123_subdomain));
        }
        None => {}
    }
    if let Some(chosen) = spec.get("nodeSelector") {
        set.push("`nodeSelector`");
        causes.extend(affinity::node_selector("spec.nodeSelector", chosen));
        let terms = tree::items(chosen, &["nodeSelectorTerms"]);
        if terms.len() != 1 {
            let why = "must have exactly one node selector term";
            let shown = Value::from(terms.to_vec());
            causes.push(StatusCause::invalid("spec.nodeSelector.nodeSelectorTerms", shown, why));
        }
    }
    for (part, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        match spec.get(part).and_then(Value::as_bool) {
            Some(true) => set.push(shown),
            Some(false) => {
                let why = "must be either unset or set to true";
                causes.push(StatusCause::invalid(format!("spec.{part}"), false, why));
            }
            None => {}
        }
    }
    match set.len() {
        0 => causes.push(StatusCause::required("spec", WHY)),
        1 => {}
        _ => {
            let why = format!("{WHY}, but multiple fields are set");
            causes.push(StatusCause::invalid("spec", quoted(&format!("{{{}}}", set.join(", "))), &why));
        }
    }
    causes
}

fn device_causes(field: &str, device: &Value, before: Option<&Value>, chooses_nodes: bool) -> Vec<StatusCause> {
    let entries = |part: &str| {
        let entries = device.get(part).and_then(Value::as_object);
        entries.into_iter().flat_map(|entries| entries.iter())
    };
    let mut causes = text::check(&format!("{field}.name"), tree::text(device, &["name"]), dns1123_label);
    let count = entries("attributes").count() + entries("capacity").count();
    if count > ATTRIBUTES_MAX {
        let why = format!("the total number of attributes and capacities must not exceed {ATTRIBUTES_MAX}");
        causes.push(StatusCause::invalid(field, count, &why));
    }
    for (name, value) in entries("attributes") {
        let field = format!("{field}.attributes[{name}]");
        causes.extend(qualified(&field, name));
        causes.extend(attribute(&field, value));
    }
    for (name, capacity) in entries("capacity") {
        let field = format!("{field}.capacity[{name}]");
        causes.extend(qualified(&field, name));
        let Some(policy) = capacity.get("requestPolicy") else { continue };
        let field = format!("{field}.requestPolicy");
        if tree::is_true(device, &["allowMultipleAllocations"]) {
            causes.extend(request_policy(&field, policy, &amount(capacity.get("value")).unwrap_or_default()));
        } else {
            causes.push(StatusCause::forbidden(field, "allowMultipleAllocations must be true"));
        }
    }
    if before.is_none_or(|before| before.get("taints") != device.get("taints")) {
        causes.extend(each(&format!("{field}.taints"), tree::items(device, &["taints"]), TAINTS_MAX, taint));
    }
    let consumed = |field: &str, set: &Value| counters(field, set, "counterSet");
    let set = |set: &Value| tree::text(set, &["counterSet"]).to_owned();
    let sets = tree::items(device, &["consumesCounters"]);
    causes.extend(distinct(&format!("{field}.consumesCounters"), sets, CONSUMED_SETS_MAX, consumed, set));
    causes.extend(device_place(field, device, chooses_nodes));
    causes.extend(device_status::binding(field, device));
    causes
}

/// Validates the node selection of a device, which is allowed with `perDeviceNodeSelection` only.
fn device_place(field: &str, device: &Value, chooses_nodes: bool) -> Vec<StatusCause> {
    const WHY: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                       `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    if !chooses_nodes {
        let is_set = ["nodeName", "nodeSelector", "allNodes"].iter().any(|part| device.get(part).is_some());
        let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to \
                   true in the ResourceSlice spec";
        return is_set.then(|| StatusCause::invalid(field, "null", why)).into_iter().collect();
    }
    let mut causes = Vec::new();
    let mut set = Vec::new();
    match device.get("nodeName").and_then(Value::as_str) {
        Some("") => causes.push(StatusCause::invalid(format!("{field}.nodeName"), "\"\"", "must not be empty")),
        Some(name) => {
            set.push("`nodeName`");
            causes.extend(text::check(&format!("{field}.nodeName"), name, dns1123_subdomain));
        }
        None => {}
    }
    if let Some(chosen) = device.get("nodeSelector") {
        set.push("`nodeSelector`");
        causes.extend(affinity::node_selector(&format!("{field}.nodeSelector"), chosen));
    }
    match device.get("allNodes").and_then(Value::as_bool) {
        Some(true) => set.push("`allNodes`"),
        Some(false) => {
            let why = "must be either unset or set to true";
            causes.push(StatusCause::invalid(format!("{field}.allNodes"), false, why));
        }
        None => {}
    }
    match set.len() {
        0 => causes.push(StatusCause::required(field, WHY)),
        1 => {}
        _ => causes.push(StatusCause::invalid(field, quoted(&format!("{{{}}}", set.join(", "))), WHY)),
    }
    causes
}

fn attribute(field: &str, attribute: &Value) -> Vec<StatusCause> {
    const KINDS: [(&str, &str); 4] =
        [("IntValue", "int"), ("BoolValue", "bool"), ("StringValue", "string"), ("VersionValue", "version")];
    const LISTS: [&str; 4] = ["ints", "bools", "strings", "versions"];
    let mut causes = Vec::new();
    let text_of = |part: &str| attribute.get(part).and_then(Value::as_str);
    if text_of("string").is_some_and(|text| text.len() > VALUE_MAX) {
        causes.push(StatusCause::too_long(format!("{field}.string"), VALUE_MAX));
    }
    if let Some(version) = text_of("version") {
        let field = format!("{field}.version");
        if kubewright_cel::Semver::parse(version).is_none() {
            let why = "must be a string compatible with semver.org spec 2.0.0";
            causes.push(StatusCause::invalid(field.as_str(), quoted(version), why));
        }
        if version.len() > VALUE_MAX {
            causes.push(StatusCause::too_long(field, VALUE_MAX));
        }
    }
    let set = KINDS.iter().map(|(_, name)| *name).chain(LISTS).filter(|name| attribute.get(name).is_some()).count();
    if set != 1 {
        let shown = match set {
            0 => "\"\"".to_owned(),
            _ => text::internal(attribute, &KINDS.map(|(go, name)| (go, name, "null"))),
        };
        causes.push(StatusCause::invalid(field, shown, "exactly one value must be specified"));
    }
    causes
}

fn taint(field: &str, taint: &Value) -> Vec<StatusCause> {
    let text_of = |part: &str| tree::text(taint, &[part]);
    let mut causes = text::check(&format!("{field}.key"), text_of("key"), qualified_name);
    causes.extend(text::check_optional(&format!("{field}.value"), text_of("value"), label_value));
    causes.extend(text::choice(&format!("{field}.effect"), text_of("effect"), &EFFECTS));
    causes
}

/// Validates a counter set. `name` is the field with its name.
fn counters(field: &str, set: &Value, name: &str) -> Vec<StatusCause> {
    let mut causes = text::required(&format!("{field}.{name}"), tree::text(set, &[name]), dns1123_label);
    let field = format!("{field}.counters");
    let counters = set.get("counters").and_then(Value::as_object);
    match counters.map_or(0, |counters| counters.len()) {
        0 => causes.push(StatusCause::required(field, "")),
        count if count > LIST_MAX => causes.push(StatusCause::too_many(field, count, LIST_MAX)),
        _ => {
            let names = counters.into_iter().flat_map(|counters| counters.keys());
            causes.extend(names.flat_map(|name| text::check(&format!("{field}[{name}]"), name, dns1123_label)));
        }
    }
    causes
}

fn amount(value: Option<&Value>) -> Option<Quantity> {
    value?.as_str()?.parse().ok()
}

/// Validates the request policy of a shared capacity: `validValues` or `validRange`.
fn request_policy(field: &str, policy: &Value, all: &Quantity) -> Vec<StatusCause> {
    let amounts = tree::items(policy, &["validValues"]);
    let range = policy.get("validRange");
    let default = amount(policy.get("default"));
    let missing = |part: &str| {
        vec![StatusCause::required(format!("{field}.default"), &format!("required when {part} is defined"))]
    };
    match (amounts.is_empty(), range, default) {
        (false, Some(_), _) => {
            let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the \
                       same time";
            vec![StatusCause::forbidden(field, why)]
        }
        (false, None, None) => missing("validValues"),
        (false, None, Some(default)) => listed_amounts(&format!("{field}.validValues"), amounts, &default, all),
        (true, Some(_), None) => missing("validRange"),
        (true, Some(range), Some(default)) => range_causes(&format!("{field}.validRange"), range, &default, all),
        (true, None, _) => Vec::new(),
    }
}

fn listed_amounts(field: &str, amounts: &[Value], default: &Quantity, all: &Quantity) -> Vec<StatusCause> {
    let known: Vec<Quantity> = amounts.iter().filter_map(|one| amount(Some(one))).collect();
    let shown = |one: &Quantity| quoted(&one.to_string());
    let mut causes = Vec::new();
    for (index, pair) in known.windows(2).enumerate().filter(|(_, pair)| pair[0] > pair[1]) {
        let why = "values must be sorted in ascending order";
        causes.push(StatusCause::invalid(format!("{field}[{}]", index + 1), shown(&pair[1]), why));
    }
    let rule = |field: &str, one: &Value| {
        let too_large = amount(Some(one)).filter(|one| one > all);
        let why = format!("option is larger than capacity value: {all}");
        too_large.map(|one| StatusCause::invalid(field, shown(&one), &why)).into_iter().collect()
    };
    let key = |one: &Value| amount(Some(one)).unwrap_or_default().value().to_string();
    causes.extend(distinct(field, amounts, AMOUNTS_MAX, rule, key));
    if amounts.len() > AMOUNTS_MAX || !known.contains(default) {
        let why = "default value is not valid according to the requestPolicy";
        causes.push(StatusCause::invalid(field, shown(default), why));
    }
    causes
}

fn range_causes(field: &str, range: &Value, default: &Quantity, all: &Quantity) -> Vec<StatusCause> {
    let Some(min) = amount(range.get("min")) else {
        return vec![StatusCause::required(format!("{field}.min"), "required when validRange is defined")];
    };
    let (max, step) = (amount(range.get("max")), amount(range.get("step")));
    let mut causes = Vec::new();
    let mut complain = |is_wrong: bool, part: &str, shown: &Quantity, why: String| {
        if is_wrong {
            causes.push(StatusCause::invalid(format!("{field}.{part}"), quoted(&shown.to_string()), &why));
        }
    };
    complain(min > *all, "min", &min, format!("min is larger than capacity value: {all}"));
    complain(*default < min, "min", default, format!("default is less than min: {min}"));
    if let Some(max) = &max {
        complain(min > *max, "max", &min, format!("min is larger than max: {max}"));
        complain(max > all, "max", max, format!("max is larger than capacity value: {all}"));
        complain(default > max, "max", default, format!("default is more than max: {max}"));
    }
    if let Some(step) = step {
        let first = min.clone() + &step;
        complain(first > *all, "step", &step, format!("one step {first} is larger than capacity value: {all}"));
        for value in [Some(default), max.as_ref()].into_iter().flatten() {
            let is_between = value.value().wrapping_sub(min.value()).checked_rem(step.value()).unwrap_or(1) != 0;
            let why = format!("value is not a multiple of a given step ({step}) from ({min})");
            complain(is_between, "step", value, why);
        }
    }
    causes
}
