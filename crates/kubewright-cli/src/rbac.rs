//! `kubewright rbac`: the role of a project, from its code or from its tests.
//!
//! Audit events are the evidence of `--from-test`: with `KUBEWRIGHT_AUDIT_DIR`, test clusters allow
//! everything and record each request. Requests of the test itself are told apart by their user
//! agent.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use kubewright_core::Value;
use kubewright_runtime::Permissions;
use kubewright_yaml as yaml;

use crate::project::ProjectRecord;

pub const HELP: &str = "\
Examples:
  kubewright rbac                        writes the role that the controllers declare
  kubewright rbac --from-test            writes the role that the tests have used
  kubewright rbac --from-test --check    fails if the tests need more than the role: for CI
  kubewright rbac --from-audit-log audit.log --user system:serviceaccount:shop-system:shop --check";

/// The files of the role in a project.
const FILES: [&str; 2] = ["manifests/20-role.yaml", "chart/files/role.yaml"];

/// The variable that test clusters read.
const VARIABLE: &str = "KUBEWRIGHT_AUDIT_DIR";

/// The user agent of managers in tests.
const MANAGER: &str = "manager";

/// Where the permissions come from.
#[derive(Debug, Args)]
pub struct RbacOptions {
    /// The folder of the project.
    #[arg(long, value_name = "DIR", default_value = ".")]
    project: PathBuf,
    /// Runs `cargo test`, and takes the permissions that the managers of test clusters have used.
    /// By default those that the controllers declare.
    #[arg(long)]
    from_test: bool,
    /// Takes the permissions from the audit log of an API server. May be repeated.
    #[arg(long, value_name = "FILE", requires = "user", conflicts_with = "from_test")]
    from_audit_log: Vec<PathBuf>,
    /// The user whose requests count in the audit log.
    #[arg(long, requires = "from_audit_log")]
    user: Option<String>,
    /// Writes nothing, and fails if the role lacks a permission.
    #[arg(long)]
    check: bool,
    /// Arguments of `cargo test`.
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

/// Writes or checks the role.
#[allow(clippy::print_stderr)]
pub fn rbac(options: &RbacOptions) -> Result<(), Box<dyn Error>> {
    let (record, _) = ProjectRecord::of_folder(&options.project)?;
    let (needed, evidence) = if options.from_test {
        (of_test(options)?, "the tests use")
    } else if options.from_audit_log.is_empty() {
        (of_code(&options.project)?, "the controllers declare")
    } else {
        let user = options.user.as_deref().unwrap_or_default();
        (of_logs(&options.from_audit_log, &|event| user_of(event) == user)?, "the audit log shows")
    };
    if needed.is_empty() {
        return Err(format!("{evidence} no permission at all; the role is left as it is").into());
    }
    if options.check {
        let granted = granted(&options.project.join("manifests"))?;
        let (missing, surplus) =
            (needed.missing_from(&granted), granted_by_role(&options.project)?.missing_from(&needed));
        if !missing.is_empty() {
            let list = missing.to_string();
            return Err(format!(
                "{evidence} what no role in manifests/ grants; run `kubewright rbac`:\n{}",
                list.trim_end()
            )
            .into());
        }
        if !surplus.is_empty() {
            eprint!("note: {} grants more than {evidence}:\n{surplus}", FILES[0]);
        }
        return Ok(crate::output::print(format!("the role grants what {evidence}\n"))?);
    }
    let mut text = String::new();
    yaml::write(&needed.cluster_role(&record.project), &mut text);
    let files: Vec<&str> =
        FILES.into_iter().filter(|file| options.project.join(file).parent().is_some_and(Path::is_dir)).collect();
    // All are checked before the first one is written.
    files.iter().try_for_each(|file| check_generated(&options.project.join(file)))?;
    for file in &files {
        fs::write(options.project.join(file), &text).map_err(|error| format!("{file}: {error}"))?;
    }
    let next = if options.from_test { "kubectl apply -f manifests/" } else { "kubewright rbac --from-test --check" };
    Ok(crate::output::print(format!("{needed}wrote {}\nnext:  {next}\n", files.join(", ")))?)
}

/// The permissions that the program declares.
fn of_code(project: &Path) -> Result<Permissions, Box<dyn Error>> {
    let mut cargo = cargo(project);
    let output = cargo.args(["run", "--quiet", "--", "rbac"]).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo does not run: {error}"))?;
    if !output.status.success() {
        return Err("`cargo run -- rbac` failed; it prints the ClusterRole of the program".into());
    }
    let role =
        yaml::parse(&String::from_utf8(output.stdout)?).map_err(|error| format!("`cargo run -- rbac`: {error}"))?;
    Ok(Permissions::of_role(&role.value))
}

/// The permissions that managers used in a run of the tests.
fn of_test(options: &RbacOptions) -> Result<Permissions, Box<dyn Error>> {
    let directory = AuditDirectory::new()?;
    let mut cargo = cargo(&options.project);
    cargo.arg("test").args(&options.arguments).env(VARIABLE, &directory.0).stdout(std::io::stderr());
    let status = cargo.status().map_err(|error| format!("cargo does not run: {error}"))?;
    if !status.success() {
        return Err("the tests fail, so that they show only a part of the permissions".into());
    }
    let logs: Vec<PathBuf> =
        fs::read_dir(&directory.0)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    if logs.is_empty() {
        return Err("the tests started no `TestCluster`, so that they show no permissions".into());
    }
    of_logs(&logs, &|event| {
        let agent = event.get("userAgent").and_then(Value::as_str).unwrap_or_default();
        agent.split(['/', ' ']).any(|part| part == MANAGER)
    })
}

fn cargo(project: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(project);
    command
}

/// A new directory, which is removed.
struct AuditDirectory(PathBuf);

impl AuditDirectory {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("kubewright-audit-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(AuditDirectory(path))
    }
}

impl Drop for AuditDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The permissions of the events that count.
fn of_logs(files: &[PathBuf], counts: &dyn Fn(&Value) -> bool) -> Result<Permissions, Box<dyn Error>> {
    let mut permissions = Permissions::new();
    for file in files {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let event = Value::from_json(line.as_bytes())
                .map_err(|error| format!("{}: line {}: {error}", file.display(), index + 1))?;
            if counts(&event) {
                add(&mut permissions, &event);
            }
        }
    }
    Ok(permissions)
}

/// The effective user of a request.
fn user_of(event: &Value) -> &str {
    let user = event.get("impersonatedUser").or_else(|| event.get("user"));
    user.and_then(|user| user.get("username")?.as_str()).unwrap_or_default()
}

fn add(permissions: &mut Permissions, event: &Value) {
    let Some(object) = event.get("objectRef") else { return };
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let verb = event.get("verb").and_then(Value::as_str).unwrap_or_default();
    let (group, resource, subresource) = (text("apiGroup"), text("resource"), text("subresource"));
    // Every authenticated user may ask what it may do.
    let is_for_all = group == "authorization.k8s.io" && resource.starts_with("selfsubject");
    if resource.is_empty() || verb.is_empty() || is_for_all {
        return;
    }
    let resource = if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
    permissions.insert(group, &resource, &[verb]);
    if verb == "watch" {
        // A cache lists on servers that do not stream lists.
        permissions.insert(group, &resource, &["list"]);
    }
}

/// The permissions of the generated role.
fn granted_by_role(project: &Path) -> Result<Permissions, Box<dyn Error>> {
    let file = project.join(FILES[0]);
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(of_manifest(&text).map_err(|error| format!("{}: {error}", file.display()))?)
}

/// The permissions of all roles in the manifests of a folder.
fn granted(folder: &Path) -> Result<Permissions, Box<dyn Error>> {
    let mut permissions = Permissions::new();
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            permissions.extend(&of_manifest(&text).map_err(|error| format!("{}: {error}", file.display()))?);
        }
    }
    Ok(permissions)
}

fn of_manifest(text: &str) -> Result<Permissions, yaml::YamlError> {
    let mut permissions = Permissions::new();
    for document in yaml::parse_all(text)? {
        let kind = document.value.get("kind").and_then(Value::as_str);
        if matches!(kind, Some("ClusterRole" | "Role")) {
            permissions.extend(&Permissions::of_role(&document.value));
        }
    }
    Ok(permissions)
}

/// Fails if the file is not as a program has written it.
fn check_generated(file: &Path) -> Result<(), String> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|error| format!("{}: {error}", file.display()))?,
    };
    let mut again = String::new();
    if let Ok(document) = yaml::parse(&text) {
        yaml::write(&document.value, &mut again);
    }
    if again == text {
        return Ok(());
    }
    Err(format!(
        "{} was edited, and is left as it is; move what you added to another file of manifests/, or use --check",
        file.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_permissions() {
        let mut permissions = Permissions::new();
        for event in [
            r#"{"verb":"watch","objectRef":{"resource":"deployments","apiGroup":"apps","namespace":"a"}}"#,
            r#"{"verb":"update","objectRef":{"resource":"orders","subresource":"status","apiGroup":"a.com"}}"#,
            r#"{"verb":"create","objectRef":{"resource":"selfsubjectaccessreviews","apiGroup":"authorization.k8s.io"}}"#,
            r#"{"verb":"get","requestURI":"/version"}"#,
        ] {
            add(&mut permissions, &Value::from_json(event.as_bytes()).expect("it is JSON"));
        }
        assert_eq!(permissions.to_string(), "a.com orders/status: update\napps deployments: list, watch\n");
    }

    #[test]
    fn the_effective_user_is_the_impersonated_one() {
        let event =
            Value::from_json(br#"{"user":{"username":"a"},"impersonatedUser":{"username":"b"}}"#).expect("it is JSON");
        assert_eq!(user_of(&event), "b");
    }
}
