//! `kubewright create`: adds kinds, versions and webhooks to a project.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use kubewright_core::Value;
use kubewright_yaml as yaml;

use super::files::PlannedFiles;
use super::names::{check_group, check_kind, check_plural, check_version, plural_of};
use super::record::{Created, KindRecord, ProjectRecord};
use super::template::{CONVERSION, DEFAULTING, KIND, Names, VALIDATING};
use super::{kinds, record};

pub const CREATE_API_HELP: &str = "\
Examples:
  kubewright create api --kind Order --version v1alpha1                     another kind of the same group
  kubewright create api --group pay.example.com --version v1 --kind Invoice  a kind of another group
  kubewright create api --kind Order --version v1beta1                      a further version, which starts as a copy";

pub const CREATE_WEBHOOK_HELP: &str = "\
Examples:
  kubewright create webhook --kind Order --version v1alpha1 --defaulting --validating
  kubewright create webhook --kind Order --version v1alpha1 --conversion";

/// A kind or webhooks to add.
#[derive(Debug, Subcommand)]
pub enum CreateCommand {
    /// Adds a kind, or a further version of a kind.
    #[command(after_help = CREATE_API_HELP)]
    Api(ApiOptions),
    /// Adds webhooks to a kind.
    #[command(after_help = CREATE_WEBHOOK_HELP)]
    Webhook(WebhookOptions),
}

/// A version of a kind.
#[derive(Debug, Args)]
struct KindOptions {
    /// The API group: a DNS name that you own. By default the only group of the project.
    #[arg(long)]
    group: Option<String>,
    /// The version, such as v1alpha1.
    #[arg(long)]
    version: String,
    /// The kind, in CamelCase.
    #[arg(long)]
    kind: String,
    /// The folder of the project.
    #[arg(long, value_name = "DIR", default_value = ".")]
    project: PathBuf,
}

/// Options of `create api`.
#[derive(Debug, Args)]
pub struct ApiOptions {
    #[command(flatten)]
    kind: KindOptions,
    /// The plural name; derived from the kind by default.
    #[arg(long)]
    plural: Option<String>,
    /// Writes no controller.
    #[arg(long)]
    no_controller: bool,
    /// Objects have no namespace. Only with --no-controller: the controller of the template creates
    /// objects in the namespace of its own.
    #[arg(long, requires = "no_controller")]
    cluster_scoped: bool,
}

/// Options of `create webhook`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("webhook").required(true).multiple(true))]
pub struct WebhookOptions {
    #[command(flatten)]
    kind: KindOptions,
    /// Sets defaults.
    #[arg(long, group = "webhook")]
    defaulting: bool,
    /// Validates creations and updates.
    #[arg(long, group = "webhook")]
    validating: bool,
    /// Converts between the versions of the kind.
    #[arg(long, group = "webhook")]
    conversion: bool,
}

/// Adds it.
pub fn create(command: &CreateCommand) -> Result<(), Box<dyn Error>> {
    let options = match command {
        CreateCommand::Api(options) => &options.kind,
        CreateCommand::Webhook(options) => &options.kind,
    };
    let folder = &options.project;
    let (old, text) = ProjectRecord::of_folder(folder)?;
    let created = match command {
        CreateCommand::Api(options) => api(options, &old)?,
        CreateCommand::Webhook(options) => webhook(options, &old)?,
    };
    let mut new = old.clone();
    new.add(&created)?;

    let mut files = PlannedFiles::new(folder);
    files.replace(record::FILE, appended(record::FILE, &text, &created.line(), "created")?);
    files.replace(kinds::FILE, generated_kinds(folder, &new)?);
    let group = options.group.as_deref().or(old.only_group()).unwrap_or_default();
    let kind = new.kind(group, &options.kind).ok_or("the kind was added above")?;
    match &created {
        Created::Api { .. } => match old.kind(group, &options.kind) {
            Some(before) => add_version(folder, &new, before, kind, &mut files)?,
            None => add_kind(&new, kind, &mut files),
        },
        Created::Webhook { defaulting, validating, conversion, .. } => {
            let names = Names::new(&new.project, kind, &options.version);
            for (is_wanted, template) in [(*defaulting, DEFAULTING), (*validating, VALIDATING)] {
                if is_wanted {
                    let (path, text) = names.fill(template);
                    files.create(path, text);
                }
            }
            if *conversion {
                kind.versions.iter().skip(1).for_each(|version| add_conversion(&new, kind, version, &mut files));
            }
            add_webhook_manifest(folder, &old, &mut files)?;
        }
    }
    let written = files.write()?;
    let list: String = written.iter().map(|path| format!("wrote {path}\n")).collect();
    Ok(crate::output::print(format!("{list}next:  cargo run -- manifests && cargo test\n"))?)
}

fn api(options: &ApiOptions, record: &ProjectRecord) -> Result<Created, String> {
    let (group, version, kind) = checked(&options.kind, record)?;
    let existing = record.kind(&group, &kind);
    let plural = match (&options.plural, existing) {
        (Some(plural), _) => plural.clone(),
        (None, Some(existing)) => existing.plural.clone(),
        (None, None) => plural_of(&kind),
    };
    check_plural(&plural)?;
    let is_namespaced = existing.map_or(!options.cluster_scoped, |existing| existing.is_namespaced);
    Ok(Created::Api { group, version, kind, plural, is_namespaced, has_controller: !options.no_controller })
}

fn webhook(options: &WebhookOptions, record: &ProjectRecord) -> Result<Created, String> {
    let (group, version, kind) = checked(&options.kind, record)?;
    let WebhookOptions { defaulting, validating, conversion, .. } = *options;
    Ok(Created::Webhook { group, version, kind, defaulting, validating, conversion })
}

fn checked(options: &KindOptions, record: &ProjectRecord) -> Result<(String, String, String), String> {
    let group = options.group.as_deref().or(record.only_group());
    let group = group.ok_or("the project has several groups: name one with --group")?;
    check_group(group)?;
    check_version(&options.version)?;
    check_kind(&options.kind)?;
    Ok((group.to_owned(), options.version.clone(), options.kind.clone()))
}

fn add_kind(project: &ProjectRecord, kind: &KindRecord, files: &mut PlannedFiles) {
    let names = Names::new(&project.project, kind, &kind.versions[0]);
    for file in KIND {
        let is_of_controller = file.0.ends_with("controller.rs") || file.0.ends_with("tests.rs");
        if is_of_controller && !kind.has_controller {
            continue;
        }
        let (path, mut text) = names.fill(file);
        if !kind.is_namespaced {
            text = text.replace("    namespaced,\n", "").replace("  namespace: default\n", "");
        }
        files.create(path, text);
    }
}

/// A copy of the newest version, which users have changed since it was created.
fn add_version(
    folder: &Path,
    project: &ProjectRecord,
    before: &KindRecord,
    kind: &KindRecord,
    files: &mut PlannedFiles,
) -> Result<(), String> {
    let (old, new) = (&before.versions[before.versions.len() - 1], &kind.versions[kind.versions.len() - 1]);
    let source = format!("src/kinds/{}/{old}.rs", kind.module);
    let text = std::fs::read_to_string(folder.join(&source)).map_err(|error| format!("{source}: {error}"))?;
    let (declared, wanted) = (format!("version = \"{old}\","), format!("version = \"{new}\","));
    if text.matches(&declared).count() != 1 {
        return Err(format!("{source} does not have `{declared}` once, so that it cannot be copied to {new}"));
    }
    let mut text = text.replace(&declared, &wanted);
    // Objects are stored in one version. With a conversion, `Versions` decides which one.
    if !text.contains("not_stored") {
        text = text.replace(&wanted, &format!("{wanted}\n    not_stored,"));
    }
    files.create(format!("src/kinds/{}/{new}.rs", kind.module), text);
    if kind.has_conversion {
        add_conversion(project, kind, new, files);
    }
    Ok(())
}

fn add_conversion(project: &ProjectRecord, kind: &KindRecord, spoke: &str, files: &mut PlannedFiles) {
    let names = Names { other_version: spoke, ..Names::new(&project.project, kind, &kind.versions[0]) };
    let (path, text) = names.fill(CONVERSION);
    files.create(path, text);
}

/// `src/kinds.rs`, unless the user has edited it.
fn generated_kinds(folder: &Path, record: &ProjectRecord) -> Result<String, String> {
    match std::fs::read_to_string(folder.join(kinds::FILE)) {
        Ok(text) if kinds::is_edited(&text) => Err(format!(
            "{} was edited, and is left as it is: move your changes to another file, remove this one, and run the \
             command again; nothing was written",
            kinds::FILE
        )),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {error}", kinds::FILE)),
        _ => Ok(kinds::generate(record)),
    }
}

/// The first webhook brings a manifest, which kustomize has to know.
fn add_webhook_manifest(folder: &Path, old: &ProjectRecord, files: &mut PlannedFiles) -> Result<(), String> {
    const KUSTOMIZATION: &str = "kustomization.yaml";
    const MANIFEST: &str = "- manifests/40-webhooks.yaml\n";
    let had_webhooks =
        old.kinds.iter().any(|kind| kind.defaulting.is_some() || kind.validating.is_some() || kind.has_conversion);
    let text = match std::fs::read_to_string(folder.join(KUSTOMIZATION)) {
        // The user does not use kustomize.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|error| format!("{KUSTOMIZATION}: {error}"))?,
    };
    if !had_webhooks && !text.contains(MANIFEST.trim_end()) {
        files.replace(KUSTOMIZATION, appended(KUSTOMIZATION, &text, MANIFEST, "resources")?);
    }
    Ok(())
}

/// The text with a line at its end, which must become the last item of `list`, and change nothing
/// else.
fn appended(file: &str, text: &str, line: &str, list: &str) -> Result<String, String> {
    let separator = if text.ends_with('\n') { "" } else { "\n" };
    let read =
        |text: &str| yaml::parse(text).map(|document| document.value).map_err(|error| format!("{file}: {error}"));
    let before = read(text)?;
    let by_hand =
        || format!("{file}: add this item to `{list}`, which is not its last field, and run the command again: {line}");
    let items = before.get(list).and_then(Value::as_array).map_or(0, |items| items.len());
    // Items may be indented.
    let indented = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let indent = if indented.trim_start().starts_with("- ") { indented.len() - indented.trim_start().len() } else { 0 };
    let new = format!("{text}{separator}{}{line}", " ".repeat(indent));
    let mut after = read(&new).map_err(|_| by_hand())?;
    let mut found = after.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
    let is_one_more = found.len() == items + 1;
    found.pop();
    if let Some(fields) = after.as_object_mut() {
        fields.insert(list, Value::Array(found));
    }
    if is_one_more && after == before { Ok(new) } else { Err(by_hand()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_appended_where_nothing_else_changes() {
        let line = "- b: 1\n";
        assert_eq!(
            appended("f", "# mine\nlist:\n- a # why\n", line, "list").unwrap(),
            "# mine\nlist:\n- a # why\n- b: 1\n"
        );
        assert_eq!(appended("f", "list:\n  - a", line, "list").unwrap(), "list:\n  - a\n  - b: 1\n");
        for text in ["list:\n- a\nlast:\n- c\n", "list: [a]\n", "list:\n- a\nlast: 1\n"] {
            let problem = appended("f", text, line, "list").expect_err(text);
            assert!(problem.contains("by hand") || problem.contains("add this item"), "{problem}");
        }
    }
}
