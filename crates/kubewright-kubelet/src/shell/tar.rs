//! The archives of `kubectl cp`: ustar, with the long names of pax and GNU tar.
//!
//! No crate: `tar` works on files of the disk, and pulls in its bindings to the system.

use bytes::Bytes;

use crate::files::{File, Files, resolve};

const BLOCK: usize = 512;
/// Maximum size of an archive.
const ARCHIVE_MAX: usize = 64 << 20;

/// The arguments of `tar`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) creates: bool,
    pub(super) lists: bool,
    pub(super) file: Option<String>,
    pub(super) folder: String,
    pub(super) names: Vec<String>,
}

impl Request {
    /// Parses the arguments.
    ///
    /// # Errors
    /// A message for the user.
    pub(super) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut request = Request::default();
        let (mut action, mut words) = (None, words.iter().copied());
        let mut is_first = true;
        while let Some(word) = words.next() {
            let is_bundle = std::mem::take(&mut is_first) || (word.starts_with('-') && !word.starts_with("--"));
            if word == "-" {
                return Err("unexpected '-'".to_owned());
            } else if word.starts_with("--") {
                // `--no-same-owner` and its like: files have no owners here.
                if let Some(folder) = word.strip_prefix("--directory=") {
                    request.folder = folder.to_owned();
                }
            } else if is_bundle {
                for flag in word.trim_start_matches('-').chars() {
                    match flag {
                        'c' | 'x' | 't' => action = Some(flag),
                        'f' => {
                            request.file = Some(words.next().ok_or("option requires an argument -- 'f'")?.to_owned())
                        }
                        'C' => request.folder = words.next().ok_or("option requires an argument -- 'C'")?.to_owned(),
                        'm' | 'p' | 'v' | 'o' | 'h' => {}
                        flag => return Err(format!("invalid option -- '{flag}'")),
                    }
                }
            } else {
                request.names.push(word.to_owned());
            }
        }
        request.creates = action == Some('c');
        request.lists = action == Some('t');
        match action {
            Some(_) => Ok(request),
            None => Err("one of -c, -x and -t is required".to_owned()),
        }
    }
}

/// An archive of these files and folders, and the names that do not exist.
pub(super) fn create(files: &Files, folder: &str, names: &[String]) -> Result<(Vec<u8>, Vec<String>), String> {
    let (mut archive, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        let path = resolve(folder, name);
        let Some(file) = files.get(&path) else {
            missing.push(name.clone());
            continue;
        };
        // As by tar: names are relative.
        let shown = if name.starts_with('/') { path.trim_start_matches('/') } else { name.trim_end_matches('/') };
        append(&mut archive, shown, file);
        for (below, file) in files.below(&path) {
            append(&mut archive, &format!("{shown}/{}", below[path.len()..].trim_start_matches('/')), file);
        }
        if archive.len() > ARCHIVE_MAX {
            return Err("the archive is too long".to_owned());
        }
    }
    archive.extend([0; 2 * BLOCK]);
    Ok((archive, missing))
}

fn append(archive: &mut Vec<u8>, name: &str, file: &File) {
    let (name, content, mode, kind) = match file {
        File::Folder => (format!("{}/", if name.is_empty() { "." } else { name }), Bytes::new(), 0o755, b'5'),
        File::Regular { content, mode } => (name.to_owned(), content.clone(), *mode, b'0'),
    };
    if name.len() > 100 {
        // The long name of GNU tar, which Go reads as well.
        header(archive, "././@LongLink", name.len() + 1, 0, b'L');
        archive.extend(name.as_bytes());
        archive.push(0);
        pad(archive);
    }
    header(archive, &name, content.len(), mode, kind);
    archive.extend(content);
    pad(archive);
}

fn pad(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
}

fn header(archive: &mut Vec<u8>, name: &str, size: usize, mode: u32, kind: u8) {
    let mut block = [0; BLOCK];
    let name = &name.as_bytes()[..name.len().min(100)];
    block[..name.len()].copy_from_slice(name);
    let mut number = |at: usize, length: usize, number: usize| {
        let text = format!("{number:0width$o}", width = length - 1);
        block[at..at + length - 1].copy_from_slice(&text.as_bytes()[..length - 1]);
    };
    number(100, 8, mode as usize);
    number(108, 8, 0);
    number(116, 8, 0);
    number(124, 12, size);
    number(136, 12, 0);
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar  \0");
    // The checksum counts its own field as spaces.
    block[148..156].copy_from_slice(b"        ");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    archive.extend(block);
}

/// An entry of an archive.
struct Entry {
    name: String,
    content: Bytes,
    mode: u32,
    kind: u8,
}

fn entries(archive: &Bytes) -> Result<Vec<Entry>, String> {
    let (mut entries, mut at, mut long_name) = (Vec::new(), 0, None);
    while let Some(block) = archive.get(at..at + BLOCK) {
        at += BLOCK;
        if block.iter().all(|byte| *byte == 0) {
            break;
        }
        let text = |from: usize, to: usize| {
            let field = &block[from..to];
            let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
            String::from_utf8_lossy(&field[..end]).into_owned()
        };
        let number =
            |from: usize, to: usize| usize::from_str_radix(text(from, to).trim(), 8).map_err(|_| "invalid tar header");
        let size = number(124, 136)?;
        let end = at.checked_add(size).filter(|end| *end <= archive.len()).ok_or("short read")?;
        let content = archive.slice(at..end);
        at = end.next_multiple_of(BLOCK);
        match block[156] {
            b'L' => long_name = Some(String::from_utf8_lossy(&content).trim_end_matches('\0').to_owned()),
            b'x' => long_name = pax_path(&content).or(long_name),
            // A global pax header.
            b'g' => {}
            kind => {
                let prefix =
                    if &block[257..262] == b"ustar" && block[263] == b'0' { text(345, 500) } else { String::new() };
                let short = if prefix.is_empty() { text(0, 100) } else { format!("{prefix}/{}", text(0, 100)) };
                let name = long_name.take().unwrap_or(short);
                let mode = u32::try_from(number(100, 108)? & 0o777).unwrap_or(0o644);
                entries.push(Entry { name, content, mode, kind });
            }
        }
    }
    Ok(entries)
}

/// The path of a pax header, whose records have the form `LENGTH KEY=VALUE\n`.
fn pax_path(content: &[u8]) -> Option<String> {
    let mut rest = content;
    while !rest.is_empty() {
        let space = rest.iter().position(|byte| *byte == b' ')?;
        let length: usize = std::str::from_utf8(&rest[..space]).ok()?.parse().ok()?;
        let record = rest.get(space + 1..length.checked_sub(1)?)?;
        if let Some(path) = record.strip_prefix(b"path=") {
            return Some(String::from_utf8_lossy(path).into_owned());
        }
        rest = rest.get(length..)?;
    }
    None
}

/// Writes the files of an archive into a folder. Names with `..` stay within it.
pub(super) fn extract(files: &mut Files, folder: &str, archive: &Bytes) -> Result<(), String> {
    for Entry { name, content, mode, kind } in entries(archive)? {
        let inner = resolve("/", &name);
        let path = resolve(folder, inner.trim_start_matches('/'));
        let done = match kind {
            b'5' => files.create_folders(&path),
            b'0' | 0 => {
                let parent = resolve(&path, "..");
                files.create_folders(&parent).and_then(|()| files.write(&path, content, mode))
            }
            // Links and devices.
            _ => Ok(()),
        };
        done.map_err(|why| format!("can't open '{name}': {why}"))?;
    }
    Ok(())
}

/// The names of an archive, one per line.
pub(super) fn list(archive: &Bytes) -> Result<String, String> {
    Ok(entries(archive)?.into_iter().map(|entry| entry.name + "\n").collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_give_back_their_files() {
        let mut files = Files::new("web", "", []);
        let long = format!("/tmp/a/{}", "b".repeat(150));
        files.create_folders("/tmp/a").unwrap();
        files.write(&long, Bytes::from_static(b"long"), 0o600).unwrap();
        files.write("/tmp/a/short", Bytes::from(vec![7; 1000]), 0o755).unwrap();
        let (archive, missing) = create(&files, "/tmp", &["a".to_owned(), "gone".to_owned()]).unwrap();
        assert_eq!(missing, ["gone"]);
        let archive = Bytes::from(archive);
        assert_eq!(list(&archive).unwrap().lines().count(), 3);
        let mut copy = Files::new("web", "", []);
        extract(&mut copy, "/home", &archive).unwrap();
        let moved = long.replace("/tmp", "/home");
        assert_eq!((copy.get(&moved), copy.get("/home/a/short")), (files.get(&long), files.get("/tmp/a/short")));
    }

    #[test]
    fn malformed_archives_are_errors_and_names_stay_inside() {
        assert_eq!(list(&Bytes::from(vec![b'a'; 600])).unwrap_err(), "invalid tar header");
        let mut files = Files::new("web", "", []);
        files.write("/tmp/x", Bytes::from_static(b"1"), 0o644).unwrap();
        let mut archive = Vec::new();
        append(&mut archive, "../../etc/hosts", files.get("/tmp/x").unwrap());
        extract(&mut files, "/tmp", &archive.clone().into()).unwrap();
        assert_eq!(files.read("/tmp/etc/hosts"), Ok(Bytes::from_static(b"1")));
        archive.truncate(BLOCK);
        assert_eq!(list(&archive.into()).unwrap_err(), "short read");
        assert_eq!(pax_path(b"30 path=long/name\n"), None);
        assert_eq!(pax_path(b"18 path=long/name\n").as_deref(), Some("long/name"));
        assert_eq!(pax_path(b"99999999999999999999 path=a\n"), None);
    }

    #[test]
    fn arguments_are_those_of_kubectl_cp() {
        let parsed = Request::parse(&["--no-same-permissions", "--no-same-owner", "-xmf", "-", "-C", "/tmp"]).unwrap();
        assert_eq!((parsed.creates, parsed.file.as_deref(), parsed.folder.as_str()), (false, Some("-"), "/tmp"));
        let parsed = Request::parse(&["cf", "-", "/tmp/a"]).unwrap();
        assert_eq!((parsed.creates, parsed.names), (true, vec!["/tmp/a".to_owned()]));
        assert!(Request::parse(&["-z"]).is_err() && Request::parse(&["-xf"]).is_err() && Request::parse(&[]).is_err());
    }
}
