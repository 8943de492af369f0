//! Notices changes of a project's sources.
//!
//! Polled: a project has few files, and notifications of the system differ between platforms and do
//! not cross mounted folders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The sources with the times of their last changes.
#[derive(Debug)]
pub struct ProjectFiles {
    folder: PathBuf,
    seen: BTreeMap<PathBuf, SystemTime>,
}

impl ProjectFiles {
    /// The sources as they are now.
    pub fn new(folder: &Path) -> Self {
        ProjectFiles { folder: folder.to_owned(), seen: sources(folder) }
    }

    /// A file that was written, created or removed since the last call.
    pub fn changed(&mut self) -> Option<String> {
        let now = sources(&self.folder);
        let written = now.iter().find(|(path, time)| self.seen.get(*path) != Some(time)).map(|(path, _)| path);
        let removed = self.seen.keys().find(|path| !now.contains_key(*path));
        let name = |path: &PathBuf| path.strip_prefix(&self.folder).unwrap_or(path).display().to_string();
        let changed = written.or(removed).map(name);
        self.seen = now;
        changed
    }
}

fn sources(folder: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.join("Cargo.toml"), folder.join("build.rs"), folder.join("src")];
    while let Some(path) = left.pop() {
        // Not followed: a link may lead in a circle.
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path()).filter(|path| !is_of_editor(path)));
        } else if let Ok(time) = metadata.modified() {
            found.insert(path, time);
        }
    }
    found
}

/// Swap and backup files.
fn is_of_editor(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with('.') || name.ends_with('~') || name.ends_with(".swp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_created_or_removed_source_is_a_change() {
        let folder = std::env::temp_dir().join(format!("kubewright-files-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("src/kinds")).unwrap();
        let source = folder.join("src/kinds/a.rs");
        std::fs::write(&source, "a").unwrap();
        let mut files = ProjectFiles::new(&folder);
        assert_eq!(files.changed(), None);
        std::fs::write(folder.join("src/.a.rs.swp"), "a").unwrap();
        assert_eq!(files.changed(), None);
        let later = SystemTime::now() + std::time::Duration::from_secs(5);
        std::fs::File::options().write(true).open(&source).unwrap().set_modified(later).unwrap();
        assert_eq!(files.changed().as_deref(), Some("src/kinds/a.rs"));
        assert_eq!(files.changed(), None);
        std::fs::remove_file(&source).unwrap();
        assert_eq!(files.changed().as_deref(), Some("src/kinds/a.rs"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
