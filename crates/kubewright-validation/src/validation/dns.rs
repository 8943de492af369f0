//! Validates the DNS settings of pods.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::dns1123_subdomain;
use kubewright_core::{Value, tree};

use super::{address, text};

const SERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_LENGTH_MAX: usize = 2048;

/// Validates the DNS policy and configuration of a pod spec.
pub(super) fn config(field: &str, spec: &Value) -> Vec<StatusCause> {
    let config = spec.get("dnsConfig");
    let servers = tree::items(spec, &["dnsConfig", "nameservers"]);
    if tree::text(spec, &["dnsPolicy"]) == "None" {
        if config.is_none() {
            return vec![StatusCause::required(field, "must provide `dnsConfig` when `dnsPolicy` is None")];
        }
        if servers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return vec![StatusCause::required(format!("{field}.nameservers"), why)];
        }
    }
    let Some(config) = config else { return Vec::new() };
    let mut causes = Vec::new();
    if servers.len() > SERVERS_MAX {
        let why = format!("must not have more than {SERVERS_MAX} nameservers");
        causes.push(StatusCause::invalid(format!("{field}.nameservers"), Value::from(servers.to_vec()), &why));
    }
    for (index, server) in servers.iter().filter_map(Value::as_str).enumerate() {
        causes.extend(address::ip(&format!("{field}.nameservers[{index}]"), server));
    }
    let searches = tree::items(config, &["searches"]);
    let mut complain = |why: String| {
        causes.push(StatusCause::invalid(format!("{field}.searches"), Value::from(searches.to_vec()), &why));
    };
    if searches.len() > SEARCHES_MAX {
        complain(format!("must not have more than {SEARCHES_MAX} search paths"));
    }
    let length = searches.iter().filter_map(Value::as_str).map(|search| search.len() + 1).sum::<usize>();
    if length.saturating_sub(1) > SEARCH_LENGTH_MAX {
        complain(format!(
            "must not have more than {SEARCH_LENGTH_MAX} characters (including spaces) in the search list"
        ));
    }
    for (index, search) in searches.iter().filter_map(Value::as_str).enumerate() {
        // "." is the root domain. Underscores are allowed as in SRV names.
        if search == "." {
            continue;
        }
        let plain = search.strip_suffix('.').unwrap_or(search);
        let rule = |text: &str| {
            let relaxed = text.split('.').map(|part| part.replace('_', "a")).collect::<Vec<_>>().join(".");
            if dns1123_subdomain(&relaxed).is_empty() { Vec::new() } else { dns1123_subdomain(text) }
        };
        causes.extend(text::check(&format!("{field}.searches[{index}]"), plain, rule));
    }
    for (index, option) in tree::items(config, &["options"]).iter().enumerate() {
        if tree::text(option, &["name"]).is_empty() {
            causes.push(StatusCause::required(format!("{field}.options[{index}]"), "must not be empty"));
        }
    }
    causes
}

/// Validates host aliases, which the kubelet writes into `/etc/hosts`.
pub(super) fn host_aliases(field: &str, aliases: &[Value]) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, alias) in aliases.iter().enumerate() {
        let field = format!("{field}[{index}]");
        causes.extend(address::ip(&format!("{field}.ip"), tree::text(alias, &["ip"])));
        for (index, name) in tree::items(alias, &["hostnames"]).iter().filter_map(Value::as_str).enumerate() {
            causes.extend(text::check(&format!("{field}.hostnames[{index}]"), name, dns1123_subdomain));
        }
    }
    causes
}
