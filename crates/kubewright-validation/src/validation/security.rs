//! Validates the security contexts of pods and containers.

use std::collections::HashSet;

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::dns1123_subdomain;
use kubewright_core::{Value, tree};

use super::metadata::quoted;
use super::{number, text};

/// Maximum length of the path of a localhost profile, in bytes.
const PROFILE_MAX: usize = 4095;
const SYSCTL_RULE: &str = "must have at most 253 characters and match regex \
    ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Validates the security context of a pod spec.
pub(super) fn pod(field: &str, spec: &Value) -> Vec<StatusCause> {
    let Some(context) = spec.get("securityContext") else { return Vec::new() };
    let mut causes = ids(field, context, &["fsGroup", "runAsUser", "runAsGroup"]);
    for (index, group) in tree::items(context, &["supplementalGroups"]).iter().filter_map(Value::as_i64).enumerate() {
        causes.extend(id(format!("{field}.supplementalGroups[{index}]"), group));
    }
    if tree::is_true(spec, &["shareProcessNamespace"]) && tree::is_true(spec, &["hostPID"]) {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        causes.push(StatusCause::invalid(format!("{field}.shareProcessNamespace"), true, why));
    }
    causes.extend(sysctls(&format!("{field}.sysctls"), spec, tree::items(context, &["sysctls"])));
    let policy = context.get("fsGroupChangePolicy");
    causes.extend(text::optional_choice(
        &format!("{field}.fsGroupChangePolicy"),
        policy,
        &["Always", "OnRootMismatch"],
    ));
    causes.extend(seccomp(&format!("{field}.seccompProfile"), context.get("seccompProfile")));
    causes.extend(windows(&format!("{field}.windowsOptions"), context.get("windowsOptions")));
    causes.extend(app_armor(&format!("{field}.appArmorProfile"), context.get("appArmorProfile")));
    let policy = context.get("supplementalGroupsPolicy");
    causes.extend(text::optional_choice(&format!("{field}.supplementalGroupsPolicy"), policy, &["Merge", "Strict"]));
    let policy = context.get("seLinuxChangePolicy");
    causes.extend(text::optional_choice(
        &format!("{field}.seLinuxChangePolicy"),
        policy,
        &["MountOption", "Recursive"],
    ));
    causes
}

/// Validates the security context of a container.
pub(super) fn container(field: &str, container: &Value, has_host_users: bool) -> Vec<StatusCause> {
    let Some(context) = container.get("securityContext") else { return Vec::new() };
    let mut causes = ids(field, context, &["runAsUser", "runAsGroup"]);
    let mount = context.get("procMount");
    causes.extend(text::optional_choice(&format!("{field}.procMount"), mount, &["Default", "Unmasked"]));
    if has_host_users && tree::text(context, &["procMount"]) == "Unmasked" {
        let why = "`hostUsers` must be false to use `Unmasked`";
        causes.push(StatusCause::invalid(format!("{field}.procMount"), quoted("Unmasked"), why));
    }
    causes.extend(seccomp(&format!("{field}.seccompProfile"), context.get("seccompProfile")));
    if context.get("allowPrivilegeEscalation").and_then(Value::as_bool) == Some(false) {
        let mut complain = |what: &str| {
            let why = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
            causes.push(StatusCause::invalid(field, shown(context), &why));
        };
        if tree::is_true(context, &["privileged"]) {
            complain("`privileged` to true");
        }
        let added = tree::items(context, &["capabilities", "add"]);
        added.iter().filter(|one| one.as_str() == Some("CAP_SYS_ADMIN")).for_each(|_| {
            complain("`capabilities.Add` CAP_SYS_ADMIN");
        });
    }
    causes.extend(windows(&format!("{field}.windowsOptions"), context.get("windowsOptions")));
    causes.extend(app_armor(&format!("{field}.appArmorProfile"), context.get("appArmorProfile")));
    causes
}

fn shown(context: &Value) -> String {
    const FIELDS: [(&str, &str, &str); 12] = [
        ("Capabilities", "capabilities", "null"),
        ("Privileged", "privileged", "null"),
        ("SELinuxOptions", "seLinuxOptions", "null"),
        ("WindowsOptions", "windowsOptions", "null"),
        ("RunAsUser", "runAsUser", "null"),
        ("RunAsGroup", "runAsGroup", "null"),
        ("RunAsNonRoot", "runAsNonRoot", "null"),
        ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", "null"),
        ("AllowPrivilegeEscalation", "allowPrivilegeEscalation", "null"),
        ("ProcMount", "procMount", "null"),
        ("SeccompProfile", "seccompProfile", "null"),
        ("AppArmorProfile", "appArmorProfile", "null"),
    ];
    text::internal(context, &FIELDS)
}

/// Validates the user and group IDs that are set.
pub(super) fn ids(field: &str, context: &Value, names: &[&str]) -> Vec<StatusCause> {
    let set = names.iter().filter_map(|name| Some((name, tree::int(context, &[name])?)));
    set.filter_map(|(name, number)| id(format!("{field}.{name}"), number)).collect()
}

/// Validates a user or group ID.
pub(super) fn id(field: String, number: i64) -> Option<StatusCause> {
    let is_id = (0..=i64::from(i32::MAX)).contains(&number);
    (!is_id).then(|| StatusCause::invalid(field, number, "must be between 0 and 2147483647, inclusive"))
}

fn sysctls(field: &str, spec: &Value, sysctls: &[Value]) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mut seen = HashSet::new();
    for (index, sysctl) in sysctls.iter().enumerate() {
        let (field, name) = (format!("{field}[{index}].name"), tree::text(sysctl, &["name"]));
        if name.is_empty() {
            causes.push(StatusCause::required(field.as_str(), ""));
        } else if !is_sysctl(name) {
            causes.push(StatusCause::invalid(field.as_str(), quoted(name), SYSCTL_RULE));
        } else if seen.contains(&name) {
            causes.push(StatusCause::duplicate(field.as_str(), quoted(name)));
        }
        seen.insert(name);
        // Sysctls of the IPC or network namespace require that the pod has its own.
        let plain = name.replace('/', ".");
        let is_ipc = plain.starts_with("kernel.shm")
            || plain.starts_with("kernel.msg")
            || plain.starts_with("fs.mqueue.")
            || plain == "kernel.sem";
        for (part, is_concerned) in [("hostNetwork", plain.starts_with("net.")), ("hostIPC", is_ipc)] {
            if is_concerned && tree::is_true(spec, &[part]) {
                let why = format!("may not be specified when '{part}' is true");
                causes.push(StatusCause::invalid(field.as_str(), quoted(name), &why));
                break;
            }
        }
    }
    causes
}

fn is_sysctl(name: &str) -> bool {
    let is_end = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_segment = |part: &str| {
        part.bytes().all(|c| is_end(c) || c == b'-' || c == b'_')
            && part.bytes().next().is_some_and(is_end)
            && part.bytes().last().is_some_and(is_end)
    };
    name.len() <= 253 && name.split(['.', '/']).all(is_segment)
}

fn seccomp(field: &str, profile: Option<&Value>) -> Vec<StatusCause> {
    let Some(profile) = profile else { return Vec::new() };
    let (kind, path) = (tree::text(profile, &["type"]), profile.get("localhostProfile").and_then(Value::as_str));
    let mut causes = Vec::new();
    match kind {
        "" => {
            causes.push(StatusCause::required(format!("{field}.type"), "type is required when seccompProfile is set"))
        }
        kind => {
            let known = ["Localhost", "RuntimeDefault", "Unconfined"];
            causes.extend(number::one_of(format!("{field}.type"), kind, &known));
        }
    }
    let field = format!("{field}.localhostProfile");
    match (kind, path) {
        ("Localhost", None) => {
            causes.push(StatusCause::required(field, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(path)) => causes.extend(text::descending(&field, path)),
        (_, Some(_)) => {
            let fields = [("Type", "type", "\"\""), ("LocalhostProfile", "localhostProfile", "null")];
            let why = "can only be set when seccomp type is Localhost";
            causes.push(StatusCause::invalid(field, text::internal(profile, &fields), why));
        }
        (_, None) => {}
    }
    causes
}

fn app_armor(field: &str, profile: Option<&Value>) -> Vec<StatusCause> {
    const MISSING: &str = "must be set when AppArmor type is Localhost";
    let Some(profile) = profile else { return Vec::new() };
    let path = profile.get("localhostProfile").and_then(Value::as_str);
    let path_field = format!("{field}.localhostProfile");
    match (tree::text(profile, &["type"]), path) {
        ("Localhost", None) => vec![StatusCause::required(path_field, MISSING)],
        ("Localhost", Some(path)) => {
            let mut causes = Vec::new();
            if path.trim() != path {
                let why = "must not be padded with whitespace";
                causes.push(StatusCause::invalid(path_field.as_str(), quoted(path), why));
            } else if path.is_empty() {
                causes.push(StatusCause::required(path_field.as_str(), MISSING));
            }
            if path.len() > PROFILE_MAX {
                causes.push(StatusCause::too_long(path_field, PROFILE_MAX));
            }
            causes
        }
        ("RuntimeDefault" | "Unconfined", Some(path)) => {
            let why = "can only be set when AppArmor type is Localhost";
            vec![StatusCause::invalid(path_field, quoted(path), why)]
        }
        ("RuntimeDefault" | "Unconfined", None) => Vec::new(),
        ("", _) => vec![StatusCause::required(format!("{field}.type"), "type is required when appArmorProfile is set")],
        (other, _) => {
            let known = ["Localhost", "RuntimeDefault", "Unconfined"];
            number::one_of(format!("{field}.type"), other, &known).into_iter().collect()
        }
    }
}

fn windows(field: &str, options: Option<&Value>) -> Vec<StatusCause> {
    let Some(options) = options else { return Vec::new() };
    let mut causes = Vec::new();
    if let Some(name) = options.get("gmsaCredentialSpecName").and_then(Value::as_str) {
        causes.extend(text::check(&format!("{field}.gmsaCredentialSpecName"), name, dns1123_subdomain));
    }
    let why = match options.get("gmsaCredentialSpec").and_then(Value::as_str) {
        Some("") => Some("gmsaCredentialSpec cannot be an empty string"),
        Some(spec) if spec.len() > 64 << 10 => Some("gmsaCredentialSpec size must be under 64 KiB"),
        _ => None,
    };
    let shown = tree::get(options, &["gmsaCredentialSpec"]).cloned().unwrap_or_default();
    causes.extend(why.map(|why| StatusCause::invalid(format!("{field}.gmsaCredentialSpec"), shown, why)));
    if let Some(name) = options.get("runAsUserName").and_then(Value::as_str) {
        let field = format!("{field}.runAsUserName");
        causes
            .extend(windows_user(name).into_iter().map(|why| StatusCause::invalid(field.as_str(), quoted(name), why)));
    }
    causes
}

fn windows_user(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if name.bytes().any(|c| c.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    let parts: Vec<&str> = name.split('\\').collect();
    let (domain, user) = match parts[..] {
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return vec!["runAsUserName cannot contain more than one backslash"],
    };
    let mut complaints = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= 256) {
        complaints.push("runAsUserName's Domain length must be under 256 characters");
    }
    let is_net_bios = |domain: &str| {
        (1..=15).contains(&domain.chars().count())
            && !domain.starts_with('.')
            && !domain.contains(['/', ':', '*', '?', '"', '<', '>', '|'])
    };
    let is_label = |part: &str| {
        let is_end = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        part.len() <= 63
            && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
            && is_end(part.bytes().next())
            && is_end(part.bytes().last())
    };
    if domain.is_some_and(|domain| !is_net_bios(domain) && !domain.split('.').all(is_label)) {
        complaints.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        complaints.push("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        complaints.push("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.bytes().all(|c| c == b'.' || c == b' ') {
        complaints.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        complaints.push("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    complaints
}
