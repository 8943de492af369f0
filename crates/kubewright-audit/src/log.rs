//! The file of audit events, and its rotation.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use kubewright_core::Value;
use kubewright_net::clock;
use kubewright_objects::object::to_json;

/// Settings of the log, as the flags `--audit-log-…` of kube-apiserver.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AuditLogOptions {
    /// The file. `-` is standard output.
    pub path: PathBuf,
    /// The size in bytes at which the file is renamed and a new one begins. `None` for no limit.
    pub max_size: Option<u64>,
    /// The number of renamed files that are kept. `None` for no limit.
    pub max_backups: Option<usize>,
    /// The age at which renamed files are removed. `None` for no limit.
    pub max_age: Option<Duration>,
}

/// A log of audit events: one JSON object per line.
#[derive(Debug)]
pub struct AuditLog {
    options: AuditLogOptions,
    file: Mutex<OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    /// `None` for standard output.
    file: Option<File>,
    size: u64,
    /// Whether the last write failed, so that a failure is reported once.
    has_failed: bool,
}

impl AuditLog {
    /// Opens the file, and appends to it if it exists. Only its owner can read it.
    ///
    /// # Errors
    ///
    /// The file cannot be opened. The error contains its path.
    pub fn open(options: AuditLogOptions) -> io::Result<Self> {
        let file = open(&options.path)?;
        let size = file.as_ref().map_or(Ok(0), |file| file.metadata().map(|found| found.len()))?;
        Ok(AuditLog { options, file: Mutex::new(OpenFile { file, size, has_failed: false }) })
    }

    /// Appends an event. A failure is reported in the server's own log.
    pub(crate) fn write(&self, event: &Value) {
        let mut line = to_json(event);
        line.push(b'\n');
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        match self.append(&mut open, &line) {
            Ok(()) => open.has_failed = false,
            Err(error) if !open.has_failed => {
                open.has_failed = true;
                let path = self.options.path.display();
                tracing::error!(%error, %path, "audit events cannot be written, and are lost");
            }
            Err(_) => {}
        }
    }

    fn append(&self, open: &mut OpenFile, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if self.options.max_size.is_some_and(|most| open.size > 0 && open.size + length > most) && open.file.is_some() {
            self.rotate(open)?;
        }
        match &mut open.file {
            Some(file) => file.write_all(line)?,
            None => io::stdout().lock().write_all(line)?,
        }
        open.size += length;
        Ok(())
    }

    /// Renames the file by the time, and begins a new one.
    fn rotate(&self, open: &mut OpenFile) -> io::Result<()> {
        let path = &self.options.path;
        let (stem, extension) = self.name();
        let time = clock::now_micros().to_string().replace(':', "-");
        std::fs::rename(path, path.with_file_name(format!("{stem}-{time}{extension}")))?;
        open.file = self::open(path)?;
        open.size = 0;
        self.remove_old()
    }

    /// The name of the file before and after its last dot.
    fn name(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let extension = text(self.options.path.extension()).map(|extension| format!(".{extension}"));
        (text(self.options.path.file_stem()).unwrap_or_default(), extension.unwrap_or_default())
    }

    fn remove_old(&self) -> io::Result<()> {
        let folder =
            self.options.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (stem, extension) = self.name();
        let is_backup = |path: &Path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let time = name.strip_prefix(&format!("{stem}-")).and_then(|rest| rest.strip_suffix(&*extension));
            // A time as `rotate` writes it, such as 2026-01-31T10-00-00.000000Z.
            time.is_some_and(|time| {
                time.len() == 27 && time.ends_with('Z') && time.starts_with(|c: char| c.is_ascii_digit())
            })
        };
        let mut backups: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            backups.extend(Some(entry?.path()).filter(|path| is_backup(path)));
        }
        // The newest first: their names sort by time.
        backups.sort_unstable_by(|a, b| b.cmp(a));
        let is_too_old = |path: &Path| {
            let age =
                path.metadata().and_then(|found| found.modified()).map(|time| SystemTime::now().duration_since(time));
            self.options.max_age.is_some_and(|most| age.is_ok_and(|age| age.is_ok_and(|age| age > most)))
        };
        for (index, path) in backups.iter().enumerate() {
            if self.options.max_backups.is_some_and(|most| index >= most) || is_too_old(path) {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<Option<File>> {
    if path == Path::new("-") {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let opened = options.open(path);
    opened.map(Some).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubewright_storage::Directory;

    fn event(text: &str) -> Value {
        kubewright_objects::object::tree::map([("auditID", text.into())])
    }

    #[test]
    fn a_full_file_is_renamed_and_the_oldest_are_removed() {
        let directory = Directory::new("audit");
        std::fs::create_dir_all(&directory.0).expect("it can be created");
        std::fs::write(directory.0.join("audit-notes.log"), "mine").expect("it can be written");
        let path = directory.0.join("audit.log");
        let options = AuditLogOptions { path: path.clone(), max_size: Some(50), max_backups: Some(2), max_age: None };
        let log = AuditLog::open(options.clone()).expect("it can be opened");
        for number in 0..9 {
            log.write(&event(&format!("event {number}")));
        }
        let mut names: Vec<String> = std::fs::read_dir(&directory.0)
            .expect("it is there")
            .map(|entry| entry.expect("it can be read").file_name().into_string().expect("text"))
            .collect();
        names.sort_unstable();
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(names.contains(&"audit-notes.log".to_owned()), "{names:?}");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "{\"auditID\":\"event 8\"}\n");
        // A restart appends.
        AuditLog::open(options).expect("it can be opened").write(&event("event 9"));
        assert_eq!(std::fs::read_to_string(&path).expect("it is there").lines().count(), 2);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let options = AuditLogOptions { path: "/nowhere/audit.log".into(), ..Default::default() };
        assert!(AuditLog::open(options).expect_err("no folder").to_string().contains("/nowhere/audit.log"));
    }
}
