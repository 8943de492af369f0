//! The program `kube-apiserver` of a folder for envtest: an API server with the flags of
//! kube-apiserver 1.36.
//!
//! A flag is honoured, or known and without effect, which one log line says, or unknown and
//! refused.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use kubewright_apiserver::{
    AdmissionPlugin, ApiServer, AuditLog, AuditLogOptions, AuditPolicy, AuditSink, AuditWebhook, AuditWebhookOptions,
    AuthorizationMode, AuthorizationModes, AuthorizationWebhook, AuthorizationWebhookOptions, GIT_VERSION,
    RequestHeaderOptions, RuntimeConfig, ServiceAccountOptions, StaticTokens,
};

use super::feature_gates::FeatureGateSettings;
use super::flags::{FlagKind, Flags};
use super::kube_apiserver_flags::{ABSENT_PLUGINS, FLAGS};
use super::storage;
use crate::apiserver::parse_span;
use crate::files::raise_limit;
use crate::log::Verbosity;
use crate::output;
use crate::signals::TerminationSignals;

/// The flags that this program honours.
const HONOURED: &[&str] = &[
    "anonymous-auth",
    "api-audiences",
    "audit-log-maxage",
    "audit-log-maxbackup",
    "audit-log-maxsize",
    "audit-log-path",
    "audit-policy-file",
    "audit-webhook-batch-buffer-size",
    "audit-webhook-batch-initial-backoff",
    "audit-webhook-batch-max-size",
    "audit-webhook-batch-max-wait",
    "audit-webhook-config-file",
    "audit-webhook-initial-backoff",
    "audit-webhook-mode",
    "authorization-mode",
    "authorization-webhook-cache-authorized-ttl",
    "authorization-webhook-cache-unauthorized-ttl",
    "authorization-webhook-config-file",
    "authorization-webhook-version",
    "bind-address",
    "cert-dir",
    "client-ca-file",
    "disable-admission-plugins",
    "enable-admission-plugins",
    "enable-priority-and-fairness",
    "encryption-provider-config",
    "etcd-cafile",
    "etcd-certfile",
    "etcd-compaction-interval",
    "etcd-keyfile",
    "etcd-prefix",
    "etcd-servers",
    "event-ttl",
    "feature-gates",
    "requestheader-allowed-names",
    "requestheader-client-ca-file",
    "requestheader-extra-headers-prefix",
    "requestheader-group-headers",
    "requestheader-uid-headers",
    "requestheader-username-headers",
    "runtime-config",
    "secure-port",
    "service-account-issuer",
    "service-account-jwks-uri",
    "service-account-key-file",
    "service-account-signing-key-file",
    "service-cluster-ip-range",
    "tls-cert-file",
    "tls-private-key-file",
    "token-auth-file",
    "v",
];

/// Flags whose default is what this program does anyway.
const ALWAYS_SO: &[&str] = &["allow-privileged", "advertise-address"];

const DEFAULT_PORT: u16 = 6443;

pub(super) async fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let flags = Flags::parse("kube-apiserver", arguments, kind)?;
    if flags.has("help") || flags.has("h") {
        return Ok(output::print(help())?);
    }
    if flags.has("version") {
        return Ok(output::print(format!("Kubernetes {GIT_VERSION}\n"))?);
    }
    let mut signals = TerminationSignals::new()?;
    Verbosity::of_klog(flags.parsed("v", number)?.unwrap_or_default()).start();
    raise_limit();
    let server = storage::apply(configure(&flags)?, &flags).await?;
    log_flags_without_effect(&flags);
    let server = server.start().await?;
    signals.wait().await;
    server.stop().await;
    Ok(())
}

fn kind(name: &str) -> Option<FlagKind> {
    let index = FLAGS.binary_search_by_key(&name, |(name, _)| name).ok()?;
    Some(FLAGS[index].1)
}

fn help() -> String {
    let mut help = "The Kubernetes API server of kubewright, with the flags of kube-apiserver.\n\n\
                    Usage:\n  kube-apiserver [flags]\n\nHonoured flags:\n\n"
        .to_owned();
    let write = |help: &mut String, name: &str| {
        let dashes = if name.len() == 1 { "-" } else { "--" };
        *help += &format!("      {dashes}{name}\n");
    };
    HONOURED.iter().for_each(|name| write(&mut help, name));
    help += "\nFlags without effect:\n\n";
    FLAGS.iter().filter(|(name, _)| !HONOURED.contains(name)).for_each(|(name, _)| write(&mut help, name));
    help
}

/// The server that the flags describe.
fn configure(flags: &Flags) -> Result<ApiServer, Box<dyn Error>> {
    let mut server = ApiServer::in_memory().without_controllers().listen(address(flags)?);
    server = certificates(server, flags)?;
    server = authentication(server, flags)?;
    server = server.authorization_modes(authorization_modes(flags)?);
    server = admission_plugins(server, flags)?;
    server = audit(server, flags)?;
    server = features(server, flags)?;
    if let Some(ttl) = flags.parsed("event-ttl", parse_span)? {
        server = server.event_ttl(ttl);
    }
    // A second range is for the other family of addresses.
    if let Some(ranges) = flags.value("service-cluster-ip-range") {
        let (first, second) = ranges.split_once(',').unwrap_or((ranges, ""));
        let why = |error| format!("invalid argument {first:?} for \"--service-cluster-ip-range\" flag: {error}");
        server = server.service_addresses(first.parse().map_err(why)?);
        if !second.is_empty() {
            tracing::info!(range = second, "Services have one family of addresses: the second range has no effect");
        }
    }
    Ok(server)
}

fn address(flags: &Flags) -> Result<SocketAddr, String> {
    let ip = |text: &str| text.parse::<IpAddr>().map_err(|_| format!("failed to parse IP: {text:?}"));
    // The real server listens on all addresses by default. This one is for tests on one machine.
    let ip = flags.parsed("bind-address", ip)?.unwrap_or(Ipv4Addr::LOCALHOST.into());
    let port = flags.parsed("secure-port", number)?.unwrap_or(DEFAULT_PORT.into());
    match u16::try_from(port) {
        Ok(port @ 1..) => Ok(SocketAddr::new(ip, port)),
        _ => {
            Err(format!("--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"))
        }
    }
}

fn certificates(mut server: ApiServer, flags: &Flags) -> Result<ApiServer, String> {
    match (flags.value("tls-cert-file"), flags.value("tls-private-key-file")) {
        (Some(certificate), Some(key)) => server = server.serving_certificate(certificate, key),
        (None, None) => {
            if let Some(directory) = flags.value("cert-dir") {
                server = server.certificate_directory(directory);
            }
        }
        _ => return Err("--tls-cert-file and --tls-private-key-file must be given together".to_owned()),
    }
    if let Some(file) = flags.value("client-ca-file") {
        server = server.client_ca_file(file);
    }
    Ok(server)
}

fn authentication(mut server: ApiServer, flags: &Flags) -> Result<ApiServer, Box<dyn Error>> {
    if let Some(file) = flags.value("requestheader-client-ca-file") {
        let list = |name| flags.list(name).to_vec();
        let mut options = RequestHeaderOptions::default();
        options.client_ca_file = file.into();
        options.allowed_names = list("requestheader-allowed-names");
        options.username_headers = list("requestheader-username-headers");
        options.uid_headers = list("requestheader-uid-headers");
        options.group_headers = list("requestheader-group-headers");
        options.extra_header_prefixes = list("requestheader-extra-headers-prefix");
        server = server.request_header(options);
    }
    let mut options = ServiceAccountOptions::default();
    options.issuers = flags.list("service-account-issuer").to_vec();
    options.signing_key_file = flags.value("service-account-signing-key-file").map(Into::into);
    options.key_files = flags.list("service-account-key-file").iter().map(Into::into).collect();
    options.api_audiences = flags.list("api-audiences").to_vec();
    options.key_set_url = flags.value("service-account-jwks-uri").map(Into::into);
    server = server.service_account_tokens(options);
    if let Some(file) = flags.value("token-auth-file") {
        let tokens = StaticTokens::from_file(file.as_ref()).map_err(|error| format!("{file}: {error}"))?;
        server = server.tokens(tokens);
    }
    if flags.switch("anonymous-auth") == Some(false) {
        server = server.reject_anonymous();
    }
    Ok(server)
}

fn audit(server: ApiServer, flags: &Flags) -> Result<ApiServer, Box<dyn Error>> {
    let mut sinks = Vec::new();
    if let Some(path) = flags.value("audit-log-path") {
        sinks.push(AuditSink::Log(audit_log(flags, path)?));
    }
    if let Some(kubeconfig) = flags.value("audit-webhook-config-file") {
        sinks.push(AuditSink::Webhook(audit_webhook(flags, kubeconfig)?));
    }
    // As in kube-apiserver, nothing is recorded without a policy.
    let Some(policy) = flags.value("audit-policy-file").filter(|_| !sinks.is_empty()) else { return Ok(server) };
    let text = std::fs::read_to_string(policy).map_err(|error| format!("{policy}: {error}"))?;
    let policy = AuditPolicy::from_yaml(&text).map_err(|error| format!("{policy}: {error}"))?;
    Ok(server.audit(policy, sinks))
}

fn audit_log(flags: &Flags, path: &str) -> Result<AuditLog, Box<dyn Error>> {
    // In kube-apiserver zero means no limit.
    let limit = |name| {
        flags
            .parsed(name, number)
            .map(|limit| limit.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0))
    };
    let mut options = AuditLogOptions::default();
    options.path = path.into();
    options.max_size = limit("audit-log-maxsize")?.map(|megabytes| megabytes.saturating_mul(1 << 20));
    options.max_backups = limit("audit-log-maxbackup")?.and_then(|files| usize::try_from(files).ok());
    options.max_age = limit("audit-log-maxage")?.map(|days| Duration::from_secs(days.saturating_mul(24 * 60 * 60)));
    Ok(AuditLog::open(options)?)
}

fn audit_webhook(flags: &Flags, kubeconfig: &str) -> Result<AuditWebhook, Box<dyn Error>> {
    let mut options = AuditWebhookOptions::new(kubeconfig);
    match flags.value("audit-webhook-mode").unwrap_or("batch") {
        "batch" => {
            let size = |name| {
                let size = flags.parsed(name, number)?.and_then(|size| usize::try_from(size).ok());
                Ok::<_, String>(size.filter(|size| *size > 0))
            };
            options.buffer_size = size("audit-webhook-batch-buffer-size")?.unwrap_or(options.buffer_size);
            options.max_batch_size = size("audit-webhook-batch-max-size")?.unwrap_or(options.max_batch_size);
            if let Some(wait) = flags.parsed("audit-webhook-batch-max-wait", parse_span)? {
                options.max_batch_wait = wait;
            }
        }
        // Each event is sent at once. Requests do not wait for it.
        "blocking" | "blocking-strict" => options.max_batch_size = 1,
        mode => {
            let why =
                format!("invalid audit webhook mode {mode}, allowed modes are \"batch,blocking,blocking-strict\"");
            return Err(why.into());
        }
    }
    for name in ["audit-webhook-initial-backoff", "audit-webhook-batch-initial-backoff"] {
        if let Some(backoff) = flags.parsed(name, parse_span)? {
            options.initial_backoff = backoff;
        }
    }
    Ok(AuditWebhook::new(options)?)
}

/// The modes by their names. As in kube-apiserver, everything is allowed by default.
fn authorization_modes(flags: &Flags) -> Result<AuthorizationModes, Box<dyn Error>> {
    let names = flags.list("authorization-mode");
    let webhook = flags.value("authorization-webhook-config-file");
    if webhook.is_some() && !names.iter().any(|name| name == "Webhook") {
        let why = "cannot specify --authorization-webhook-config-file without mode Webhook";
        return Err(why.into());
    }
    if names.is_empty() {
        return Ok(AuthorizationModes::new([AuthorizationMode::AlwaysAllow]));
    }
    let mut modes = Vec::new();
    for name in names {
        modes.push(match name.as_str() {
            "Webhook" => {
                let missing = "authorization-mode Webhook's authorization config file not passed";
                AuthorizationMode::Webhook(authorization_webhook(flags, webhook.ok_or(missing)?)?)
            }
            name => name.parse().map_err(|_| format!("authorization-mode {name:?} is not a valid mode"))?,
        });
    }
    Ok(AuthorizationModes::new(modes))
}

fn authorization_webhook(flags: &Flags, kubeconfig: &str) -> Result<AuthorizationWebhook, Box<dyn Error>> {
    let mut options = AuthorizationWebhookOptions::new(kubeconfig);
    if let Some(version) = flags.value("authorization-webhook-version") {
        options.version = version.to_owned();
    }
    if let Some(ttl) = flags.parsed("authorization-webhook-cache-authorized-ttl", parse_span)? {
        options.authorized_ttl = ttl;
    }
    if let Some(ttl) = flags.parsed("authorization-webhook-cache-unauthorized-ttl", parse_span)? {
        options.unauthorized_ttl = ttl;
    }
    Ok(AuthorizationWebhook::new(options)?)
}

fn admission_plugins(mut server: ApiServer, flags: &Flags) -> Result<ApiServer, String> {
    let (enabled, disabled) = (flags.list("enable-admission-plugins"), flags.list("disable-admission-plugins"));
    // In kube-apiserver this plugin is on by default.
    if !disabled.iter().any(|name| name == "ServiceAccount") {
        server = server.service_accounts();
    }
    for (flag, names) in [("enable-admission-plugins", enabled), ("disable-admission-plugins", disabled)] {
        for name in names {
            match name.parse::<AdmissionPlugin>() {
                Ok(plugin) if flag == "enable-admission-plugins" => server = server.enable_admission_plugin(plugin),
                Ok(plugin) => server = server.disable_admission_plugin(plugin),
                Err(_) if ABSENT_PLUGINS.contains(&name.as_str()) => {
                    tracing::info!(plugin = %name, "this admission plugin is absent, and --{flag} has no effect on it");
                }
                Err(_) => return Err(format!("{flag} plugin {name:?} is unknown")),
            }
        }
    }
    Ok(server)
}

fn features(server: ApiServer, flags: &Flags) -> Result<ApiServer, String> {
    let gates = FeatureGateSettings::parse(flags.list("feature-gates"))?;
    let without_effect: Vec<&str> = gates.without_effect().collect();
    if !without_effect.is_empty() {
        tracing::info!(gates = without_effect.join(" "), "these feature gates have no effect");
    }
    check_fairness(flags)?;
    let config = RuntimeConfig::parse(flags.list("runtime-config").iter().map(String::as_str))?;
    let absent: Vec<String> = config.absent().collect();
    if !absent.is_empty() {
        tracing::warn!(
            versions = absent.join(" "),
            "these group versions are absent, and --runtime-config has no effect on them"
        );
    }
    Ok(gates.apply(server).runtime_config(config))
}

/// kube-apiserver refuses to start without the API of its priority and fairness. This server has
/// none, and refuses in the same cases.
fn check_fairness(flags: &Flags) -> Result<(), String> {
    if flags.switch("enable-priority-and-fairness") == Some(false) {
        return Ok(());
    }
    let entries = flags.list("runtime-config");
    for key in ["flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"] {
        let is = |value: &str| entries.iter().any(|entry| *entry == format!("{key}={value}"));
        if is("false") {
            return Err(format!("--runtime-config={key}=false conflicts with --enable-priority-and-fairness=true"));
        }
        if is("true") {
            break;
        }
    }
    Ok(())
}

fn log_flags_without_effect(flags: &Flags) {
    let is_without_effect = |name: &&str| !HONOURED.contains(name) && !ALWAYS_SO.contains(name);
    let names: Vec<String> = flags.names().filter(is_without_effect).map(|name| format!("--{name}")).collect();
    if !names.is_empty() {
        tracing::info!(flags = names.join(" "), "these flags of kube-apiserver have no effect");
    }
}

fn number(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(arguments: &[&str]) -> Flags {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Flags::parse("kube-apiserver", &arguments, kind).expect("all are known")
    }

    #[test]
    fn honoured_flags_are_flags_of_kube_apiserver_in_order() {
        assert!(FLAGS.is_sorted_by_key(|(name, _)| *name));
        for name in HONOURED.iter().chain(ALWAYS_SO) {
            assert!(kind(name).is_some(), "{name}");
        }
        assert!(!help().contains("insecure-port"), "envtest would set it");
    }

    #[test]
    fn ports_must_be_open() {
        assert_eq!(address(&flags(&[])), Ok("127.0.0.1:6443".parse().expect("an address")));
        let both = flags(&["--bind-address=::1", "--secure-port=1234"]);
        assert_eq!(address(&both), Ok("[::1]:1234".parse().expect("an address")));
        for port in ["0", "65536", "-1"] {
            let error = address(&flags(&["--secure-port", port])).expect_err("no such port");
            assert!(error.contains("must be between 1 and 65535"), "{error}");
        }
        assert!(address(&flags(&["--bind-address=here"])).expect_err("no address").contains("failed to parse IP"));
    }

    #[test]
    fn unknown_plugins_and_modes_are_refused() {
        let refused = |arguments: &[&str]| configure(&flags(arguments)).expect_err("it is refused").to_string();
        assert_eq!(
            refused(&["--enable-admission-plugins=Nope"]),
            "enable-admission-plugins plugin \"Nope\" is unknown"
        );
        assert_eq!(refused(&["--authorization-mode=Nope"]), "authorization-mode \"Nope\" is not a valid mode");
        assert!(refused(&["--tls-cert-file=x"]).contains("--tls-private-key-file"));
        assert_eq!(refused(&["--feature-gates=Nope=true"]), "unrecognized feature gate: Nope");
        let conflict = "--runtime-config=api/all=false conflicts with --enable-priority-and-fairness=true";
        let only_core = "--runtime-config=api/all=false,v1=true";
        assert_eq!(refused(&[only_core]), conflict);
        assert!(configure(&flags(&[only_core, "--enable-priority-and-fairness=false"])).is_ok());
        assert_eq!(refused(&["--runtime-config=a.example.com/v1=true"]), "unknown api groups a.example.com/v1");
        assert!(refused(&["--service-cluster-ip-range=here"]).contains("--service-cluster-ip-range"));
        assert!(configure(&flags(&["--enable-admission-plugins=NodeRestriction,AlwaysPullImages"])).is_ok());
    }
}
