//! Validates APIServices.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta};
use kubewright_core::validation::{dns1035_label, dns1123_subdomain};

use super::metadata::quoted;
use super::{config, number, text};

/// The maximum priority of a group and of a version.
const PRIORITIES: [(&str, i64); 2] = [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)];

/// Validates an APIService. Its name must be `version.group`.
pub(super) fn service(value: &Value) -> Vec<StatusCause> {
    let text_of = |part: &str| tree::text(value, &["spec", part]);
    let (group, version) = (text_of("group"), text_of("version"));
    let mut causes = Vec::new();
    let wanted = format!("{version}.{group}");
    if value.name() != wanted {
        let why = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        causes.push(StatusCause::invalid("metadata.name", quoted(value.name()), &why));
    }
    if group.is_empty() && version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        causes.push(StatusCause::required("spec.group", why));
    }
    causes.extend(text::check_optional("spec.group", group, dns1123_subdomain));
    causes.extend(text::check("spec.version", version, dns1035_label));
    for (part, most) in PRIORITIES {
        let number = tree::int(value, &["spec", part]).unwrap_or_default();
        if !(1..=most).contains(&number) {
            let why = format!("must be positive and less than {most}");
            causes.push(StatusCause::invalid(format!("spec.{part}"), number, &why));
        }
    }
    causes.extend(connection(value));
    causes
}

/// Validates how the server connects to the service. A local APIService has no connection.
fn connection(value: &Value) -> Vec<StatusCause> {
    const INSECURE: &str = "spec.insecureSkipTLSVerify";
    let bundle = config::decoded_length(tree::text(value, &["spec", "caBundle"]));
    let is_insecure = tree::is_true(value, &["spec", "insecureSkipTLSVerify"]);
    let mut causes = Vec::new();
    let Some(service) = tree::get(value, &["spec", "service"]) else {
        if bundle > 0 {
            let why = "local APIServices may not have a caBundle";
            causes.push(StatusCause::invalid("spec.caBundle", quoted(&format!("{bundle} bytes")), why));
        }
        if is_insecure {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            causes.push(StatusCause::invalid(INSECURE, true, why));
        }
        return causes;
    };
    causes.extend(text::missing("spec.service", service, &["namespace", "name"]));
    let port = tree::int(service, &["port"]).unwrap_or_default();
    if number::port(String::new(), port).is_some() {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        causes.push(StatusCause::invalid("spec.service.port", port, why));
    }
    if is_insecure && bundle > 0 {
        causes.push(StatusCause::invalid(INSECURE, true, "may not be true if caBundle is present"));
    }
    causes
}

/// Validates the status of an APIService.
pub(super) fn status(value: &Value) -> Vec<StatusCause> {
    let conditions = tree::items(value, &["status", "conditions"]).iter().enumerate();
    let checked = conditions.filter_map(|(index, condition)| {
        let field = format!("status.conditions[{index}].status");
        number::one_of(field, tree::text(condition, &["status"]), &["True", "False", "Unknown"])
    });
    checked.collect()
}
