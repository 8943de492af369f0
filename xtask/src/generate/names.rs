//! Converts API names to Rust names.

/// `podIPs` → `pod_ips`, `hostPID` → `host_pid`, `x-kubernetes-list-type` →
/// `x_kubernetes_list_type`.
pub fn field(name: &str) -> String {
    let name = match name {
        "$ref" => "refPath",
        "$schema" => "schema",
        other => other,
    };
    let snake = snake(&name.replace('-', "_"));
    match snake.as_str() {
        "type" | "continue" | "enum" | "ref" | "match" | "in" | "for" | "static" | "use" | "where" => snake + "_",
        _ => snake,
    }
}

/// `PodSpec` → `POD_SPEC`.
pub fn constant(name: &str) -> String {
    snake(name).to_uppercase()
}

/// The method of a resource: `NetworkPolicy` and `networkpolicies` → `network_policies`.
pub fn plural(kind: &str, plural: &str) -> String {
    let common = common(kind, plural);
    format!("{}{}", snake(&kind[..common]), &plural[common..])
}

/// The same in Go's spelling: `NetworkPolicies`.
pub fn go_plural(kind: &str, plural: &str) -> String {
    let common = common(kind, plural);
    format!("{}{}", &kind[..common], &plural[common..])
}

/// `core_v1` → `CoreV1`.
pub fn go(name: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_').map(capital).collect()
}

/// Length of the common prefix of two names, in bytes.
fn common(kind: &str, plural: &str) -> usize {
    kind.bytes().zip(plural.bytes()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
}

/// Splits at upper-case letters, keeping acronyms and their plurals whole.
fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (index, c) in chars.iter().enumerate() {
        if c.is_ascii_uppercase() && index > 0 && chars[index - 1] != '_' {
            let after_lower = !chars[index - 1].is_ascii_uppercase();
            let before_lower = chars.get(index + 1).is_some_and(|next| next.is_ascii_lowercase());
            let plural =
                chars.get(index + 1) == Some(&'s') && chars.get(index + 2).is_none_or(|next| next.is_ascii_uppercase());
            let after_plural = chars[index - 1] == 's' && index >= 2 && chars[index - 2].is_ascii_uppercase();
            if after_lower || (before_lower && !plural) || after_plural {
                out.push('_');
            }
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acronyms_and_their_plurals_stay_whole() {
        for (name, expected) in [
            ("podIPs", "pod_ips"),
            ("clusterIP", "cluster_ip"),
            ("hostPID", "host_pid"),
            ("nonResourceURLs", "non_resource_urls"),
            ("serverAddressByClientCIDRs", "server_address_by_client_cidrs"),
            ("insecureSkipTLSVerify", "insecure_skip_tls_verify"),
            ("HTTPGetAction", "http_get_action"),
            ("setHostnameAsFQDN", "set_hostname_as_fqdn"),
            ("x-kubernetes-list-type", "x_kubernetes_list_type"),
            ("type", "type_"),
        ] {
            assert_eq!(field(name), expected);
        }
    }

    #[test]
    fn method_names_are_plural_words() {
        for (kind, name, expected, go) in [
            ("NetworkPolicy", "networkpolicies", "network_policies", "NetworkPolicies"),
            ("Endpoints", "endpoints", "endpoints", "Endpoints"),
            ("IPAddress", "ipaddresses", "ip_addresses", "IPAddresses"),
            ("CSIDriver", "csidrivers", "csi_drivers", "CSIDrivers"),
            ("ComponentStatus", "componentstatuses", "component_statuses", "ComponentStatuses"),
        ] {
            assert_eq!((plural(kind, name).as_str(), go_plural(kind, name).as_str()), (expected, go));
        }
    }
}
