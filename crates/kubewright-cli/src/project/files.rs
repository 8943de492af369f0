//! Writes of a command: all are checked before the first one happens.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The writes of a command, in a project folder.
#[derive(Debug)]
pub struct PlannedFiles {
    folder: PathBuf,
    /// Paths in the project, with their contents.
    new: Vec<(String, String)>,
    replaced: Vec<(String, String)>,
}

impl PlannedFiles {
    /// Nothing to write yet.
    pub fn new(folder: &Path) -> Self {
        PlannedFiles { folder: folder.to_owned(), new: Vec::new(), replaced: Vec::new() }
    }

    /// Creates a file, which must not exist.
    pub fn create(&mut self, path: impl Into<String>, text: String) {
        self.new.push((path.into(), text));
    }

    /// Replaces a file. The caller has checked that nothing of the user is lost.
    pub fn replace(&mut self, path: impl Into<String>, text: String) {
        self.replaced.push((path.into(), text));
    }

    /// Writes all files and returns their paths. Rust files are formatted as `cargo fmt` would.
    ///
    /// # Errors
    /// Before the first write, if a new file exists.
    pub fn write(self) -> Result<Vec<String>, String> {
        for (path, _) in &self.new {
            if fs::symlink_metadata(self.folder.join(path)).is_ok() {
                return Err(format!("{path} exists, and is left as it is; nothing was written"));
            }
        }
        let mut written = Vec::new();
        for (path, text) in self.new {
            let (target, failed) = (self.folder.join(&path), |error| format!("{path}: {error}"));
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent).map_err(failed)?;
            }
            let mut file = fs::File::create_new(&target).map_err(failed)?;
            file.write_all(formatted(&self.folder, &path, text).as_bytes()).map_err(failed)?;
            written.push(path);
        }
        for (path, text) in self.replaced {
            let target = self.folder.join(&path);
            // Renamed into place, so that an interrupted command leaves the old file.
            let draft = target.with_extension(format!("draft.{}", std::process::id()));
            let replaced =
                fs::write(&draft, formatted(&self.folder, &path, text)).and_then(|()| fs::rename(&draft, &target));
            replaced.map_err(|error| format!("{path}: {error}"))?;
            written.push(path);
        }
        Ok(written)
    }
}

/// Rust code as rustfmt writes it in this folder. `None` if rustfmt is not installed, or the text
/// is not Rust.
pub fn rustfmt(folder: &Path, text: &str) -> Option<String> {
    let mut command = Command::new("rustfmt");
    command.args(["--edition", "2024", "--emit", "stdout"]).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut stdin = child.stdin.take()?;
    let text = text.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().ok()?;
    writer.join().ok()?.ok()?;
    let formatted = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !formatted.is_empty()).then_some(formatted)
}

/// A Rust file as `cargo fmt` writes it, because names differ in width. Others as they are.
fn formatted(folder: &Path, path: &str, text: String) -> String {
    let code = if path.ends_with(".rs") { rustfmt(folder, &text) } else { None };
    code.unwrap_or(text)
}
