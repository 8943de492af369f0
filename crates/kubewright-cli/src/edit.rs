//! `kubewright edit`: changes objects in a text editor.
//!
//! The edited object replaces the server's if nobody has changed that one since, apart from its
//! status. An object that the server rejects is shown again with the reason.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use kubewright_client::Api;
use kubewright_core::{DynamicObject, Object, Value};
use kubewright_yaml as yaml;

use crate::connection::Connection;
use crate::failure;
use crate::get::format::{in_yaml, type_name};
use crate::output::print;
use crate::selection::Selection;

pub const HELP: &str = "\
The editor is $KUBE_EDITOR, $EDITOR or vi.

Examples:
  kubewright edit deployment web
  KUBE_EDITOR='sed -i s/nginx:1/nginx:2/' kubewright edit deployment/web";

const INTRODUCTION: &str = "\
# Lines that begin with # are ignored. An empty file, or one without changes, changes nothing.
# If the server rejects the object, the file is opened again with the reason.
";

/// The objects to edit.
#[derive(Debug, Args)]
pub struct EditCommandOptions {
    /// Resources and names: `deployment web` or `deployment/web svc/web`.
    #[arg(required = true, value_name = "RESOURCE NAME... | RESOURCE/NAME")]
    arguments: Vec<String>,
    /// The namespace; by default that of the context.
    #[arg(long, short)]
    namespace: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// Opens an editor for each object in turn.
pub async fn edit(options: &EditCommandOptions) -> Result<(), Box<dyn Error>> {
    let client = options.connection.client()?;
    let selection = Selection { namespace: options.namespace.clone(), ..Selection::default() };
    let namespace = selection.namespace(&client).unwrap_or_default();
    for one in selection.resolve(&client, &options.arguments).await? {
        if one.names.is_empty() {
            return Err("a resource is given without a name, such as `deployment web`".into());
        }
        let api = one.mapping.api(&client, namespace.as_str());
        for name in &one.names {
            let shown = format!("{}/{name}", type_name(&one.mapping));
            edit_one(&api, name, &shown).await?;
        }
    }
    Ok(())
}

async fn edit_one(api: &Api<DynamicObject>, name: &str, shown: &str) -> Result<(), Box<dyn Error>> {
    let before = api.get(name).await?;
    let original = in_yaml(&without(&before, &[&["metadata", "managedFields"]])?);
    let draft = Draft::create()?;
    let (mut text, mut reason) = (original.clone(), String::new());
    loop {
        draft.write(&format!("{INTRODUCTION}{reason}#\n{text}"))?;
        let edited = draft.edit()?;
        if edited.trim().is_empty() || edited == original {
            return Ok(print(format!("{shown} is not changed\n"))?);
        }
        if !reason.is_empty() && edited == text {
            // An editor that is a script would repeat its change for ever.
            let file = draft.keep();
            return Err(format!("{shown} is not changed, your text is in {}:\n{reason}", file.display()).into());
        }
        let error: Box<dyn Error> = match replace(api, &before, &edited).await {
            Ok(()) => return Ok(print(format!("{shown} edited\n"))?),
            Err(error) => error,
        };
        let answer = error.downcast_ref::<kubewright_client::Error>();
        if answer.is_some_and(|error| !error.is_invalid() && !error.is_bad_request()) {
            let (file, why) = (draft.keep(), failure::chain(&*error));
            return Err(format!("{shown} is not changed, your text is in {}: {why}", file.display()).into());
        }
        reason = failure::chain(&*error).lines().map(|line| format!("# {line}\n")).collect();
        text = edited;
    }
}

/// The object without these fields.
fn without(object: &DynamicObject, fields: &[&[&str]]) -> Result<Value, Box<dyn Error>> {
    let mut object = object.clone();
    for field in fields {
        object.remove(field);
    }
    Ok(Value::from_json(&object.to_json())?)
}

/// The part that users edit: everything but the status and the bookkeeping of the server.
fn editable(object: &DynamicObject) -> Result<Value, Box<dyn Error>> {
    without(object, &[&["status"], &["metadata", "managedFields"], &["metadata", "resourceVersion"]])
}

/// Replaces the object, unless someone else has changed what users edit.
async fn replace(api: &Api<DynamicObject>, before: &DynamicObject, text: &str) -> Result<(), Box<dyn Error>> {
    let mut objects = yaml::objects(text)?;
    let (Some(mut edited), true) = (objects.pop(), objects.is_empty()) else {
        return Err("the text is not one object".into());
    };
    loop {
        let conflict = match api.update(&edited).await {
            Err(error) if error.is_conflict() => error,
            done => {
                done?;
                return Ok(());
            }
        };
        let now = api.get(before.name()).await?;
        let is_stale = edited.resource_version() != now.resource_version();
        if !is_stale || now.uid() != before.uid() || editable(&now)? != editable(before)? {
            return Err(conflict.into());
        }
        edited.metadata.resource_version = now.metadata.resource_version.clone();
    }
}

/// A file for the editor, readable only by its owner. Removed unless it is kept.
struct Draft {
    path: PathBuf,
    is_kept: std::cell::Cell<bool>,
}

impl Draft {
    fn create() -> Result<Self, Box<dyn Error>> {
        let directory = std::env::temp_dir();
        for attempt in 0..100 {
            let path = directory.join(format!("kubewright-edit-{}-{attempt}.yaml", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(_) => return Ok(Draft { path, is_kept: false.into() }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("cannot create {}: {error}", path.display()).into()),
            }
        }
        Err(format!("cannot create a file in {}: all names are taken", directory.display()).into())
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        OpenOptions::new().write(true).truncate(true).open(&self.path)?.write_all(text.as_bytes())
    }

    /// Runs the editor, and returns the text without comments.
    fn edit(&self) -> Result<String, Box<dyn Error>> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let editor = set("KUBE_EDITOR").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned());
        // By a shell, since the variable may have arguments.
        let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$0\"")).arg(&self.path).status()?;
        if !status.success() {
            return Err(format!("the editor {editor:?} failed ({status}); $KUBE_EDITOR chooses another").into());
        }
        let text = std::fs::read_to_string(&self.path)?;
        Ok(text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect())
    }

    /// Leaves the file to the user.
    fn keep(&self) -> &Path {
        self.is_kept.set(true);
        &self.path
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_kept.get() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
