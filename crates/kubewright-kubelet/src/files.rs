//! The files of a simulated container: a small tree in memory.
//!
//! Paths are absolute and clean. Everything is bounded: a container that writes too much gets an
//! error, as on a full disk.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Maximum number of files and folders of a container.
const FILES_MAX: usize = 4096;
/// Maximum number of bytes of all files of a container.
const BYTES_MAX: usize = 64 << 20;
/// Maximum length of a path.
const PATH_MAX: usize = 4096;

/// A file or a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum File {
    /// A folder.
    Folder,
    /// A file with its content and its permissions.
    Regular {
        /// The content.
        content: Bytes,
        /// The permissions, such as `0o644`.
        mode: u32,
    },
}

/// The files of a container, by path.
#[derive(Debug, Clone)]
pub struct Files {
    file_of: BTreeMap<String, File>,
    bytes: usize,
}

impl Files {
    /// The files of a new container with this host name, and empty folders at `mounts`.
    pub fn new<'a>(hostname: &str, address: &str, mounts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut files = Files { file_of: BTreeMap::from([("/".to_owned(), File::Folder)]), bytes: 0 };
        let folders =
            ["/bin", "/dev", "/etc", "/home", "/root", "/tmp", "/usr/bin", "/usr/share", "/var/log", "/var/run"];
        for folder in folders.into_iter().chain(mounts) {
            // There is room in a new container, and a mount point with an odd path is no folder.
            let _ = files.create_folders(&resolve("/", folder));
        }
        let hosts = format!("127.0.0.1\tlocalhost\n{address}\t{hostname}\n");
        for (path, text) in [("/etc/hostname", format!("{hostname}\n")), ("/etc/hosts", hosts)] {
            let _ = files.write(path, text.into(), 0o644);
        }
        files
    }

    /// The file or folder at a path.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.file_of.get(path)
    }

    /// The content of a file.
    ///
    /// # Errors
    /// The words of the C library: the file does not exist, or is a folder.
    pub fn read(&self, path: &str) -> Result<Bytes, &'static str> {
        match self.get(path) {
            Some(File::Regular { content, .. }) => Ok(content.clone()),
            Some(File::Folder) => Err("Is a directory"),
            None => Err("No such file or directory"),
        }
    }

    /// Creates or replaces a file. Its folder must exist.
    ///
    /// # Errors
    /// If the folder does not exist, or there is no room.
    pub fn write(&mut self, path: &str, content: Bytes, mode: u32) -> Result<(), &'static str> {
        if self.get(parent(path)) != Some(&File::Folder) {
            return Err("No such file or directory");
        }
        let old = match self.get(path) {
            Some(File::Folder) => return Err("Is a directory"),
            Some(File::Regular { content, .. }) => content.len(),
            None => 0,
        };
        let bytes = self.bytes - old + content.len();
        if bytes > BYTES_MAX || path.len() > PATH_MAX || self.is_full_for(path) {
            return Err("No space left on device");
        }
        self.bytes = bytes;
        self.file_of.insert(path.to_owned(), File::Regular { content, mode });
        Ok(())
    }

    /// Creates a folder. Its parent must exist.
    ///
    /// # Errors
    /// If the path exists, its parent does not, or there is no room.
    pub fn create_folder(&mut self, path: &str) -> Result<(), &'static str> {
        if self.get(path).is_some() {
            return Err("File exists");
        }
        match self.get(parent(path)) {
            Some(File::Folder) => {}
            Some(File::Regular { .. }) => return Err("Not a directory"),
            None => return Err("No such file or directory"),
        }
        if path.len() > PATH_MAX || self.is_full_for(path) {
            return Err("No space left on device");
        }
        self.file_of.insert(path.to_owned(), File::Folder);
        Ok(())
    }

    /// Creates a folder and those above it, unless they exist.
    ///
    /// # Errors
    /// If a file is in the way, or there is no room.
    pub fn create_folders(&mut self, path: &str) -> Result<(), &'static str> {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
        for end in ends {
            match self.get(&path[..end]) {
                Some(File::Folder) => {}
                Some(File::Regular { .. }) => return Err("Not a directory"),
                None => self.create_folder(&path[..end])?,
            }
        }
        Ok(())
    }

    /// Removes a file, or a folder with everything in it. Returns whether it existed.
    pub fn remove(&mut self, path: &str) -> bool {
        let below: Vec<String> = self.below(path).map(|(path, _)| path.to_owned()).collect();
        for path in below.iter().map(String::as_str).chain([path]) {
            match self.file_of.remove(path) {
                Some(File::Regular { content, .. }) => self.bytes -= content.len(),
                Some(File::Folder) => {}
                None => return false,
            }
        }
        // The root cannot be removed.
        self.file_of.entry("/".to_owned()).or_insert(File::Folder);
        true
    }

    /// Copies everything below a folder from other files, as far as there is room.
    pub fn copy_below(&mut self, other: &Files, folder: &str) {
        for (path, file) in other.below(folder) {
            let _ = match file {
                File::Folder => self.create_folders(path),
                File::Regular { content, mode } => self.write(path, content.clone(), *mode),
            };
        }
    }

    /// Everything below a folder, in the order of paths.
    pub fn below(&self, folder: &str) -> impl Iterator<Item = (&str, &File)> {
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        let from = self.file_of.range(prefix.clone()..);
        from.map(|(path, file)| (path.as_str(), file))
            .take_while({
                let prefix = prefix.clone();
                move |(path, _)| path.starts_with(&prefix)
            })
            .filter(move |(path, _)| path.len() > prefix.len())
    }

    /// The names in a folder, sorted.
    pub fn names(&self, folder: &str) -> Vec<&str> {
        let length = folder.trim_end_matches('/').len() + 1;
        let names = self.below(folder).map(|(path, _)| &path[length..]);
        names.filter(|name| !name.contains('/')).collect()
    }

    fn is_full_for(&self, path: &str) -> bool {
        self.file_of.len() >= FILES_MAX && !self.file_of.contains_key(path)
    }
}

/// The folder of a path.
fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((folder, _)) => folder,
    }
}

/// A path relative to a folder, made absolute and clean.
pub fn resolve(folder: &str, path: &str) -> String {
    let base = if path.starts_with('/') { "" } else { folder };
    let mut segments: Vec<&str> = Vec::new();
    for segment in base.split('/').chain(path.split('/')) {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_listed_and_removed() {
        let mut files = Files::new("web", "10.0.0.1", ["/data/", "relative/../mount"]);
        assert_eq!(files.read("/etc/hostname"), Ok(Bytes::from_static(b"web\n")));
        assert_eq!(files.write("/data/a/b", Bytes::new(), 0o644), Err("No such file or directory"));
        files.create_folders("/data/a").unwrap();
        files.write("/data/a/b", Bytes::from_static(b"12"), 0o600).unwrap();
        files.write("/data/c", Bytes::from_static(b"3"), 0o644).unwrap();
        assert_eq!(files.names("/data"), ["a", "c"]);
        assert_eq!(files.below("/data").map(|(path, _)| path).collect::<Vec<_>>(), ["/data/a", "/data/a/b", "/data/c"]);
        assert_eq!(
            (files.read("/data"), files.create_folders("/data/c/d")),
            (Err("Is a directory"), Err("Not a directory"))
        );
        let before = files.bytes;
        assert!(files.remove("/data") && !files.remove("/data"));
        assert_eq!((before - files.bytes, files.get("/data/a/b")), (3, None));
        assert!(files.names("/").contains(&"mount"));
    }

    #[test]
    fn a_container_that_writes_too_much_finds_its_disk_full() {
        let mut files = Files::new("web", "", []);
        let large = Bytes::from(vec![0; BYTES_MAX / 2]);
        files.write("/tmp/a", large.clone(), 0o644).unwrap();
        assert_eq!(files.write("/tmp/b", large.clone(), 0o644), Err("No space left on device"));
        // A replaced file makes room.
        files.write("/tmp/a", large, 0o644).unwrap();
        let full = (0..FILES_MAX).find_map(|number| files.create_folder(&format!("/tmp/{number}")).err());
        assert_eq!(full, Some("No space left on device"));
    }

    #[test]
    fn paths_are_made_clean() {
        for (folder, path, clean) in
            [("/", "", "/"), ("/a", "b/./c//", "/a/b/c"), ("/a/b", "../../../c", "/c"), ("/a", "/b", "/b")]
        {
            assert_eq!(resolve(folder, path), clean);
        }
    }
}
