//! Validates Service addresses: cluster IPs, external IPs and source ranges.

use std::net::IpAddr;

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta, text_map};

use super::metadata::quoted;
use super::{address, number, text};

/// Validates the cluster IPs and IP families. An `ExternalName` Service has neither.
pub(super) fn cluster(spec: &Value, kind: &str) -> Vec<StatusCause> {
    const FIELD: &str = "spec.clusterIPs";
    if kind == "ExternalName" {
        return Vec::new();
    }
    let (first, all) = (tree::text(spec, &["clusterIP"]), tree::items(spec, &["clusterIPs"]));
    let shown = || Value::from(all.to_vec());
    let mut causes = Vec::new();
    if !first.is_empty() && all.first().is_some_and(|address| address.as_str() != Some(first)) {
        causes.push(StatusCause::invalid(FIELD, shown(), "first value must match `clusterIP`"));
    }
    causes.extend(families(spec));
    let mut is_unreadable = false;
    for (index, text) in all.iter().filter_map(Value::as_str).enumerate() {
        let cause = match text {
            "None" if index == 0 && all.len() == 1 => None,
            "None" if index == 0 => {
                Some(StatusCause::invalid(FIELD, shown(), "'None' must be the first and only value"))
            }
            text => address::ip(&format!("{FIELD}[{index}]"), text),
        };
        is_unreadable |= cause.is_some();
        causes.extend(cause);
    }
    if all.is_empty() && !matches!(first, "" | "None") {
        let cause = address::ip(&format!("{FIELD}[0]"), first);
        is_unreadable |= cause.is_some();
        causes.extend(cause);
    }
    if all.len() > 2 {
        causes.push(StatusCause::invalid(FIELD, shown(), "may only hold up to 2 values"));
    }
    if is_unreadable {
        return causes;
    }
    if all.len() > 1 && !address::is_dual(&all[..2]) {
        let why = "may specify no more than one IP for each IP family";
        causes.push(StatusCause::invalid(FIELD, shown(), why));
    }
    if first != "None" {
        causes.extend(fitting(all, tree::items(spec, &["ipFamilies"])));
    }
    causes
}

fn families(spec: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let families = tree::items(spec, &["ipFamilies"]);
    for (index, family) in families.iter().enumerate() {
        let field = format!("spec.ipFamilies[{index}]");
        let text = family.as_str().unwrap_or_default();
        causes.extend(number::one_of(field.as_str(), text, &["IPv4", "IPv6"]));
        if families[..index].contains(family) {
            causes.push(StatusCause::duplicate(field, quoted(text)));
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    causes.extend(text::optional_choice("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), &policies));
    causes
}

/// Validates that each address is of its listed IP family.
fn fitting(addresses: &[Value], families: &[Value]) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let pairs = addresses.iter().filter_map(Value::as_str).zip(families.iter().filter_map(Value::as_str));
    for (index, (text, family)) in pairs.enumerate() {
        let is_newer = text.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6());
        let is_wrong = family == "IPv4" && is_newer || family == "IPv6" && !is_newer;
        if is_wrong {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            causes.push(StatusCause::invalid(format!("spec.clusterIPs[{index}]"), quoted(text), &why));
        }
    }
    causes
}

/// Validates external IPs.
pub(super) fn external(spec: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, text) in tree::items(spec, &["externalIPs"]).iter().filter_map(Value::as_str).enumerate() {
        let field = format!("spec.externalIPs[{index}]");
        match address::ip(&field, text) {
            Some(cause) => causes.push(cause),
            None => causes.extend(address::not_special(&field, text)),
        }
    }
    causes
}

/// Validates the load balancer source ranges, in the field or in the older annotation.
pub(super) fn source_ranges(value: &Value, kind: &str) -> Vec<StatusCause> {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    const WHY: &str = "may only be used when `type` is 'LoadBalancer'";
    let ranges = tree::items(value, &["spec", "loadBalancerSourceRanges"]);
    let mut causes = Vec::new();
    // The real server uses the Go spelling of the field.
    let (field, texts): (String, Vec<String>) = if !ranges.is_empty() {
        let texts = ranges.iter().filter_map(Value::as_str).map(|text| text.trim().to_owned());
        ("spec.LoadBalancerSourceRanges".to_owned(), texts.collect())
    } else if let Some(text) = text_map(value.meta("annotations")).get(ANNOTATION) {
        let texts = text.trim().split(',').map(|text| text.trim().to_owned());
        (format!("metadata.annotations[{ANNOTATION}]"), texts.filter(|_| !text.trim().is_empty()).collect())
    } else {
        return causes;
    };
    if kind != "LoadBalancer" {
        causes.push(StatusCause::forbidden(field.as_str(), WHY));
    }
    for (index, text) in texts.iter().enumerate() {
        let field = if ranges.is_empty() { field.clone() } else { format!("{field}[{index}]") };
        causes.extend(address::cidr(&field, text));
    }
    causes
}
