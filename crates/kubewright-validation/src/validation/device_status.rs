//! Validates the status of ResourceClaims.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta};
use kubewright_core::validation::{dns1123_label, qualified_name};

use super::device::{LIST_MAX, PARAMETERS_MAX, distinct, driver, each, pool, raw, string_key};
use super::device_claim::{for_requests, reference};
use super::metadata::quoted;
use super::{address, affinity, condition, number, text};

const RESERVED_MAX: usize = 256;
const CONDITIONS_MAX: usize = 8;
const ADDRESSES_MAX: usize = 16;
/// Maximum lengths of an interface name and a hardware address, in bytes.
const INTERFACE_MAX: usize = 256;
const HARDWARE_MAX: usize = 128;
/// Maximum number of binding conditions of a device.
const BINDING_MAX: usize = 4;

/// Validates the status of a ResourceClaim.
pub(super) fn status(value: &Value, old: &Value) -> Vec<StatusCause> {
    const RESERVED: &str = "status.reservedFor";
    let nothing = Value::default();
    let [now, before] = [value, old].map(|claim| claim.get("status").unwrap_or(&nothing));
    let users = tree::items(now, &["reservedFor"]);
    let user = |field: &str, user: &Value| text::missing(field, user, &["resource", "name", "uid"]);
    let uid = |user: &Value| tree::text(user, &["uid"]).to_owned();
    let mut causes = distinct(RESERVED, users, RESERVED_MAX, user, uid);
    let allocation = now.get("allocation");
    let results = tree::items(now, &["allocation", "devices", "results"]);
    let device = |field: &str, device: &Value| device_causes(field, device, results);
    causes.extend(distinct("status.devices", tree::items(now, &["devices"]), usize::MAX, device, id));
    if !users.is_empty() && allocation.is_none() {
        causes.push(StatusCause::forbidden(RESERVED, "may not be specified when `allocated` is not set"));
    } else if value.is_being_deleted() && users.iter().any(|user| !tree::items(before, &["reservedFor"]).contains(user))
    {
        let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        causes.push(StatusCause::forbidden(RESERVED, why));
    }
    match (allocation, before.get("allocation")) {
        (Some(_), Some(_)) => causes.extend(number::immutable(value, old, &["status", "allocation"])),
        (Some(allocation), None) => causes.extend(allocated(value, allocation)),
        (None, _) => {}
    }
    causes
}

/// Identifies an allocated device: `driver/pool/device/shareID`.
fn id(device: &Value) -> String {
    let parts = ["driver", "pool", "device", "shareID"].map(|part| tree::text(device, &[part]));
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

fn allocated(claim: &Value, allocation: &Value) -> Vec<StatusCause> {
    const FIELD: &str = "status.allocation";
    let requests = tree::items(claim, &["spec", "devices", "requests"]);
    let list = |part: &str| tree::items(allocation, &["devices", part]);
    let result = |field: &str, result: &Value| {
        let text_of = |part: &str| tree::text(result, &[part]);
        let mut causes = reference(&format!("{field}.request"), text_of("request"), requests);
        causes.extend(names(field, result));
        causes.extend(binding(field, result));
        causes.extend(share(field, result));
        causes
    };
    let mut causes = each(&format!("{FIELD}.devices.results"), list("results"), LIST_MAX, result);
    let config = |field: &str, config: &Value| {
        let source = tree::text(config, &["source"]);
        let source = text::choice(&format!("{field}.source"), source, &["FromClaim", "FromClass"]);
        source.into_iter().chain(for_requests(field, config, requests)).collect()
    };
    // The configurations come from the class and from the claim, hence twice the limit.
    causes.extend(each(&format!("{FIELD}.devices.config"), list("config"), 2 * LIST_MAX, config));
    if let Some(chosen) = allocation.get("nodeSelector") {
        causes.extend(affinity::node_selector(&format!("{FIELD}.nodeSelector"), chosen));
    }
    causes
}

fn names(field: &str, device: &Value) -> Vec<StatusCause> {
    let mut causes = driver(&format!("{field}.driver"), tree::text(device, &["driver"]));
    causes.extend(pool(&format!("{field}.pool"), tree::text(device, &["pool"])));
    causes.extend(text::check(&format!("{field}.device"), tree::text(device, &["device"]), dns1123_label));
    causes
}

/// Validates a share ID, which must be a UUID.
fn share(field: &str, device: &Value) -> Option<StatusCause> {
    let id = device.get("shareID")?.as_str()?;
    let is_hexadecimal = |(index, c): (usize, u8)| match index {
        8 | 13 | 18 | 23 => c == b'-',
        _ => c.is_ascii_hexdigit(),
    };
    let why = if id.len() != 36 {
        format!("error validating uid: invalid UUID length: {}", id.len())
    } else if !id.bytes().enumerate().all(is_hexadecimal) {
        "error validating uid: invalid UUID format".to_owned()
    } else if id.bytes().any(|c| c.is_ascii_uppercase()) {
        "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal \
         characters"
            .to_owned()
    } else {
        return None;
    };
    Some(StatusCause::invalid(format!("{field}.shareID"), quoted(id), &why))
}

/// Validates a device status.
fn device_causes(field: &str, device: &Value, results: &[Value]) -> Vec<StatusCause> {
    let mut causes = names(field, device);
    causes.extend(share(field, device));
    if !results.iter().any(|result| id(result) == id(device)) {
        let why = "must be an allocated device in the claim";
        causes.push(StatusCause::invalid(field, quoted(&id(device)), why));
    }
    let (conditions, list) = (tree::items(device, &["conditions"]), format!("{field}.conditions"));
    if conditions.len() > CONDITIONS_MAX {
        causes.push(StatusCause::too_many(list.as_str(), conditions.len(), CONDITIONS_MAX));
    }
    causes.extend(condition::conditions(&list, conditions));
    if let Some(data) = device.get("data") {
        causes.extend(raw(&format!("{field}.data"), Some(data), PARAMETERS_MAX));
    }
    let Some(network) = device.get("networkData") else { return causes };
    let field = format!("{field}.networkData");
    for (part, max) in [("interfaceName", INTERFACE_MAX), ("hardwareAddress", HARDWARE_MAX)] {
        if tree::text(network, &[part]).len() > max {
            causes.push(StatusCause::too_long(format!("{field}.{part}"), max));
        }
    }
    let rule = |field: &str, ip: &Value| {
        address::interface_address(field, ip.as_str().unwrap_or_default()).into_iter().collect()
    };
    causes.extend(distinct(&format!("{field}.ips"), tree::items(network, &["ips"]), ADDRESSES_MAX, rule, string_key));
    causes
}

/// Validates the binding conditions and the binding failure conditions.
pub(super) fn binding(field: &str, device: &Value) -> Vec<StatusCause> {
    const LISTS: [&str; 2] = ["bindingConditions", "bindingFailureConditions"];
    let [met, failed] = LISTS.map(|list| tree::items(device, &[list]));
    let rule = |field: &str, kind: &Value| text::check(field, kind.as_str().unwrap_or_default(), qualified_name);
    let mut causes = Vec::new();
    for (list, kinds) in LISTS.into_iter().zip([met, failed]) {
        causes.extend(each(&format!("{field}.{list}"), kinds, BINDING_MAX, rule));
    }
    for (list, kinds) in LISTS.into_iter().zip([met, failed]) {
        for (index, kind) in kinds.iter().enumerate() {
            let field = format!("{field}.{list}[{index}]");
            if kinds[..index].contains(kind) {
                causes.push(StatusCause::duplicate(field.as_str(), kind));
            }
            if list == LISTS[1] && met.contains(kind) {
                let why = "bindingFailureConditions must not overlap with bindingConditions";
                causes.push(StatusCause::invalid(field, kind, why));
            }
        }
    }
    for (index, other) in [(0, 1), (1, 0)] {
        let lists = [met, failed];
        if lists[index].is_empty() && !lists[other].is_empty() {
            let why = format!("{} are required to use {}", LISTS[index], LISTS[other]);
            causes.push(StatusCause::invalid(format!("{field}.{}", LISTS[index]), "null", &why));
        }
    }
    causes
}
